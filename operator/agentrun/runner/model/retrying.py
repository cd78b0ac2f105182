"""Tries at one request until there is a reply, or a reason to stop trying."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from agentrun.errors import ModelRefused, ModelUnavailable
from agentrun.run.values import ModelRequest, Reply
from agentrun.runner.model.backoff import Backoff
from agentrun.runner.model.faults import Fault, Kind, TryFailed
from agentrun.runner.model.port import Clock, ModelNote, Observe, Random, Sleep
from agentrun.runner.model.preload import preload
from agentrun.runner.model.reply import finish
from agentrun.runner.model.settings import NO_KEY, OWN_ADDRESS, Settings

if TYPE_CHECKING:
    from agentrun.runner.model.sdk import Sdk

_ASK = "ask the model"


class RetryingModel:
    """The Model that the runner uses. The SDK is imported and opened at the first request."""

    def __init__(
        self,
        settings: Settings,
        *,
        retries: int,
        backoff: Backoff,
        clock: Clock,
        sleep: Sleep,
        random: Random,
        observe: Observe,
    ) -> None:
        self._settings = settings
        self._retries = retries
        self._backoff = backoff
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._observe = observe
        self._sdk: Sdk | None = None

    async def complete(self, request: ModelRequest) -> Reply:
        """See :class:`agentrun.runner.model.port.Model`."""
        self._demand_key()
        sdk = await self._open()
        tried = 0
        while True:
            tried += 1
            started = self._clock()
            try:
                reply = await self._once(sdk, request, tried, started)
            except TryFailed as failed:
                wait = self._next(request, failed, tried, started)
            else:
                spent = self._clock() - started
                note = ModelNote(
                    "replied", tried, spent, 200, usage=reply.usage, sanitized=reply.sanitized
                )
                self._observe(note)
                return reply
            await self._sleep(wait)

    async def close(self) -> None:
        """See :class:`agentrun.runner.model.port.Model`."""
        if self._sdk is not None:
            await self._sdk.close()

    async def _open(self) -> Sdk:
        if self._sdk is None:
            opened = await asyncio.shield(asyncio.wrap_future(preload()))
            self._sdk = self._sdk or opened(self._settings)
        return self._sdk

    async def _once(self, sdk: Sdk, request: ModelRequest, tried: int, started: float) -> Reply:
        assembly = await sdk.once(request.body, self._pulse(tried, started))
        try:
            return finish(assembly, repair=tried > self._retries)
        except TryFailed as failed:
            raise TryFailed(failed.fault, assembly.usage) from None

    def _pulse(self, tried: int, started: float) -> Callable[[], None]:
        """Says that the stream is alive, at most once a second."""
        said = started

        def pulse() -> None:
            nonlocal said
            now = self._clock()
            if now - said >= 1:
                said = now
                self._observe(ModelNote("progress", tried, now - started))

        return pulse

    def _next(self, request: ModelRequest, failed: TryFailed, tried: int, started: float) -> float:
        """Seconds to wait before the next try. Raises when there is to be none."""
        fault, spent = failed.fault, self._clock() - started
        wait = self._backoff.wait(tried, fault.retry_after, self._random)
        again = fault.kind in (Kind.AGAIN, Kind.REPLY) and tried <= self._retries
        going_on = again and wait is not None
        self._observe(
            ModelNote(
                "retry" if going_on else "failed",
                tried,
                spent,
                fault.status,
                fault.why,
                wait if going_on and wait is not None else 0.0,
                failed.usage,
            )
        )
        if going_on and wait is not None:
            return wait
        raise self._verdict(fault, f"model {request.model}, {self._settings.place}", tried)

    def _verdict(self, fault: Fault, on: str, tried: int) -> Exception:
        """The error that ends the request."""
        if fault.kind in (Kind.REFUSED, Kind.REPLY):
            return ModelRefused(fault.why, attempted=_ASK, on=on)
        account = fault.kind is Kind.ACCOUNT
        return ModelUnavailable(
            fault.why if tried == 1 else f"{fault.why} ({tried} tries)",
            auth=account,
            credit=fault.credit,
            retry_after=fault.retry_after,
            attempted=_ASK,
            on=on,
            advice="Check the key and the account" if account else "",
        )

    def _demand_key(self) -> None:
        if self._settings.url == OWN_ADDRESS and self._settings.api_key == NO_KEY:
            raise ModelUnavailable(
                "no API key is given; name a Secret in model.apiKeySecretRef",
                auth=True,
                attempted=_ASK,
                on=self._settings.place,
            )
