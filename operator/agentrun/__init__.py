"""AgentRun: agent runs on Kubernetes that survive anything that happens to their pods.

The package is a set of layers, one per concern; ``docs/architecture.md`` is the map. Imports go one
way only (``api <- run <- store, cluster, telemetry <- controller | runner <- cli``), which
import-linter enforces.
"""

__version__ = "0.1.0"
