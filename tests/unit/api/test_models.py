"""The models: strict on the wire, frozen in the hand, and the same after a round trip."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from tests.unit.api.manifests import manifest, prompt_spec, released_spec

from agentrun import api
from agentrun.api import (
    AgentRun,
    AgentRunSpec,
    AgentSpec,
    Approval,
    Condition,
    ModelOverride,
    ModelSpec,
    ObjectMeta,
    Provider,
)
from agentrun.api.base import ApiModel

MODELS = [
    thing for thing in vars(api).values() if isinstance(thing, type) and issubclass(thing, ApiModel)
]
STATUS = {
    "AgentRunStatus",
    "ApprovalStatus",
    "AttemptStatus",
    "CheckpointStatus",
    "Condition",
    "ContinuedFrom",
    "TaskStatus",
    "TaskSummary",
    "Usage",
}
KUBERNETES = {"ObjectMeta", "OwnerReference"}


def test_public_names_are_exactly_what_is_exported() -> None:
    assert sorted(set(api.__all__)) == sorted(api.__all__)
    assert all(hasattr(api, name) for name in api.__all__)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_model_is_frozen_and_every_field_described(model: type[BaseModel]) -> None:
    assert model.model_config.get("frozen")
    lenient = model.__name__ in STATUS | KUBERNETES | {"ApiModel"}
    assert lenient or model.model_config.get("extra") == "forbid"
    for name, field in model.model_fields.items():
        assert field.description, f"{model.__name__}.{name} has no description"
        assert field.description.endswith("."), f"{model.__name__}.{name}"


def test_metadata_of_a_newer_cluster_is_accepted() -> None:
    meta = ObjectMeta.model_validate(
        {
            "name": "a",
            "managedFields": [{"manager": "kubectl"}],
            "selfLink": "/x",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
            ],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        }
    )
    assert meta.deleting
    assert meta.owner_references[0].controller


def test_status_of_a_newer_release_is_accepted() -> None:
    """A rollback of the operator must not turn live runs into invalid ones."""
    run = AgentRun.model_validate(
        {
            **manifest(**prompt_spec()),
            "status": {
                "attempt": 3,
                "reason": "SomethingNew",
                "surprise": {},
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "False",
                        "reason": "SomethingNew",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                        "more": 1,
                    }
                ],
            },
        }
    )
    assert run.status is not None
    assert (run.status.attempt, run.status.reason) == (3, "SomethingNew")


def test_round_trip_keeps_what_was_given_and_nothing_else() -> None:
    given = manifest(**released_spec())
    run = AgentRun.model_validate(given)
    assert run.to_dict() == given
    assert AgentRun.model_validate(run.to_dict()) == run


def test_attributes_and_wire_names_both_construct() -> None:
    assert AgentSpec(name="a", max_turns=3) == AgentSpec.model_validate(
        {"name": "a", "maxTurns": 3}
    )


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ({"limits": {"turns": "200"}}, "limits"),
        ({"limits": {"turns": True}}, "limits"),
        ({"limits": {"turns": 1.5}}, "limits"),
        ({"limits": {"turns": 0}}, "limits"),
        ({"limits": {"costUSD": 5}}, "limits"),
        ({"suspend": "true"}, "suspend"),
        ({"suspend": 1}, "suspend"),
        ({"lease": {"ttlSeconds": 2}}, "lease"),
        ({"lease": {"ttlSeconds": 3601}}, "lease"),
        ({"runId": "a b"}, "runId"),
        ({"runId": "a" * 129}, "runId"),
        ({"metadata": {f"k{n}": "" for n in range(33)}}, "metadata"),
        ({"metadata": {"Upper": ""}}, "metadata"),
    ],
)
def test_types_are_as_strict_as_the_api_server(part: dict[str, Any], value: str) -> None:
    with pytest.raises(ValidationError) as caught:
        AgentRunSpec.model_validate(prompt_spec(**part))
    assert caught.value.errors()[0]["loc"][0] == value


def test_times_are_utc_and_without_a_needless_fraction() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "Running"}
    east = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    exact = datetime(2026, 1, 2, 3, 4, 5, 60, tzinfo=UTC)
    assert (
        Condition.model_validate({**condition, "lastTransitionTime": east}).to_dict()[
            "lastTransitionTime"
        ]
        == "2026-01-02T01:04:05Z"
    )
    assert (
        Condition.model_validate({**condition, "lastTransitionTime": exact}).to_dict()[
            "lastTransitionTime"
        ]
        == "2026-01-02T03:04:05.000060Z"
    )
    with pytest.raises(ValidationError):
        Condition.model_validate({**condition, "lastTransitionTime": datetime(2026, 1, 2)})  # noqa: DTZ001


def test_agent_model_overrides_the_runs_field_by_field() -> None:
    spec = AgentRunSpec(
        model=ModelSpec(name="big", base_url="https://gateway", max_retries=9),
        agents=(
            AgentSpec(name="same"),
            AgentSpec(name="own", model=ModelOverride(name="small", base_url="")),
            AgentSpec(name="cloud", model=ModelOverride(provider=Provider.BEDROCK)),
        ),
    )
    same, own, cloud = (spec.model_of(agent) for agent in spec.agents)
    assert same == spec.model
    assert (own.name, own.base_url, own.max_retries) == ("small", "", 9)
    assert (cloud.name, cloud.provider) == ("big", Provider.BEDROCK)


def test_an_override_has_no_defaults_that_would_hide_the_runs_settings() -> None:
    assert all(field.default is None for field in ModelOverride.model_fields.values())
    assert set(ModelOverride.model_fields) == set(ModelSpec.model_fields)


def test_a_run_starts_with_the_agent_it_names() -> None:
    one, two = AgentSpec(name="one"), AgentSpec(name="two")
    assert AgentRunSpec(prompt="p", agents=(one,)).entry_agent == one
    assert AgentRunSpec(prompt="p", agents=(one, two)).entry_agent is None
    assert AgentRunSpec(prompt="p", agents=(one, two), agent="two").entry_agent == two
    assert AgentRunSpec(prompt="p", agents=(one,), agent="three").entry_agent is None


def test_an_approval_round_trips() -> None:
    given = {
        "apiVersion": "agentrun.dev/v1alpha1",
        "kind": "Approval",
        "metadata": {"name": "incident-42-apr-1a2b3c4d5e"},
        "spec": {
            "runRef": {"name": "incident-42", "uid": "u"},
            "scope": "Tool",
            "boundary": "look/1/3/0",
            "contentHash": "0" * 64,
            "content": {"tool": "ops.restart", "argumentsJSON": "{}", "callId": "toolu_01"},
            "policy": {"users": ["alice"], "groups": [], "notUser": "bob"},
            "expiresAt": "2026-01-02T03:04:05Z",
            "decision": "Approve",
        },
        "status": {"state": "Approved"},
    }
    assert Approval.model_validate(given).to_dict() == given
