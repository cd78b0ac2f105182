"""What an installation is configured with. Durations are seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrun.api.validation import DEFAULT_POLICY, AdminPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Frozen configuration of one operator process.

    ``installation`` names the installation in rows and on pods (H20, H21); ``controller_name`` is
    what a run's ``spec.controllerName`` must be for this installation to work on it.
    """

    installation: str
    controller_name: str = ""
    namespaces: tuple[str, ...] = ()
    """Those that are watched; none: all of them."""
    image: str = ""
    workspace_image: str = ""
    runner_dsn: str = field(default="", repr=False)
    """What an attempt connects to; the default of ``Operator``'s credentials."""
    local: bool = False
    policy: AdminPolicy = DEFAULT_POLICY
    accept_unverified_decisions: bool = False
    """Whether decisions count although the API server does not prove who decided (H42)."""

    backoff_base: float = 10.0
    backoff_cap: float = 300.0
    settle_slack: float = 30.0
    """Added to the pod's grace period before the operator writes the outcome itself."""
    resume_wait: float = 60.0
    """Wait of a self-suspended run that gave none (ModelUnavailable): it never spins (H68)."""
    record_wait: float = 300.0
    """Between two attempts on a record that a newer release wrote (H29) or the store lost a part of."""
    keep_failed_pod: float = 3600.0

    poll: float = 1.0
    resync: float = 300.0
    sweep_confirm: float = 600.0
    """Between the two looks that must agree before a row without an object is revoked."""
    workers: int = 4
