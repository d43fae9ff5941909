"""Directory server as a process.

`mqdssm.server.snapshot_reader` reads its state, for people and metrics.
"""
