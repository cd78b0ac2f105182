"""One HTTP connection of the scripted model."""

from __future__ import annotations

import hashlib
import math
import os
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol, cast

from agentrun.devmodel.choose import Chooser
from agentrun.devmodel.log import RequestLog
from agentrun.devmodel.node import dump
from agentrun.devmodel.request import InvalidRequest, read_request
from agentrun.devmodel.script import Fault, Reply, Rule
from agentrun.devmodel.wire import Answer, error_body, event

BODY_LIMIT = 64 * 1024 * 1024


class Serving(Protocol):
    """What a connection needs of its server."""

    chooser: Chooser
    log: RequestLog
    stopping: threading.Event


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection in order; each connection has its own thread."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_version = "agentrun-devmodel"
    request_id = "req_none"

    @property
    def serving(self) -> Serving:
        return cast("Serving", self.server)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Nothing on stderr: the request log is the record."""

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self._send_json(200, dump({"ok": True}))
        else:
            self._send_error(404, f"no such path: {self.path}")

    def do_POST(self) -> None:
        body = self._body()
        if body is None:
            return
        if not self.path.split("?")[0].endswith("/v1/messages"):
            self._send_error(404, f"no such path: {self.path}")
            return
        digest = hashlib.sha256(body).hexdigest()
        self.request_id = f"req_{digest[:24]}"
        self._answer(body, digest)

    def _answer(self, body: bytes, digest: str) -> None:
        note: dict[str, Any] = {"time": time.time(), "sha256": digest, "bytes": len(body)}
        log = self.serving.log
        try:
            request = read_request(body)
        except InvalidRequest as error:
            log.write(**note, turn=None, rule=None, outcome="invalid", detail=str(error))
            self._send_error(400, str(error))
            return
        note |= {"turn": request.turn, "model": request.model}
        chosen = self.serving.chooser.choose(request)
        if chosen is None:
            log.write(**note, rule=None, outcome="no match")
            self._send_error(400, f"the script has no reply that matches turn {request.turn}")
            return
        index, rule = chosen
        log.write(
            **note, rule=index, outcome=f"error {rule.fault.status}" if rule.fault else "reply"
        )
        self._pause(rule.delay)
        answer = Answer(rule.reply or Reply(), rule.usage, request.model, digest)
        self._play(rule, answer, stream=request.stream)

    def _play(self, rule: Rule, answer: Answer, *, stream: bool) -> None:
        if rule.fault is not None:
            self._play_fault(rule.fault, answer, stream=stream)
        elif stream:
            self._send_parts(
                list(answer.events()), answer.reply, "text/event-stream; charset=utf-8"
            )
        else:
            text = answer.message().encode()
            half = len(text) // 2
            self._send_parts([text[:half], text[half:]], answer.reply, "application/json")

    def _play_fault(self, fault: Fault, answer: Answer, *, stream: bool) -> None:
        message = fault.message or f"scripted error {fault.status}"
        if fault.in_stream and stream:
            error = error_body(fault.status, message, self.request_id)["error"]
            parts = [next(answer.events()), event("error", error=error)]
            self._send_parts(parts, answer.reply, "text/event-stream; charset=utf-8")
            return
        self._send_error(fault.status, message, retry_after=fault.retry_after)

    def _send_parts(self, parts: list[bytes], reply: Reply, content_type: str) -> None:
        """A chunked body, one chunk per part, with the reply's stall or cut in the middle."""
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("request-id", self.request_id)
        self.end_headers()
        middle = len(parts) // 2
        for position, part in enumerate(parts):
            if position == middle and reply.stall:
                self._stall(reply)
            if position == middle and reply.cut:
                break
            self._send_chunk(part)
        if reply.cut == "reset":
            self._reset()
        else:
            self._send_chunk(b"")

    def _stall(self, reply: Reply) -> None:
        """Be silent, or send nothing but pings, which must not count as progress."""
        step = reply.ping or reply.stall
        for _ in range(math.ceil(reply.stall / step)):
            self._pause(step)
            if reply.ping:
                self._send_chunk(event("ping"))

    def _pause(self, seconds: float) -> None:
        self.serving.stopping.wait(seconds)

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _reset(self) -> None:
        """Close so that the peer sees a reset, not an end of body."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())
        self.close_connection = True

    def _body(self) -> bytes | None:
        """The request body; None if it was refused (and answered), or if the client went away."""
        try:
            length = int(self.headers["Content-Length"])
        except (TypeError, ValueError):
            self.close_connection = True
            self._send_error(411, "Content-Length is required")
            return None
        if not 0 <= length <= BODY_LIMIT:
            self.close_connection = True
            self._send_error(413, f"Request exceeds the maximum size of {BODY_LIMIT} bytes")
            return None
        body = self.rfile.read(length)
        self.close_connection = len(body) < length
        return None if self.close_connection else body

    def _send_error(self, status: int, message: str, *, retry_after: float | None = None) -> None:
        headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
        self._send_json(status, dump(error_body(status, message, self.request_id)), headers)

    def _send_json(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("request-id", self.request_id)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
