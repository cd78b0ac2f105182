"""The DSN that runners of a namespace connect with."""

from __future__ import annotations

import asyncio

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from agentrun.errors import StoreUnavailable
from agentrun.store.roles import ensure_runner_login, runner_password, runner_role


class NamespaceLogins:
    """Makes the login role of a namespace once per process, and tells its DSN.

    ``runner_dsn`` is where runners reach the database, if that is not where the operator does (a
    pooler); user and password are replaced.
    """

    def __init__(
        self,
        operator_dsn: str,
        database_key: bytes,
        runner_dsn: str = "",
        *,
        deadline: float = 30.0,
    ) -> None:
        self._operator_dsn = operator_dsn
        self._deadline = deadline
        self._key = database_key
        self._base = conninfo_to_dict(runner_dsn or operator_dsn)
        self._made: set[str] = set()

    async def dsn(self, namespace_uid: str) -> str:
        """The namespace's DSN; StoreUnavailable while its role cannot be made."""
        role = runner_role(namespace_uid)
        password = runner_password(self._key, namespace_uid)
        if role not in self._made:
            await self._make(role, password)
            self._made.add(role)
        return make_conninfo("", **{**self._base, "user": role, "password": password})

    async def _make(self, role: str, password: str) -> None:
        """A frozen server holds a thread, not whoever waits for it."""
        try:
            async with asyncio.timeout(self._deadline):
                await asyncio.to_thread(ensure_runner_login, self._operator_dsn, role, password)
        except TimeoutError:
            raise StoreUnavailable("no answer", attempted="make a login", on=role) from None
