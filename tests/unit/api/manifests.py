"""Manifests to start from, as a user would write them."""

from __future__ import annotations

from typing import Any

import pytest

from agentrun.api.validation import validate_manifest
from agentrun.errors import InvalidSpec


def manifest(name: str = "incident-42", **spec: Any) -> dict[str, Any]:
    """An AgentRun around a spec."""
    return {
        "apiVersion": "agentrun.dev/v1alpha1",
        "kind": "AgentRun",
        "metadata": {"name": name},
        "spec": spec,
    }


def prompt_spec(**more: Any) -> dict[str, Any]:
    """The smallest spec that runs, with changes."""
    return {
        "prompt": "Find out why checkout is slow.",
        "agents": [{"name": "sre"}],
        "model": {"name": "claude-sonnet-4-6"},
        **more,
    }


OPS = {"name": "ops", "url": "https://ops-tools.example/mcp"}


def released_spec() -> dict[str, Any]:
    """A spec that uses everything this release can do."""
    return {
        "controllerName": "",
        "requestedBy": "alice",
        "metadata": {"ticket": "42"},
        "promptFrom": {"configMapKeyRef": {"name": "p", "key": "prompt"}},
        "agent": "sre",
        "agents": [
            {
                "name": "sre",
                "instructions": "You are …",
                "model": {"name": "claude-opus-5", "baseURL": "https://gateway.example"},
                "tools": ["ops.*", "workspace.read_file"],
                "askHuman": False,
                "maxTurns": 30,
                "maxTokens": 200000,
                "maxOutputTokens": 4096,
                "thinkingTokens": 8000,
                "capabilities": ["database"],
                "context": {"strategy": "None"},
            },
            {
                "name": "other",
                "temperature": "0.2",
                "instructionsFrom": {"configMapKeyRef": {"name": "p", "key": "other.md"}},
            },
        ],
        "model": {
            "provider": "Anthropic",
            "name": "claude-sonnet-4-6",
            "baseURL": "",
            "apiKeySecretRef": {"name": "anthropic", "key": "api-key"},
            "caBundle": {"configMapKeyRef": {"name": "ca", "key": "ca.pem"}},
            "maxRetries": 5,
        },
        "pricing": {
            "inputPerMTok": "3",
            "outputPerMTok": "15",
            "cacheReadPerMTok": "0.3",
            "cacheWritePerMTok": "3.75",
        },
        "toolServers": [
            {
                "name": "ops",
                "url": "https://ops-tools.example/mcp",
                "headersFrom": [
                    {"name": "Authorization", "secretKeyRef": {"name": "ops", "key": "token"}}
                ],
                "timeoutSeconds": 60,
            },
            {"name": "workspace", "workspace": {"persistence": "Record", "sizeLimit": "64Mi"}},
        ],
        "toolPolicies": [
            {"tools": ["ops.restart*"], "approval": "Always", "reason": "restarts production"}
        ],
        "approvals": {"plan": False, "rounds": False, "tasks": [], "onTimeout": "Deny"},
        "checkpoint": {"enabled": True, "position": "Both", "onSaveFailure": "Fail"},
        "limits": {"turns": 200, "tokens": 2000000, "costUSD": "5", "deadlineSeconds": 604800},
        "lease": {"ttlSeconds": 30, "stallSeconds": 900, "onUnreachable": "WaitForPod"},
        "suspend": False,
        "cancel": False,
        "ttlSecondsAfterFinished": 0,
        "retention": {"contentSeconds": 86400, "auditSeconds": 31536000},
        "pod": {
            "resources": {"requests": {"cpu": "100m"}},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "labels": {"kueue.x-k8s.io/queue-name": "team-a"},
            "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        },
    }


def servers(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A prompt's spec with tool servers."""
    return prompt_spec(toolServers=list(items), **more)


def graph(*tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A spec of tasks with one agent; a task without a prompt gets one."""
    return {
        "tasks": [{"prompt": "p", **task} for task in tasks],
        "agents": [{"name": "sre"}],
        "model": {"name": "m"},
        **more,
    }


def refusal(obj: object, **kwargs: Any) -> str:
    """What is said about a manifest that must be refused."""
    with pytest.raises(InvalidSpec) as caught:
        validate_manifest(obj, **kwargs)
    return caught.value.message
