"""One AgentRun on the cluster: what can be seen of it, waited for, and done to it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from tests.chaos.harness.oracle import Trail, Written
from tests.cluster import record
from tests.cluster.harness import Cluster, Kube, eventually
from tests.cluster.peers import Line, Peers

from agentrun.api import AgentRun
from agentrun.api.names import pod_name
from agentrun.run.fold import fold_all

PATIENCE: Final = 480.0
"""Seconds until something counts as stuck. Nothing is asserted about how long anything takes."""


ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Run:
    """A run by name and UID. Pods and effects of another object of that name are not its own."""

    cluster: Cluster
    peers: Peers
    dsn: str
    namespace: str
    name: str
    uid: str

    @property
    def target(self) -> str:
        """As kubectl names it."""
        return f"agentrun/{self.name}"

    def object(self) -> dict[str, Any]:
        """The object itself."""
        return self.cluster.get("agentrun", self.name, self.namespace)

    def status(self) -> dict[str, Any]:
        """Its status; empty before the first."""
        status: dict[str, Any] = self.object().get("status", {})
        return status

    def condition(self, kind: str) -> dict[str, Any]:
        """One of its conditions."""
        (found,) = (c for c in self.status()["conditions"] if c["type"] == kind)
        return dict(found)

    def row(self) -> record.Row:
        """Its row in the database."""
        return record.state_of(self.dsn, self.uid)

    def pods(self) -> list[dict[str, Any]]:
        """Its pods, by name."""
        labelled = f"agentrun.dev/run-uid={self.uid}"
        found = self.cluster.select("pods", self.namespace, labelled)
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def pod(self, attempt: int) -> str:
        """Name of an attempt's pod, whether it is there or not."""
        return pod_name(self.name, self.uid, attempt)

    def patch(self, spec: dict[str, Any], who: Kube | None = None) -> None:
        """`kubectl patch` of the spec."""
        (who or self.cluster).kubectl(
            "patch",
            self.target,
            "-n",
            self.namespace,
            "--type=merge",
            "-p",
            json.dumps({"spec": spec}),
        )

    def force_delete_pod(self, attempt: int) -> None:
        """The pod is gone at once, as if its node had vanished; nobody tells the process."""
        pod = self.pod(attempt)
        self.cluster.kubectl(
            "delete", "pod", pod, "-n", self.namespace, "--grace-period=0", "--force"
        )

    def evict_pod(self, attempt: int) -> None:
        """Ask for the pod's eviction, as `kubectl drain` does."""
        pod = self.pod(attempt)
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        self.cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))

    def await_condition(self, kind: str, within: float = PATIENCE) -> None:
        """As `kubectl wait --for=condition=…` does."""
        self.cluster.wait(self.target, f"condition={kind}", self.namespace, within)

    def await_status(self, path: str, value: str, within: float = PATIENCE) -> None:
        """As `kubectl wait --for=jsonpath=…` does."""
        goal = f"jsonpath={{.status.{path}}}={value}"
        self.cluster.wait(self.target, goal, self.namespace, within)

    def await_call(self, tool: str, attempt: int = 1) -> Line:
        """Until the tool server got a call of this attempt."""

        def call() -> Line | None:
            lines = self.peers.called(self.uid)
            fits = (one for one in lines if one["tool"] == tool and one["attempt"] == attempt)
            return next(fits, None)

        return eventually(call, within=PATIENCE, what=f"attempt {attempt} calls {tool}", every=0.7)

    def await_held(self, attempt: int = 1) -> None:
        """Until an attempt of the scene `held` is in its second call: the first one's result is
        committed."""
        self.await_call("gate", attempt)

    def await_no_pod_at_work(self) -> None:
        """Until no pod of the run is left that has not ended."""
        eventually(
            lambda: all(pod["status"]["phase"] in ENDED for pod in self.pods()),
            within=PATIENCE,
            what="no pod at work",
            every=1,
        )

    def open_gate(self) -> None:
        """Let the call of the scene `held` end, in this and every later attempt."""
        self.peers.open_gate(self.uid)

    def charges(self) -> list[Line]:
        """What was really done by its calls of `charge`."""
        return self.peers.effects(self.uid)

    def trail(self) -> Trail:
        """Everything that is known about it, for the oracle."""
        row, log = record.read(self.dsn, self.uid)
        decoded = list(log.decoded())
        return Trail(
            AgentRun.model_validate(self.object()),
            row,
            log,
            fold_all((commit.origin, records) for commit, records in decoded),
            tuple(
                Written(commit.seq, commit.origin, commit.fence, commit.attempt, one)
                for commit, records in decoded
                for one in records
            ),
            (),
            tuple(self.peers.called(self.uid)),
            tuple(self.charges()),
        )
