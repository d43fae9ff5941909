"""Findings in sorted parts, merged: the order is that of one sort of all of them."""

import random
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.servers.bad_places import small_disk

from mqdssm.errors import ConfigError
from mqdssm.pipeline.validate import finding_files
from mqdssm.pipeline.validate.finding_files import ORDER, merge_parts, write_parts
from mqdssm.pipeline.validate.scan import SCHEMA


def rows(seed: int, count: int) -> list[dict[str, str | None]]:
    chance = random.Random(seed)
    texts = ("", " ", "a", "a ", "b", "\n", "é", "\uffff", "😀")
    return [
        {
            name: None if name in {"dn", "guid"} and chance.random() < 0.3 else chance.choice(texts)
            for name in SCHEMA.names
        }
        for _ in range(count)
    ]


def key(row: dict[str, str | None]) -> list[tuple[bool, str]]:
    return [(row[name] is not None, row[name] or "") for name in ORDER]


@pytest.mark.parametrize("count", [0, 1, 7, 400])
def test_merged_parts_are_sorted(tmp_path, monkeypatch, count: int) -> None:
    monkeypatch.setattr(finding_files, "PART_ROWS", 30)
    monkeypatch.setattr(finding_files, "PARTS_MAX", 3)
    monkeypatch.setattr(finding_files, "BATCH_ROWS", 8)
    wanted = rows(count, count)
    batches = [pa.RecordBatch.from_pylist(wanted[start : start + 7], SCHEMA) for start in range(0, count, 7)]
    parts = write_parts(batches, tmp_path)
    assert len(parts) == -(-count // 35)
    path = merge_parts(parts, tmp_path)
    found = pq.read_table(path).to_pylist()
    assert [key(row) for row in found] == sorted(key(row) for row in wanted)
    assert sorted(map(str, found)) == sorted(map(str, wanted))
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_named_with_a_way_out(tmp_path) -> None:
    """Also where parts that fit are merged."""
    batch = pa.RecordBatch.from_pylist(rows(1, 2_000), SCHEMA)
    with small_disk(tmp_path / "small", "300k") as disk:
        parts = [*write_parts([batch], disk), *write_parts([batch], disk)]
        (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free - 8_192))
        for write in (lambda: write_parts([batch], disk), lambda: merge_parts(parts, disk)):
            with pytest.raises(ConfigError, match=rf"^the disk of {disk} is full: .*TMPDIR"):
                write()
