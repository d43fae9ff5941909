"""The inventory of MQIS tables on a machine with neither Java nor pyspark."""

import csv
import json

import pytest
from support.spark.without_java import OF_SPARK, environment_without_java, run_mqdssm

from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan


@pytest.mark.slow
def test_an_inventory_without_java_and_pyspark(tmp_path) -> None:
    generate(
        EnterprisePlan(sites=3, machines=12, queues=150, users=12, seed=5), tmp_path / "mqis", SampleForm.MQIS
    )
    files = ("--csv", str(tmp_path / "csv"), "--html", str(tmp_path / "page.html"))
    words = ("inventory", "--mqis", str(tmp_path / "mqis"), "-o", "json", *files)
    head, *records = map(
        json.loads, run_mqdssm(environment_without_java(tmp_path, OF_SPARK), *words)[0].splitlines()
    )
    assert (head["engine"], head["objects"]["queue"]) == ("local", 150)
    queues = [one for one in records if one["record"] == "queue"]
    with (tmp_path / "csv" / "queues.csv").open(encoding="utf-8-sig", newline="") as lines:
        assert [row["Pathname"] for row in csv.DictReader(lines)] == [one["Pathname"] for one in queues]
    assert len(queues) == 150
    assert "<dt>Engine</dt><dd>local</dd>" in (tmp_path / "page.html").read_text(encoding="utf-8")
