"""Charts rendered by Helm's own code, without a cluster.

``python -m tests.chart.render IMAGE`` prints what `helm install` of both would create.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml
from helm_python.chart import Chart

ROOT = Path(__file__).resolve().parents[2]
CHARTS = ROOT / "charts"


def render_text(
    chart: str, values: dict[str, Any] | None = None, namespace: str = "agentrun"
) -> str:
    """All manifests of a chart, for kubectl apply."""
    loaded = Chart.load(CHARTS / chart)
    loaded.validate_schema(values)
    rendered = loaded.render(values, name="agentrun", namespace=namespace)
    return "\n---\n".join(
        text for path, text in sorted(rendered.items()) if path.endswith(".yaml") and text.strip()
    )


def render(chart: str, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """All objects of a chart."""
    return [item for item in yaml.safe_load_all(render_text(chart, values)) if item]


def main(image: str) -> None:
    """Both charts with that image, in the namespace agentrun."""
    repository, _, tag = image.rpartition(":")
    values = {"image": {"repository": repository, "tag": tag}}
    print(render_text("agentrun-crds"), render_text("agentrun", values), sep="\n---\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
