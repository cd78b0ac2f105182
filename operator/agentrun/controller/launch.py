"""The Secret and the pod of an attempt (H18, H25, H50).

A name that is taken is looked at: the pod is adopted only when owner UID, fence and installation are
ours. What the API server refuses (quota, policy) becomes a trouble with a growing wait; the fence
stays, so no attempt is consumed.
"""

from __future__ import annotations

from agentrun.api import AgentRun, Reason
from agentrun.api.names import secret_name
from agentrun.cluster.environment import secret_variables
from agentrun.cluster.values import AttemptPod, AttemptSecret, ObjectKey
from agentrun.controller.actions import AddSecret, CreatePod
from agentrun.controller.attempts import (
    SUFFIX_BYTES,
    new_identity,
    secret_hash,
)
from agentrun.controller.context import Context, Pass
from agentrun.controller.failpoints import AFTER_POD_CREATE, AFTER_SECRET
from agentrun.controller.ledger import Issued
from agentrun.controller.opening import namespace_uid
from agentrun.controller.plan.facts import current_pod_key, is_current, seen
from agentrun.controller.world import Confirmed
from agentrun.errors import AlreadyExists, ClusterError, Forbidden, NotFound, Rejected

SUFFIX_TRIES = 5


async def add_secret(context: Context, at: Pass, _action: AddSecret) -> None:
    """Nothing to do when this process still has the secret it issued for this fence."""
    if context.ledger.issued(at.owned) is not None:
        return
    identity = new_identity(context.random_hex)
    row = await context.store.add_secret(seen(at.owned), secret_hash(identity.secret))
    if at.took(row):
        context.ledger.issue(at.owned, identity.secret, identity.suffix)


async def create_pod(context: Context, at: Pass, action: CreatePod) -> None:
    """The pod of the row's attempt. Without a secret of its fence nothing was minted: no pod."""
    issued = context.ledger.issued(at.owned)
    if issued is None:
        return
    at.moved = True
    try:
        missing = await _missing_secret(context, at)
        if missing:
            _refused(context, at, Reason.CONTAINER_CONFIG, missing)
            return
        await _ensure_secret(context, at, issued)
        context.reach(AFTER_SECRET)
        await _ensure_pod(context, at, issued, action.avoid_node)
    except Forbidden as error:
        await _forbidden(context, at, error)
    except Rejected as error:
        _refused(context, at, Reason.CONTAINER_CONFIG, error.message)


async def _ensure_pod(context: Context, at: Pass, issued: Issued, avoid: str | None) -> None:
    row, settings = at.owned, context.settings
    key = current_pod_key(at.world, row)
    wanted = AttemptPod(
        key=key,
        run=_captured(at),
        attempt=row.attempt,
        fence=row.fence,
        installation=settings.installation,
        secret_name=issued.secret_name or "",
        image=at.spec.pod.image or settings.image,
        workspace_image=settings.workspace_image,
        run_uid=row.run_uid,
        avoid_node=avoid,
    )
    try:
        pod = await context.cluster.create_pod(wanted)
    except AlreadyExists:
        await _taken(context, at, key)
        return
    context.reach(AFTER_POD_CREATE)
    issued.created = True
    context.cache.put_pod(pod)
    context.ledger.untroubled(at.run.metadata.uid)


async def _taken(context: Context, at: Pass, key: ObjectKey) -> None:
    """Ours, made by us before a crash or by another operator: adopt. Else plan again with it."""
    try:
        pod = await context.cluster.get_pod(key)
    except NotFound:
        at.stop = True
        return
    if is_current(at.world, at.owned, pod):
        context.cache.put_pod(pod)
        context.ledger.untroubled(at.run.metadata.uid)
        return
    at.confirmed = Confirmed(key.name, pod)
    note = f"the pod name {key.name} is taken by another owner"
    _refused(context, at, Reason.POD_NAME_CONFLICT, note)


async def _ensure_secret(context: Context, at: Pass, issued: Issued) -> None:
    """Another name when one is taken: whoever squats it must not feed the runner (H50)."""
    if issued.secret_name is not None:
        return
    pod = current_pod_key(at.world, at.owned)
    uid = await namespace_uid(context, pod.namespace)
    dsn = await context.credentials(uid)
    suffix = issued.suffix
    for _ in range(SUFFIX_TRIES):
        name = secret_name(pod.name, suffix)
        try:
            await context.cluster.create_secret(
                AttemptSecret(
                    key=ObjectKey(pod.namespace, name),
                    run=at.run,
                    attempt=at.owned.attempt,
                    fence=at.owned.fence,
                    installation=context.settings.installation,
                    dsn=dsn,
                    secret=issued.secret,
                    run_uid=at.owned.run_uid,
                )
            )
        except AlreadyExists:
            suffix = context.random_hex(SUFFIX_BYTES)
            continue
        issued.secret_name = name
        return
    raise ClusterError("every name tried is taken", attempted="create the Secret", on=pod.name)


async def _missing_secret(context: Context, at: Pass) -> str:
    """A user's Secret that is known to be missing; in a cluster the kubelet finds out instead."""
    for variable, ref in secret_variables(at.spec).items():
        key = ObjectKey(at.run.metadata.namespace, ref.name)
        if await context.cluster.secret_exists(key, ref.key) is False:
            return f"Secret {ref.name} has no key {ref.key} ({variable})"
    return ""


def _captured(at: Pass) -> AgentRun:
    """The object with the captured spec: a spec forced past admission changes no pod."""
    return at.run.model_copy(update={"spec": at.spec})


async def _forbidden(context: Context, at: Pass, error: Forbidden) -> None:
    """A namespace that is going away explains it (H24); else quota or policy."""
    namespace = at.run.metadata.namespace
    if await context.cluster.namespace_terminating(namespace):
        there = [run for run in context.cache.runs if run.metadata.namespace == namespace]
        context.ledger.namespace_is_terminating(namespace, (run.metadata.uid for run in there))
        at.stop = True
        return
    text = str(error)
    quota = "quota" in text.lower() or "limitrange" in text.lower()
    reason = Reason.QUOTA_EXCEEDED if quota else Reason.CONTAINER_CONFIG
    _refused(context, at, reason, error.message)


def _refused(context: Context, at: Pass, reason: Reason, message: str) -> None:
    context.ledger.troubled(at.run.metadata.uid, reason, message)
    at.stop = True
