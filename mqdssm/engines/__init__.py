"""Sans-I/O engines of replication, notification and discovery.

`step(event, now)` returns actions.
"""
