"""The CRDs, made from the models: ``python -m agentrun.api.crd crds/`` writes them.

A test compares the files with what the models give, byte for byte. PyYAML is this package's own
need; nothing at run time imports it.
"""

from __future__ import annotations

from typing import Final

import yaml

from agentrun.api.crd.objects import agentrun_crd, approval_crd
from agentrun.api.crd.schema import Schema
from agentrun.api.names import AGENTRUN_PLURAL, APPROVAL_PLURAL, GROUP

HEADER: Final = "# Made from operator/agentrun/api by `python -m agentrun.api.crd crds/`.\n"


class _Plain(yaml.SafeDumper):
    """YAML for people: no aliases, and rules of several lines as such."""

    def ignore_aliases(self, data: object) -> bool:
        del data
        return True


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Plain.add_representer(str, _string)


def crds() -> tuple[Schema, Schema]:
    """The CRDs of AgentRun and Approval."""
    return agentrun_crd(), approval_crd()


def render() -> dict[str, str]:
    """File name to text of each CRD."""
    names = (AGENTRUN_PLURAL, APPROVAL_PLURAL)
    return {
        f"{GROUP}_{name}.yaml": HEADER + _text(crd) for name, crd in zip(names, crds(), strict=True)
    }


def _text(crd: Schema) -> str:
    return yaml.dump(crd, Dumper=_Plain, sort_keys=False, width=100, allow_unicode=True)
