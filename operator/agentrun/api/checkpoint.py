"""Which bookmarks are kept and what happens when a commit cannot be written."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from agentrun.api.base import ApiModel
from agentrun.api.bounds import Flag


class Position(StrEnum):
    """After which boundaries a bookmark is kept. Commits happen at all boundaries regardless."""

    AFTER_TOOLS = "AfterTools"
    AFTER_MODEL = "AfterModel"
    BOTH = "Both"


class OnSaveFailure(StrEnum):
    """What a result that cannot be written does to the run."""

    CONTINUE = "Continue"
    FAIL = "Fail"


class Redaction(ApiModel):
    """What is masked before it is recorded."""

    enabled: Flag = Field(False, description="Masks secrets before anything is recorded.")
    patterns: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=512)], ...], Field(max_length=64)
    ] = Field((), description="Further regular expressions to mask.")


class Checkpoint(ApiModel):
    """How the run is recorded."""

    enabled: Flag = Field(
        True, description="Whether a replaced pod goes on from the last commit, or starts over."
    )
    position: Position = Field(
        Position.AFTER_TOOLS, description="After which boundaries a bookmark is kept."
    )
    on_save_failure: OnSaveFailure = Field(
        OnSaveFailure.CONTINUE,
        description="Continue retries a failed save with the next one, Fail ends the run.",
    )
    journal: Flag = Field(True, description="Keep folded commits after a snapshot.")
    redaction: Redaction = Field(Redaction(), description="What is masked before it is recorded.")
