"""What a new attempt goes on from, and records that must not be gone on from."""

from __future__ import annotations

import gc
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.runner.loop.fakes import Stage, asks, says, text
from tests.runner.loop.memory import MemoryStore
from tests.runner.loop.virtual import run
from tests.unit.run.pure_runner import make_spec

from agentrun.errors import CheckpointCorrupt, StoreError, StoreRefused
from agentrun.run import codec
from agentrun.run.exact import exact_json
from agentrun.run.records import ContentSanitized, RunEnd, TurnEnd
from agentrun.runner.exits import Exit
from agentrun.runner.restore import Untrusted, folded, opened
from agentrun.store.port import NewCommit, Restored


async def dead_in_the_middle() -> Stage:
    """One round is done, the second model call was under way."""
    made = Stage(
        make_spec(pricing={"inputPerMTok": "3", "outputPerMTok": "15"}),
        lambda turn: (asks("look", turn=0), text("done"))[turn],
    )
    made.kill.acts["after user/message"] = lambda: setattr(
        made.kill, "at", len(made.kill.passed) + 1
    )
    assert await made.attempt() is None
    made.kill.at, made.kill.acts = None, {}
    return made


def smuggle(made: Stage, body: bytes, kind: str = "turn/end") -> None:
    """A commit of the dead attempt that should not be there; its bytes are chained correctly."""
    made.db.land("R", NewCommit(kind, None, codec.RAW, body, True))


def test_nothing_restarts_from_zero() -> None:
    async def scene() -> None:
        made = await dead_in_the_middle()
        before = made.db.totals
        await made.attempt()

        assert made.db.state == "Succeeded"
        assert made.db.totals.turns == before.turns + 1
        assert made.db.totals.cost == 2 * before.cost > 0

    run(scene())


