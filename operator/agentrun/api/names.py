"""Names of everything that is created for a run, and the labels and annotations on it.

A run's name has at most 46 characters and no dots, so that names derived from it stay within the 63
characters of a DNS label and of a label value. Pod names carry part of the object's UID: a
re-created run never meets the pods of its predecessor, and never those of a StatefulSet that
happens to have its name (hazards H22, H23).
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, Literal

GROUP: Final = "agentrun.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final[Literal["agentrun.dev/v1alpha1"]] = "agentrun.dev/v1alpha1"

AGENTRUN_KIND: Final[Literal["AgentRun"]] = "AgentRun"
AGENTRUN_PLURAL: Final = "agentruns"
AGENTRUN_SINGULAR: Final = "agentrun"
AGENTRUN_SHORT: Final = "arun"

APPROVAL_KIND: Final[Literal["Approval"]] = "Approval"
APPROVAL_PLURAL: Final = "approvals"
APPROVAL_SINGULAR: Final = "approval"
APPROVAL_SHORT: Final = "appr"

CATEGORY: Final = "agents"

RUN_NAME_MAX: Final = 46
NAME_MAX: Final = 63

RUNNER_CONTAINER: Final = "runner"

LABEL_RUN: Final = "agentrun.dev/run"
LABEL_RUN_UID: Final = "agentrun.dev/run-uid"
LABEL_ATTEMPT: Final = "agentrun.dev/attempt"
LABEL_APP_NAME: Final = "app.kubernetes.io/name"
LABEL_APP_INSTANCE: Final = "app.kubernetes.io/instance"
LABEL_APP_VERSION: Final = "app.kubernetes.io/version"
LABEL_APP_COMPONENT: Final = "app.kubernetes.io/component"
LABEL_APP_PART_OF: Final = "app.kubernetes.io/part-of"
LABEL_APP_MANAGED_BY: Final = "app.kubernetes.io/managed-by"

ANNOTATION_FENCE: Final = "agentrun.dev/fence"
ANNOTATION_INSTALLATION: Final = "agentrun.dev/installation"
ANNOTATION_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"

RESERVED_DOMAINS: Final = ("agentrun.dev", "kubernetes.io", "k8s.io")
"""Prefixes of labels and annotations that a user may not set, with their subdomains (H51)."""

_RUN_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUFFIX = re.compile(r"[a-z0-9]{1,32}")


def valid_run_name(name: str) -> bool:
    """Whether ``name`` can be an AgentRun's name."""
    return len(name) <= RUN_NAME_MAX and _RUN_NAME.fullmatch(name) is not None


def pod_name(run_name: str, object_uid: str, attempt: int) -> str:
    """``<run>-<5 hex of the UID>-<attempt>``: the same for everyone who computes it."""
    return _checked(f"{run_name}-{_uid_hex(object_uid)}-{attempt}")


def approval_name(run_name: str, request_id: str) -> str:
    """``<run>-apr-<10 hex>``: one name per request, which re-creation finds again."""
    digest = hashlib.sha256(request_id.encode()).hexdigest()
    return _checked(f"{run_name}-apr-{digest[:10]}")


def secret_name(pod_name: str, suffix: str) -> str:
    """Name of an attempt's Secret. ``suffix`` is random, so that nobody can squat it (H50)."""
    if not _SUFFIX.fullmatch(suffix):
        raise ValueError(f"the suffix {suffix!r} is not lower-case letters and digits")
    return f"{pod_name}-{suffix}"


def run_labels(
    run_name: str, run_uid: str, *, component: str, version: str = "", attempt: int | None = None
) -> dict[str, str]:
    """The labels on everything that is created for a run."""
    labels = {
        LABEL_RUN: run_name,
        LABEL_RUN_UID: run_uid,
        LABEL_APP_NAME: "agentrun",
        LABEL_APP_INSTANCE: run_name,
        LABEL_APP_COMPONENT: component,
        LABEL_APP_PART_OF: "agentrun",
        LABEL_APP_MANAGED_BY: "agentrun-operator",
    }
    if version:
        labels[LABEL_APP_VERSION] = version
    if attempt is not None:
        labels[LABEL_ATTEMPT] = str(attempt)
    return labels


def reserved_key(key: str) -> bool:
    """Whether a label or annotation key is ours or Kubernetes' own.

    Subdomains count (``app.kubernetes.io``); ``kueue.x-k8s.io`` is no subdomain of ``k8s.io``.
    """
    prefix, slash, _ = key.rpartition("/")
    if not slash:
        return False
    return any(prefix == domain or prefix.endswith(f".{domain}") for domain in RESERVED_DOMAINS)


def _uid_hex(uid: str) -> str:
    """Five hex digits of a UID; of its hash where the UID is no UUID (UIDs are opaque)."""
    digits = uid.replace("-", "").lower()[:5]
    if re.fullmatch(r"[0-9a-f]{5}", digits):
        return digits
    return hashlib.sha256(uid.encode()).hexdigest()[:5]


def _checked(name: str) -> str:
    if len(name) > NAME_MAX:
        raise ValueError(f"the name {name!r} is longer than {NAME_MAX} characters")
    return name
