"""The workspace as an MCP server: low-level, because that is the cheapest to import.

Importing the SDK takes a second of CPU, so this module is imported only once the socket listens:
a runner that connects meanwhile waits in its backlog.
"""

from __future__ import annotations

import base64
import time
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from agentrun.run.surrogates import mend_text
from agentrun.workspace import protocol
from agentrun.workspace.outcome import Outcome, Refused
from agentrun.workspace.paths import parse_file
from agentrun.workspace.schema import SPECS, ToolSpec
from agentrun.workspace.state import Workspace


def make_server(workspace: Workspace) -> Server[Any]:
    """A server over one workspace.

    The handlers do not await anything: a call that has begun is neither interleaved with another
    nor cancelled with its connection.
    """
    tools = [_described(name, spec) for name, spec in SPECS.items()]

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in SPECS:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {mend_text(params.name)[0]}")
        outcome = workspace.call(
            params.name, params.arguments or {}, params.meta or {}, now=time.time()
        )
        return _result(outcome, workspace.generation)

    async def list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])

    async def read_resource(
        ctx: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return types.ReadResourceResult(contents=[_blob(workspace, params.uri)])

    return Server(
        "agentrun-workspace",
        version="1",
        get_tool_input_schema=lambda name: SPECS[name].schema() if name in SPECS else None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


def _described(name: str, spec: ToolSpec) -> types.Tool:
    read_only, destructive, idempotent = spec.hints
    hints = types.ToolAnnotations(
        read_only_hint=read_only, destructive_hint=destructive, idempotent_hint=idempotent
    )
    return types.Tool(
        name=name, description=spec.text, input_schema=spec.schema(), annotations=hints
    )


def _result(outcome: Outcome, generation: str) -> types.CallToolResult:
    meta: dict[str, Any] = {
        protocol.META_CHANGED: [change.as_meta() for change in outcome.changed],
        protocol.META_GENERATION: generation,
    }
    if outcome.not_sent:
        meta[protocol.META_NOT_SENT] = True
    blocks = [types.TextContent(text=mend_text(text)[0]) for text in (outcome.text, *outcome.notes)]
    structured = None if outcome.structured is None else dict(outcome.structured)
    return types.CallToolResult(
        content=list(blocks),
        structured_content=structured,
        is_error=outcome.is_error,
        _meta=meta,
    )


def _blob(workspace: Workspace, uri: str) -> types.BlobResourceContents:
    """The content a ``workspace:///`` address asks for. Raises ``MCPError``."""
    part = protocol.parse_uri(uri)
    if part is None:
        raise MCPError(types.INVALID_PARAMS, "not an address of a workspace file")
    try:
        parts = parse_file(part.path)
        data = workspace.tree.read(parts, part.offset, part.limit)
        status = workspace.tree.status(parts)
    except (Refused, OSError) as error:
        raise MCPError(types.INVALID_PARAMS, mend_text(str(error))[0]) from None
    meta = (
        {}
        if status is None
        else {
            protocol.META_SIZE: status.st_size,
            protocol.META_MODE: status.st_mode & 0o777,
        }
    )
    return types.BlobResourceContents(
        uri=uri,
        mime_type="application/octet-stream",
        blob=base64.b64encode(data).decode(),
        _meta=meta,
    )
