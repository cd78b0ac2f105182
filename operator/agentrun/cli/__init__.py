"""The command line: ``agentrun`` for local mode, ``kubectl-agentrun`` for the current context."""
