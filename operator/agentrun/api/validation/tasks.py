"""The task graph: names, agents, dependencies, gates.

CEL cannot do this: for 300 tasks with 50 dependencies each the API server refuses the CRD as too
expensive (hazard H57).
"""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

from agentrun.api.globs import matches_server
from agentrun.api.spec import AgentRunSpec
from agentrun.api.tasks import TaskSpec
from agentrun.api.validation.paths import Problems, duplicates


def task_problems(spec: AgentRunSpec) -> Problems:
    """Tasks are told apart by name, and agents, dependencies and gates name what exists."""
    names = {task.name for task in spec.tasks}
    for name in duplicates(task.name for task in spec.tasks):
        yield f"spec.tasks: the name {name} is used more than once"
    for index, task in enumerate(spec.tasks):
        yield from _one_task(spec, task, names, f"spec.tasks[{index}]")
    if cycle := find_cycle(spec.tasks):
        yield f"spec.tasks: dependencies form a cycle: {' -> '.join(cycle)}"
    yield from _gate_problems(spec, names)


def find_cycle(tasks: Iterable[TaskSpec]) -> tuple[str, ...]:
    """One cycle of dependencies, its first task repeated at the end; empty if there is none."""
    sorter = TopologicalSorter({task.name: set(task.depends_on) for task in tasks})
    try:
        sorter.prepare()
    except CycleError as error:
        return tuple(reversed(error.args[1]))
    return ()


def _one_task(spec: AgentRunSpec, task: TaskSpec, names: set[str], where: str) -> Problems:
    agents = {agent.name for agent in spec.agents}
    if task.agent and task.agent not in agents:
        yield f"{where}.agent: no agent is named {task.agent}"
    if not task.agent and len(spec.agents) > 1:
        yield f"{where}.agent: needed, because spec.agents has more than one"
    for other in duplicates(task.depends_on):
        yield f"{where}.dependsOn: {other} is named more than once"
    for other in task.depends_on:
        if other not in names:
            yield f"{where}.dependsOn: no task is named {other}"
    servers = [server.name for server in spec.tool_servers]
    for tool in task.requires.tools if task.requires else ():
        if not matches_server(tool, servers):
            yield f"{where}.requires.tools: no tool server is named {tool.partition('.')[0]}"


def _gate_problems(spec: AgentRunSpec, names: set[str]) -> Problems:
    gates = spec.approvals
    if gates.rounds and gates.tasks:
        yield "spec.approvals: give one of rounds and tasks"
    if gates.plan and spec.goal is None:
        yield "spec.approvals.plan: only with goal"
    if spec.goal is not None:
        return
    for name in gates.tasks:
        if name != "*" and name not in names:
            yield f"spec.approvals.tasks: no task is named {name}"
