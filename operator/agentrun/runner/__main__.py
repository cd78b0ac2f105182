"""``python -m agentrun.runner``: the process of one attempt."""

from agentrun.runner.main import main

main()
