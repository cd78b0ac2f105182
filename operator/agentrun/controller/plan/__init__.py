"""Every decision of the controller, one module a topic; :mod:`agentrun.controller.plan.plan` joins them.

Ordered lists of rules: the first one that applies decides. A rule answers None when it does not
apply, and an empty tuple when it applies and there is nothing to do. No module of this package
knows a clock, a network or randomness, and none reads ``status.phase`` back.
"""
