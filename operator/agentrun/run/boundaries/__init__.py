"""The commit that each finished step makes. Pure: the runner appends it, then folds it."""

from agentrun.run.boundaries.environment import environment_reset, tools_offered
from agentrun.run.boundaries.model import after_model, model_failed
from agentrun.run.boundaries.settle import settle
from agentrun.run.boundaries.tool import after_tool, outgoing, tool_started

__all__ = [
    "after_model",
    "after_tool",
    "environment_reset",
    "model_failed",
    "outgoing",
    "settle",
    "tool_started",
    "tools_offered",
]
