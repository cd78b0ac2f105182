"""One try at a request, with the anthropic SDK. Importing this module imports the SDK.

Only its transport is used: exact bytes go out, raw events come in. Every exception becomes a
TryFailed here, so that no other module knows the SDK's or its HTTP client's types.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import anthropic
import httpx2
from anthropic import AsyncAnthropic, AsyncAnthropicBedrock, AsyncAnthropicVertex, AsyncStream, Omit
from anthropic.types import Message, RawMessageStreamEvent

from agentrun.api import Provider
from agentrun.runner.model.faults import Fault, Kind, TryFailed, judge_status
from agentrun.runner.model.settings import OWN_ADDRESS, Settings
from agentrun.runner.model.stream import Assembly

Client = AsyncAnthropic | AsyncAnthropicBedrock | AsyncAnthropicVertex
Events = AsyncIterator[tuple[str | None, str]]

_DRAIN = 1.0
"""Seconds for the body to end after message_stop, so that the connection can be used again."""


class Sdk:
    """An open client of the provider."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = _client(settings)
        self._bedrock = settings.provider is Provider.BEDROCK

    async def once(self, body: bytes, progress: Callable[[], None]) -> Assembly:
        """Send ``body`` once and take in the whole stream. Raises TryFailed."""
        assembly = Assembly(secret=self._settings.api_key)
        limits = self._settings.deadlines
        total, quiet = asyncio.timeout(limits.total), asyncio.timeout(limits.quiet)
        try:
            async with total, quiet:
                await self._stream(body, assembly, quiet, progress)
        except TryFailed as failed:
            raise TryFailed(failed.fault, failed.usage or assembly.usage) from None
        except TimeoutError:
            if not assembly.complete:
                raise TryFailed(_too_slow(total, self._settings), assembly.usage) from None
        except Exception as error:
            if not assembly.complete:
                fault = self._judge(error)
                if fault is None:
                    raise
                raise TryFailed(fault, assembly.usage) from None
        return assembly

    async def close(self) -> None:
        await self._client.close()

    async def _stream(
        self, body: bytes, assembly: Assembly, quiet: asyncio.Timeout, progress: Callable[[], None]
    ) -> None:
        now = asyncio.get_running_loop().time
        stream = await self._post(body)
        try:
            async for name, data in self._events(stream):
                if assembly.take(name, data):
                    left = _DRAIN if assembly.complete else self._settings.deadlines.quiet
                    quiet.reschedule(now() + left)
                    progress()
        finally:
            await stream.close()

    async def _post(self, body: bytes) -> AsyncStream[RawMessageStreamEvent]:
        # Bedrock and Vertex move fields between body and address, so they take the parsed body.
        exact = isinstance(self._client, AsyncAnthropic)
        sent: dict[str, Any] = {"content": body} if exact else {"body": json.loads(body)}
        return await self._client.post(
            "/v1/messages",
            **sent,
            cast_to=Message,
            stream=True,
            stream_cls=AsyncStream[RawMessageStreamEvent],
            options={"headers": {"Content-Type": "application/json"}},
        )

    async def _events(self, stream: AsyncStream[RawMessageStreamEvent]) -> Events:
        # Bedrock frames events in its own way; only the stream's own decoder knows it.
        own = stream._iter_events  # noqa: SLF001
        events = own() if self._bedrock else AsyncStream.raw_events(stream.response)
        async for event in events:
            yield event.event, event.data

    def _judge(self, error: Exception) -> Fault | None:
        """None for what is no fault of the provider or the way to it: our own mistake."""
        secret = self._settings.api_key
        name = type(error).__name__
        match error:
            case anthropic.APIStatusError():
                return judge_status(
                    error.status_code,
                    error_type=str(error.type or ""),
                    code=str(error.error_code or ""),
                    message=error.api_message or "",
                    headers=error.response.headers,
                    secret=secret,
                )
            case anthropic.APIConnectionError():
                cause = type(error.__cause__).__name__ if error.__cause__ else name
                return Fault(Kind.AGAIN, f"no answer from {self._settings.place} ({cause})")
            case httpx2.HTTPError():
                return Fault(Kind.AGAIN, f"the stream broke off ({name})")
            case ValueError() | RecursionError() | anthropic.APIError():
                return Fault(Kind.AGAIN, f"broken stream: an event cannot be read ({name})")
            case anthropic.AnthropicError():
                return Fault(Kind.ACCOUNT, f"the SDK refuses the credentials ({name})")
        if type(error).__module__.partition(".")[0] in ("botocore", "boto3", "google"):
            return Fault(Kind.ACCOUNT, f"no usable cloud credentials ({name})")
        return None


def _too_slow(total: asyncio.Timeout, settings: Settings) -> Fault:
    limits = settings.deadlines
    spent = (
        f"{limits.total:g} s in all" if total.expired() else f"{limits.quiet:g} s without content"
    )
    return Fault(Kind.AGAIN, f"{settings.place} was too slow: {spent}")


def _client(settings: Settings) -> Client:
    """No retries, no telemetry and no environment: what is sent is the run's, and so are the tries."""
    for name in ("anthropic", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    limits = settings.deadlines
    timeout = httpx2.Timeout(limits.quiet, connect=limits.connect, write=limits.quiet)
    http = anthropic.DefaultAsyncHttpxClient(
        verify=settings.trust or True, timeout=timeout, trust_env=settings.trust_env
    )
    common: dict[str, Any] = {
        "max_retries": 0,
        "timeout": timeout,
        "http_client": http,
        "open_telemetry": False,
        "default_headers": _headers(settings),
        "base_url": settings.url or None,
    }
    match settings.provider:
        case Provider.BEDROCK:
            key = settings.api_key or None
            return AsyncAnthropicBedrock(aws_region=settings.region, api_key=key, **common)
        case Provider.VERTEX:
            return AsyncAnthropicVertex(
                region=settings.region, project_id=settings.project, **common
            )
    return AsyncAnthropic(api_key=settings.api_key, **common)


def _headers(settings: Settings) -> dict[str, Any]:
    """Take back what ANTHROPIC_CUSTOM_HEADERS would add, and speak to gateways in both dialects."""
    custom = os.environ.get("ANTHROPIC_CUSTOM_HEADERS", "").split("\n")
    headers: dict[str, Any] = {
        line.partition(":")[0].strip(): Omit() for line in custom if ":" in line
    }
    if settings.provider is Provider.ANTHROPIC and settings.url != OWN_ADDRESS:
        headers["X-Api-Key"] = settings.api_key
    return headers
