"""What a failed test leaves behind for whoever reads it."""

from pathlib import Path

from tests.cluster.harness.kube import Kube
from tests.cluster.harness.shell import CommandFailed

QUESTIONS = {
    "objects.txt": ("get", "all,pvc,secrets,configmaps", "-o", "wide"),
    "objects.yaml": ("get", "all,pvc", "-o", "yaml"),
    "runs.yaml": ("get", "agentruns,approvals", "-o", "yaml"),
    "events.txt": ("events",),
    "pods.txt": ("describe", "pods"),
}


def dump(kube: Kube, namespace: str, folder: Path) -> None:
    """Write objects, events and logs of a namespace, and the nodes' state.

    It runs when something is broken already, so an answer that cannot be had
    is written down as such and never hides the failure itself.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, question in QUESTIONS.items():
        _write(kube, folder / name, *question, "-n", namespace)
    _write(kube, folder / "nodes.txt", "describe", "nodes")
    for pod, container in _containers(kube, namespace):
        where = (f"pod/{pod}", "-n", namespace, "-c", container)
        _write(kube, folder / f"{pod}.{container}.log", "logs", *where)
        _write(kube, folder / f"{pod}.{container}.previous.log", "logs", *where, "--previous")


def _write(kube: Kube, file: Path, *question: str) -> None:
    try:
        answer = kube.try_kubectl(*question, timeout=30)
    except CommandFailed as failure:
        file.write_text(str(failure))
        return
    if answer.returncode == 0 or not file.name.endswith(".previous.log"):
        file.write_text(answer.stdout + answer.stderr)


def _containers(kube: Kube, namespace: str) -> list[tuple[str, str]]:
    try:
        pods = kube.select("pods", namespace)
    except CommandFailed:
        return []
    return [
        (pod["metadata"]["name"], container["name"])
        for pod in pods
        for group in ("initContainers", "containers")
        for container in pod["spec"].get(group, [])
    ]
