"""Reads the facts about one object: cached objects first, then the row (see ``world.py``)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from agentrun.api import AgentRun, AgentRunSpec, Reason
from agentrun.api.spec import MUTABLE_FIELDS, MUTABLE_LIMITS
from agentrun.api.validation import validate_manifest
from agentrun.cluster.values import ObjectKey
from agentrun.controller.context import Context
from agentrun.controller.freshness import Heartbeat
from agentrun.controller.plan.facts import shows_end
from agentrun.controller.world import Confirmed, World
from agentrun.errors import CheckpointCorrupt, CheckpointNewer, InvalidSpec, StoreUnavailable
from agentrun.run.capture import captured_spec
from agentrun.store.rows import RunRow

SPECS_KEPT = 256


@dataclass(slots=True)
class Observer:
    """What observing needs besides the ports: clocks, and specs that were parsed before."""

    context: Context
    heartbeat: Heartbeat
    wall_clock: Callable[[], datetime]
    identity_verified: bool = True
    _specs: OrderedDict[str, AgentRunSpec] = field(default_factory=OrderedDict)

    async def world(self, key: ObjectKey, confirmed: Confirmed | None = None) -> World:
        """The world of the object that has this name now, or of nothing."""
        context, run = self.context, self.context.cache.runs.get(key)
        uid = run.metadata.uid if run is not None else ""
        pods, approvals = context.cache.pods_of(key), context.cache.approvals_of(key)
        row, store_up = await self._row(uid)
        spec, unreadable = self._spec(run, row)
        shown = run is not None and shows_end(run)
        return World(
            key=key,
            settings=context.settings,
            freshness=self.heartbeat.freshness(synced=context.cache.synced),
            now=self.wall_clock(),
            run=run,
            namespace_terminating=context.ledger.terminating(uid),
            row=row,
            store_up=store_up,
            spec=spec,
            unreadable=unreadable,
            problems=self._problems(run) if run is not None and row is None else (),
            pods=pods,
            approvals=approvals,
            confirmed=confirmed,
            trouble=context.ledger.trouble(uid),
            requested_age=context.ledger.requested_age(row) if row is not None else 0.0,
            stray_secrets=row is not None and context.ledger.stray_secrets(row, shown=shown),
            identity_verified=self.identity_verified,
        )

    async def gone(self, key: ObjectKey, uid: str) -> World:
        """The world of an object that is not there any more."""
        row, store_up = await self._row(uid)
        cache, ledger = self.context.cache, self.context.ledger
        run = cache.buried(key, uid)
        return World(
            key=key,
            settings=self.context.settings,
            freshness=self.heartbeat.freshness(synced=cache.synced),
            now=self.wall_clock(),
            gone_uid=uid,
            gone_run=run,
            row=row,
            store_up=store_up,
            pods=cache.pods_of(key),
            approvals=cache.approvals_of(key),
            stray_secrets=row is not None
            and ledger.stray_secrets(row, shown=run is not None and shows_end(run)),
        )

    async def _row(self, uid: str) -> tuple[RunRow | None, bool]:
        if not uid:
            return None, True
        try:
            row = await self.context.store.run(uid)
        except StoreUnavailable:
            return None, False
        if row is not None:
            self.context.ledger.note(row)
        return row, True

    def _spec(
        self, run: AgentRun | None, row: RunRow | None
    ) -> tuple[AgentRunSpec | None, Reason | None]:
        """The captured spec with what may change of the object's."""
        if run is None or row is None:
            return None, None
        try:
            captured = self._captured(row)
        except CheckpointNewer:
            return run.spec, Reason.CHECKPOINT_NEWER
        except CheckpointCorrupt:
            return run.spec, Reason.CHECKPOINT_CORRUPT
        return in_force(captured, run.spec), None

    def _captured(self, row: RunRow) -> AgentRunSpec:
        known = self._specs.get(row.spec_hash)
        if known is None:
            known = captured_spec(row.spec, row.spec_hash)
            self._specs[row.spec_hash] = known
            if len(self._specs) > SPECS_KEPT:
                self._specs.popitem(last=False)
        else:
            self._specs.move_to_end(row.spec_hash)
        return known

    def _problems(self, run: AgentRun) -> tuple[str, ...]:
        settings = self.context.settings
        manifest = run.model_copy(update={"status": None}).to_dict()
        try:
            validate_manifest(manifest, local=settings.local, policy=settings.policy)
        except InvalidSpec as error:
            return (error.message,)
        return ()


def in_force(captured: AgentRunSpec, current: AgentRunSpec) -> AgentRunSpec:
    """The captured spec is the truth for ever, except for the fields that may change."""
    limits = captured.limits.model_copy(
        update={name: getattr(current.limits, name) for name in MUTABLE_LIMITS}
    )
    changes: dict[str, object] = {name: getattr(current, name) for name in MUTABLE_FIELDS}
    return captured.model_copy(update={**changes, "limits": limits})
