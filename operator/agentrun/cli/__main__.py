"""``python -m agentrun.cli``."""

from agentrun.cli.main import main

main()
