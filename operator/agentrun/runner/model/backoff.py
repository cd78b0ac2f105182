"""How long to wait between two tries, inside one attempt."""

from __future__ import annotations

from dataclasses import dataclass

from agentrun.runner.model.port import Random


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential with jitter; the provider's own Retry-After wins over it, within ``patience``.

    One beyond ``patience`` is not slept through: a pod that waits for an hour is better suspended.
    """

    first: float = 1.0
    most: float = 60.0
    patience: float = 300.0

    def wait(self, tried: int, asked: float | None, random: Random) -> float | None:
        """Seconds before the next try after ``tried`` ones; None when it asks for too much."""
        if asked is None:
            return min(self.most, self.first * 2.0 ** min(tried - 1, 30)) * (0.5 + random() / 2)
        return None if asked > self.patience else asked + random() * min(1.0, asked / 10)
