"""Logs, metrics and traces. Nothing in them is a secret, a prompt or tool data.

Imported piece by piece: a runner pod that exports nothing loads neither prometheus_client nor the
OpenTelemetry SDK.
"""
