"""Logins of runners while the database does not answer."""

from __future__ import annotations

import threading

import pytest

from agentrun.errors import StoreUnavailable
from agentrun.store.logins import NamespaceLogins


async def test_a_frozen_database_does_not_hold_the_operators_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There are four; each new namespace once took one away until the server came back."""
    thawed = threading.Event()
    monkeypatch.setattr(
        "agentrun.store.logins.ensure_runner_login", lambda *_: thawed.wait() and None
    )
    logins = NamespaceLogins("postgresql://db/agentrun", b"key", deadline=0.05)
    try:
        with pytest.raises(StoreUnavailable, match="no answer"):
            await logins.dsn("namespace")
    finally:
        thawed.set()
