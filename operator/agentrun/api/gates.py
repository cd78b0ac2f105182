"""Gates of a run: where it waits for people, who they are, and what happens when none comes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from agentrun.api.base import ApiModel, unique
from agentrun.api.bounds import Flag, Seconds, User

Users = Annotated[tuple[User, ...], Field(max_length=64)]


class OnTimeout(StrEnum):
    """What an expired approval counts as."""

    DENY = "Deny"
    FAIL = "Fail"
    APPROVE = "Approve"


class Approvers(ApiModel):
    """Who may decide; empty: whoever has the permission."""

    users: Users = Field((), description="User names.", json_schema_extra=unique())
    groups: Users = Field((), description="Group names.", json_schema_extra=unique())


class Gates(ApiModel):
    """``spec.approvals``. Gates on single tools are in toolPolicies."""

    plan: Flag = Field(False, description="Gate the coordinator's plan.")
    rounds: Flag = Field(False, description="Gate each wave of newly ready tasks.")
    tasks: Annotated[
        tuple[
            Annotated[str, Field(min_length=1, max_length=63, pattern=r"^(\*|[-a-z0-9]+)$")], ...
        ],
        Field(max_length=300),
    ] = Field(
        (), description="Gate the dispatch of these tasks; * is all.", json_schema_extra=unique()
    )
    expires_after_seconds: Seconds | None = Field(
        None, description="Lifetime of an approval request; absent: it waits for ever."
    )
    on_timeout: OnTimeout = Field(OnTimeout.DENY, description="What an expired request counts as.")
    approvers: Approvers = Field(
        Approvers(), description="Who may decide; empty: whoever has the permission."
    )
    separation_of_duties: Flag = Field(False, description="Whoever started the run may not decide.")
