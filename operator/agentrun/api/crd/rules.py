"""The CEL rules of the two kinds: modes, immutability, latches, decisions.

Only what one object shows and what stays within the API server's cost budget; everything that looks
across lists is the operator's (hazard H57). Rules do not see changes inside schemaless nodes
(hazard H38), therefore the spec that was captured first is the truth, and reviewed arguments are a
string.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pydantic import BaseModel

from agentrun.api.approval import ANSWERED, DECISION_FIELDS, DECISIONS, ApprovalSpec
from agentrun.api.base import cel, short_inline
from agentrun.api.limits import Limits
from agentrun.api.names import RUN_NAME_MAX
from agentrun.api.spec import MODES, MUTABLE_FIELDS, MUTABLE_LIMITS, AgentRunSpec
from agentrun.api.validation.paths import wire_name

Rule = dict[str, Any]

RUN_NAME: Final = (
    cel(
        f"size(self.metadata.name) <= {RUN_NAME_MAX}",
        f"the name of an AgentRun has at most {RUN_NAME_MAX} characters",
    ),
    cel(
        "!self.metadata.name.contains('.')",
        "the name of an AgentRun has no dots",
    ),
)


def run_spec_rules() -> list[Rule]:
    """Rules on ``AgentRun.spec``."""
    return [_one_mode(), short_inline("prompt"), _immutable_run(), _cancel_latches()]


def approval_spec_rules() -> list[Rule]:
    """Rules on ``Approval.spec`` (hazards H37 to H39)."""
    decision = _wire(ApprovalSpec, DECISION_FIELDS)
    content = _wire(
        ApprovalSpec, (n for n in ApprovalSpec.model_fields if n not in DECISION_FIELDS)
    )
    others = " || ".join(f"has(self.{name})" for name in decision if name != "decision")
    fits = ", ".join(f"'{scope}': {_words(choices)}" for scope, choices in DECISIONS.items())
    return [
        cel(_same(content), "only the decision fields of an Approval can be set"),
        cel(
            f"!has(oldSelf.decision) || (\n{_same(decision)})",
            "a decision is final: its fields are set once, together",
        ),
        cel(
            "!has(self.decision) || (oldSelf.hasValue())",
            "an Approval cannot be created already decided",
            optionalOldSelf=True,
        ),
        cel(
            f"has(self.decision) || !({others})",
            "decisionReason, answer and decidedBy are set together with decision",
        ),
        cel(
            f"!has(self.decision) || self.decision in {{{fits}}}[self.scope]",
            "this decision does not fit the scope: Approve or Deny for Tool, Plan, Round and Task; "
            "UseResult, RunAgain or Fail for Outcome; Answer or Deny for Question",
            fieldPath=".decision",
        ),
        cel(
            f"!has(self.decision) || "
            f"(self.decision in {_words(ANSWERED)}) == (has(self.answer) && self.answer != '')",
            "an answer is needed with Answer and UseResult, and only with them",
            fieldPath=".answer",
        ),
    ]


def approval_rules() -> list[Rule]:
    """Rules on the whole Approval: one that is not pending any more takes no decision (H72)."""
    return [
        cel(
            "has(self.spec.decision) == has(oldSelf.spec.decision) || !has(oldSelf.status) || "
            "!has(oldSelf.status.state) || oldSelf.status.state == 'Pending'",
            "this Approval is closed and takes no decision any more",
        )
    ]


def _one_mode() -> Rule:
    names = [wire_name(mode) for mode in MODES]
    given = ", ".join(
        f"has(self.{name}) && size(self.{name}) > 0" if name == "tasks" else f"has(self.{name})"
        for name in names
    )
    return cel(
        f"[{given}].filter(given, given).size() == 1", f"give exactly one of {', '.join(names)}"
    )


def _immutable_run() -> Rule:
    fields = _wire(
        AgentRunSpec,
        (n for n in AgentRunSpec.model_fields if n not in (*MUTABLE_FIELDS, "limits")),
    )
    limits = _wire(Limits, (n for n in Limits.model_fields if n not in MUTABLE_LIMITS))
    mutable = [
        *_wire(AgentRunSpec, MUTABLE_FIELDS),
        *(f"limits.{name}" for name in _wire(Limits, MUTABLE_LIMITS)),
    ]
    inner = _same(limits, "self.limits", "oldSelf.limits")
    return cel(
        f"{_same(fields)}\n&& has(self.limits) == has(oldSelf.limits)\n"
        f"&& (!has(self.limits) || (\n{inner}))",
        f"the spec is immutable, except for {', '.join(mutable)}",
    )


def _cancel_latches() -> Rule:
    return cel(
        "!has(oldSelf.cancel) || !oldSelf.cancel || (has(self.cancel) && self.cancel)",
        "cancel cannot be taken back",
        fieldPath=".cancel",
    )


def _same(names: Iterable[str], new: str = "self", old: str = "oldSelf") -> str:
    """Presence and value of every field are what they were."""
    return "\n&& ".join(
        f"has({new}.{name}) == has({old}.{name}) && "
        f"(!has({new}.{name}) || {new}.{name} == {old}.{name})"
        for name in names
    )


def _wire(model: type[BaseModel], attributes: Iterable[str]) -> list[str]:
    return [model.model_fields[name].alias or name for name in attributes]


def _words(values: Iterable[str]) -> str:
    """A CEL list of strings."""
    return "[" + ", ".join(f"'{value}'" for value in values) + "]"
