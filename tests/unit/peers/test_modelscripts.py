"""The script builders: what they build is a script, and the run it describes is known in advance."""

from __future__ import annotations

from pathlib import Path

from tests.peers import modelscripts as ms

from agentrun.devmodel import load_script


def test_turns_describes_every_call_of_a_run(tmp_path: Path) -> None:
    script = load_script(ms.save(ms.turns(4, tools_per_turn=2), tmp_path / "s.yaml"))
    assert [rule.match.turn for rule in script.rules] == [0, 1, 2, 3]
    replies = [rule.reply for rule in script.rules]
    calls = [(tool.id, tool.name, tool.raw) for reply in replies if reply for tool in reply.tools]
    assert calls[2:4] == [
        ("toolu_0001_0", "ops__echo", '{"text":"1.0"}'),
        ("toolu_0001_1", "ops__echo", '{"text":"1.1"}'),
    ]
    assert len(calls) == 6
    last = replies[-1]
    assert last is not None
    assert (last.text, last.tools) == (ms.DONE, ())
    assert sum(rule.usage.input for rule in script.rules) == 400


def test_turns_can_be_shifted_matched_and_varied(tmp_path: Path) -> None:
    two = ms.joined(
        ms.turns(2, match={"system": "alice"}, thinking=True, start=3),
        ms.turns(1, match={"system": "bob"}),
    )
    charge = ms.turns(2, tool="charge", arguments=lambda turn, index: {"amount": turn + index})
    script = load_script(ms.save(two, tmp_path / "s.yaml"))
    first = script.rules[0]
    assert first.match.turn == 3
    assert first.match.system is not None
    assert first.reply is not None
    assert first.reply.thinking == "Thinking about turn 3."
    assert charge["replies"][0]["reply"]["tools"][0]["input"] == {"amount": 0}


def test_the_same_arguments_build_the_same_file() -> None:
    assert ms.dump(ms.turns(50, tools_per_turn=3)) == ms.dump(ms.turns(50, tools_per_turn=3))


def test_errors_and_odd_replies_survive_the_file(tmp_path: Path) -> None:
    document = ms.script(
        ms.error(529, 0, times=2, retryAfter=1),
        ms.reply(0, tools=[ms.raw_call("echo", '{"text": "a",  "text": "\\ud800"}', id="t")]),
        ms.reply(1, text="lone \ud800", stop="max_tokens", delay=0.5, cut=True, stall=1),
    )
    fault, call, odd = load_script(ms.save(document, tmp_path / "s.yaml")).rules
    assert fault.fault is not None
    assert (fault.fault.status, fault.fault.times, fault.fault.retry_after) == (529, 2, 1)
    assert call.reply is not None
    assert call.reply.tools[0].raw == '{"text": "a",  "text": "\\ud800"}'
    assert odd.reply is not None
    assert (odd.reply.text, odd.reply.cut, odd.delay) == ("lone \ud800", "clean", 0.5)
