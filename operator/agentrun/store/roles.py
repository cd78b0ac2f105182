"""Database logins of runners: one role per namespace, with nothing but the runner's functions.

The password is computed, not stored: the operator gets the same one after a restart, and a
namespace that is deleted and created again (another UID) gets another.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import re

import psycopg
from psycopg import sql

from agentrun.errors import StoreRefused, StoreUnavailable
from agentrun.store.failures import translate

RUNNER_GROUP = "agentrun_runner"
LOCAL_ROLE = "agentrun_local"
"""The runner's login in local mode."""

_ROLE = re.compile(r"agentrun_[a-z0-9_]{1,54}")

_TRIES = 50

_GUARDS = {
    "statement_timeout": "60s",
    "lock_timeout": "20s",
    "idle_in_transaction_session_timeout": "10s",
}
"""Defaults of the login. A runner may change them for itself: they bound accidents only."""


def runner_role(namespace_uid: str) -> str:
    """The login role of a namespace."""
    return "agentrun_ns_" + hashlib.sha256(namespace_uid.encode()).hexdigest()[:32]


def runner_password(database_key: bytes, namespace_uid: str) -> str:
    """The password of a namespace's role: HMAC of the UID under the operator's database key."""
    message = b"agentrun|namespace|" + namespace_uid.encode()
    return hmac.new(database_key, message, hashlib.sha256).hexdigest()


def ensure_runner_login(dsn: str, role: str, password: str) -> None:
    """Make or repair a runner's login: password, no attributes, member of the runners' group.

    Refuses a role that is not one of ours, so that no wrong name ever changes somebody's password.
    The password reaches the server as a verifier only and so cannot end up in its log.
    """
    if not _ROLE.fullmatch(role) or role == RUNNER_GROUP:
        raise StoreRefused(f"{role!r} is not the name of a runner role", attempted="make a login")
    try:
        with psycopg.connect(
            dsn, autocommit=True, prepare_threshold=None, connect_timeout=10
        ) as connection:
            for _ in range(_TRIES):
                with contextlib.suppress(_Again):
                    _ensure(connection, role, password)
                    return
            raise StoreUnavailable("others keep changing it", attempted="make a login", on=role)
    except psycopg.Error as error:
        raise translate(error, "make a login", f"role {role}") from error


class _Again(Exception):
    """Another operator changes the same role at the same moment; Postgres refuses one of the two."""


def _ensure(connection: psycopg.Connection, role: str, password: str) -> None:
    try:
        _change(connection, role, password)
    except psycopg.errors.InternalError_ as error:
        if "concurrently" in str(error):
            raise _Again from error
        raise


def _change(connection: psycopg.Connection, role: str, password: str) -> None:
    name = sql.Identifier(role)
    verifier = connection.pgconn.encrypt_password(password.encode(), role.encode()).decode()
    found = connection.execute(
        "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls"
        " FROM pg_catalog.pg_roles WHERE rolname = %s",
        (role,),
    ).fetchone()
    if found is not None and found[0]:
        raise StoreRefused("the role has rights of its own", attempted="make a login", on=role)
    if found is None:
        with contextlib.suppress(  # another operator made it in between
            psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation
        ):
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
    connection.execute(
        sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(name, sql.Literal(verifier))
    )
    connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(RUNNER_GROUP), name))
    for setting, value in _GUARDS.items():
        connection.execute(
            sql.SQL("ALTER ROLE {} SET {} = {}").format(
                name, sql.Identifier(setting), sql.Literal(value)
            )
        )
