"""``python -m agentrun.devmodel SCRIPT [--host H] [--port N] [--log FILE] [--port-file FILE]``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agentrun.devmodel import load_script, serve
from agentrun.errors import UsageError


def main() -> int:
    parser = argparse.ArgumentParser(prog="agentrun.devmodel", description="scripted Messages API")
    parser.add_argument("script", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--log", type=Path, help="one JSON line per request")
    parser.add_argument("--port-file", type=Path, help="where to write the bound port")
    args = parser.parse_args()

    def ready(port: int) -> None:
        if args.port_file is not None:
            publish(args.port_file, port)
        print(f"http://{args.host}:{port}", flush=True)

    try:
        script = load_script(args.script)
        serve(script, host=args.host, port=args.port, log=args.log, ready=ready)
    except (UsageError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def publish(path: Path, port: int) -> None:
    """Write the port in one step: whoever sees the file sees the whole number."""
    draft = path.with_name(path.name + ".tmp")
    draft.write_text(f"{port}\n")
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main())
