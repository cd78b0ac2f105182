"""Named points at which tests kill the operator, to show that a restart loses nothing.

``AGENTRUN_OPERATOR_FAILPOINT=name[:n]``: the n-th time (default 1) that the point is reached, the
process kills itself. With ``AGENTRUN_FAILPOINT_DIR`` a marker file makes it happen once, whatever
restarts. Unset, a point costs one comparison.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from agentrun.errors import UsageError

AFTER_MINT = "after-mint"
AFTER_SECRET = "after-secret"  # noqa: S105 - name of a point in the program
AFTER_POD_CREATE = "after-pod-create"
AFTER_APPROVAL_CREATE = "after-approval-create"
AFTER_DECIDE = "after-decide"
BEFORE_STATUS = "before-status"

NAMES = frozenset(
    {
        AFTER_MINT,
        AFTER_SECRET,
        AFTER_POD_CREATE,
        AFTER_APPROVAL_CREATE,
        AFTER_DECIDE,
        BEFORE_STATUS,
    }
)
KILLED = 137
VARIABLE = "AGENTRUN_OPERATOR_FAILPOINT"
FOLDER = "AGENTRUN_FAILPOINT_DIR"

Reach = Callable[[str], None]


def nothing(_name: str) -> None:
    """No point is armed."""


def armed(environ: Mapping[str, str], kill: Callable[[], None] | None = None) -> Reach:
    """What the environment asks for; UsageError for a name that is none."""
    text = environ.get(VARIABLE, "")
    if not text:
        return nothing
    wanted, _, number = text.partition(":")
    if wanted not in NAMES or (number and not number.isdigit()):
        raise UsageError(
            f"{text!r} is not name[:n]",
            attempted=f"read {VARIABLE}",
            advice=f"Names: {', '.join(sorted(NAMES))}",
        )
    folder = environ.get(FOLDER, "")
    marker = Path(folder) / f"fired-operator-{wanted}" if folder else None
    return _counting(wanted, int(number or "1"), marker, kill or _kill)


def _counting(wanted: str, nth: int, marker: Path | None, kill: Callable[[], None]) -> Reach:
    visits = 0

    def reach(name: str) -> None:
        nonlocal visits
        if name != wanted:
            return
        visits += 1
        if visits == nth and _first(marker):
            kill()

    return reach


def _first(marker: Path | None) -> bool:
    """Whether the point has not fired before, in this process or an earlier one."""
    if marker is None:
        return True
    marker.parent.mkdir(parents=True, exist_ok=True)
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _kill() -> None:
    """The first process of a container cannot kill itself: the kernel drops the signal."""
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(KILLED)
