"""Reading the facts under tests/vectors: CSV with one comment line that names the source."""

import csv
from pathlib import Path

VECTORS = Path(__file__).resolve().parents[2] / "vectors"


def read_vectors(name: str) -> list[dict[str, str]]:
    """The lines of a file as dictionaries; the first line has to be the comment with the source."""
    lines = (VECTORS / name).read_text(encoding="utf-8").splitlines()
    if not lines[0].startswith("# ["):
        raise ValueError(f"{name} does not name its source in the first line")
    return list(csv.DictReader(lines[1:]))
