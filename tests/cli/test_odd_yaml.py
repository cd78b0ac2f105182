"""What a manifest file may hold besides a manifest: one message with the line, and no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrun.cli.apply import in_their_namespace
from agentrun.cli.manifests import Manifest, read_manifests
from agentrun.cli.where import Where
from agentrun.devmodel import load_script
from agentrun.errors import UsageError

BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
MERGES = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{','.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12)
)
REFUSED = {
    "a date of a thirteenth month": ("a: 1\nb: 2001-13-01", ":2", "quote it"),
    "an hour that is none": ("a: 2001-01-01T99:99:99Z", ":1", "quote it"),
    "a tag that lies": ("a: !!int x", ":1", "quote it"),
    "a float that is none": ("a: !!float x", ":1", "quote it"),
    "a time that is none": ("a: !!timestamp x", ":1", "quote it"),
    "a list in itself": ("a: &a [*a]", ":1", "contains itself"),
    "a list of lists in itself": ("kind: List\nitems: &i [{items: *i}]", ":2", "contains itself"),
    "metadata in itself": ("kind: AgentRun\nmetadata: &m {labels: *m}", ":2", "contains itself"),
    "a bomb": (BOMB, ":7", "aliases come to more than"),
    "a bomb of merges": (MERGES, ":", "aliases come to more than"),
    "a kind that is a list": ("kind: [1]", "", "kind: must be a string"),
    "a kind that is a mapping": ("kind: {a: b}", "", "kind: must be a string"),
    "a tower": ("[" * 20_000, "", "not YAML"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_odd_yaml_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    text, line, why = REFUSED[name]
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=why) as caught:
        read_manifests([file])
    assert f"{file}{line}" in str(caught.value)


def test_aliases_that_are_only_handy_are_read(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("x: &x {a: 1}\ny: *x\nz: {<<: *x, b: [*x, *x]}")
    (manifest,) = read_manifests([file])
    assert manifest.document["z"] == {"a": 1, "b": [{"a": 1}, {"a": 1}]}


def test_a_namespace_that_is_no_string_is_left_to_the_check_of_the_fields() -> None:
    manifest = Manifest({"metadata": {"namespace": [1]}}, "run.yaml#1")
    where = Where(cluster=False)
    assert in_their_namespace(where, [manifest]) == where


@pytest.mark.parametrize("text", ["a: !!timestamp x", "a: !!int x", "? {a: b}\n: c"])
def test_a_script_that_cannot_be_read_says_so(text: str, tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(text)
    with pytest.raises(UsageError):
        load_script(file)
