"""Orphans: objects of MSMQ whose machine, site or parent is gone.

The package only lists orphans. `mqdssm.pipeline.migrate.orphan_plan` plans their deletion.
"""

from mqdssm.pipeline.orphans.listing import Orphan, OrphanList
from mqdssm.pipeline.orphans.places import OrphanPlaces
from mqdssm.pipeline.orphans.search import search_orphans

__all__ = ["Orphan", "OrphanList", "OrphanPlaces", "search_orphans"]
