"""Waits until its standard input ends, then stops every pod, process and database of a session.

A program of its own, because it has to outlive a test process that is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from agentrun.cli.scripted_model import stop_scripted_model
from agentrun.cluster.local.open import open_local_cluster
from agentrun.errors import AgentRunError
from agentrun.store.embedded import EmbeddedPostgres


async def end_pods(state: Path) -> None:
    """SIGKILL for everything of every pod of a state folder."""
    cluster = open_local_cluster(state, ambient={})
    for pod in await cluster.list_pods():
        with suppress(AgentRunError):
            await cluster.delete_pod(pod.key, pod.uid, 0)
    await cluster.close()


def end_processes(root: Path) -> None:
    """Those that were noted by their number, if it is still theirs."""
    for note in root.glob("pids/*"):
        with suppress(OSError):
            started_in = Path(f"/proc/{note.name}/cmdline").read_bytes()
            if os.fsencode(root) in started_in:
                os.kill(int(note.name), signal.SIGKILL)


def end_models(root: Path) -> None:
    """The scripted models that ``agentrun run`` has started: they outlive it."""
    for note in root.glob("**/model.json"):
        with suppress(OSError, ValueError):
            stop_scripted_model(note.parent)


def main(root: Path) -> None:
    """Operators first: they would replace what is being stopped."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end_processes(root)
    end_models(root)
    for objects in root.glob("**/objects.db"):
        with suppress(AgentRunError, OSError):
            asyncio.run(end_pods(objects.parent))
    for folder in root.glob("**/postgres"):
        with suppress(AgentRunError, OSError):
            EmbeddedPostgres(folder).stop(immediate=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
