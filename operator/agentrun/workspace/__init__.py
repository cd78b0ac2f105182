"""The bundled tool server: files of a run, confined to one folder, and part of the run's record.

``protocol`` is what the runner shares with it (names, digests, URIs; it imports nothing heavy).
``state`` decides what may run and what is remembered, ``tools`` and ``restore`` do it on a
``tree``, ``beneath`` keeps every access inside the folder, ``server`` puts it on the wire.
"""
