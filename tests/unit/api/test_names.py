"""Names derived from a run: the same for everyone, and short enough for a label."""

from __future__ import annotations

import re
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrun.api import names

run_names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,44}[a-z0-9])?", fullmatch=True)
uids = st.one_of(st.uuids().map(str), st.text(min_size=1, max_size=60))
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def test_pod_name_is_run_uid_and_attempt() -> None:
    uid = "1a2b3c4d-0000-4000-8000-000000000000"
    assert names.pod_name("incident-42", uid, 1) == "incident-42-1a2b3-1"


def test_approval_name_is_stable_and_short() -> None:
    first = names.approval_name("incident-42", "apr_0123")
    assert first == names.approval_name("incident-42", "apr_0123")
    assert re.fullmatch(r"incident-42-apr-[0-9a-f]{10}", first)
    assert first != names.approval_name("incident-42", "apr_0124")


@settings(deadline=None)
@given(run_names, uids, st.integers(1, 999_999_999))
def test_names_of_a_valid_run_are_labels(run: str, uid: str, attempt: int) -> None:
    assert names.valid_run_name(run)
    pod = names.pod_name(run, uid, attempt)
    assert LABEL.fullmatch(pod)
    assert pod.startswith(f"{run}-")
    assert pod.endswith(f"-{attempt}")
    assert LABEL.fullmatch(names.approval_name(run, uid))
    assert len(names.secret_name(pod, "k3x9q")) <= 253


@settings(deadline=None)
@given(run_names, st.uuids(), st.uuids())
def test_h23_a_recreated_run_has_other_pods(run: str, old: uuid.UUID, new: uuid.UUID) -> None:
    same = str(old)[:5] == str(new)[:5]
    assert (names.pod_name(run, str(old), 1) == names.pod_name(run, str(new), 1)) is same


def test_h22_a_run_never_owns_the_name_of_a_statefulsets_pod() -> None:
    assert names.pod_name("postgres", str(uuid.UUID(int=7)), 1) != "postgres-1"


@pytest.mark.parametrize("name", ["", "-a", "a-", "a.b", "A", "ä", "a" * 47, "a\n"])
def test_names_that_no_run_may_have(name: str) -> None:
    assert not names.valid_run_name(name)


def test_too_long_a_run_name_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="longer than 63"):
        names.pod_name("a" * 60, "1a2b3", 1)


@pytest.mark.parametrize("suffix", ["", "A", "a-b", "a" * 33])
def test_h50_secret_suffix_is_plain(suffix: str) -> None:
    with pytest.raises(ValueError, match="suffix"):
        names.secret_name("incident-42-1a2b3-1", suffix)


def test_labels_of_owned_objects() -> None:
    labels = names.run_labels(
        "incident-42", "uid-1", component="runner", version="0.1.0", attempt=2
    )
    assert labels == {
        "agentrun.dev/run": "incident-42",
        "agentrun.dev/run-uid": "uid-1",
        "agentrun.dev/attempt": "2",
        "app.kubernetes.io/name": "agentrun",
        "app.kubernetes.io/instance": "incident-42",
        "app.kubernetes.io/version": "0.1.0",
        "app.kubernetes.io/component": "runner",
        "app.kubernetes.io/part-of": "agentrun",
        "app.kubernetes.io/managed-by": "agentrun-operator",
    }
    assert "agentrun.dev/attempt" not in names.run_labels("a", "b", component="approval")


@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        ("agentrun.dev/run", True),
        ("x.agentrun.dev/run", True),
        ("app.kubernetes.io/name", True),
        ("kubernetes.io/metadata.name", True),
        ("node.k8s.io/a", True),
        ("k8s.io/a", True),
        ("kueue.x-k8s.io/queue-name", False),
        ("example.com/team", False),
        ("notkubernetes.io/a", False),
        ("team", False),
        ("kubernetes.io", False),
    ],
)
def test_h51_reserved_prefixes(key: str, reserved: bool) -> None:
    assert names.reserved_key(key) is reserved
