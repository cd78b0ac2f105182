"""A tool server with a real side effect: it books entries in a file.

`python ledger.py FILE`: an ordinary MCP server over stdio, as anybody would write one. It takes the call key that AgentRun
sends with every call for its idempotency key: a call that is repeated books nothing twice.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer

LEDGER = Path(sys.argv[1])
server = MCPServer("ledger")


@server.tool()
def book(account: str, amount: int, context: Context) -> str:
    """Book an amount on an account."""
    meta = context.request_context.meta or {}
    key = meta.get("agentrun.dev/call-key", "")
    entries = (
        [json.loads(line) for line in LEDGER.read_text().splitlines()] if LEDGER.exists() else []
    )
    if any(entry["key"] == key for entry in entries):
        return f"already booked {amount} on {account}"
    with LEDGER.open("a") as file:
        file.write(json.dumps({"key": key, "account": account, "amount": amount}) + "\n")
    return f"booked {amount} on {account}"


@server.tool()
def balance(account: str) -> int:
    """Sum of an account."""
    entries = (
        [json.loads(line) for line in LEDGER.read_text().splitlines()] if LEDGER.exists() else []
    )
    return sum(entry["amount"] for entry in entries if entry["account"] == account)


if __name__ == "__main__":
    server.run()
