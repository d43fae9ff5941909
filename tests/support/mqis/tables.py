"""MQIS tables of tests, read as the objects that validation, inventory and comparison see."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from mqdssm.pipeline.local import LocalRunner
from mqdssm.pipeline.runner import Runner
from mqdssm.pipeline.validate.sources import open_mqis_source


def write_jsonl(folder: Path, name: str, *rows: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def read_sets(folder: Path, runner: Runner | None = None) -> dict[str, pa.Table]:
    """The objects by type, in the order of the source."""
    with open_mqis_source(runner or LocalRunner(1), folder) as source:
        return {name: one.read_table(tuple(one.types)) for name, one in source.sets.items()}


def read_rows(folder: Path, type_name: str) -> list[dict[str, Any]]:
    """The objects of a type, by GUID."""
    rows: list[dict[str, Any]] = read_sets(folder)[type_name].to_pylist()
    return sorted(rows, key=lambda row: row["Identifier"] or "")
