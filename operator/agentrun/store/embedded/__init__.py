"""PostgreSQL without installing it: for local mode and for tests.

One server per state folder, shared by every process that uses the folder, up while any of them
lives. It is started detached, so neither Ctrl-C nor the death of its starter touches it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentrun.errors import StoreUnavailable
from agentrun.store.embedded.account import Account, choose_account, home_for
from agentrun.store.embedded.server import Server, installation
from agentrun.store.embedded.users import enter, leave, locked
from agentrun.store.migrate import migrate
from agentrun.store.roles import LOCAL_ROLE, ensure_runner_login

__all__ = ["EmbeddedPostgres"]

_SETTINGS = {"max_connections": "200", "shared_buffers": "32MB"}


class EmbeddedPostgres:
    """The server of a folder. Methods are synchronous and take from 10 ms to seconds.

    ``settings`` are Postgres parameters of a server that this object starts. ``template`` is a
    stopped data folder to copy instead of initialising a new one.
    """

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        template: Path | None = None,
        version: int = 18,
        account: Account | None = None,
    ) -> None:
        self._folder = folder.absolute()  # its programs work in folders of their own
        self._settings = {**_SETTINGS, **(settings or {})}
        self._template = template
        self._version = version
        self._account = account or choose_account()

    def start(self, *, prepare: bool = True) -> str:
        """Count this process in, see that the server runs, bring its schema up to date; the DSN.

        The DSN is the owner's. ``prepare=False`` leaves the database empty.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with locked(self._folder):
            server = self._server()
            if not server.reachable():
                server.stop("fast")
                server.initialise(self._template, durable=self._settings.get("fsync") != "off")
                server.start(self._settings)
            enter(self._folder)
            if prepare:
                migrate(self.dsn)
                ensure_runner_login(self.dsn, LOCAL_ROLE, "local")
        return self.dsn

    def attach(self) -> str:
        """Count this process in at a server that runs already. StoreUnavailable if it does not."""
        if not self._folder.is_dir():
            raise StoreUnavailable("there is no database", on=str(self._folder))
        with locked(self._folder):
            if not self.running:
                raise StoreUnavailable("the database is not running", on=str(self._folder))
            enter(self._folder)
        return self.dsn

    def leave(self) -> None:
        """Count this process out. The last living user stops the server."""
        if not self._folder.is_dir():
            return
        with locked(self._folder):
            if leave(self._folder) == 0:
                self._server().stop("fast")

    def stop(self, *, immediate: bool = False) -> None:
        """Stop the server whoever uses it; ``immediate`` is a crash. Users stay counted."""
        with locked(self._folder):
            self._server().stop("immediate" if immediate else "fast")

    def restart(self, *, immediate: bool = False) -> str:
        """Stop and start again: what an outage looks like."""
        with locked(self._folder):
            server = self._server()
            server.stop("immediate" if immediate else "fast")
            server.start(self._settings)
        return self.dsn

    @property
    def running(self) -> bool:
        """Whether the server's process lives."""
        return self._server().pid() is not None

    @property
    def postmaster_pid(self) -> int | None:
        """The server's process."""
        return self._server().pid()

    @property
    def data(self) -> Path:
        """The data folder, wherever it had to go."""
        return self._server().data

    @property
    def dsn(self) -> str:
        """The owner's DSN: for the operator, migrations and the command line."""
        return self._server().dsn("postgres")

    @property
    def runner_dsn(self) -> str:
        """The runner's DSN: a role that may execute the runner's functions and nothing else."""
        return self._server().dsn(LOCAL_ROLE)

    def _server(self) -> Server:
        home = home_for(self._folder, self._account)
        return Server(home, self._account, installation(self._version))
