"""What a run is: its records, the state they fold into, and what may happen next. Pure.

Two functions carry the whole product: :func:`agentrun.run.fold.fold` (records to state) and
:func:`agentrun.run.next_steps.next_steps` (state to everything that may run now). Neither knows a
clock, a network or randomness, so recovery is not a feature but a restart of the same two.
"""
