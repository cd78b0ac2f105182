"""Kubernetes quantities of bytes."""

from __future__ import annotations

import re

SCALE = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip


def quantity_bytes(text: str) -> int:
    """A Kubernetes quantity (``64Mi``) as a number of bytes."""
    match = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text)
    if match is None or match[2] not in SCALE:
        raise ValueError(f"not a quantity: {text!r}")
    return int(float(match[1]) * SCALE[match[2]])
