"""The model at the runner's rim; the only place that imports anthropic."""

from agentrun.runner.model.port import Model, ModelNote, Observe, ProviderUnavailable

__all__ = ["Model", "ModelNote", "Observe", "ProviderUnavailable"]
