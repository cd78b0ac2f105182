"""Local mode: the cluster port on a state folder, with child processes for pods.

Light on purpose: the supervisor of every pod is started from this package. Use
:mod:`agentrun.cluster.local.open`.
"""
