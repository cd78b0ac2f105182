"""Does the API server refuse a forged decision? Tried, not assumed (H42).

Who decided is what admission policies stamp and check. Where they are missing, unbound or not
served, anyone is anyone. So an Approval of nobody's run is made, a decision in somebody else's name
is tried on it as a dry run, and it is deleted again. The operator may patch Approvals and does not
hold the verb ``approve``, so that policies that work must refuse it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from agentrun.api import Approval, ApprovalSpec, ObjectMeta, RunRef, Scope
from agentrun.cluster.kube.resources import APPROVALS
from agentrun.cluster.kube.rest import MERGE, Rest
from agentrun.errors import AlreadyExists, Forbidden, NotFound

NAME: Final = "agentrun-self-test"
FORGER: Final = "agentrun-self-test:nobody"
MANAGER: Final = "agentrun-operator"
NOT_ALLOWED: Final = "cannot patch resource"
"""How RBAC refuses. It says nothing about those who may patch."""


async def refuses_forgery(rest: Rest, namespace: str) -> bool:
    """Whether a decision by somebody who may not decide, in another one's name, is refused."""
    change = {"spec": {"decision": "Approve", "decidedBy": FORGER}}
    query = {"dryRun": "All", "fieldManager": MANAGER}
    async with _undecided(rest, namespace):
        try:
            await rest.call(
                "patch", APPROVALS, namespace, NAME, body=change, query=query, content=MERGE
            )
        except Forbidden as error:
            return NOT_ALLOWED not in error.message
    return False


@asynccontextmanager
async def _undecided(rest: Rest, namespace: str) -> AsyncIterator[None]:
    """An Approval of no run; one that an earlier operator left behind will do."""
    with contextlib.suppress(AlreadyExists):
        await rest.call("create", APPROVALS, namespace, body=_body(namespace))
    try:
        yield
    finally:
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        with contextlib.suppress(NotFound):
            await rest.call("delete", APPROVALS, namespace, NAME, body=options, read=False)


def _body(namespace: str) -> dict[str, Any]:
    return Approval(
        metadata=ObjectMeta(name=NAME, namespace=namespace),
        spec=ApprovalSpec(
            run_ref=RunRef(name=NAME, uid="none"),
            scope=Scope.TOOL,
            boundary="self-test",
            content_hash="0" * 64,
            reason="the operator tries whether forged decisions are refused",
        ),
    ).to_dict()
