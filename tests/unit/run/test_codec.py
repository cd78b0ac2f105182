"""Commit bodies and snapshots: exact, bounded, refused when altered."""

from __future__ import annotations

import hashlib

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.run.play import Play, asks, make_spec, says, text

from agentrun.errors import CheckpointCorrupt, CheckpointNewer
from agentrun.run import chain, codec
from agentrun.run.exact import canonical_json, exact_json, parse_json
from agentrun.run.records import ToolResult, UserMessage

json_text = st.text(st.characters(), max_size=40)  # surrogates included
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | json_text
    | st.sampled_from(["$blob", "$esc", "\x00", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            json_text | st.sampled_from(["$blob", "$esc", "data", "type"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


def round_trip(content: object) -> object:
    encoded = codec.encode([ToolResult(call="main/1/1/0", content=content)])
    (record,) = codec.decode(encoded.codec, encoded.body, encoded.blobs)
    assert isinstance(record, ToolResult)
    assert set(codec.blob_refs(encoded.codec, encoded.body)) == set(encoded.blobs)
    return record.content


@given(json_values)
@settings(max_examples=300, deadline=None)
def test_any_json_comes_back_exactly(value: object) -> None:
    assert exact_json(round_trip(value)) == exact_json(value)


@pytest.mark.parametrize(
    "value",
    [
        "NUL \x00 inside",
        "lone \ud800 surrogate",
        10**40,
        {"$blob": "0" * 64},
        {"$esc": {"$blob": "x"}},
        {"$blob": "x", "more": 1},
        "x" * 300_000,
        "\ud800" * 300_000,
        [],
        "",
    ],
    ids=[
        "nul",
        "surrogate",
        "bigint",
        "forged-blob",
        "forged-escape",
        "wide",
        "long",
        "long-odd",
        "empty-list",
        "empty",
    ],
)
def test_odd_content_comes_back_exactly(value: object) -> None:
    assert round_trip(value) == value


def test_thirty_images_leave_the_body_and_repeats_are_stored_once() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 50_000}}
    other = {"type": "image", "source": {"type": "base64", "data": "B" * 50_000}}
    encoded = codec.encode([ToolResult(call="main/1/1/0", content=[image] * 29 + [other])])
    assert len(encoded.body) < 1000
    assert len(encoded.blobs) == 2
    (record,) = codec.decode(encoded.codec, encoded.body, encoded.blobs)
    assert isinstance(record, ToolResult)
    assert record.content == [image] * 29 + [other]


def test_blobs_are_named_by_what_they_hold() -> None:
    encoded = codec.encode([ToolResult(call="main/1/1/0", content="y" * 400_000)])
    for name, data in encoded.blobs.items():
        assert hashlib.sha256(data).hexdigest() == name


def test_a_missing_blob_is_corrupt() -> None:
    encoded = codec.encode([ToolResult(call="main/1/1/0", content="y" * 400_000)])
    with pytest.raises(CheckpointCorrupt, match="missing"):
        codec.decode(encoded.codec, encoded.body, {})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"v":1}',
        b'{"v":1,"r":{}}',
        b'{"v":1,"r":[{"type":"no/such"}]}',
        b'{"v":1,"r":[{"type":"turn/end","conversation":"m","turn":1,"outcome":"completed","x":1}]}',
        b'{"v":"1","r":[]}',
        b"[" * 100_000,
    ],
)
def test_what_does_not_validate_is_corrupt(body: bytes) -> None:
    with pytest.raises(CheckpointCorrupt):
        codec.decode(codec.RAW, body, {})


def test_broken_compression_is_corrupt() -> None:
    good = zstandard.ZstdCompressor().compress(b'{"v":1,"r":[]}')
    for body in (good[:-3], b"not zstd", b"", good[1:]):
        with pytest.raises(CheckpointCorrupt):
            codec.decode(codec.ZSTD, body, {})


def test_h29_a_newer_record_waits_for_a_newer_image() -> None:
    with pytest.raises(CheckpointNewer):
        codec.decode(codec.RAW, b'{"v":2,"r":[]}', {})
    with pytest.raises(CheckpointNewer):
        codec.decode(9, b"?", {})


def test_small_bodies_stay_plain_and_large_ones_are_compressed() -> None:
    small = codec.encode([ToolResult(call="main/1/1/0", content="x")])
    large = codec.encode([ToolResult(call="main/1/1/0", content="x" * 2000)])
    assert small.codec == codec.RAW
    assert large.codec == codec.ZSTD
    assert len(large.body) < 200


def test_h52_what_a_turn_adds_does_not_grow_with_the_turns_before_it() -> None:
    play = Play(make_spec(), lambda turn, _: asks("look", turn=turn) if turn < 60 else text("end"))
    play.tool = lambda call: says("z" * 500)
    play.attempt().run()
    sizes = [len(encoded.body) for _, encoded in play.commits]
    early, late = sum(sizes[6:36]), sum(sizes[-36:-6])
    assert late <= 1.1 * early


def test_a_snapshot_holds_the_whole_state() -> None:
    play = Play(
        make_spec(), lambda turn, _: asks("look", "fix", turn=1) if turn == 1 else text("e")
    )
    play.attempt()
    while play.steps():
        encoded = codec.encode_state(play.state)
        assert codec.decode_state(encoded.codec, encoded.body, encoded.blobs) == play.state
        play.do(play.steps()[0])


@pytest.mark.parametrize("body", [b'{"v":1}', b'{"v":1,"s":{"attempt":"x"}}', b'{"v":1,"s":[]}'])
def test_a_broken_snapshot_is_corrupt(body: bytes) -> None:
    with pytest.raises(CheckpointCorrupt):
        codec.decode_state(codec.RAW, body, {})


def test_the_chain_covers_every_part_of_a_commit() -> None:
    base = chain.link(chain.genesis("u"), 1, "R", "k", "r", 0, b"body")
    others = {
        chain.link(chain.genesis("v"), 1, "R", "k", "r", 0, b"body"),
        chain.link(chain.genesis("u"), 2, "R", "k", "r", 0, b"body"),
        chain.link(chain.genesis("u"), 1, "O", "k", "r", 0, b"body"),
        chain.link(chain.genesis("u"), 1, "R", "kk", "r", 0, b"body"),
        chain.link(chain.genesis("u"), 1, "R", "k", None, 0, b"body"),
        chain.link(chain.genesis("u"), 1, "R", "k", "r", 1, b"body"),
        chain.link(chain.genesis("u"), 1, "R", "k", "r", 0, b"bodz"),
    }
    assert len(others) == 7
    assert base not in others


def test_canonical_json_has_one_spelling() -> None:
    assert canonical_json({"b": 1, "a": [1.5, "é"]}) == b'{"a":[1.5,"\\u00e9"],"b":1}'


def test_the_last_of_duplicate_keys_wins() -> None:
    assert parse_json('{"a":1,"a":2}') == {"a": 2}


def test_input_keeps_its_content_exactly() -> None:
    record = UserMessage(
        conversation="main", origin="input", content=[{"type": "text", "text": "\x00"}]
    )
    encoded = codec.encode([record])
    assert codec.decode(encoded.codec, encoded.body, encoded.blobs) == (record,)
