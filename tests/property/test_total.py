"""What cannot be is refused as CheckpointCorrupt, never with another error."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, get_args, get_origin

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.property.odd import HALF, json_values
from tests.unit.run.pure_runner import PureRunner, asks, make_spec, text

from agentrun.errors import CheckpointCorrupt, CheckpointNewer
from agentrun.run import codec
from agentrun.run.fold import OPERATOR, RUNNER, check, fold
from agentrun.run.next_steps import next_steps
from agentrun.run.records import AnyRecord, Record
from agentrun.run.request import build_request
from agentrun.run.state import ConversationPhase
from agentrun.run.values import Intent

KINDS: tuple[type[Record], ...] = get_args(get_args(AnyRecord)[0])

words = st.sampled_from(
    ["main", "main/1/1/0", "main/1/1/1", "main/+1/1/0", "sre", "ops.look", "ops__look", "toolu_1_0"]
) | st.sampled_from(["", "/", HALF, "apr-x", "pause_turn", "tool_use"])
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "thinking", "x"])},
    optional={"id": words | json_values, "name": words, "text": json_values, "tool_use_id": words},
)
contents = st.lists(blocks | json_values, max_size=3) | json_values


def values_of(annotation: Any) -> st.SearchStrategy[Any]:
    """Anything that validates, and likely to nearly fit."""
    if annotation is Any:
        return contents
    if annotation is str:
        return words
    if annotation is int:
        return st.integers(0, 3)
    if annotation is bool:
        return st.booleans()
    if annotation is type(None):
        return st.none()
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return made(annotation)
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    if get_origin(annotation) is tuple:
        return st.lists(values_of(get_args(annotation)[0]), max_size=2).map(tuple)
    return st.one_of([values_of(part) for part in get_args(annotation)])


def made(kind: type[BaseModel]) -> st.SearchStrategy[Any]:
    """Records of a kind."""
    fields = {
        name: values_of(field.annotation)
        for name, field in kind.model_fields.items()
        if name != "type"
    }
    return st.fixed_dictionaries(fields).map(lambda given: kind(**given))


records = st.one_of([made(kind) for kind in KINDS])


def scenes() -> list[PureRunner]:
    """A run before each of its commits."""
    found: list[PureRunner] = []

    def scene(stop: Callable[[PureRunner], bool]) -> None:
        spec = make_spec(toolPolicies=[{"tools": ["ops.fix"], "approval": "Always"}])
        script = {1: asks("look", "fix", turn=1)}
        runner = PureRunner(spec, lambda turn, _: script.get(turn, text("done"))).attempt()
        while not stop(runner):
            runner.do(runner.steps()[0])
        found.append(runner)

    scene(lambda runner: True)
    scene(lambda runner: bool(runner.state.conversations))
    scene(lambda runner: runner.state.totals.turns == 1)
    scene(lambda runner: runner.state.totals.tool_calls == 1)
    scene(lambda runner: runner.state.suspended is not None)
    return found


SCENES = scenes()


@given(
    scene=st.sampled_from(range(len(SCENES))),
    origin=st.sampled_from([OPERATOR, RUNNER]),
    commits=st.lists(st.lists(records, min_size=1, max_size=3), min_size=1, max_size=3),
)
@settings(max_examples=300)
def test_any_records_fold_or_are_corrupt(
    scene: int, origin: str, commits: list[list[Record]]
) -> None:
    runner = PureRunner(
        SCENES[scene].spec, SCENES[scene].model, commits=list(SCENES[scene].commits)
    )
    state = runner.folded()
    with suppress(CheckpointCorrupt):
        for commit in commits:
            encoded = codec.encode(commit)
            fold(state, origin, codec.decode(encoded.codec, encoded.body, encoded.blobs))
        check(state)
        next_steps(state, runner.spec, Intent())
        for talk in state.conversations.values():
            if talk.phase is ConversationPhase.AWAITING_MODEL and talk.agent == "sre":
                json.loads(build_request(state, runner.spec, talk.path).body)
        encoded = codec.encode_state(state)
        codec.decode_state(encoded.codec, encoded.body, encoded.blobs)


@given(json_values)
@settings(max_examples=300)
def test_any_body_decodes_or_is_refused(value: object) -> None:
    for body in (value, {"v": 1, "r": value}, {"v": 1, "r": [value]}, {"v": 1, "s": value}):
        text = json.dumps(body, allow_nan=True).encode()
        for read in (codec.decode, codec.decode_state):
            with suppress(CheckpointCorrupt, CheckpointNewer):
                read(codec.RAW, text, {})
        for names in (codec.file_refs, codec.blob_refs):
            with suppress(CheckpointCorrupt):
                names(codec.RAW, text)


def test_every_kind_of_record_is_tried() -> None:
    assert len(KINDS) == 21
