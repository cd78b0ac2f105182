"""Builders of scripted-model files whose replies depend only on the turn number.

So a test knows every call, id and total of a run in advance, whatever was killed on the way::

    save(turns(5, tools_per_turn=2), tmp_path / "model.yaml")
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

Rule = dict[str, Any]
Script = dict[str, Any]
DONE = "All done."


def call(tool: str, *, id: str = "", server: str = "ops", **input: Any) -> dict[str, Any]:  # noqa: A002
    """A tool call of a reply, under its wire name ``server__tool``."""
    named = {"id": id} if id else {}
    return {**named, "name": f"{server}__{tool}", "input": input}


def raw_call(tool: str, text: str, *, id: str = "", server: str = "ops") -> dict[str, Any]:  # noqa: A002
    """A tool call whose arguments are streamed as exactly this text."""
    named = {"id": id} if id else {}
    return {**named, "name": f"{server}__{tool}", "inputText": text}


def reply(
    turn: int | None = None,
    *,
    text: str | None = None,
    tools: list[dict[str, Any]] | None = None,
    match: dict[str, Any] | None = None,
    usage: dict[str, int] | None = None,
    delay: float = 0,
    **more: Any,
) -> Rule:
    """One rule that replies. ``more`` goes into the reply (thinking, stop, cut, stall, blocks)."""
    content: dict[str, Any] = dict(more)
    if text is not None:
        content["text"] = text
    if tools:
        content["tools"] = tools
    rule: Rule = {"match": _match(turn, match), "reply": content}
    if usage is not None:
        rule["usage"] = usage
    if delay:
        rule["delay"] = delay
    return rule


def error(
    status: int,
    turn: int | None = None,
    *,
    times: int | None = None,
    match: dict[str, Any] | None = None,
    **more: Any,
) -> Rule:
    """One rule that fails. ``more``: retryAfter, message, inStream."""
    fault: dict[str, Any] = {"status": status, **more}
    if times is not None:
        fault["times"] = times
    return {"match": _match(turn, match), "error": fault}


def script(*rules: Rule) -> Script:
    """A script of these rules, in this order."""
    return {"replies": list(rules)}


def joined(*scripts: Script) -> Script:
    """The rules of several scripts one after the other; give each its own ``match``."""
    return script(*(rule for one in scripts for rule in one["replies"]))


def turns(
    n: int,
    *,
    tools_per_turn: int = 1,
    server: str = "ops",
    tool: str = "echo",
    arguments: Callable[[int, int], dict[str, Any]] | None = None,
    thinking: bool = False,
    usage: dict[str, int] | None = None,
    match: dict[str, Any] | None = None,
    delay: float = 0,
    start: int = 0,
) -> Script:
    """A run of ``n`` model calls: all but the last ask for tools, the last one says ``DONE``.

    Ids are ``toolu_<turn>_<index>`` and arguments ``{"text": "<turn>.<index>"}`` unless
    ``arguments(turn, index)`` says otherwise. ``start`` shifts the turn numbers, for a
    conversation that already has messages.
    """
    usage = usage or {"input": 100, "output": 10}
    more: dict[str, Any] = {"match": match, "usage": usage, "delay": delay}
    rules = []
    for turn in range(start, start + n - 1):
        calls = []
        for index in range(tools_per_turn):
            given = arguments(turn, index) if arguments else {"text": f"{turn}.{index}"}
            calls.append(call(tool, id=f"toolu_{turn:04d}_{index}", server=server, **given))
        rule = reply(turn, text=f"Turn {turn}.", tools=calls, **more)
        if thinking:
            rule["reply"]["thinking"] = f"Thinking about turn {turn}."
        rules.append(rule)
    return script(*rules, reply(start + n - 1, text=DONE, **more))


def dump(document: Script) -> str:
    """The script as YAML; as JSON where YAML cannot say it (lone surrogates)."""
    text = json.dumps(document)
    if any(f"\\ud{digit}" in text for digit in "89abcdef"):
        return text
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def save(document: Script, path: Path) -> Path:
    """Write a script file and return its path."""
    path.write_text(dump(document))
    return path


def _match(turn: int | None, more: dict[str, Any] | None) -> dict[str, Any]:
    return ({} if turn is None else {"turn": turn}) | (more or {})
