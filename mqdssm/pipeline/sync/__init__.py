"""Declared sites, queues, quotas and rights, kept in a file.

The file is compared with the directory. The differences become a plan in the form of a migration, which
`mqdssm.pipeline.migrate.applying` applies.
"""

from mqdssm.pipeline.sync.declaration import (
    Declaration,
    DeclaredMachine,
    DeclaredQueue,
    DeclaredSite,
    load_declaration,
)
from mqdssm.pipeline.sync.rights import DeclaredRights
from mqdssm.pipeline.sync.run import SyncResult, sync

__all__ = [
    "Declaration",
    "DeclaredMachine",
    "DeclaredQueue",
    "DeclaredRights",
    "DeclaredSite",
    "SyncResult",
    "load_declaration",
    "sync",
]
