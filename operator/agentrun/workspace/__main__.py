"""``python -m agentrun.workspace --root DIR (--socket PATH | --stdio) --size-limit BYTES``."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from agentrun.errors import UsageError
from agentrun.workspace.serve import end_at_once, listen, serve_socket, serve_stdio
from agentrun.workspace.state import Workspace
from agentrun.workspace.tree import Tree


def main() -> int:
    """Signals are handled first: PID 1 of a container ignores what nobody handles."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end_at_once())
    parser = argparse.ArgumentParser(prog="agentrun.workspace", description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--size-limit", type=int, default=64 << 20, help="bytes of all files")
    parser.add_argument("--durable", action="store_true", help="sync to disk before answering")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", type=Path)
    where.add_argument("--stdio", action="store_true")
    args = parser.parse_args()
    try:
        bound = None if args.stdio else listen(args.socket)
        workspace = Workspace(Tree(args.root, args.size_limit, durable=args.durable))
    except (UsageError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    asyncio.run(serve_stdio(workspace) if bound is None else serve_socket(workspace, bound))
    return 0


if __name__ == "__main__":
    sys.exit(main())
