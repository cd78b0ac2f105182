"""The controller: observe facts, plan purely, execute, project the status.

``plan(world)`` holds every decision and knows no clock and no I/O; ``execute`` performs the actions
against the store and the cluster; ``reconcile`` is the loop around them. ``watch.py`` is the only
module that imports kopf.
"""
