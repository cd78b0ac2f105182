"""One attempt at a run: claim, restore, loop, lease, and an exit code.

The loop asks :func:`agentrun.run.next_steps.next_steps` what may run, does it, appends the commit
that the step makes, folds it and asks again. Everything else here is what a process needs around
that: how far the lease reaches, what waits for the store, when to stop.
"""
