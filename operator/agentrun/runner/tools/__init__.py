"""The tool servers at the runner's rim; the only place that imports mcp, the bundled server apart."""

from agentrun.runner.tools.port import Fetch, Files, NotSent, OfferedTool, ToolRoom

__all__ = ["Fetch", "Files", "NotSent", "OfferedTool", "ToolRoom"]
