"""``/livez``, ``/readyz`` and ``/metrics`` of the operator, in its own event loop.

In the loop on purpose: a loop that stalls does not answer, and the kubelet restarts it.
"""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from agentrun.controller.app import Operator
from agentrun.telemetry.metrics import Metrics


async def serve_health(port: int, operator: Operator, metrics: Metrics) -> web.AppRunner:
    """Listen; made before the watch starts, because Kopf ends every task made after it."""

    async def live(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(request: web.Request) -> web.Response:
        if operator.ready:
            return web.Response(text="ok\n")
        return web.Response(status=503, text="caches are not synced yet\n")

    async def scrape(request: web.Request) -> web.Response:
        operator.measure()
        return web.Response(body=metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/livez", live)
    app.router.add_get("/readyz", ready)
    app.router.add_get("/metrics", scrape)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    return runner
