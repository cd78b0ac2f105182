"""The runner's side of the store: :class:`agentrun.store.port.RunnerStore` on Postgres."""

from agentrun.store.runner_store.facade import open_runner_store
from agentrun.store.runner_store.hold import Hold

__all__ = ["Hold", "open_runner_store"]
