"""The step OfferTools: what an agent can call, before the run starts."""

from __future__ import annotations

from agentrun.api import Reason
from agentrun.errors import ToolServerUnavailable
from agentrun.run import boundaries
from agentrun.run.identity import MAIN_TASK
from agentrun.run.steps import FailTask, OfferTools
from agentrun.runner.attempt import Attempt
from agentrun.runner.ready_servers import ReadyServers
from agentrun.runner.run_tool import unreachable
from agentrun.runner.toolsets import offers_for, servers_of, unmatched


async def offer_tools(
    attempt: Attempt, servers: ReadyServers, step: OfferTools, after: int
) -> None:
    """The work of the step. A glob that matches nothing is the manifest's mistake: nothing starts."""
    names = servers_of(attempt.spec, step.agent)
    try:
        tools = await servers.list(names)
    except ToolServerUnavailable as error:
        if attempt.keeps(failed=True):
            attempt.part(unreachable(attempt, ", ".join(names), error))
        return
    if not attempt.keeps(failed=False):
        return
    glob = unmatched(attempt.spec, step.agent, tools)
    if glob is not None:
        message = (
            f"agent {step.agent}: tools: {glob!r} matches no tool of "
            f"{', '.join(names) or 'no server'}; {len(tools)} are offered"
        )
        fail = FailTask(MAIN_TASK, Reason.INVALID_SPEC, message)
        attempt.commit(boundaries.settle(fail, attempt.state, attempt.spec), after=after)
        return
    offers = offers_for(attempt.spec, step.agent, tools)
    boundary = boundaries.tools_offered(attempt.state, step.agent, offers)
    if boundary is not None:
        attempt.observer.toolset(step.agent, len(offers))
        attempt.commit(boundary, after=after)
