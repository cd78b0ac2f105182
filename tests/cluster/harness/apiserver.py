"""A lone API server: real validation, admission and watches, without a single node.

For tests of what the API server itself decides (schemas, CEL, policies, RBAC,
conflicts) and of clients that talk to it. It starts in seconds.
"""

import secrets
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.harness.kube import Kube
from tests.cluster.harness.polling import eventually
from tests.cluster.harness.shell import run, script

ADMIN = "system:masters"


@dataclass(frozen=True, kw_only=True)
class ApiServer(Kube):
    """A kube-apiserver of this test's own, with RBAC on; its administrator may impersonate anybody."""

    url: str
    token: str
    ca_file: Path


@contextmanager
def api_server(*, controllers: bool = False, flags: Sequence[str] = ()) -> Iterator[ApiServer]:
    """Start etcd and kube-apiserver, end them on leaving.

    Pods can be created but never run, and a namespace that is deleted stays
    Terminating. With `controllers`, the controller manager runs as well:
    owner-reference garbage collection, namespaces and service accounts work.
    """
    needed = ["etcd", "kube-apiserver", "kubectl"]
    if controllers:
        needed.append("kube-controller-manager")
    programs = Path(script("programs", *needed, timeout=3600))
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agentrun-api-")))
        etcd_url = _start_etcd(stack, programs, home)
        server = _start_api(stack, programs, home, etcd_url, controllers, flags)
        if controllers:
            _start_controllers(stack, programs, home, server)
        yield server


def _start_etcd(stack: ExitStack, programs: Path, home: Path) -> str:
    client, peer = _free_ports(2)
    url = f"http://127.0.0.1:{client}"
    peer_url = f"http://127.0.0.1:{peer}"
    stack.enter_context(
        _process(
            home / "etcd.log",
            programs / "etcd",
            f"--data-dir={home}/etcd",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            "--unsafe-no-fsync",
        )
    )
    return url


def _start_api(
    stack: ExitStack,
    programs: Path,
    home: Path,
    etcd_url: str,
    controllers: bool,
    flags: Sequence[str],
) -> ApiServer:
    (port,) = _free_ports(1)
    token = secrets.token_hex(16)
    (home / "tokens.csv").write_text(f'{token},admin,admin,"{ADMIN}"\n')
    run("openssl", "genrsa", "-out", str(home / "accounts.key"), "2048")
    # without controllers nobody makes the service account that pods would have to name
    off = () if controllers else ("--disable-admission-plugins=ServiceAccount",)
    process = stack.enter_context(
        _process(
            home / "apiserver.log",
            programs / "kube-apiserver",
            f"--etcd-servers={etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={home}/certificates",
            f"--token-auth-file={home}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={home}/accounts.key",
            f"--service-account-signing-key-file={home}/accounts.key",
            "--allow-privileged=true",
            *off,
            *flags,
        )
    )
    server = _describe(programs, home, port, token)

    def ready() -> bool:
        if process.poll() is not None:
            raise RuntimeError((home / "apiserver.log").read_text()[-4000:])
        return server.kubectl("get", "--raw", "/readyz", timeout=10) == "ok"

    eventually(ready, within=120, what="the API server is ready", every=0.1)
    return server


def _describe(programs: Path, home: Path, port: int, token: str) -> ApiServer:
    url = f"https://127.0.0.1:{port}"
    # the server makes this certificate for itself; the file holds its issuer, too
    ca_file = home / "certificates" / "apiserver.crt"
    kubeconfig = home / "kubeconfig"
    kubeconfig.write_text(
        f"""apiVersion: v1
kind: Config
current-context: test
contexts: [{{name: test, context: {{cluster: test, user: admin}}}}]
clusters: [{{name: test, cluster: {{server: "{url}", certificate-authority: "{ca_file}"}}}}]
users: [{{name: admin, user: {{token: "{token}"}}}}]
"""
    )
    return ApiServer(
        kubeconfig=kubeconfig,
        kubectl_path=str(programs / "kubectl"),
        url=url,
        token=token,
        ca_file=ca_file,
    )


def _start_controllers(stack: ExitStack, programs: Path, home: Path, server: ApiServer) -> None:
    stack.enter_context(
        _process(
            home / "controllers.log",
            programs / "kube-controller-manager",
            f"--kubeconfig={server.kubeconfig}",
            f"--service-account-private-key-file={home}/accounts.key",
            f"--root-ca-file={server.ca_file}",
            f"--cert-dir={home}/controller-certificates",
            "--bind-address=127.0.0.1",
            f"--secure-port={_free_ports(1)[0]}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
        )
    )
    server.wait("serviceaccount/default", "create", "default")


@contextmanager
def _process(log: Path, program: Path, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, *flags], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        # nothing here is worth the seconds that an orderly stop takes
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
