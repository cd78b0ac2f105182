"""The adapter of the model provider; the only place that imports anthropic.

``open_model`` is cheap; ``preload`` starts the import of the SDK in a thread.
"""

from agentrun.runner.model.backoff import Backoff
from agentrun.runner.model.opening import open_model
from agentrun.runner.model.port import Model, ModelNote, Observe
from agentrun.runner.model.preload import preload
from agentrun.runner.model.settings import Deadlines

__all__ = [
    "Backoff",
    "Deadlines",
    "Model",
    "ModelNote",
    "Observe",
    "open_model",
    "preload",
]
