"""Nothing heavy is imported before it is needed, and then beside everything else."""

from __future__ import annotations

import subprocess
import sys
import textwrap


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_opening_imports_no_sdk() -> None:
    code = """
    import sys
    from agentrun.api import ModelSpec
    from agentrun.runner.model import open_model
    from agentrun.runner.tools import Kind, Target, open_targets
    open_model(ModelSpec(name="m"), api_key="k")
    open_targets([Target("a", Kind.REMOTE, "http://127.0.0.1:1/mcp")])
    print(sorted({"anthropic", "mcp", "mcp_types", "httpx2", "anyio"} & set(sys.modules)))
    """
    assert run(code) == "[]"


def test_preload_imports_in_a_thread_and_collects_garbage_again() -> None:
    code = """
    import gc, sys, threading
    from agentrun.runner import model, tools
    main = threading.current_thread().name
    for adapter, sdk in ((model, "anthropic"), (tools, "mcp")):
        future = adapter.preload()
        assert adapter.preload() is future
        future.result(timeout=120)
        assert sdk in sys.modules
    print(gc.isenabled())
    """
    assert run(code) == "True"


def test_a_waiter_that_is_cancelled_does_not_end_the_import() -> None:
    code = """
    import asyncio
    from agentrun.runner.model import preload

    async def main():
        waiting = asyncio.ensure_future(asyncio.wrap_future(preload()))
        await asyncio.sleep(0)
        waiting.cancel()
        try:
            await waiting
        except asyncio.CancelledError:
            pass
        print(preload().result(timeout=120).__name__)

    asyncio.run(main())
    """
    assert run(code) == "Sdk"
