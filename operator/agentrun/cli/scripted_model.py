"""The scripted model of a local run, as a process of its own.

It outlives a command that is killed, because runners do: they would otherwise lose their model in
mid-call.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from agentrun.devmodel import load_script
from agentrun.errors import UsageError

START_SECONDS = 30.0
LOOK_AGAIN = 0.02
NOTE, PORT = "model.json", "model.port"


@dataclass(frozen=True, slots=True)
class RunningModel:
    """The server of a state folder, as it is noted there. ``script`` is the text's hash."""

    pid: int
    port: int
    script: str
    log: str

    @classmethod
    def noted(cls, state: Path) -> RunningModel | None:
        """The one that runs, if it is ours: a number alone may be somebody else's by now."""
        try:
            found = cls(**json.loads((state / NOTE).read_text()))
            ours = b"agentrun.devmodel" in Path(f"/proc/{found.pid}/cmdline").read_bytes()
        except (OSError, ValueError, TypeError):
            return None
        return found if ours else None


async def start_scripted_model(
    state: Path, script: Path, log: Path | None, *, shared: bool = False
) -> str:
    """The address of a server that plays the script.

    One that plays this very script already goes on, because runners are talking to it: its command
    was killed. Another one of this folder is replaced, and a stopped one comes back, at the same
    address if that can be had.
    UsageError for a file that is not a script, before anything is started, and for another script
    than the one that a running command plays (``shared``): its runs would get the wrong replies.
    """
    load_script(script)
    wanted, known = _wanted(script, log), RunningModel.noted(state)
    if known is not None and (known.script, known.log) == wanted:
        return _address(known.port)
    if known is not None and shared:
        raise UsageError(
            "a command that is running plays another script there",
            attempted="play the model script",
            on=str(script),
            advice="Wait for its end, or name another folder with --state.",
        )
    stop_scripted_model(state)
    for port in dict.fromkeys((_read(state / PORT), 0)):
        process = _spawn(state, script, log, port)
        if bound := await _bound(state / PORT, process):
            playing = RunningModel(process.pid, bound, *wanted)
            (state / NOTE).write_text(json.dumps(asdict(playing)))
            return _address(bound)
    raise UsageError("the scripted model did not start", on=str(state / "logs" / "model.log"))


def _wanted(script: Path, log: Path | None) -> tuple[str, str]:
    digest = hashlib.sha256(script.read_bytes()).hexdigest()
    return digest, str(log.absolute()) if log else ""


def _address(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _spawn(state: Path, script: Path, log: Path | None, port: int) -> subprocess.Popen[bytes]:
    (state / PORT).unlink(missing_ok=True)
    arguments = ["--log", str(log)] if log else []
    with (state / "logs" / "model.log").open("ab") as errors:
        return subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "agentrun.devmodel", str(script)),
                *("--port", str(port), "--port-file", str(state / PORT), *arguments),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )


async def _bound(port_file: Path, process: subprocess.Popen[bytes]) -> int:
    """The port of the server once it listens, 0 when it ended: its port was taken."""
    with suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            while process.poll() is None:
                if port := _read(port_file):
                    return port
                await asyncio.sleep(LOOK_AGAIN)
            return 0
    process.kill()
    return 0


def _read(port_file: Path) -> int:
    try:
        return int(port_file.read_text())
    except (FileNotFoundError, ValueError):
        return 0


def stop_scripted_model(state: Path) -> None:
    """End the folder's scripted model, if it is ours and runs."""
    known = RunningModel.noted(state)
    if known is not None:
        with suppress(ProcessLookupError):
            os.kill(known.pid, signal.SIGTERM)
    (state / NOTE).unlink(missing_ok=True)
