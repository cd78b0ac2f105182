"""What is known about namespaces, without a read per run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from agentrun.cluster.kube.resources import NAMESPACES
from agentrun.cluster.kube.rest import Rest
from agentrun.errors import NotFound

REMEMBERED_SECONDS: Final = 10.0
"""A namespace that is going away refuses new objects by itself; this only saves the attempt. A
re-created one has another UID after this time at the latest."""


@dataclass(frozen=True, slots=True)
class _Fact:
    uid: str
    terminating: bool
    at: float


class Namespaces:
    """UID and end of namespaces, remembered for a short while."""

    def __init__(self, rest: Rest, clock: Callable[[], float]) -> None:
        self._rest = rest
        self._clock = clock
        self._known: dict[str, _Fact] = {}

    async def uid(self, name: str) -> str:
        """UID; NotFound."""
        fact = await self._fact(name)
        return fact.uid

    async def terminating(self, name: str) -> bool:
        """Whether it is going away, or gone."""
        try:
            fact = await self._fact(name)
        except NotFound:
            return True
        return fact.terminating

    async def _fact(self, name: str) -> _Fact:
        now = self._clock()
        known = self._known.get(name)
        if known is not None and now - known.at < REMEMBERED_SECONDS:
            return known
        self._known.pop(name, None)
        body = await self._rest.call("get", NAMESPACES, name=name)
        metadata = body["metadata"]
        fact = _Fact(metadata["uid"], metadata.get("deletionTimestamp") is not None, now)
        self._known[name] = fact
        return fact
