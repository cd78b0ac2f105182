"""The local object store with several programs at it, and what people may do there."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.cluster_port.scenes import (
    approval_for,
    config,
    key_of,
    manifest,
    pod_for,
    secret_for,
    until,
    user_secret,
)

from agentrun.api import AgentRun, AgentRunStatus, Approval, ApprovalPolicy, Decision, Phase
from agentrun.api.validation.manifest import parse
from agentrun.cluster.local.adapter import LocalCluster
from agentrun.cluster.local.open import open_local_cluster, open_local_user
from agentrun.cluster.local.pod_spec import Commands
from agentrun.cluster.local.store import ObjectStore
from agentrun.cluster.local.user import LocalUserCluster, Person
from agentrun.cluster.values import ClusterEvent, ObjectKey
from agentrun.errors import AlreadyExists, ClusterUnavailable, Conflict, Forbidden, Rejected

KEY = ObjectKey("default", "one")


def thing(name: str = "one", **spec: Any) -> dict[str, Any]:
    return {"kind": "Thing", "metadata": {"namespace": "default", "name": name}, "spec": spec}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    made = open_store(tmp_path / "objects.db")
    yield made
    made.close()


def open_store(path: Path) -> ObjectStore:
    uids = count(1)
    moment = datetime(2026, 11, 30, 14, tzinfo=UTC)
    return ObjectStore(path, clock=lambda: moment, new_uid=lambda: f"{os.getpid()}-{next(uids)}")


@pytest.fixture
async def cluster(state: Path) -> AsyncIterator[LocalCluster]:
    made = open_local_cluster(state, commands=Commands(runner=("sh", "-c", "exit 0")))
    yield made
    await made.close()


@pytest.fixture
async def user(state: Path, cluster: LocalCluster) -> AsyncIterator[LocalUserCluster]:
    made = open_local_user(state)
    yield made
    await made.close()


def test_generation_counts_changes_of_the_spec(store: ObjectStore) -> None:
    made = store.create("Thing", thing(size=1))
    labelled = store.update("Thing", KEY, lambda body: {**body, "status": {"fine": True}})
    grown = store.update("Thing", KEY, lambda body: {**body, "spec": {"size": 2}})
    same = store.update("Thing", KEY, lambda body: {**body, "spec": {"size": 2}})
    generations = [body["metadata"]["generation"] for body in (made, labelled, grown, same)]
    versions = [int(body["metadata"]["resourceVersion"]) for body in (made, labelled, grown, same)]
    assert generations == [1, 1, 2, 2]
    assert versions[0] < versions[1] < versions[2] == versions[3]


def test_versions_are_never_used_again(store: ObjectStore) -> None:
    first = store.create("Thing", thing())
    store.remove("Thing", KEY)
    second = store.create("Thing", thing())
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    with pytest.raises(Conflict):
        store.update("Thing", KEY, dict, version=first["metadata"]["resourceVersion"])
    with pytest.raises(Conflict):
        store.remove("Thing", KEY, uid=first["metadata"]["uid"])


def test_a_failed_change_leaves_nothing(store: ObjectStore) -> None:
    store.create("Thing", thing(size=1))
    before = store.version()

    def fail(_: dict[str, Any]) -> dict[str, Any]:
        store.update("Thing", KEY, lambda body: {**body, "spec": {"size": 2}})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.update("Thing", KEY, fail)
    assert store.get("Thing", KEY)["spec"] == {"size": 1}
    assert store.version() == before


@pytest.mark.parametrize(
    "text", ["", "nope", "[]", '"x"', "{}", '{"a": 1}', '{"metadata": 7}', "[" * 100_000, "null"]
)
def test_a_damaged_object_is_named_and_does_not_hide_the_others(
    store: ObjectStore, tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.create("Thing", thing())
    store.create("Thing", thing("two"))
    with sqlite3.connect(tmp_path / "objects.db") as file:
        file.execute("UPDATE object SET body = ? WHERE name = 'one'", (text,))
    for _ in range(3):
        assert [body["metadata"]["name"] for body in store.all_of("Thing")] == ["two"]
    assert caplog.messages == ["Thing default/one in objects.db is damaged"]
    for use in (
        lambda: store.get("Thing", KEY),
        lambda: store.update("Thing", KEY, dict),
        lambda: store.remove("Thing", KEY),
    ):
        with pytest.raises(ClusterUnavailable, match="Thing default/one is damaged"):
            use()


def test_a_file_that_cannot_be_opened_is_an_api_server_that_does_not_answer(tmp_path: Path) -> None:
    with pytest.raises(ClusterUnavailable, match="unable to open"):
        open_store(tmp_path)


def test_a_damaged_file_is_an_api_server_that_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(ClusterUnavailable):
        open_store(path)


def test_constants_are_made_once(store: ObjectStore, tmp_path: Path) -> None:
    other = open_store(tmp_path / "objects.db")
    assert store.constant("namespace/default") == other.constant("namespace/default")
    assert store.constant("namespace/other") != store.constant("namespace/default")
    other.close()


PROGRAM = """
import sys
from pathlib import Path
from agentrun.errors import AlreadyExists, Conflict
from tests.cluster_port.test_local_store import KEY, open_store, thing

