"""Arguments are checked against whatever a server calls a schema: nothing is fetched, nothing hangs.

Where a hang is the danger, the test's own timeout is what would fail.
"""

from __future__ import annotations

import socket
import urllib.request

import pytest
from tests.unit.run.pure_runner import PureRunner, asks, make_spec, offer, text

from agentrun.run import schema as schemas
from agentrun.run.records import Json
from agentrun.run.schema import schema_problem

DRAFT4 = "http://json-schema.org/draft-04/schema#"
DRAFT7 = "http://json-schema.org/draft-07/schema#"
DRAFT2020 = "https://json-schema.org/draft/2020-12/schema"
HARD = "^(a+)+$"


@pytest.mark.parametrize(
    ("schema", "arguments", "fits"),
    [
        ({"type": "object", "required": ["a"]}, {"a": 1}, True),
        ({"type": "object", "required": ["a"]}, {}, False),
        ({"type": "object"}, [], False),
        ({"type": "nonsense"}, {}, True),
        ({"type": ["object", "null"]}, {}, True),
        (None, {}, True),
        (True, {}, True),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"a": 1}, True),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"b": 1}, False),
        ({"additionalProperties": {"type": "string"}}, {"b": 1}, False),
        ({"additionalProperties": False, "patternProperties": {"^x-": {}}}, {"x-a": 1}, True),
        ({"additionalProperties": False, "patternProperties": {"^x-": {}}}, {"y": 1}, False),
        ({"patternProperties": {"^x-": {"type": "string"}}}, {"x-a": 1}, False),
        ({"properties": {"a": {"pattern": "^[a-z]+$"}}}, {"a": "ok"}, True),
        ({"properties": {"a": {"pattern": "^[a-z]+$"}}}, {"a": "NO"}, False),
        ({"properties": {"a": {"pattern": "(?=x)"}}}, {"a": "y"}, True),
        ({"properties": {"a": {"pattern": "("}}}, {"a": "y"}, True),
        ({"properties": {"a": {"pattern": "x"}}}, {"a": "\ud800"}, True),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [1, 1]}, False),
        ({"properties": {"a": {"multipleOf": 0.1}}}, {"a": 10**400}, True),
        ({"properties": {"a": {"enum": [10**30]}}}, {"a": 10**30}, True),
        ({"$ref": "#/required", "required": ["a"]}, {"a": 1}, True),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"required": ["a"]}}}, {}, False),
        ({"$ref": "#/$defs/none"}, {}, True),
        ({"unevaluatedProperties": False}, {"a": 1}, True),
        ({"$schema": DRAFT7, "definitions": {"n": {"required": ["a"]}}, "$ref": "#/definitions/n"}, {}, False),
        ({"$schema": DRAFT7, "properties": {"a": {"items": [{"type": "string"}]}}}, {"a": [1]}, False),
        ({"$schema": DRAFT4, "properties": {"a": {"minimum": 3, "exclusiveMinimum": True}}}, {"a": 3}, False),
        ({"$schema": "urn:no-such-draft", "required": ["a"]}, {}, False),
        ({"$schema": ["odd"], "required": ["a"]}, {}, True),
        ({"$schema": DRAFT2020, "properties": {"a": {"$schema": DRAFT7}}, "required": ["b"]}, {}, True),
    ],
)  # fmt: skip
def test_arguments_are_checked_where_the_schema_is_one(
    schema: Json, arguments: Json, fits: bool
) -> None:
    assert (schema_problem(schema, arguments) is None) is fits


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "create_connection", forbidden)
    monkeypatch.setattr(urllib.request, "urlopen", forbidden)
    for reference in ("http://127.0.0.1:1/schema", "file:///etc/passwd", "other.json", "urn:x"):
        for schema in (
            {"$ref": reference},
            {"$id": reference, "$ref": "#/x"},
            {"$schema": reference},
            {"$dynamicRef": reference},
        ):
            assert schema_problem(schema, {"a": 1}) is None


