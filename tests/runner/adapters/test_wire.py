"""Wire names: what the provider allows, all different, and the same in every attempt."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrun.run.wire import WIRE_NAME_MAX, wire_name, wire_names

ALLOWED = re.compile(r"[A-Za-z0-9_-]{1,64}")
SERVERS = st.text("abc-_0", min_size=1, max_size=24)
TOOLS = st.tuples(SERVERS, st.one_of(st.text("abc_.-/ é", max_size=80), st.text(max_size=80)))


def test_a_name_that_fits_stays_as_it_is() -> None:
    assert wire_name("ops", "restart") == "ops__restart"
    assert wire_names([("ops", "restart")]) == {("ops", "restart"): "ops__restart"}


@pytest.mark.parametrize("tool", ["a.b", "a b", "größe", "x" * 100, "\ud800", ""])
def test_any_other_is_made_to_fit(tool: str) -> None:
    assert ALLOWED.fullmatch(wire_name("ops", tool))
    assert wire_name("ops", tool).startswith("ops__")


def test_names_that_differ_only_in_what_is_replaced_stay_different() -> None:
    assert wire_name("ops", "a.b") != wire_name("ops", "a/b")


def test_equal_plain_names_both_get_a_hash() -> None:
    names = wire_names([("a", "b__c"), ("a__b", "c")])
    assert len(set(names.values())) == 2
    assert "a__b__c" not in names.values()


def test_a_server_cannot_take_the_name_of_another() -> None:
    honest = wire_name("a", "x.y")
    impostor = ("a", honest.removeprefix("a__"))
    names = wire_names([("a", "x.y"), impostor])
    assert len(set(names.values())) == 2


@given(st.lists(TOOLS, max_size=12))
def test_names_are_allowed_different_and_independent_of_order(tools: list[tuple[str, str]]) -> None:
    names = wire_names(tools)
    assert set(names) == set(tools)
    assert len(set(names.values())) == len(set(tools))
    assert all(ALLOWED.fullmatch(name) and len(name) <= WIRE_NAME_MAX for name in names.values())
    assert wire_names(tools[::-1]) == names
