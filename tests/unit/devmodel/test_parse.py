"""Reading a script file: what is accepted, and that every refusal names the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrun.devmodel import load_script
from agentrun.errors import UsageError


def _load(tmp_path: Path, text: str, name: str = "s.yaml") -> object:
    path = tmp_path / name
    path.write_text(text)
    return load_script(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a model script"),
        ("- a\n- b\n", "not a model script"),
        ("apiVersion: agentrun.dev/v1alpha1\nkind: AgentRun\n", "not a model script"),
        ("replies: [", "while parsing"),
        ("replies: []", "replies: must have at least one entry"),
        ("replies: 3", "replies: must be a list"),
        ("replies: [x]", "replies[0]: must be a mapping"),
        ("replies: [{}]", "replies[0]: needs exactly one of reply and error"),
        ("replies: [{reply: {}, error: {status: 500}}]", "exactly one of reply and error"),
        ("replies: [{reply: {}, dealy: 1}]", "replies[0]: unknown key 'dealy'"),
        ("replies: [{reply: {}, match: {turn: x}}]", "replies[0].match.turn: must be a whole"),
        ("replies: [{reply: {}, match: {turn: true}}]", "replies[0].match.turn: must be a whole"),
        ("replies: [{reply: {}, match: {system: '('}}]", "match.system: is not a regular expr"),
        ("replies: [{reply: {text: 3}}]", "replies[0].reply.text: must be a string"),
        ("replies: [{reply: {tools: [{id: a}]}}]", "replies[0].reply.tools[0]: needs name"),
        ("replies: [{reply: {tools: [{name: a, input: {x: .nan}}]}}]", "input: is not JSON"),
        ("replies: [{reply: {tools: [{name: a, input: {}, inputText: ''}]}}]", "both input and"),
        ("replies: [{reply: {blocks: [{data: x}]}}]", "reply.blocks[0]: needs type"),
        ("replies: [{reply: {cut: soon}}]", "reply.cut: must be true, false or reset"),
        ("replies: [{reply: {}, delay: -1}]", "replies[0].delay: must be a number of seconds"),
        ("replies: [{error: {status: 200}}]", "error.status: must be between 400 and 599"),
        ("replies: [{reply: {}, usage: {tokens: 1}}]", "replies[0].usage: unknown key 'tokens'"),
    ],
)
def test_what_is_not_a_script_is_refused_with_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        _load(tmp_path, text)
    assert said in str(caught.value)
    assert "s.yaml" in str(caught.value)


def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("missing", ".", "binary"):
        with pytest.raises(UsageError):
            load_script(tmp_path / name)


def test_a_date_in_an_input_stays_the_text_a_model_would_send(tmp_path: Path) -> None:
    text = _input_text(tmp_path, "{day: 2026-01-01, n: 1.0, big: 123456789012345678901234}")
    assert text == '{"day":"2026-01-01","n":1.0,"big":123456789012345678901234}'


def _input_text(tmp_path: Path, value: str) -> str:
    path = tmp_path / "s.yaml"
    path.write_text(f"replies: [{{reply: {{tools: [{{name: a, input: {value}}}]}}}}]")
    reply = load_script(path).rules[0].reply
    assert reply is not None
    return reply.tools[0].raw


def test_a_json_script_keeps_every_code_unit(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text('{"replies": [{"reply": {"text": "\\ud83d\\ude00 \\ud800"}}]}')
    reply = load_script(path).rules[0].reply
    assert reply is not None
    assert reply.text == "\U0001f600 \ud800"
