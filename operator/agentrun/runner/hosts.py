"""Which hosts are this machine."""

from __future__ import annotations

import ipaddress


def is_local(host: str) -> bool:
    """Whether a host is this machine: proxies are for the outside, never for that."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
