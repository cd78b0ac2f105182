"""psycopg's exceptions as ours: what is worth trying again, what never is, and what it means.

The rule: a broken connection, a failed connect (which has no sqlstate whatever the reason), and an
answer that did not come (a statement cancelled while its values were being sent) is an outage.
Otherwise the sqlstate decides. Only the server's primary message is repeated: details
hold values of rows.
"""

from __future__ import annotations

import psycopg

from agentrun.errors import (
    Fenced,
    SchemaMismatch,
    StoreError,
    StoreRefused,
    StoreRegressed,
    StoreUnavailable,
)

_OUTAGE_CLASSES = frozenset({"08", "40", "53", "55", "57", "58"})
"""Connection, rolled back, resources, object in use or lock timeout, intervention, system error."""

_OUTAGE_STATES = frozenset({"25006", "25P03", "25P04"})
"""Read-only (a standby, or a full disk), idle-in-transaction and transaction timeouts."""

_SCHEMA_STATES = frozenset({"3F000", "42883", "42P01", "42703", "42804"})
"""No such schema, function, table, column; wrong type: another schema version."""

_OWN_STATES: dict[str, type[StoreError]] = {
    "AR001": Fenced,
    "AR002": StoreRegressed,
    "AR003": StoreRefused,
    "AR004": StoreRefused,
}
"""Raised by ``agentrun.demand``: fence moved, store behind, wrong secret, run not Active."""

MIGRATE_ADVICE = "Run `agentrun migrate` with the release that this program belongs to."


def is_outage(error: Exception, connection: psycopg.Connection | None = None) -> bool:
    """Whether the same statement may succeed later: the outcome of this one is not known."""
    if connection is not None and (connection.closed or connection.broken):
        return True
    if isinstance(error, (OSError, psycopg.InterfaceError)):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    if state is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InternalError))
    return state[:2] in _OUTAGE_CLASSES or state in _OUTAGE_STATES


def translate(
    error: Exception, attempted: str, on: str, connection: psycopg.Connection | None = None
) -> StoreError:
    """The error of our tree that says the same. It holds no value of any row and no password."""
    if isinstance(error, StoreError):
        return error
    if is_outage(error, connection):
        return StoreUnavailable(
            _say(error),
            attempted=attempted,
            on=on,
            advice="It is tried again; whether this one took effect is not known.",
        )
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    if state in _OWN_STATES:
        return _OWN_STATES[state](_say(error), attempted=attempted, on=on)
    if state in _SCHEMA_STATES:
        return SchemaMismatch(_say(error), attempted=attempted, on=on, advice=MIGRATE_ADVICE)
    return StoreRefused(_say(error), attempted=attempted, on=on)


def _say(error: Exception) -> str:
    if isinstance(error, psycopg.Error):
        primary = error.diag.message_primary
        if primary:
            return f"{primary} [{error.sqlstate}]"
        return _first_line(str(error)) or type(error).__name__
    return type(error).__name__


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""
