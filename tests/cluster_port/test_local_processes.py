"""Local pods are real processes: how they end, what ends with them, and who notices."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cluster_port.scenes import (
    config,
    key_of,
    manifest,
    pod_for,
    secret_for,
    until,
    user_secret,
)

from agentrun.api.validation.manifest import parse
from agentrun.cluster.local.adapter import LocalCluster
from agentrun.cluster.local.open import open_local_cluster, open_local_user
from agentrun.cluster.local.pod_spec import Commands
from agentrun.cluster.local.processes import find
from agentrun.cluster.local.user import LocalUserCluster
from agentrun.cluster.values import PodView
from agentrun.errors import NotFound, Rejected

WORKSPACE = [{"name": "workspace", "workspace": {}}]
FOREVER = "exec sleep 1000"


@dataclass
class Local:
    """A state folder, opened by the controller and by a person."""

    root: Path
    cluster: LocalCluster
    user: LocalUserCluster

    async def start(self, name: str = "one", attempt: int = 1, **spec: Any) -> PodView:
        await self.user.apply(manifest(name, **spec))
        run = await self.user.get_run(name)
        pod = pod_for(run, attempt)
        await self.cluster.create_secret(secret_for(run, pod.secret_name, attempt))
        return await self.cluster.create_pod(pod)

    async def running(self, pod: PodView) -> PodView:
        return await self._seen(pod, lambda view: view.runner_running, "running")

    async def ended(self, pod: PodView) -> PodView:
        return await self._seen(pod, lambda view: view.runner_end is not None, "ended")

    async def gone(self, pod: PodView) -> None:
        async def not_there() -> bool:
            try:
                await self.cluster.get_pod(pod.key)
            except NotFound:
                return True
            return False

        await until(not_there, "the pod is gone")

    async def _seen(self, pod: PodView, holds: Callable[[PodView], bool], what: str) -> PodView:
        async def look() -> PodView | None:
            view = await self.cluster.get_pod(pod.key)
            return view if holds(view) else None

        return await until(look, f"the pod is {what}")

    def folder(self, pod: PodView) -> Path:
        return self.root / "pods" / pod.uid

    def noted(self, pod: PodView, what: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads((self.folder(pod) / f"{what}.json").read_text())
        return answer


@asynccontextmanager
async def local(
    root: Path, runner: str, workspace: str = FOREVER, **ambient: str
) -> AsyncIterator[Local]:
    """``runner`` and ``workspace`` are shell scripts that stand in for the programs."""
    commands = Commands(
        runner=("sh", "-c", runner, "runner"), workspace=("sh", "-c", workspace, "workspace")
    )
    cluster = open_local_cluster(root, commands=commands, ambient={**os.environ, **ambient})
    user = open_local_user(root, admit=parse)
    try:
        yield Local(root, cluster, user)
    finally:
        await user.close()
        await cluster.close()


def log_of(root: Path, pod: PodView) -> str:
    return (root / "logs" / f"{pod.key.name}.log").read_text()


def everything_in(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def others_may_read(path: Path) -> bool:
    mode = path.lstat().st_mode
    return not stat.S_ISSOCK(mode) and bool(stat.S_IMODE(mode) & 0o077)


def alive(pid: int) -> bool:
    process = find(pid)
    return process is not None and process.alive


def marked(marker: Path) -> list[int]:
    """PIDs of living processes whose command line names the marker file."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            named = str(marker).encode() in (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if entry.name.isdigit() and named and alive(int(entry.name)):
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("code", [0, 1, 75, 78, 79, 143])
async def test_exit_codes_arrive_as_they_are(state: Path, code: int) -> None:
    async with local(state, f"exit {code}") as here:
        view = await here.ended(await here.start())
        assert view.runner_end is not None
        assert view.runner_end.exit_code == code
        assert view.runner_end.reason == ("Completed" if code == 0 else "Error")
        assert view.runner_end.finished_at is not None
        assert view.phase == ("Succeeded" if code == 0 else "Failed")
        assert view.node == socket.gethostname()


async def test_the_runners_last_words_are_kept(state: Path) -> None:
    async with local(state, 'echo "{}" > $AGENTRUN_TERMINATION_LOG; exit 78') as here:
        view = await here.ended(await here.start())
        assert view.runner_end is not None
        assert view.runner_end.message == "{}\n"


