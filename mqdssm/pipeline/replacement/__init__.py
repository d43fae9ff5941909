"""Replacement of a server that keeps the GUIDs of its queue manager and queues.

The replacement is a plan in the form of a migration, which `mqdssm.pipeline.migrate.applying` applies.
"""

from mqdssm.pipeline.replacement.run import RenamedQueue, Replacement, replace_server

__all__ = ["RenamedQueue", "Replacement", "replace_server"]
