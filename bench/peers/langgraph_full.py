"""LangGraph with PostgresSaver: the list of messages is a channel, saved whole at every superstep.

Two supersteps a turn, model and tool. ``durability="sync"``: the step is saved before the next one
begins, which is what we promise as well. Earlier turns are put in with one update of the state.
"""

# mypy: disable-error-code="import-not-found,untyped-decorator"
# Its libraries are not those of this project: they are in the interpreter that --peers names.

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from bench.peers.common import Meter, Task, read_task


class State(TypedDict):
    """The conversation, and how many turns are left."""

    messages: Annotated[list[AnyMessage], add_messages]
    turn: int


def messages_of(index: int, said: str, answered: str) -> list[AnyMessage]:
    """One turn."""
    call = {"id": f"call-{index}", "name": "logs", "args": {"n": index}}
    return [
        AIMessage(content=said, tool_calls=[call], id=f"ai-{index}"),
        ToolMessage(content=answered, tool_call_id=f"call-{index}", id=f"tool-{index}"),
    ]


def graph(task: Task) -> StateGraph[Any]:
    """A model and a tool that say what they are given, in turns."""
    first = len(task.before)

    def model(state: State) -> dict[str, Any]:
        return {"messages": messages_of(state["turn"], *task.turns[state["turn"]])[:1]}

    def tool(state: State) -> dict[str, Any]:
        turn = state["turn"]
        return {"messages": messages_of(turn, *task.turns[turn])[1:], "turn": turn + 1}

    def again(state: State) -> str:
        return "model" if state["turn"] < first + task.window else END

    made: StateGraph[Any] = StateGraph(State)
    made.add_node("model", model)
    made.add_node("tool", tool)
    made.add_edge(START, "model")
    made.add_edge("model", "tool")
    made.add_conditional_edges("tool", again)
    return made


def main() -> None:
    """Play the window."""
    task = read_task()
    config: Any = {
        "configurable": {"thread_id": f"t-{len(task.turns)}"},
        "recursion_limit": 10 * len(task.turns) + 100,
    }
    with PostgresSaver.from_conn_string(task.dsn) as saver:
        saver.setup()
        app = graph(task).compile(checkpointer=saver)
        history: list[AnyMessage] = [HumanMessage(content="go", id="first")]
        for index, (said, answered) in enumerate(task.before):
            history += messages_of(index, said, answered)
        begin = {"messages": history, "turn": len(task.before)}
        meter = Meter(task)
        steps = app.stream(begin, config, stream_mode="updates", durability="sync")
        for number, _ in enumerate(steps):
            if number < 2:
                meter.start()  # the first turn pays for opening the conversation
            else:
                meter.step()
        meter.report(langgraph=version("langgraph"), saver=version("langgraph-checkpoint-postgres"))


main()