async def test_a_signal_is_128_and_its_number(state: Path) -> None:
    async with local(state, "kill -SEGV $$") as here:
        view = await here.ended(await here.start())
        assert view.runner_end is not None
        assert view.runner_end.exit_code == 128 + signal.SIGSEGV


async def test_a_runner_that_cannot_be_started(state: Path) -> None:
    commands = Commands(runner=("/nowhere/to/be/found",))
    cluster, user = open_local_cluster(state, commands=commands), open_local_user(state)
    here = Local(state, cluster, user)
    view = await here.ended(await here.start())
    assert view.runner_end is not None
    assert (view.runner_end.exit_code, view.runner_end.reason) == (128, "StartError")
    await user.close()
    await cluster.close()


async def test_the_runner_finds_its_environment(state: Path) -> None:
    script = """
    echo "$AGENTRUN_RUN_UID|$AGENTRUN_FENCE|$AGENTRUN_POD_UID|$AGENTRUN_WORKSPACE_SOCKET"
    cat $AGENTRUN_SECRET_DIR/dsn; echo; cat $AGENTRUN_SECRET_DIR/secret; echo
    """
    async with local(state, script) as here:
        pod = await here.start(toolServers=WORKSPACE)
        await here.ended(pod)
        first, *rest = log_of(state, pod).splitlines()
        uid, fence, pod_uid, path = first.split("|")
        run = await here.user.get_run("one")
        assert (uid, fence, pod_uid) == (run.metadata.uid, "11", pod.uid)
        assert path == str(here.cluster.state.folder.socket(pod.uid))
        assert rest == ["postgresql://db/agentrun", "s3cret"]


