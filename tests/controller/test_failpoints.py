"""Failpoints in a container, whose first process the kernel protects from its own SIGKILL."""

from __future__ import annotations

import subprocess
import sys

import pytest

OPERATOR = """
from agentrun.controller.failpoints import armed
armed({"AGENTRUN_OPERATOR_FAILPOINT": "after-mint"})("after-mint")
"""
RUNNER = """
from agentrun.runner import failpoints
failpoints.arm({"AGENTRUN_FAILPOINT": "after-claim"})
failpoints.reach("after-claim")
"""
PROTECTED = "import os; os.kill = lambda *_: None\n"


@pytest.mark.parametrize("program", [OPERATOR, RUNNER], ids=["operator", "runner"])
def test_a_failpoint_ends_the_first_process_of_a_container(program: str) -> None:
    """The operator reached after-mint in its pod, and went on."""
    done = subprocess.run([sys.executable, "-c", PROTECTED + program], check=False)
    assert done.returncode == 137
