"""`kubectl port-forward` that comes back when it dies."""

import socket
import subprocess
import threading
from types import TracebackType
from typing import Self

from tests.cluster.harness.kube import Kube
from tests.cluster.harness.polling import eventually


class PortForward:
    """A fixed port of 127.0.0.1 that leads to a port of a pod or service.

    A port-forward ends with its pod and with any hiccup of its connection, so a
    thread starts it again until it is closed. The local port stays the same.
    """

    def __init__(self, kube: Kube, target: str, port: int, namespace: str) -> None:
        self.port = _free_port()
        self._command = kube.command(
            "port-forward", target, f"{self.port}:{port}", "-n", namespace, "--address=127.0.0.1"
        )
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper = threading.Thread(target=self._keep, name=f"forward-{target}", daemon=True)
        self._keeper.start()
        self.wait()

    def wait(self, within: float = 60) -> None:
        """Until something listens; a connection still fails when the pod is not ready."""
        eventually(self.listens, within=within, what=f"port-forward on {self.port}", every=0.1)

    def listens(self) -> bool:
        """Does the local port accept connections?"""
        with socket.create_connection(("127.0.0.1", self.port), timeout=2):
            return True

    def close(self) -> None:
        """End it for good."""
        self._closed.set()
        with self._lock:
            if self._process:
                self._process.terminate()
        self._keeper.join(timeout=10)

    def _keep(self) -> None:
        while not self._closed.is_set():
            with self._lock:
                if self._closed.is_set():
                    return
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            self._process.wait()
            self._closed.wait(0.5)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
