"""The scripted model of a local run, as a process of its own.

It outlives the command, because runners do: they would otherwise lose their model in mid-call.
It ends by itself when nothing of the state folder runs any more.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from agentrun.devmodel import load_script
from agentrun.errors import UsageError

START_SECONDS = 30.0
LOOK_AGAIN = 0.02


async def start_scripted_model(state: Path, script: Path, log: Path | None) -> str:
    """The address of a server that plays the script; an earlier one of this folder is replaced.

    UsageError for a file that is not a script, before anything is started.
    """
    load_script(script)
    stop_scripted_model(state)
    port_file = state / "model.port"
    port_file.unlink(missing_ok=True)
    arguments = ["--log", str(log)] if log else []
    process = subprocess.Popen(  # noqa: ASYNC220 - detached, nobody waits for it
        [
            *(sys.executable, "-P", "-m", "agentrun.devmodel", str(script)),
            *("--port-file", str(port_file), *arguments),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(state / "logs" / "model.log").open("ab"),
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(START_SECONDS):
            while not (port_file.exists() and port_file.read_text().strip()):
                if process.poll() is not None:
                    raise UsageError(
                        "the scripted model did not start", on=str(state / "logs" / "model.log")
                    )
                await asyncio.sleep(LOOK_AGAIN)
    except TimeoutError:
        raise UsageError("the scripted model did not start in time", on=str(script)) from None
    port = int(port_file.read_text())
    (state / "model.json").write_text(json.dumps({"pid": process.pid, "port": port}))
    return f"http://127.0.0.1:{port}"


def stop_scripted_model(state: Path) -> None:
    """End the folder's scripted model, if it is ours and runs."""
    path = state / "model.json"
    with suppress(FileNotFoundError, ProcessLookupError, ValueError):
        pid = int(json.loads(path.read_text())["pid"])
        if b"agentrun.devmodel" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGTERM)
    path.unlink(missing_ok=True)
