"""``df.write.format("mqdssm")``: objects of a data frame become objects of a directory, once."""

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

import mqdssm
from mqdssm.spark.manifest import MANIFEST_NAME, sha256
from mqdssm.spark.source import register

pytestmark = pytest.mark.timeout(600)


def write(spark, frame, enterprise, element, **options) -> None:
    register(spark)
    given = enterprise.options(object=element, **options)
    frame.write.format("mqdssm").mode("append").options(**given).save()


def journal_of(folder: Path) -> tuple[dict, list[dict]]:
    """The manifest of the newest write, and what became of each row."""
    newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    manifest = json.loads((newest / MANIFEST_NAME).read_text())
    rows = []
    for file in manifest["files"]:
        path = newest / file["path"]
        assert sha256(path) == file["sha256"]
        found = pq.read_table(path).to_pylist()
        assert len(found) == file["rows"]
        rows += found
    assert Counter(row["effect"] for row in rows) == manifest["counts"]
    return manifest, rows


def test_queues_are_added_once(spark, enterprise, tmp_path):
    journal = tmp_path / "journal"
    rows = spark.range(40).select(
        F.concat(F.lit("web01\\made"), F.col("id").cast("string")).alias("Pathname"),
        F.concat(F.lit("Label "), F.col("id").cast("string")).alias("Label"),
        F.col("id").alias("Quota"),
    )
    write(spark, rows, enterprise, "queue", journal=str(journal))
    manifest, outcomes = journal_of(journal)
    assert (manifest["complete"], manifest["counts"]) == (True, {"added": 40})
    assert all(row["dn"].lower().startswith("cn=made") for row in outcomes)
    with enterprise.connect() as directory:
        made = {q.label: q for q in directory.search(mqdssm.Queue) if q.label.startswith("Label ")}
    assert sorted(q.quota for q in made.values()) == list(range(40))
    assert all(q.security is not None for q in made.values())
    write(spark, rows, enterprise, "queue", journal=str(journal))
    assert journal_of(journal)[0]["counts"] == {"equal": 40}