def test_each_body_is_decompressed_once_and_the_collector_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long the run: both are a good part of what a restore of many commits costs."""

    async def scene() -> None:
        made = await dead_in_the_middle()
        smuggle(made, codec.encode([ContentSanitized(where="x" * 1000, count=1)]).body)
        smuggled = made.db.commits[-1] = replace(made.db.commits[-1], codec=codec.ZSTD)
        claim = SimpleNamespace(run_uid="", spec_hash="", attempt=0, fence=0, seq=smuggled.seq)
        restored = Restored(None, tuple(made.db.commits))
        packed: list[bytes] = []
        inflate = codec.inflate

        def counting(kind: int, body: bytes, what: str = "") -> bytes:
            packed.extend([body] if kind == codec.ZSTD else [])
            return inflate(kind, body, what)

        monkeypatch.setattr(codec, "inflate", counting)
        with pytest.raises(Untrusted, match="another run"):
            folded(claim, restored, opened(restored), {})  # type: ignore[arg-type]

        assert packed == [c.body for c in restored.commits if c.codec == codec.ZSTD]
        assert gc.isenabled()

    run(scene())


def test_a_record_that_does_not_fold_fails_the_run_and_executes_nothing() -> None:
    async def scene() -> None:
        made = await dead_in_the_middle()
        encoded = codec.encode([TurnEnd(conversation="main", turn=7, outcome="completed")])
        smuggle(made, encoded.body)
        paid, sent = made.db.totals, len(made.model.requests)
        ending = await made.attempt()

        assert ending.code is Exit.FAILED
        assert ending.reason == "CheckpointCorrupt"
        assert made.db.state == "Failed"
        assert made.db.reason == "CheckpointCorrupt"
        assert made.db.totals == paid, "what was paid stays counted"
        assert len(made.model.requests) == sent
        end = codec.decode(made.db.commits[-1].codec, made.db.commits[-1].body, {})[0]
        assert isinstance(end, RunEnd)

    run(scene())


def test_an_unknown_record_type_is_corrupt() -> None:
    async def scene() -> None:
        made = await dead_in_the_middle()
        smuggle(made, exact_json({"v": 1, "r": [{"type": "tool/guess"}]}))

        assert (await made.attempt()).reason == "CheckpointCorrupt"

    run(scene())


def test_a_runner_commit_with_an_operators_record_is_corrupt() -> None:
    """H47: a decision that no operator made is not taken."""

    async def scene() -> None:
        made = await dead_in_the_middle()
        forged = {"type": "approval/decision", "id": "x", "decision": "Approve", "decidedBy": "eve"}
        smuggle(made, exact_json({"v": 1, "r": [forged]}))

        assert (await made.attempt()).reason == "CheckpointCorrupt"
        assert made.db.state == "Failed"

    run(scene())


def test_h29_a_newer_record_is_left_for_an_image_that_can_read_it() -> None:
    async def scene() -> None:
        made = await dead_in_the_middle()
        smuggle(made, exact_json({"v": 2, "r": []}))
        made.db.mint()
        before = made.db.seq
        ending = await made.attempt(mint=False)

        assert ending.code is Exit.RETRY
        assert ending.reason == "CheckpointNewer"
        assert made.db.seq == before
        assert made.db.state == "Active"

    run(scene())


def test_a_broken_chain_is_told_and_not_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: MemoryStore) -> object:
        raise CheckpointCorrupt("seq 3: its hash does not match")

    async def scene() -> None:
        made = await dead_in_the_middle()
        monkeypatch.setattr(MemoryStore, "restore", broken)
        made.db.mint()
        before = made.db.seq
        ending = await made.attempt(mint=False)

        assert ending.code is Exit.CONFIG
        assert ending.reason == "CheckpointCorrupt"
        assert "seq 3" in ending.message
        assert made.db.seq == before

    run(scene())


def test_a_failure_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        made = await dead_in_the_middle()
        smuggle(made, exact_json({"v": 1, "r": [{"type": "tool/guess"}]}))
        made.db.refuse = lambda commit: True
        ending = await made.attempt()

        assert ending.code is Exit.CONFIG
        assert ending.reason == "CheckpointCorrupt"

    run(scene())


def test_a_spec_that_is_not_the_captured_one_is_corrupt() -> None:
    async def scene() -> None:
        made = await dead_in_the_middle()
        made.db.spec = make_spec(prompt="something else")

        assert (await made.attempt()).reason == "CheckpointCorrupt"

    run(scene())


def test_commits_missing_at_the_end_are_noticed() -> None:
    async def scene() -> None:
        made = await dead_in_the_middle()
        made.db.mint()
        made.db.commits.pop()

        assert (await made.attempt(mint=False)).reason == "CheckpointCorrupt"

    run(scene())


def test_large_values_come_back_from_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    plain = MemoryStore.blobs

    async def counted(self: MemoryStore, hashes: list[str]) -> object:
        asked.append(len(hashes))
        return await plain(self, hashes)

    async def scene() -> None:
        made = Stage(make_spec(), lambda turn: (asks("look", "look", turn=0), text("done"))[turn])
        long = iter(["a" * 300_000, "b" * 300_000])
        made.tools.answer = lambda call: says(next(long))
        made.kill.acts["after user/message"] = lambda: setattr(
            made.kill, "at", len(made.kill.passed) + 1
        )
        await made.attempt()
        made.kill.at, made.kill.acts = None, {}
        monkeypatch.setattr(MemoryStore, "blobs", counted)
        await made.attempt()

        assert made.db.state == "Succeeded"
        assert asked == [2]
        assert len(made.db.blobs) == 2

    run(scene())


def test_the_store_is_closed_whatever_happens() -> None:
    async def scene() -> None:
        for refuse in (True, False):
            made = Stage(make_spec(), lambda turn: text("done"))
            made.db.refuse = lambda commit, refuse=refuse: refuse
            await made.attempt()
            assert made.store is not None
            assert made.store.closed
            assert all(isinstance(e, StoreRefused | StoreError) for e in made.observer.store_errors)

    run(scene())
