"""One bounded HTTP client for the API server: dictionaries in and out, our errors, every call counted.

The typed methods of the library refuse what their own model does not know before anything is sent,
so that a user's affinity could not be newer than the client; requests are made below them. The
library still does the credentials (tokens that change, exec plugins) and TLS.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from kubernetes.aio import client

from agentrun.cluster.kube.refusal import Expired, reachable, refusal, retry_after
from agentrun.errors import ClusterUnavailable

Body = dict[str, Any]
Count = Callable[[str, str, int], None]
"""(verb, resource, HTTP status): verbs as in RBAC; status 0 when there was no answer."""

Sleep = Callable[[float], Awaitable[None]]

PAGE: Final = 500
TRIES: Final = 3
RETRY_AFTER_MAX: Final = 10.0
JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"

ANSWER: Final = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=30.0)
"""Waiting for a free connection has no limit: a burst of work is no failure of the API server."""

STREAM: Final = aiohttp.ClientTimeout(total=None, sock_connect=10.0)

_METHODS: Final = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}


@dataclass(frozen=True, slots=True)
class Resource:
    """Where a kind of object lives. ``name`` is the plural, with a subresource after a slash."""

    api: str
    name: str

    def path(self, namespace: str | None = None, name: str | None = None, sub: str = "") -> str:
        """Path of the collection, of one object, or of its subresource."""
        parts = [self.api]
        if namespace:
            parts += ["namespaces", namespace]
        parts.append(self.name)
        if name:
            parts.append(name)
        if sub:
            parts.append(sub)
        return "/".join(parts)


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, and how errors and counters call it."""

    verb: str
    resource: Resource
    namespace: str | None
    name: str | None
    sub: str
    body: Mapping[str, Any] | None
    query: Mapping[str, str]
    content: str

    @property
    def path(self) -> str:
        """Path below the server's address."""
        return self.resource.path(self.namespace, self.name, self.sub)

    @property
    def label(self) -> str:
        """Resource and subresource, as RBAC writes them."""
        return f"{self.resource.name}/{self.sub}" if self.sub else self.resource.name

    @property
    def attempted(self) -> str:
        """For error messages."""
        return f"{self.verb} {self.label}"

    @property
    def on(self) -> str:
        """For error messages."""
        return "/".join(part for part in (self.namespace, self.name) if part) or "the cluster"


def no_count(verb: str, resource: str, status: int) -> None:
    """Counts nothing."""
    del verb, resource, status


class Rest:
    """Requests to one API server over at most ``POOL`` connections."""

    def __init__(
        self, api: client.ApiClient, *, count: Count = no_count, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._api = api
        self._count = count
        self._sleep = sleep

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()  # type: ignore[no-untyped-call]

    async def call(
        self,
        verb: str,
        resource: Resource,
        namespace: str | None = None,
        name: str | None = None,
        *,
        sub: str = "",
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        content: str = JSON,
        read: bool = True,
    ) -> Body:
        """One request and its answer as a dictionary (empty with ``read=False``).

        Refused for load (429, or with a Retry-After), it is sent again, because then it was not
        executed; after any other failure the caller decides, who knows what he wanted.
        """
        request = Request(verb, resource, namespace, name, sub, body, query or {}, content)
        for left in reversed(range(TRIES)):
            response = await self._send(request, ANSWER)
            with reachable(request.attempted, request.on):
                text = await response.text()
            if response.status < 300:
                return _parsed(text, request) if read else {}
            wait = retry_after(response.status, response.headers.get("Retry-After"))
            if wait is None or left == 0:
                raise refusal(response.status, text, request.attempted, request.on)
            await self._sleep(min(wait, RETRY_AFTER_MAX))
        raise AssertionError("the last try returns or raises")

    async def pages(
        self,
        resource: Resource,
        namespace: str | None,
        query: Mapping[str, str] | None = None,
    ) -> list[Body]:
        """All objects of a collection, 500 at a time; from the start again if the list expired
        under way, so that what is returned is one consistent state."""
        for left in reversed(range(TRIES)):
            try:
                return [item async for item in self._items(resource, namespace, query or {})]
            except Expired:
                if left == 0:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _items(
        self, resource: Resource, namespace: str | None, query: Mapping[str, str]
    ) -> AsyncIterator[Body]:
        token = ""
        while True:
            more = {"continue": token} if token else {}
            asked = {**query, "limit": str(PAGE), **more}
            page = await self.call("list", resource, namespace, query=asked)
            for item in page["items"]:
                yield item
            token = page["metadata"].get("continue") or ""
            if not token:
                return

    async def lines(
        self, resource: Resource, namespace: str, name: str, sub: str, query: Mapping[str, str]
    ) -> AsyncIterator[str]:
        """A text answer line by line, for as long as it lasts."""
        request = Request("get", resource, namespace, name, sub, None, query, JSON)
        response = await self._send(request, STREAM)
        with reachable(request.attempted, request.on):
            if response.status >= 300:
                text = await response.text()
                raise refusal(response.status, text, request.attempted, request.on)
            async for line in response.content:
                yield line.decode(errors="replace").rstrip("\n")

    async def _send(
        self,
        request: Request,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the library's
    ) -> aiohttp.ClientResponse:
        method, url, headers, body, _ = await self._api.param_serialize(
            _METHODS[request.verb],
            request.path,
            query_params=list(request.query.items()),
            header_params={"Accept": JSON, "Content-Type": request.content},
            body=request.body,
            auth_settings=["BearerToken"],
        )
        status = 0
        try:
            with reachable(request.attempted, request.on):
                answer = await self._api.call_api(
                    method, url, headers, body, _request_timeout=timeout
                )
            status = answer.status
            response: aiohttp.ClientResponse = answer.response
            return response
        finally:
            self._count(request.verb, request.label, status)


def _parsed(text: str, request: Request) -> Body:
    try:
        body: Body = json.loads(text)
    except ValueError:
        raise ClusterUnavailable(
            "the answer is no JSON", attempted=request.attempted, on=request.on
        ) from None
    return body