async def test_secrets_reach_the_runner_and_no_file_of_the_pod(state: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = f'echo "$ANTHROPIC_API_KEY|$AGENTRUN_HEADER_OPS_0" > {seen}'
    server = {
        "name": "ops",
        "url": "https://ops.example/mcp",
        "headersFrom": [{"name": "Authorization", "secretKeyRef": {"name": "s", "key": "token"}}],
    }
    model = {"name": "m", "apiKeySecretRef": {"name": "s", "key": "key"}}
    async with local(state, script, ANTHROPIC_API_KEY="of-the-shell") as here:
        await here.user.apply(user_secret("s", key="the-key", token="the-token"))
        await here.ended(await here.start(model=model, toolServers=[server]))
        assert seen.read_text() == "the-key|the-token\n"
        holders = [path for path in files_of(state) if b"the-key" in path.read_bytes()]
        assert [path.parent.parent.name for path in holders] == ["secrets"]


async def test_without_a_key_of_its_own_a_run_uses_the_shells(state: Path) -> None:
    async with local(state, 'test "$ANTHROPIC_API_KEY" = mine', ANTHROPIC_API_KEY="mine") as here:
        view = await here.ended(await here.start())
        assert view.runner_end is not None
        assert view.runner_end.exit_code == 0


async def test_nothing_of_another_run_is_inherited(state: Path) -> None:
    script = 'test -z "$AGENTRUN_WORKSPACE_SOCKET$AGENTRUN_OTHER" && test "$AGENTRUN_FENCE" = 11'
    inherited = {
        "AGENTRUN_WORKSPACE_SOCKET": "/x",
        "AGENTRUN_OTHER": "x",
        "AGENTRUN_FENCE": "99",
        "AGENTRUN_FAILPOINT": "here",
    }
    check = f'{script} && test "$AGENTRUN_FAILPOINT" = here'
    async with local(state, check, **inherited) as here:
        view = await here.ended(await here.start())
        assert view.runner_end is not None
        assert view.runner_end.exit_code == 0


async def test_files_are_for_their_owner_alone(state: Path) -> None:
    async with local(state, FOREVER) as here:
        await here.user.apply(user_secret("s", key="the-key"))
        await here.running(await here.start())
        assert [path for path in (state, *everything_in(state)) if others_may_read(path)] == []


async def test_the_workspace_knows_no_secret(state: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    workspace = f"env > {seen}.part; mv {seen}.part {seen}; {FOREVER}"
    ambient = {"ANTHROPIC_API_KEY": "the-key", "AWS_SECRET_ACCESS_KEY": "aws"}
    async with local(state, FOREVER, workspace, **ambient) as here:
        pod = await here.start(toolServers=WORKSPACE)

        async def written() -> bool:
            return seen.exists()

        await until(written, "the workspace server has started")
        names = {line.partition("=")[0] for line in seen.read_text().splitlines()}
        assert not names & {"ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "AGENTRUN_SECRET_DIR"}
        assert {"PATH", "HOME", "AGENTRUN_POD_UID"} <= names
        assert f"HOME={here.folder(pod)}/workspace" in seen.read_text()


async def test_what_the_runner_started_ends_before_its_end_is_seen(
    state: Path, tmp_path: Path
) -> None:
    """The workspace server, a child in another group, one in another session."""
    marker = tmp_path / "marker"
    spin = f"while true; do sleep 0.05; done; : {marker}"
    runner = f"""
    (sh -c '{spin}') &
    setsid sh -c '{spin}' &
    (setsid setsid sh -c '{spin}' &) &
    while [ $(ps axww | grep -c '[;] : {marker}') -lt 4 ]; do sleep 0.02; done
    exit 1
    """
    async with local(state, runner, spin) as here:
        pod = await here.start(toolServers=WORKSPACE)
        await here.ended(pod)
        assert marked(marker) == []


async def test_a_workspace_server_that_ends_is_started_again(state: Path, tmp_path: Path) -> None:
    count = tmp_path / "count"
    runner = f"while [ $(wc -l < {count} 2>/dev/null || echo 0) -lt 3 ]; do sleep 0.02; done"
    async with local(state, runner, f"echo x >> {count}; exit 1") as here:
        view = await here.ended(await here.start(toolServers=WORKSPACE))
        assert view.runner_end is not None
        assert view.runner_end.exit_code == 0


async def test_stopping_is_asking_first(state: Path) -> None:
    script = "trap 'echo drained; exit 143' TERM; echo ready; while true; do sleep 0.02; done"
    async with local(state, script) as here:
        pod = await here.start()

        async def ready() -> bool:
            return (await here.cluster.get_pod(pod.key)).runner_running and "ready" in log_of(
                state, pod
            )

        await until(ready, "the trap is set")
        await here.cluster.delete_pod(pod.key, pod.uid, 3600)
        await here.gone(pod)
        assert "drained" in log_of(state, pod)


async def test_after_the_grace_period_it_is_killed(state: Path, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    script = f"trap '' TERM; while true; do sleep 0.02; done; : {marker}"
    async with local(state, script) as here:
        pod = await here.running(await here.start())
        await here.cluster.delete_pod(pod.key, pod.uid, 1)
        assert (await here.cluster.get_pod(pod.key)).deleting
        await here.gone(pod)
        assert marked(marker) == []


async def test_a_deleted_pod_leaves_its_log_and_nothing_else(state: Path) -> None:
    async with local(state, f"echo hello; {FOREVER}") as here:
        pod = await here.running(await here.start(toolServers=WORKSPACE))
        await here.cluster.delete_pod(pod.key, pod.uid, 0)
        assert not here.folder(pod).exists()
        assert [line async for line in here.user.logs("one")] == ["hello"]


async def test_a_kill_is_noted_as_the_users(state: Path) -> None:
    async with local(state, FOREVER) as here:
        pod = await here.running(await here.start())
        assert await here.user.kill("one", signal.SIGKILL) == pod.key.name
        view = await here.ended(pod)
        assert view.killed_by_user
        assert view.runner_end is not None
        assert view.runner_end.exit_code == 137


async def test_a_pause_is_not_a_kill(state: Path) -> None:
    async with local(state, "trap 'exit 5' USR1; while true; do sleep 0.02; done") as here:
        pod = await here.running(await here.start())
        await here.user.kill("one", signal.SIGSTOP)
        await here.user.kill("one", signal.SIGCONT)
        assert not (await here.cluster.get_pod(pod.key)).killed_by_user


async def test_a_runner_killed_by_others_is_not_the_users(state: Path) -> None:
    async with local(state, FOREVER) as here:
        pod = await here.running(await here.start())
        os.kill(here.noted(pod, "started")["pid"], signal.SIGKILL)
        view = await here.ended(pod)
        assert not view.killed_by_user


async def test_without_its_supervisor_a_pod_is_gone_and_so_is_its_group(
    state: Path, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    spin = f"while true; do sleep 0.05; done; : {marker}"
    async with local(state, f"setsid sh -c '{spin}' & {spin}", spin) as here:
        pod = await here.running(await here.start(toolServers=WORKSPACE))

        async def all_there() -> bool:
            return len(marked(marker)) >= 3

        await until(all_there, "runner, child and workspace server run")
        os.kill(here.noted(pod, "supervisor")["pid"], signal.SIGKILL)
        await here.gone(pod)
        assert marked(marker) == []


async def test_a_pod_outlives_the_program_that_created_it(state: Path) -> None:
    """The end is recorded while nobody looks."""
    program = f"""
import asyncio
from pathlib import Path
from agentrun.cluster.local.open import open_local_cluster
from agentrun.cluster.local.pod_spec import Commands
from tests.cluster_port.scenes import pod_for
from agentrun.cluster.values import ObjectKey

async def main():
    cluster = open_local_cluster(
        Path({str(state)!r}),
        commands=Commands(runner=("sh", "-c", "while [ ! -e {state}/go ]; do sleep 0.02; done; exit 7")),
    )
    run = await cluster.get_run(ObjectKey("default", "one"))
    await cluster.create_pod(pod_for(run))
    print("created", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""
    async with local(state, "exit 99") as here:
        await here.user.apply(manifest("one"))
        run = await here.user.get_run("one")
        await here.cluster.create_secret(secret_for(run, pod_for(run).secret_name))
        creator = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, stdout=subprocess.PIPE
        )
        assert creator.stdout is not None
        assert await creator.stdout.readline() == b"created\n"
        pod = await here.cluster.get_pod(pod_for(run).key)
        await here.running(pod)
        creator.kill()
        await creator.wait()
        (state / "go").touch()
        view = await here.ended(pod)
        assert view.runner_end is not None
        assert view.runner_end.exit_code == 7


async def test_a_pod_whose_creator_died_before_starting_it_is_started(state: Path) -> None:
    """H25: whoever watches the folder sees to it."""
    async with local(state, "exit 3") as here:
        pod = await here.start()
        await here.ended(pod)
        for left in ("supervisor", "started", "end"):
            (here.folder(pod) / f"{left}.json").unlink()
        here.cluster.state.store.update(
            "Pod",
            pod.key,
            lambda body: {
                **body,
                "metadata": {**body["metadata"], "creationTimestamp": "2020-01-01T00:00:00Z"},
                "status": {"phase": "Pending"},
            },
        )
        async with aclosing(here.cluster.changes()) as changes:  # type: ignore[type-var]
            async for _ in changes:
                if (await here.cluster.get_pod(pod.key)).runner_end:
                    break


async def test_a_missing_secret_holds_the_pod_until_it_is_there(state: Path) -> None:
    model = {"name": "m", "apiKeySecretRef": {"name": "later", "key": "key"}}
    async with local(state, 'test "$ANTHROPIC_API_KEY" = now') as here:
        pod = await here.start(model=model)
        assert pod.waiting is not None
        reason, message = pod.waiting
        assert reason == "CreateContainerConfigError"
        assert "later" in message
        async with aclosing(here.cluster.changes()) as changes:  # type: ignore[type-var]
            await here.user.apply(user_secret("later", key="now"))
            async for key in changes:
                assert key.name == "one"
                view = await here.cluster.get_pod(pod.key)
                if view.runner_end:
                    assert view.runner_end.exit_code == 0
                    break


async def test_a_waiting_pod_can_be_deleted(state: Path) -> None:
    model = {"name": "m", "apiKeySecretRef": {"name": "never", "key": "key"}}
    async with local(state, "exit 0") as here:
        pod = await here.start(model=model)
        await here.cluster.delete_pod(pod.key, pod.uid)
        await here.gone(pod)
        assert not here.folder(pod).exists()


async def test_a_ca_bundle_is_a_file(state: Path) -> None:
    bundle = {"configMapKeyRef": {"name": "ca", "key": "ca.crt"}}
    async with local(state, 'cat "$AGENTRUN_CA_BUNDLE"') as here:
        await here.user.apply(config("ca", **{"ca.crt": "PEM"}))
        pod = await here.start(model={"name": "m", "caBundle": bundle})
        await here.ended(pod)
        assert log_of(state, pod) == "PEM"


async def test_a_deep_state_folder_still_has_sockets(tmp_path: Path) -> None:
    """A unix socket's path has at most 107 bytes."""
    root = tmp_path / ("d" * 60) / ("e" * 60)
    bound = tmp_path / "bound"
    bind = (
        "import socket,sys;s=socket.socket(socket.AF_UNIX);s.bind(sys.argv[2]);"
        f"open({str(bound)!r},'w')"
    )
    commands = Commands(
        runner=(
            *("sh", "-c"),
            f"while [ ! -e {bound} ]; do sleep 0.02; done; ls -ld $(dirname $AGENTRUN_WORKSPACE_SOCKET)",
        ),
        workspace=(sys.executable, "-c", bind),
    )
    cluster, user = open_local_cluster(root, commands=commands), open_local_user(root)
    here = Local(root, cluster, user)
    pod = await here.start(toolServers=WORKSPACE)
    view = await here.ended(pod)
    assert view.runner_end is not None
    assert view.runner_end.exit_code == 0
    assert "drwx------" in log_of(root, pod)
    assert not cluster.state.folder.socket(pod.uid).parent.exists()
    await user.close()
    await cluster.close()


async def test_a_lasting_workspace_stays_until_the_run_goes(state: Path) -> None:
    server = {"name": "workspace", "workspace": {"persistence": "Volume"}}
    write = 'echo $$ >> "$4/file"; exec sleep 1000'
    async with local(state, FOREVER, write) as here:
        for attempt in (1, 2):
            pod = await here.running(await here.start(attempt=attempt, toolServers=[server]))
            run = await here.user.get_run("one")
            file = state / "volumes" / run.metadata.uid / "file"

            def written(file: Path = file, attempt: int = attempt) -> bool:
                return file.exists() and len(file.read_text().splitlines()) == attempt

            await until(lambda look=written: asyncio.to_thread(look), "it wrote into the folder")
            await here.cluster.delete_pod(pod.key, pod.uid, 0)
        await here.user.remove_run("one")
        assert not file.exists()


async def test_local_mode_runs_no_images(state: Path) -> None:
    server = {"name": "db", "image": "registry.example/db:1"}
    async with local(state, "exit 0") as here:
        with pytest.raises(Rejected, match="image"):
            await here.user.apply(manifest("one", toolServers=[server]))


async def test_a_terminated_supervisor_drains_its_runner(state: Path) -> None:
    """As at the shutdown of the machine."""
    script = "trap 'exit 143' TERM; echo ready; while true; do sleep 0.02; done"
    async with local(state, script) as here:
        pod = await here.start()

        async def ready() -> bool:
            return (await here.cluster.get_pod(pod.key)).runner_running and bool(log_of(state, pod))

        await until(ready, "the trap is set")
        os.kill(here.noted(pod, "supervisor")["pid"], signal.SIGTERM)
        view = await here.ended(pod)
        assert view.runner_end is not None
        assert view.runner_end.exit_code == 143


async def test_without_its_folder_a_pod_ends(tmp_path: Path) -> None:
    """Somebody removed the state folder: what nobody can stop any more must not go on."""
    marker, root = tmp_path / "marker", tmp_path / "state"
    spin = f"while true; do sleep 0.05; done; : {marker}"
    async with local(root, spin, spin) as here:
        await here.running(await here.start(toolServers=WORKSPACE))
        shutil.rmtree(root)

        async def none_left() -> bool:
            return not marked(marker)

        await until(none_left, "everything of the pod has ended")


async def test_a_run_being_deleted_in_the_foreground_is_seen_deleting(state: Path) -> None:
    """H24: it stays visible, with a deletionTimestamp, until nothing of it is left."""
    script = "trap '' TERM; while true; do sleep 0.02; done"
    async with local(state, script) as here:
        pod = await here.running(await here.start(pod={"terminationGracePeriodSeconds": 3600}))
        run = await here.user.get_run("one")
        here.cluster.state.delete_run(key_of(run), foreground=True)
        assert (await here.user.get_run("one")).metadata.deleting
        assert (await here.cluster.get_pod(pod.key)).deleting
        await here.cluster.delete_pod(pod.key, pod.uid, 0)
        here.cluster.state.settle()
        with pytest.raises(NotFound):
            await here.user.get_run("one")
