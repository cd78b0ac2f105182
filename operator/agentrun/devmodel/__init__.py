"""A Messages-API-compatible server that plays a script, so that no example or test needs a key.

What it answers depends only on the request (and on how often an ``error`` rule was used up), so a
restarted runner, or a restarted server, gets the same replies again. ``load_script`` reads the
file, ``serve`` blocks until it is told to stop, ``open_server`` is for use inside a process.
"""

from agentrun.devmodel.parse import load_script
from agentrun.devmodel.script import Script
from agentrun.devmodel.server import open_server, serve

__all__ = ["Script", "load_script", "open_server", "serve"]
