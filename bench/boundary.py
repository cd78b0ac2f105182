"""One run: what a boundary costs after 20, 200 and 1,000 turns, beside a bare INSERT.

Every append is followed or preceded by the INSERT of the same bytes, and the lengths take turns, so
that whatever else the machine does happens to all of them. Several rounds, each with fresh runs;
the spread of the rounds' ratios says how noisy it was.
"""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import product

from bench.pairs import TIMES, Pair, Samples, alone, whole
from bench.postgres import Ground, Operator, fill, operators
from bench.sample_run import Played, of_turns
from bench.stats import Json, ms, quiet, ratio, spread, summary
from bench.writers import Bare, Direct

WARM = 15
"""Boundaries appended one by one before the measured ones: a fresh connection has to plan first, which
``bench.fresh`` measures by itself."""


@dataclass(slots=True)
class Length:
    """The samples of one length: ``turns`` is the last turn of the window."""

    turns: int
    window: Sequence[Played]
    before: Sequence[Played]
    rounds: list[Samples] = field(default_factory=list)

    def all(self, name: str) -> list[float]:
        """One kind of sample over all rounds."""
        return [value for samples in self.rounds for value in samples[name]]


async def measure(
    ground: Ground, played: Sequence[Played], lengths: Sequence[int], window: int, rounds: int
) -> Json:
    """Milliseconds and ratios by length, and how the longest compares with the shortest."""
    found = [
        Length(
            turns,
            of_turns(played, turns - window + 1, turns),
            of_turns(played, 0, turns - window),
        )
        for turns in lengths
    ]
    async with operators(ground) as operator:
        for number in range(rounds + 1):
            await _round(ground, operator, found, random.Random(number))
    for length in found:
        del length.rounds[0]  # the first one warms up
    return {
        **{str(length.turns): _told(length) for length in found},
        "growth": _growth(found[0], found[-1]),
    }


async def _round(
    ground: Ground, operator: Operator, lengths: Sequence[Length], rng: random.Random
) -> None:
    async with AsyncExitStack() as stack:
        pairs: list[tuple[Pair, Length]] = []
        for length in lengths:
            runner = await operator.runner()
            stack.push_async_callback(runner.close)
            direct = Direct(ground.runner, await operator.hold())
            # One for each: a connection that is used more often than its peer is quicker.
            bares = Bare(ground.runner), Bare(ground.runner)
            for each in (direct, *bares):
                stack.callback(each.close)
            await fill(runner, length.before[:-WARM])
            direct.fill(length.before[:-WARM])
            samples: Samples = defaultdict(list)
            length.rounds.append(samples)
            both = whole(samples, runner, bares[0]), alone(samples, direct, bares[1])
            for pair, played in product(both, length.before[-WARM:]):
                await pair(played, 0)
            samples.clear()
            pairs += [(pair, length) for pair in both]
        for index in range(min(len(length.window) for length in lengths)):
            rng.shuffle(pairs)
            for pair, length in pairs:
                await pair(length.window[index], index)


def _told(length: Length) -> Json:
    def rounds(these: str, those: str) -> list[float]:
        return spread((samples[these], samples[those]) for samples in length.rounds)

    return {
        "stored_bytes": round(statistics.fmean(len(e.commit.body) for e in length.window)),
        "payload_bytes": round(statistics.fmean(e.payload for e in length.window)),
        "encode_p50_ms": ms(statistics.median(length.all("encode"))),
        "client_cpu_mean_ms": ms(statistics.fmean(length.all("cpu"))),
        "bare_client_cpu_mean_ms": ms(statistics.fmean(length.all("bare_cpu"))),
        **{name: summary(length.all(name)) for name in TIMES},
        "ratio": ratio(length.all("append"), length.all("bare")),
        "ratio_with_encode": ratio(length.all("encoded"), length.all("bare")),
        "ratio_quiet": quiet(length.all("append"), length.all("bare")),
        "ratio_rounds": rounds("append", "bare"),
        "statement_ratio": ratio(length.all("statement"), length.all("bare_statement")),
        "statement_ratio_quiet": quiet(length.all("statement"), length.all("bare_statement")),
        "statement_ratio_rounds": rounds("statement", "bare_statement"),
    }


def _growth(first: Length, last: Length) -> Json:
    """Mean of the longest run's boundaries against the shortest's, and the same by round."""

    def means(name: str) -> list[float]:
        found = [
            _mean_ratio(late[name], early[name])
            for early, late in zip(first.rounds, last.rounds, strict=True)
        ]
        return [min(found), round(statistics.median(found), 2), max(found)]

    return {
        "turns": [first.turns, last.turns],
        "append": _mean_ratio(last.all("append"), first.all("append")),
        "append_rounds": means("append"),
        "bare": _mean_ratio(last.all("bare"), first.all("bare")),
    }


def _mean_ratio(these: Sequence[float], those: Sequence[float]) -> float:
    return round(statistics.fmean(these) / statistics.fmean(those), 2)
