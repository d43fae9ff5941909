"""The GUID map of a migration, read by csv alone."""

import csv
from pathlib import Path
from uuid import UUID

from mqdssm.pipeline.migrate.places import MapRow


def read_guid_map(path: Path) -> list[MapRow]:
    """The lines of a GUID map."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            MapRow(one["type"], UUID(one["old"]), UUID(one["new"]), one["dn"]) for one in csv.DictReader(file)
        ]