def doubling(levels: int) -> Json:
    """A small schema that stands for two to the ``levels`` rules."""
    defs = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{levels}": {"required": ["a"]}}}


def nots(depth: int) -> Json:
    schema: Json = {"type": "string"}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


MIXED = [value for number in range(5000) for value in (number, f"{number:x}z")]


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"properties": {"a": {"pattern": HARD}}}, {"a": "a" * 60 + "!"}),
        ({"propertyNames": {"pattern": HARD}}, {"a" * 60 + "!": 1}),
        ({"patternProperties": {HARD: {}}, "additionalProperties": False}, {"a" * 60 + "!": 1}),
        ({"patternProperties": {HARD: {}}, "unevaluatedProperties": False}, {"a" * 60 + "!": 1}),
        ({"properties": {"a": {"pattern": "(.*a){25}"}}}, {"a": "b" * 60_000}),
        (
            {
                "$schema": DRAFT7,
                "properties": {"a": {"$ref": "#/properties/b"}, "b": {"pattern": HARD}},
            },
            {"a": "a" * 60 + "!"},
        ),
        (
            {"$schema": DRAFT2020, "properties": {"v": {"pattern": HARD}, "a": {"$ref": "#"}}},
            {"a": {"a": {"v": "a" * 60 + "!"}}},
        ),
        (
            {"properties": {"a": {"$schema": DRAFT7, "pattern": HARD}}},
            {"a": "a" * 60 + "!"},
        ),
        (doubling(40), {}),
        ({"$ref": "#"}, {}),
        ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, {}),
        (nots(3000), {}),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": MIXED}),
        ({"$schema": DRAFT4, "properties": {"q": {"enum": MIXED}}}, {"q": "no"}),
        ({"required": MIXED}, {}),
        ({"properties": {"a": {"anyOf": [{"type": "integer"}] * 1500}}}, {"a": "x" * 8_000_000}),
        ({"properties": {"a": {"items": {"type": "string"}}}}, {"a": list(range(300_000))}),
        ({"properties": {str(n): {"description": "x" * 100} for n in range(20_000)}}, {}),
    ],
)
def test_no_schema_takes_long(schema: Json, arguments: Json) -> None:
    schema_problem(schema, arguments)


def test_rules_are_counted_and_the_count_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "STEPS", 500)
    for levels, found in ((4, True), (12, False)):
        endless = doubling(levels)
        schema = {"allOf": [{"$ref": "#/$defs/d0"}, {"required": ["b"]}], "$defs": endless["$defs"]}
        assert (schema_problem(schema, {"a": 1}) is not None) is found


def test_a_long_value_does_not_hide_what_is_wrong_with_it() -> None:
    problem = schema_problem({"properties": {"a": {"type": "integer"}}}, {"a": "x" * 5000})
    assert problem is not None
    assert "is not of type 'integer'" in problem
    assert len(problem) < 400


def test_the_answer_is_the_same_whatever_was_asked_before() -> None:
    """Else an attempt could refuse a call that the one before it had sent."""
    schema = {"properties": {str(n): {"type": "string"} for n in range(300)}, "required": ["x"]}
    long: Json = {"a": "y" * 1_000_000}
    first = schema_problem(schema, long)
    schemas._validator.cache_clear()
    schemas._problem.cache_clear()
    assert schema_problem(schema, {}) is not None
    assert schema_problem(schema, long) == first


def test_a_round_of_many_calls_is_not_checked_again_at_every_step() -> None:
    schemas._problem.cache_clear()
    runner = PureRunner(
        make_spec(),
        lambda turn, _: asks(*["look"] * 20, turn=1) if turn == 1 else text("done"),
        offers=(offer("look", {"type": "object", "required": ["n"]}),),
    )
    runner.attempt().run()
    assert len(runner.calls) == 20
    assert schemas._problem.cache_info().misses <= 20
