"""What a run may use up, how its ownership is timed, and how long its record is kept."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, Strict

from agentrun.api.base import ApiModel
from agentrun.api.bounds import Decimal, Positive, Seconds

FaultCount = Annotated[int, Strict(), Field(ge=0, le=10_000)]
Concurrency = Annotated[int, Strict(), Field(ge=1, le=64)]
LeaseTtl = Annotated[int, Strict(), Field(ge=3, le=3600)]
StallSeconds = Annotated[int, Strict(), Field(ge=1, le=86_400)]
KeepSeconds = Annotated[int, Strict(), Field(ge=0, le=3_153_600_000)]


class OnExceeded(StrEnum):
    """What a spent budget does to the run."""

    SUSPEND = "Suspend"
    FAIL = "Fail"


class OnUnreachable(StrEnum):
    """What is done about a pod whose node does not answer."""

    TAKE_OVER = "TakeOver"
    WAIT_FOR_POD = "WaitForPod"


class Limits(ApiModel):
    """Faults, deadlines and budgets. turns, tokens, costUSD and activeDeadlineSeconds may change."""

    retries: FaultCount = Field(6, description="App faults before the run fails.")
    infra_retries: FaultCount = Field(20, description="Infra faults before the run fails.")
    start_deadline_seconds: Seconds = Field(
        600, description="Time until the first commit; later attempts wait as long as it takes."
    )
    active_deadline_seconds: Seconds | None = Field(
        None, description="Budget: sum of the time attempts were running; absent: none. Mutable."
    )
    deadline_seconds: Seconds | None = Field(
        None, description="Wall clock since creation, waiting included; absent: none."
    )
    turns: Positive | None = Field(
        None, description="Budget: model calls of the whole run; absent: none. Mutable."
    )
    tokens: Positive | None = Field(
        None, description="Budget: tokens of the whole run; absent: none. Mutable."
    )
    cost_usd: Decimal | None = Field(
        None,
        alias="costUSD",
        description="Budget: US dollars of the whole run, as a decimal; absent: none. Mutable.",
    )
    on_exceeded: OnExceeded = Field(
        OnExceeded.SUSPEND, description="What a spent budget does: wait to be raised, or fail."
    )
    max_concurrency: Concurrency = Field(4, description="Tasks at once.")


class Lease(ApiModel):
    """How an attempt holds the run."""

    ttl_seconds: LeaseTtl = Field(60, description="Lifetime of the lease without renewal.")
    stall_seconds: StallSeconds = Field(
        900, description="Time without progress after which the lease is no longer renewed."
    )
    on_unreachable: OnUnreachable = Field(
        OnUnreachable.TAKE_OVER,
        description="Whether an expired lease is taken over, or the pod is waited for.",
    )


class Retention(ApiModel):
    """How long the record outlives the object."""

    content_seconds: KeepSeconds = Field(
        86_400, description="Content (conversations, tool data) after the object is gone."
    )
    audit_seconds: KeepSeconds = Field(
        31_536_000, description="Hashes, counts and decisions after the object is gone."
    )
