"""Commit bodies and snapshots: exact, bounded, refused when altered."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.run.pure_runner import PureRunner, asks, make_spec, says, text

from agentrun.errors import CheckpointCorrupt, CheckpointNewer
from agentrun.run import chain, codec
from agentrun.run.as_json import state_to_json
from agentrun.run.blobs import extract
from agentrun.run.exact import DEPTH_MAX, canonical_json, exact_json, parse_json, unfit
from agentrun.run.records import FileChange, ToolResult, UserMessage, WorkspaceChanged
from agentrun.run.values import ToolAnswer

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
        b'{"v":0,"r":[]}',
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
    runner = PureRunner(
        make_spec(), lambda turn, _: asks("look", turn=turn) if turn < 60 else text("end")
    )
    runner.tool = lambda call: says("z" * 500)
    runner.attempt().run()
    sizes = [len(encoded.body) for _, encoded in runner.commits]
    early, late = sum(sizes[6:36]), sum(sizes[-36:-6])
    assert late <= 1.1 * early


def test_a_snapshot_holds_the_whole_state() -> None:
    runner = PureRunner(
        make_spec(), lambda turn, _: asks("look", "fix", turn=1) if turn == 1 else text("e")
    )
    runner.attempt()
    while runner.steps():
        encoded = codec.encode_state(runner.state)
        assert codec.decode_state(encoded.codec, encoded.body, encoded.blobs) == runner.state
        runner.do(runner.steps()[0])


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


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": [value]}
    return value


def test_deep_content_comes_back_from_any_depth_of_the_stack() -> None:
    value = nested(DEPTH_MAX // 2 - 1)

    def from_below(frames: int) -> object:
        return from_below(frames - 1) if frames else round_trip({"$esc": value})

    assert unfit(value) is None
    assert from_below(300) == {"$esc": value}
    assert unfit(nested(DEPTH_MAX)) is not None


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", '{"a":-Infinity}', "1e400", "[" * 50_000, ""]
)
def test_what_could_not_be_written_is_not_read(text: str) -> None:
    for spelled in (text, text.encode()):
        with pytest.raises(ValueError, match=r".*"):
            parse_json(spelled)


def test_a_body_with_a_number_that_json_does_not_have_is_corrupt() -> None:
    with pytest.raises(CheckpointCorrupt):
        codec.decode(
            codec.RAW, b'{"v":1,"r":[{"type":"tool/result","call":"c","content":NaN}]}', {}
        )


def test_negative_usage_is_corrupt() -> None:
    body = (
        b'{"v":1,"r":[{"type":"assistant/message","conversation":"main","turn":1,"content":[],'
        b'"usage":{"outputTokens":-5}}]}'
    )
    with pytest.raises(CheckpointCorrupt):
        codec.decode(codec.RAW, body, {})


@pytest.mark.parametrize("claimed", [codec.DECODED_MAX + 1, 1 << 62])
def test_a_forged_length_takes_no_memory(claimed: int) -> None:
    good = zstandard.ZstdCompressor().compress(b"x" * 1000)
    forged = good[:4] + b"\xe0" + claimed.to_bytes(8, "little") + good[6:]
    with pytest.raises(CheckpointCorrupt):
        codec.decode(codec.ZSTD, forged, {})


def test_bytes_after_a_body_are_corrupt() -> None:
    good = zstandard.ZstdCompressor().compress(b'{"v":1,"r":[]}')
    with pytest.raises(CheckpointCorrupt):
        codec.decode(codec.ZSTD, good + b"more", {})


def test_threads_do_not_share_a_compressor() -> None:
    """Snapshots are encoded beside the loop, and restored in a thread."""
    records = [[ToolResult(call="main/1/1/0", content=f"{n} " * 3000)] for n in range(8)]
    expected = [codec.encode(record) for record in records]

    def work(turn: int) -> bool:
        encoded = codec.encode(records[turn % 8])
        decoded = codec.decode(encoded.codec, encoded.body, encoded.blobs)
        return encoded == expected[turn % 8] and decoded == tuple(records[turn % 8])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(800)))


def test_bodies_are_the_same_in_every_process() -> None:
    program = (
        "from tests.unit.run.test_codec import everything; from agentrun.run import codec;"
        "import hashlib; p = everything(); e = codec.encode_state(p.state);"
        "print(hashlib.sha256(b''.join(c.body for _, c in p.commits) + e.body).hexdigest())"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(hashes) == 1


def everything() -> PureRunner:
    """A run with most kinds of records."""
    runner = PureRunner(
        make_spec(toolPolicies=[{"tools": ["ops.fix"], "approval": "Always"}]),
        lambda turn, _: asks("look", "fix", turn=1) if turn == 1 else text("e"),
    )
    runner.tool = lambda call: ToolAnswer(
        [{"type": "text", "text": "x" * 300_000}], False, 1, (FileChange(path="a", sha256="0"),)
    )
    runner.attempt().run()
    runner.decide(runner.questions[0], "Approve")
    runner.crash().run()
    return runner


def test_a_snapshot_in_pieces_is_the_exact_json_of_the_state() -> None:
    """H54: written piece by piece, because one call of the encoder holds up every other thread."""
    state = everything().state
    encoded = codec.encode_state(state)
    rest, _ = extract({"v": 1, "s": state_to_json(state)})
    assert zstandard.ZstdDecompressor().decompress(encoded.body) == exact_json(rest)


def test_the_contents_of_workspace_files_are_named_apart_from_the_body() -> None:
    changes = (
        FileChange(path="a", sha256="1" * 64, size=1),
        FileChange(path="b", sha256="2" * 64, size=1),
        FileChange(path="c", sha256="1" * 64, size=1),
        FileChange(path="d", sha256=None),
    )
    records = [
        ToolResult(call="main/1/1/0", content="y" * 400_000),
        WorkspaceChanged(server="w", changes=changes),
    ]
    encoded = codec.encode(records)
    assert codec.file_refs(encoded.codec, encoded.body) == ("1" * 64, "2" * 64)
    assert set(codec.blob_refs(encoded.codec, encoded.body)) == set(encoded.blobs)
    said = codec.encode([ToolResult(call="main/1/1/0", content='"workspace/changed"')])
    assert codec.file_refs(said.codec, said.body) == ()
