"""The adapter of the tool servers; the only place that imports mcp, the bundled server apart.

``open_tools`` is cheap; ``preload`` starts the import of the SDK in a thread.
"""

from agentrun.runner.tools.opening import open_targets, open_tools
from agentrun.runner.tools.port import Fetch, Files, OfferedTool, ToolServers
from agentrun.runner.tools.preload import preload
from agentrun.runner.tools.targets import Kind, Target

__all__ = [
    "Fetch",
    "Files",
    "Kind",
    "OfferedTool",
    "Target",
    "ToolServers",
    "open_targets",
    "open_tools",
    "preload",
]
