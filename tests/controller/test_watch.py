"""What Kopf is told: it must be something that an API server takes."""

from __future__ import annotations

from agentrun.controller.watch import settings


def test_a_watch_asks_for_whole_seconds() -> None:
    """`strconv.ParseInt: parsing "282.79": invalid syntax`, and the operator ended."""
    for clusterwide in (True, False):
        watching = settings(clusterwide=clusterwide).watching
        assert isinstance(watching.server_timeout, int)
        assert watching.client_timeout is not None
        assert watching.client_timeout > watching.server_timeout
