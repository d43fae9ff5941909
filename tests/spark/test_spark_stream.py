"""``spark.readStream.format("mqdssm")``: each change of a directory exactly once, with Spark's checkpoint."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import mqdssm
from mqdssm.errors import ConfigError, MqdssmError
from mqdssm.pipeline.failures import MqdssmSparkError, unpack
from mqdssm.spark.options import StreamOptions
from mqdssm.spark.source import MqdssmDataSource, register
from mqdssm.spark.stream import MqdssmStreamReader

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.spark,
    pytest.mark.server,
]


@pytest.fixture
def options(enterprise, tmp_path) -> dict[str, str]:
    more = {"object": "site", "columns": "Name,Security,Unreadable", "startingOffset": "snapshot"}
    return enterprise.options(state=str(tmp_path / "state"), **more)


def test_a_query_goes_on_where_it_was(spark, enterprise, options, tmp_path, event_log) -> None:
    register(spark)

    def run() -> list[dict[str, Any]]:
        stream = spark.readStream.format("mqdssm").options(**options, maxRowsPerTrigger="2").load()
        there = {"path": str(tmp_path / "out"), "checkpointLocation": str(tmp_path / "checkpoint")}
        query = stream.writeStream.format("parquet").options(**there).trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(240)
        finally:
            query.stop()
        assert all(progress.numInputRows <= 2 for progress in query.recentProgress)
        rows = spark.read.parquet(str(tmp_path / "out")).orderBy("Sequence").collect()
        assert [row["Sequence"] for row in rows] == list(range(1, len(rows) + 1))
        return [row.asDict() for row in rows]

    with enterprise.connect() as directory:
        directory.create(bergen := mqdssm.Site(name="Bergen"))
        first = run()
        turku = directory.create(mqdssm.Site(name="Turku"))
        directory.delete(bergen)
        second = run()
    assert second[:3] == first
    assert {(row["Change"], row["ObjectType"]) for row in first} == {("existing", "site")}
    assert sorted(row["Name"] for row in first) == ["Bergen", "Oslo", "Paris"]
    assert all(row["Security"] and row["Unreadable"] is None for row in first)
    assert {(row["Change"], row["ObjectGuid"], row["Name"]) for row in second[3:]} == {
        ("created", str(turku), "Turku"),
        ("deleted", str(bergen.identifier), None),
    }
    shown = b"".join(path.read_bytes() for path in event_log.rglob("*") if path.is_file())
    assert b"mqdssm" in shown
    assert enterprise.server.password.encode() not in shown


# -- without a query: what Spark calls, in its order


@pytest.fixture
def reader(options) -> Iterator[MqdssmStreamReader]:
    made = MqdssmStreamReader(StreamOptions.parse(options))
    yield made
    made.stop()


def again(reader: MqdssmStreamReader) -> MqdssmStreamReader:
    """A reader of the same query, started again."""
    reader.stop()
    return MqdssmStreamReader(reader._options)


def rows(reader: MqdssmStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    batches = (batch for one in reader.partitions(start, end) for batch in reader.read(one))
    return [row for batch in batches for row in batch.to_pylist()]


def refusal(error: MqdssmSparkError) -> MqdssmError | None:
    return unpack(f"{type(error).__name__}: {error}")


def test_a_batch_that_was_not_committed_has_the_same_rows_again(reader, enterprise) -> None:
    begin = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(begin, ReadMaxRows(1))
    assert end == begin | {"sequence": 1}
    assert json.loads(json.dumps(end)) == end
    found = rows(reader, begin, end)
    with enterprise.connect() as directory:  # the object is another one by now
        site = next(one for one in directory.search(mqdssm.Site) if one.name == found[0]["Name"])
        directory.create(mqdssm.Site(name="Bergen"))
        assert site.identifier
    other = again(reader)
    try:
        assert other.initialOffset() == begin, "Spark may have ended before it noted that"
        assert rows(other, begin, end) == found
        other.prepareForTriggerAvailableNow()
        last = other.latestOffset(end, ReadAllAvailable())
        assert last["sequence"] == 3
        assert other.latestOffset(last, ReadMaxRows(5)) == last
        assert other.partitions(last, last) == []
        other.commit(end)
        assert [row["Sequence"] for row in rows(other, end, last)] == [2, 3]
        assert len(other.partitions(end, last)) == 1, "each is a task"
    finally:
        other.stop()


def test_what_does_not_belong_together_is_refused(reader, options, tmp_path) -> None:
    begin = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(begin, ReadAllAvailable())
    reader.commit(end)
    other = again(reader)
    with pytest.raises(MqdssmSparkError) as caught:
        other.initialOffset()
    assert "this one has no checkpoint: go on with the checkpoint" in str(refusal(caught.value))
    with pytest.raises(MqdssmSparkError) as caught:
        other.latestOffset(end | {"sequence": 9}, ReadAllAvailable())
    assert "goes on behind 9: bring back the folder" in str(refusal(caught.value))
    other.stop()
    elsewhere = MqdssmStreamReader(StreamOptions.parse(options | {"state": str(tmp_path / "other")}))
    with pytest.raises(MqdssmSparkError) as caught:
        elsewhere.partitions(end, end)
    assert isinstance(refusal(caught.value), ConfigError)
    assert "the checkpoint does not belong to the state folder" in str(caught.value)
    elsewhere.stop()


def test_a_directory_that_cannot_be_watched_ends_the_query(options) -> None:
    reader = MqdssmStreamReader(StreamOptions.parse(options | {"url": "ldap://127.0.0.1:1"}))
    begin = reader.initialOffset()
    with pytest.raises(MqdssmSparkError, match="code=DirectoryNotConnected"):
        reader.prepareForTriggerAvailableNow()
    with pytest.raises(MqdssmSparkError, match="code=DirectoryNotConnected"):
        reader.latestOffset(begin, ReadAllAvailable())
    reader.stop()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"filter": "(cn=x)"}, "option filter is for spark.read"),
        ({"numpartitions": "2"}, "option numpartitions is for spark.read"),
        ({"object": "computer", "columns": ""}, "objects of type computer are not watched"),
        ({"startingoffset": "earliest"}, "use one of latest, snapshot"),
        ({"maxrowspertrigger": "0"}, "use a number from 1 to"),
        ({"state": ""}, "option state is missing"),
        ({"password": "x"}, "option password is refused"),
    ],
)
def test_wrong_options(options, change, words) -> None:
    given = {name.lower(): value for name, value in options.items()} | change
    with pytest.raises(MqdssmSparkError, match=words):
        MqdssmDataSource(given).schema()


def test_frames_and_streams_are_not_mixed_up(options) -> None:
    source = MqdssmDataSource(options)
    assert source.schema().names[:3] == ["Sequence", "ChangeId", "Change"]
    assert source.streamReader(source.schema()).schema == source.schema()
    with pytest.raises(MqdssmSparkError, match=r"are options of spark\.readStream"):
        source.reader(source.schema())
    batch = {name: value for name, value in options.items() if name not in {"state", "startingOffset"}}
    source = MqdssmDataSource(batch)
    with pytest.raises(MqdssmSparkError, match="option state is missing"):
        source.streamReader(source.schema())