store = open_store(Path(sys.argv[1]))
lost = 0
for _ in range(50):
    while True:
        seen = store.get("Thing", KEY)
        size = seen["spec"]["size"] + 1
        try:
            store.update(
                "Thing", KEY, lambda body: {**body, "spec": {"size": size}},
                version=seen["metadata"]["resourceVersion"],
            )
            break
        except Conflict:
            lost += 1
made = 0
for number in range(50):
    try:
        store.create("Thing", thing(f"n{number}"))
        made += 1
    except AlreadyExists:
        pass
print(made, lost)
store.close()
"""


def test_programs_do_not_overwrite_each_other(store: ObjectStore, tmp_path: Path) -> None:
    store.create("Thing", thing(size=0))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "objects.db")]
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    made = sum(int(program.communicate()[0].split()[0]) for program in programs)
    assert [program.returncode for program in programs] == [0] * 4
    body = store.get("Thing", KEY)
    assert body["spec"]["size"] == 200
    assert body["metadata"]["generation"] == 201
    assert made == 50
    assert len(store.all_of("Thing")) == 51


def test_a_program_killed_while_writing_loses_only_its_own_change(
    store: ObjectStore, tmp_path: Path
) -> None:
    store.create("Thing", thing(size=0))
    endless = PROGRAM.replace("range(50)", "range(10**9)").replace(
        "lost = 0", "print('go', flush=True)"
    )
    command = [sys.executable, "-c", endless, str(tmp_path / "objects.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        seen = store.get("Thing", KEY)["spec"]["size"]
        while store.get("Thing", KEY)["spec"]["size"] == seen:
            pass
        program.kill()
    body = store.get("Thing", KEY)
    assert body["metadata"]["generation"] == body["spec"]["size"] + 1
    store.update("Thing", KEY, lambda old: {**old, "spec": {"size": -1}})
    with sqlite3.connect(tmp_path / "objects.db") as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    raw.close()


async def test_a_watch_sees_what_other_programs_change(
    state: Path, cluster: LocalCluster, user: LocalUserCluster
) -> None:
    async with aclosing(cluster.changes()) as changes:  # type: ignore[type-var]
        await user.apply(config("c", a="1"))
        await user.apply(user_secret("s", a="1"))
        await user.apply(manifest("one"))
        assert await anext(changes) == KEY
        run = await user.get_run("one")
        await cluster.emit(ClusterEvent(run=run, type="Normal", reason="R", action="A", note=""))
        await cluster.patch_run_status(run, AgentRunStatus(phase=Phase.RUNNING))
        assert await anext(changes) == KEY
        made = await cluster.create_approval(approval_for(run))
        assert await anext(changes) == KEY
        await user.decide(made.metadata.name, Decision.APPROVE)
        assert await anext(changes) == KEY
        await user.apply(manifest("two"))
        assert await anext(changes) == ObjectKey("default", "two")
        await user.remove_run("two")
        assert await anext(changes) == ObjectKey("default", "two")


async def test_a_watch_misses_nothing_between_its_making_and_its_first_look(
    cluster: LocalCluster, user: LocalUserCluster
) -> None:
    await user.apply(manifest("before"))
    async with aclosing(cluster.changes()) as changes:  # type: ignore[type-var]
        await user.apply(manifest("one"))
        assert await anext(changes) == KEY


async def test_a_watch_sees_the_end_of_a_pod(cluster: LocalCluster, user: LocalUserCluster) -> None:
    await user.apply(manifest("one"))
    run = await user.get_run("one")
    await cluster.create_secret(secret_for(run, pod_for(run).secret_name))
    async with aclosing(cluster.changes()) as changes:  # type: ignore[type-var]
        pod = await cluster.create_pod(pod_for(run))
        async for key in changes:
            assert key == KEY
            if (await cluster.get_pod(pod.key)).runner_end is not None:
                break


async def test_an_idle_watch_writes_nothing(cluster: LocalCluster, user: LocalUserCluster) -> None:
    await user.apply(manifest("one"))
    store = cluster.state.store
    async with aclosing(cluster.changes()) as changes:  # type: ignore[type-var]
        waiting = asyncio.ensure_future(anext(changes))
        before = store.version()
        await asyncio.wait([waiting], timeout=0.7)
        assert store.version() == before
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_events_of_a_run_do_not_grow_without_end(
    cluster: LocalCluster, user: LocalUserCluster
) -> None:
    await user.apply(manifest("one"))
    run = await user.get_run("one")
    for number in range(205):
        event = ClusterEvent(run=run, type="Normal", reason=f"R{number}", action="A", note="")
        await cluster.emit(event)
    events = await user.events("one")
    assert [events[0].reason, events[-1].reason] == ["R5", "R204"]
    assert len(events) == 200


async def test_the_requester_is_the_person(user: LocalUserCluster) -> None:
    await user.apply(manifest("one", requestedBy="somebody else"))
    run = await user.get_run("one")
    assert run.spec.requested_by not in ("", "somebody else")
    assert (await user.apply(manifest("one", requestedBy="a third"))).outcome == "unchanged"


async def test_applying_again_keeps_what_was_changed_beside(user: LocalUserCluster) -> None:
    """As with kubectl: what the manifest does not mention stays."""
    await user.apply(manifest("one", limits={"turns": 5}))
    await user.change_run("one", {"suspend": True, "limits": {"tokens": 1000}})
    assert (await user.apply(manifest("one", limits={"turns": 6}))).outcome == "configured"
    spec = (await user.get_run("one")).spec
    assert (spec.suspend, spec.limits.turns, spec.limits.tokens) == (True, 6, 1000)


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"name": "another"}},
        {"limits": {"retries": 1}},
        {"agents": []},
        {"requestedBy": "mallory"},
        {"sessionId": "s"},
        {"nonsense": 1},
        {"suspend": "yes"},
    ],
)
async def test_changes_that_are_refused(user: LocalUserCluster, change: dict[str, Any]) -> None:
    await user.apply(manifest("one"))
    before = await user.get_run("one")
    with pytest.raises(Rejected):
        await user.change_run("one", change)
    assert await user.get_run("one") == before


@pytest.mark.parametrize(
    "bad",
    [
        {"metadata": {}},
        {"metadata": {"name": "x"}, "stringData": {"a/b": "1"}},
        {"metadata": {"name": "x"}, "stringData": {"..": "1"}},
        {"metadata": {"name": "x"}, "stringData": {"a": 1}},
        {"metadata": {"name": "x"}, "data": {"a": "not base64!"}},
        {"metadata": {"name": "x"}, "data": "a"},
        {"metadata": {"name": "x"}, "stringData": ["a"]},
        {"metadata": {"name": "x"}, "stringdata": {"a": "b"}},
        {"metadata": "x"},
    ],
)
async def test_secrets_that_are_refused(user: LocalUserCluster, bad: dict[str, Any]) -> None:
    with pytest.raises(Rejected) as caught:
        await user.apply({"apiVersion": "v1", "kind": "Secret", **bad})
    assert "not base64!" not in str(caught.value)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"metadata": "x"}, "metadata: must be a mapping"),
        ({"metadata": {"name": "../x"}}, "metadata.name: must be"),
        ({"metadata": {"name": "x", "namespace": 5}}, "metadata.namespace: must be a string"),
        ({"metadata": {"name": "x"}, "dta": {"a": "b"}}, "dta: unknown field; did you mean data?"),
        ({"metadata": {"name": "x"}, "binaryData": {"a": "YQ=="}}, "binaryData: unknown field"),
        ({"metadata": {"name": "x"}, "data": ["a"]}, "data: must be a mapping"),
        ({"metadata": {"name": "x"}, "data": {"a": 1}}, "data.a: must be a string"),
        ({"apiVersion": "v2", "metadata": {"name": "x"}}, "apiVersion: must be v1"),
    ],
)
async def test_config_maps_that_are_refused(
    user: LocalUserCluster, bad: dict[str, Any], words: str
) -> None:
    with pytest.raises(Rejected) as caught:
        await user.apply({"apiVersion": "v1", "kind": "ConfigMap", **bad})
    assert words in str(caught.value)


async def test_checking_finds_what_applying_would_and_writes_nothing(
    user: LocalUserCluster,
) -> None:
    await user.check(manifest("one"))
    assert await user.list_runs() == []
    await user.apply(manifest("one"))
    with pytest.raises(Rejected, match="immutable"):
        await user.check(manifest("one", prompt="something else"))
    with pytest.raises(Rejected, match="required"):
        await user.check({"apiVersion": "v1", "kind": "Secret"})


async def test_a_run_of_another_installation_is_refused_where_it_would_wait_for_ever(
    user: LocalUserCluster,
) -> None:
    with pytest.raises(Rejected, match="controllerName"):
        await user.apply(manifest("one", controllerName="blue"))


async def test_applying_again_with_other_labels_changes_them(user: LocalUserCluster) -> None:
    first = manifest("one")
    await user.apply(first)
    labelled = {**first, "metadata": {"name": "one", "labels": {"team": "a"}}}
    assert (await user.apply(labelled)).outcome == "configured"
    assert (await user.apply(first)).outcome == "unchanged"
    run = await user.get_run("one")
    assert run.metadata.labels == {"team": "a"}
    assert run.metadata.generation == 1


async def test_secrets_change_and_lose_entries(
    cluster: LocalCluster, user: LocalUserCluster
) -> None:
    key = ObjectKey("default", "s")
    await user.apply(user_secret("s", a="1", b="2"))
    await user.apply({**user_secret("s"), "data": {"a": "Mw=="}, "stringData": {"c": "3"}})
    exists = [await cluster.secret_exists(key, entry) for entry in ("a", "b", "c", "..")]
    assert exists == [True, False, True, False]


async def asked(
    state: Path, cluster: LocalCluster, user: LocalUserCluster, policy: ApprovalPolicy
) -> Approval:
    await user.apply(manifest("one"))
    approval = approval_for(await user.get_run("one"))
    spec = approval.spec.model_copy(update={"policy": policy})
    return await cluster.create_approval(approval.model_copy(update={"spec": spec}))


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (ApprovalPolicy(), True),
        (ApprovalPolicy(users=("ann",)), True),
        (ApprovalPolicy(users=("bob",)), False),
        (ApprovalPolicy(groups=("staff",)), True),
        (ApprovalPolicy(users=("bob",), groups=("staff",)), True),
        (ApprovalPolicy(groups=("root",)), False),
        (ApprovalPolicy(not_user="ann"), False),
        (ApprovalPolicy(users=("ann",), not_user="ann"), False),
    ],
)
async def test_who_may_decide(
    state: Path,
    cluster: LocalCluster,
    user: LocalUserCluster,
    policy: ApprovalPolicy,
    allowed: bool,
) -> None:
    made = await asked(state, cluster, user, policy)
    ann = LocalUserCluster(cluster.state, Person("ann", {"staff"}), admit=parse)
    if allowed:
        decided = await ann.decide(made.metadata.name, Decision.APPROVE)
        assert decided.spec.decided_by == "ann"
    else:
        with pytest.raises(Forbidden):
            await ann.decide(made.metadata.name, Decision.APPROVE)
        assert (await user.get_approval(made.metadata.name)).spec.decision is None


async def test_of_two_decisions_at_once_one_stands(
    state: Path, cluster: LocalCluster, user: LocalUserCluster
) -> None:
    made = await asked(state, cluster, user, ApprovalPolicy())
    people = [open_local_user(state) for _ in range(6)]
    name = made.metadata.name
    wanted = [Decision.APPROVE, Decision.DENY] * 3
    answers = await asyncio.gather(
        *(person.decide(name, what) for person, what in zip(people, wanted, strict=True)),
        return_exceptions=True,
    )
    for person in people:
        await person.close()
    stands = [answer for answer in answers if isinstance(answer, Approval)]
    assert len(stands) == 1
    assert all(isinstance(a, Conflict) for a in answers if not isinstance(a, Approval))
    assert (await user.get_approval(name)).spec.decision == stands[0].spec.decision


async def test_two_operators_create_one_pod(
    state: Path, cluster: LocalCluster, user: LocalUserCluster, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    commands = Commands(runner=("sh", "-c", f"echo x >> {started}"))
    await user.apply(manifest("one"))
    run = await user.get_run("one")
    await cluster.create_secret(secret_for(run, pod_for(run).secret_name))
    others = [open_local_cluster(state, commands=commands) for _ in range(4)]
    answers = await asyncio.gather(
        *(other.create_pod(pod_for(run)) for other in others), return_exceptions=True
    )
    assert sum(isinstance(answer, AlreadyExists) for answer in answers) == 3

    async def ended() -> bool:
        return (await cluster.get_pod(pod_for(run).key)).runner_end is not None

    await until(ended, "the one pod has ended")
    assert started.read_text() == "x\n"
    assert len(list((state / "pods").iterdir())) == 1
    for other in others:
        await other.close()


async def test_status_is_written_by_one_of_many(
    state: Path, cluster: LocalCluster, user: LocalUserCluster
) -> None:
    await user.apply(manifest("one"))
    seen = await user.get_run("one")
    others = [open_local_cluster(state) for _ in range(4)]
    answers = await asyncio.gather(
        *(
            other.patch_run_status(seen, AgentRunStatus(phase=Phase.RUNNING, attempt=n))
            for n, other in enumerate(others)
        ),
        return_exceptions=True,
    )
    for other in others:
        await other.close()
    assert sum(isinstance(answer, AgentRun) for answer in answers) == 1
    assert sum(isinstance(answer, Conflict) for answer in answers) == 3


async def test_the_folder_is_the_same_cluster_tomorrow(
    state: Path, cluster: LocalCluster, user: LocalUserCluster
) -> None:
    await user.apply(manifest("one"))
    run = await user.get_run("one")
    uid = await cluster.namespace_uid("default")
    again = open_local_cluster(state)
    assert await again.namespace_uid("default") == uid
    assert await again.get_run(key_of(run)) == run
    await again.close()


async def test_a_run_of_another_release_hides_no_other_run(
    cluster: LocalCluster, user: LocalUserCluster
) -> None:
    """It once ended the operator of the folder, and every listing, with a validation error."""
    for name in ("one", "two"):
        await user.apply(manifest(name))

    def newer(body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "spec": {**body["spec"], "inventedLater": True}}

    cluster.state.store.update("AgentRun", KEY, newer)
    assert [run.metadata.name for run in await cluster.list_runs()] == ["two"]
    assert [run.metadata.name for run in await user.list_runs()] == ["two"]
    for read in (cluster.get_run(KEY), user.get_run("one")):
        with pytest.raises(Rejected, match="inventedLater"):
            await read


async def test_the_watch_survives_a_file_that_is_locked_for_long(
    cluster: LocalCluster, user: LocalUserCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once ended ``agentrun run``."""
    monkeypatch.setattr("agentrun.cluster.local.watch.RETRY_SECONDS", 0.01)
    settle, locked = cluster.state.settle, [ClusterUnavailable("database is locked")]

    def settle_once_more(**how: Any) -> None:
        if locked:
            raise locked.pop()
        settle(**how)

    monkeypatch.setattr(cluster.state, "settle", settle_once_more)
    async with asyncio.timeout(20), aclosing(cluster.changes()) as changes:
        await user.apply(manifest("one"))
        assert await anext(changes) == KEY
    assert not locked
