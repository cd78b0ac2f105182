"""From a script file to a ``Script``, or to a ``UsageError`` that says what is wrong where."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import yaml

from agentrun.devmodel.node import Node, refused
from agentrun.devmodel.script import Fault, Match, Reply, Rule, Script, ToolCall, Usage
from agentrun.errors import UsageError

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """YAML without dates: ``day: 2026-01-01`` is a string, as it would be in a model's JSON."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the name and shape are PyYAML's
        first: [(tag, regex) for tag, regex in rules if tag != "tag:yaml.org,2002:timestamp"]
        for first, rules in _Base.yaml_implicit_resolvers.items()
    }


def load_script(path: Path | str) -> Script:
    """Read a script file, YAML or JSON. Raises ``UsageError``."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise _unusable(path, "it is not UTF-8 text") from None
    try:
        document = _document(text)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _unusable(path, " ".join(str(error).split())) from None
    try:
        return parse_script(document)
    except UsageError as error:
        raise _unusable(path, error.message) from None


def _document(text: str) -> Any:
    """JSON is read as JSON, since YAML refuses the lone surrogates that some tests must send."""
    if text.lstrip().startswith("{"):
        with suppress(ValueError):
            return json.loads(text)
    return yaml.load(text, _Loader)  # noqa: S506 - a subclass of the safe loader


def parse_script(document: Any) -> Script:
    """A script from its parsed document."""
    if not isinstance(document, dict) or "replies" not in document:
        raise refused("", "not a model script: it must be a mapping with a list `replies`")
    root = Node.of(document, "")
    root.only("replies")
    rules = root.children("replies")
    if not rules:
        raise refused("replies", "must have at least one entry")
    return Script(tuple(_rule(node) for node in rules))


def _rule(node: Node) -> Rule:
    node.only("match", "reply", "error", "usage", "delay")
    if ("reply" in node.fields) == ("error" in node.fields):
        raise refused(node.where, "needs exactly one of reply and error")
    usage = node.child("usage")
    usage.only("input", "output", "cacheRead", "cacheWrite")
    return Rule(
        match=_match(node.child("match")),
        reply=_reply(node.child("reply")) if "reply" in node.fields else None,
        fault=_fault(node.child("error")) if "error" in node.fields else None,
        usage=Usage(
            input=usage.whole("input", Usage.input),
            output=usage.whole("output", Usage.output),
            cache_read=usage.whole("cacheRead"),
            cache_write=usage.whole("cacheWrite"),
        ),
        delay=node.seconds("delay"),
    )


def _match(node: Node) -> Match:
    node.only("system", "turn", "contains", "model", "tool")
    return Match(
        system=node.pattern("system"),
        turn=node.whole("turn") if node.has("turn") else None,
        contains=node.text("contains"),
        model=node.pattern("model"),
        tool=node.text("tool"),
    )


def _reply(node: Node) -> Reply:
    node.only("thinking", "blocks", "text", "tools", "stop", "cut", "stall", "ping")
    blocks = node.children("blocks")
    for block in blocks:
        block.required("type")
    node.json("blocks")
    return Reply(
        thinking=node.text("thinking"),
        blocks=tuple(block.fields for block in blocks),
        text=node.text("text"),
        tools=tuple(_tool(tool) for tool in node.children("tools")),
        stop=node.text("stop") or "",
        cut=_cut(node),
        stall=node.seconds("stall"),
        ping=node.seconds("ping"),
    )


def _cut(node: Node) -> Literal["", "clean", "reset"]:
    value = node.fields.get("cut", False)
    if value == "reset":
        return "reset"
    if isinstance(value, bool):
        return "clean" if value else ""
    raise refused(f"{node.where}.cut", f"must be true, false or reset, not {value!r}")


def _tool(node: Node) -> ToolCall:
    node.only("id", "name", "input", "inputText")
    if "input" in node.fields and "inputText" in node.fields:
        raise refused(node.where, "has both input and inputText")
    raw = node.text("inputText")
    if raw is None:
        raw = node.json("input")
    return ToolCall(name=node.required("name"), raw=raw, id=node.text("id"))


def _fault(node: Node) -> Fault:
    node.only("status", "times", "retryAfter", "message", "inStream")
    status = node.whole("status")
    if not 400 <= status <= 599:
        raise refused(f"{node.where}.status", "must be between 400 and 599")
    return Fault(
        status=status,
        times=node.whole("times") if node.has("times") else None,
        retry_after=node.seconds("retryAfter") if node.has("retryAfter") else None,
        message=node.text("message") or "",
        in_stream=node.flag("inStream"),
    )


def _unusable(path: Path, problem: str) -> UsageError:
    return UsageError(problem, attempted="read the model script", on=str(path))
