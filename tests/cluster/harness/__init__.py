"""A real Kubernetes for tests: bring it up, put images in it, break it, look inside.

``ensure_cluster()`` gives the two-node cluster, ``api_server()`` a lone API
server for tests that need no nodes. Both answer to the same few methods.
"""

from tests.cluster.harness.apiserver import ApiServer, api_server
from tests.cluster.harness.cluster import Cluster, Unavailable, ensure_cluster
from tests.cluster.harness.images import build_image, postgres_image
from tests.cluster.harness.kube import Kube
from tests.cluster.harness.polling import eventually
from tests.cluster.harness.portforward import PortForward
from tests.cluster.harness.postgres import Postgres
from tests.cluster.harness.shell import CommandFailed

__all__ = [
    "ApiServer",
    "Cluster",
    "CommandFailed",
    "Kube",
    "PortForward",
    "Postgres",
    "Unavailable",
    "api_server",
    "build_image",
    "ensure_cluster",
    "eventually",
    "postgres_image",
]
