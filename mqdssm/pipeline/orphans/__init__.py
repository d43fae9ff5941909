"""Orphans: objects of MSMQ whose machine, site or parent is gone.

The package only lists orphans. `mqdssm.pipeline.migrate.orphan_plan` plans their deletion.
"""

from mqdssm.pipeline.orphans.places import OrphanPlaces

__all__ = ["OrphanPlaces"]
