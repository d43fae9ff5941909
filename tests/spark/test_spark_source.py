"""The data source on a real server: types, values, errors, and no secret anywhere."""

import gc
from pathlib import Path
from uuid import UUID

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, InputPartition, IsNull
from pyspark.sql.pandas.types import to_arrow_schema
from support.spark.element_batches import batches, columns_of

import mqdssm
from mqdssm.errors import ConfigError, DirectoryNotConnected, ObjectNotFound
from mqdssm.pipeline.failures import unpack
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.frames.columns import FRAME_TYPES, TYPES
from mqdssm.spark.options import SourceOptions
from mqdssm.spark.session import LOG_NAME
from mqdssm.spark.source import (
    FilteringReader,
    MqdssmDataSource,
    MqdssmReader,
    make_spark_schema,
    read,
    register,
)

pytestmark = [pytest.mark.spark, pytest.mark.server]


@pytest.mark.parametrize("frame", FRAME_TYPES.values(), ids=FRAME_TYPES)
def test_arrow_schema_is_the_one_that_spark_expects(frame) -> None:
    assert to_arrow_schema(make_spark_schema(frame.columns), timezone="UTC").equals(
        make_arrow_schema(frame.columns)
    )


def test_values_are_those_of_the_directory(spark, enterprise) -> None:
    for name, element in TYPES.items():
        columns = columns_of(element)
        with enterprise.connect() as directory:
            (expected,) = batches(directory.search(element), columns)
        frame = read(spark, name, **enterprise.options())
        assert frame.columns == [column.name for column in FRAME_TYPES[name].columns]
        whole = frame.toArrow()
        assert set(whole.column("Unreadable").to_pylist()) == {None}
        found = whole.select([column.name for column in columns])
        assert found.schema.remove_metadata() == expected.schema
        assert sorted(found.to_pylist(), key=identifier) == sorted(expected.to_pylist(), key=identifier)


def identifier(row: dict) -> UUID:
    return UUID(row["Identifier"])


def test_only_the_columns_asked_for(spark, enterprise) -> None:
    frame = read(spark, "Queue", columns=["Quota", "Pathname"], **enterprise.options())
    assert frame.columns == ["Quota", "Pathname"]
    assert sorted(map(tuple, frame.collect())) == [
        (4294967293, "web01\\orders#2"),
        (4294967294, "web02\\orders#1"),
        (4294967295, "web01\\orders#0"),
    ]


def test_a_schema_given_by_the_user_chooses_columns(spark, enterprise) -> None:
    spark.dataSource.register(MqdssmDataSource)
    source = spark.read.format("mqdssm").options(object="Site", **enterprise.options())
    assert sorted(source.schema("Name string, ForeignSite boolean").load().collect()) == [
        ("Oslo", False),
        ("Paris", False),
    ]
    with pytest.raises(AnalysisException, match="has other types"):
        source.schema("Name long").load().collect()


def test_sql_over_it(spark, enterprise) -> None:
    read(spark, "queue", **enterprise.options()).createOrReplaceTempView("queues")
    counted = spark.sql("select PrivacyLevel, count(*) from queues where year(CreateTime) > 2000 group by 1")
    assert sorted(map(tuple, counted.collect())) == [("Body", 1), ("None", 1), ("Optional", 1)]


def test_nothing_found_is_an_empty_frame(spark, enterprise) -> None:
    with enterprise.connect() as directory:
        for link in list(directory.search(mqdssm.RoutingLink)):
            directory.delete(link)
    assert read(spark, "routing-link", **enterprise.options()).count() == 0


@pytest.mark.parametrize("searches", ["1", "2"])
def test_a_base_that_is_not_there_is_no_empty_frame(spark, enterprise, searches) -> None:
    options = enterprise.options(base="OU=mistyped,DC=example,DC=com", numpartitions=searches)
    with pytest.raises(PySparkException) as caught:
        read(spark, "queue", **options).count()
    error = unpack(str(caught.value))
    assert isinstance(error, ObjectNotFound)
    assert str(error).startswith(
        "the base of the search is not there, or this user may not see it; object: OU=mistyped,DC="
    )


def test_several_servers_are_tried_in_turn(spark, enterprise) -> None:
    urls = f"ldap://127.0.0.1:1 {enterprise.server.url}"
    assert read(spark, "site", **enterprise.options(url=urls)).count() == 2


def test_password_from_the_environment_of_the_workers_is_missing_with_words(spark, enterprise) -> None:
    options = enterprise.options(credentialsfile="", credentialsenv="MQDSSM_NO_SUCH_VARIABLE")
    with pytest.raises(PySparkException) as caught:
        read(spark, "site", **options).count()
    error = unpack(str(caught.value))
    assert isinstance(error, ConfigError)
    assert "MQDSSM_NO_SUCH_VARIABLE" in str(error)


def test_wrong_password_keeps_its_class(spark, enterprise) -> None:
    enterprise.password_file.write_text("sesame-4711")
    with pytest.raises(PySparkException) as caught:
        read(spark, "site", **enterprise.options()).count()
    error = unpack(str(caught.value))
    assert isinstance(error, DirectoryNotConnected)
    assert "49" in str(error)
    assert "sesame" not in str(caught.value)


def test_wrong_options_are_refused_before_spark_sees_them(spark) -> None:
    with pytest.raises(ConfigError, match="credentialsfile"):
        read(spark, "site", url="ldap://127.0.0.1", password="x")
    with pytest.raises(ConfigError, match="is no type"):
        read(spark, "machine", url="ldap://127.0.0.1")
    with pytest.raises(ConfigError, match="names no column"):
        read(spark, "site", columns=[], url="ldap://127.0.0.1")
    with pytest.raises(ConfigError, match="pushdown is '2'"):
        read(spark, "site", url="ldap://127.0.0.1", pushdown=2, tls=None)


def test_wrong_options_are_refused_by_the_format_itself(spark) -> None:
    spark.dataSource.register(MqdssmDataSource)
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("mqdssm").option("object", "Queue").option("bindpw", "hunter2").load()
    assert "put the password into a file" in str(caught.value)
    assert "hunter2" not in str(caught.value)


PREDICATES = [
    "Label = 'Größe 1'",
    "Label = 'größe 1'",
    "Label in ('Größe 0', 'Größe 2', null)",
    "Label like 'Gr%'",
    "Label like 'Größe 1%'",
    "Label like '%1'",
    "Label is null or Quota is null",
    "Label is not null and Quota > 4294967293",
    "Quota = 4294967295",
    "Quota between 4294967293 and 4294967294",
    "Quota <> 4294967294",
    "not (Quota <=> 4294967294)",
    "PrivacyLevel = 'Body' or PrivacyLevel = 'None'",
    "PrivacyLevel = 'Optional'",
    "Journaling",
    "not Journaling and Pathname like 'web01%'",
    "CreateTime > timestamp'2020-01-01 00:00:00.5Z'",
    "CreateTime < timestamp'2020-01-01 00:00:00Z'",
    "year(ModifyTime) > 2000 and ModifyTime <= current_timestamp() + interval 1 day",
    "Type = '00000000-0000-0000-0000-000000000000'",
    "Identifier = upper(Identifier)",
    "FullPath = 'no DN at all'",
    "size(array(Label)) = 1 and BasePriority >= 0",
]


def test_the_answer_is_the_same_with_and_without_push_down(spark, enterprise) -> None:
    """Through Spark, which decides what it offers; 500 random filters are in tests/property."""
    options = enterprise.options()
    whole = read(spark, "queue", **options, pushdown="false").toArrow()
    spark.createDataFrame(whole).createOrReplaceTempView("whole")
    identifier, full_path = whole.column("Identifier")[1].as_py(), whole.column("FullPath")[1].as_py()
    predicates = [*PREDICATES, f"Identifier = '{identifier}'", f"FullPath = '{full_path}'"]

    # one job for all that Spark finds itself: a job for each takes ten times as long
    columns = [f"({text}) is true as p{number}" for number, text in enumerate(predicates)]
    rows = spark.table("whole").selectExpr("Identifier", *columns).collect()
    found_some = 0
    for number, predicate in enumerate(predicates):
        expected = {row["Identifier"] for row in rows if row[f"p{number}"]}
        pushing = read(spark, "queue", **options, pushdown="true")  # one frame for one query (decision W21)
        found = pushing.where(predicate).select("Identifier").collect()
        assert sorted(row["Identifier"] for row in found) == sorted(expected), predicate
        found_some += 0 < len(found) < 3
    assert found_some > 8


def test_filters_reach_the_server(spark, enterprise) -> None:
    """Not Spark, which drops other rows itself, but the reader alone: it got no others."""
    reader = FilteringReader(
        SourceOptions.parse(enterprise.options(object="queue")), FRAME_TYPES["queue"].columns
    )
    offered = [EqualTo(("Label",), "größe 1"), IsNull(("Quota",))]
    assert list(reader.pushFilters(offered)) == offered  # Spark checks them all
    (partition,) = reader.partitions()
    rows = [row for batch in reader.read(partition) for row in batch.to_pylist()]
    assert [row["Label"] for row in rows] == ["Größe 1"]


def test_spark_without_its_switch_gets_a_reader_that_takes_no_filters(spark, enterprise) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    assert read(session, "queue", **enterprise.options()).where("Label = 'Größe 1'").count() == 1


def test_several_partitions_hold_every_object_once(spark, enterprise) -> None:
    whole = sorted(read(spark, "ldap", **enterprise.options()).select("dn").collect())
    frame = read(spark, "ldap", **enterprise.options(), numpartitions=3).select("dn")
    assert frame.rdd.getNumPartitions() == 3
    assert sorted(frame.collect()) == whole


def test_raw_entries_with_a_filter(spark, enterprise) -> None:
    options = enterprise.options(filter="(&(objectClass=mSMQQueue)(mSMQLabelEx=*))", attributes="mSMQLabelEx")
    frame = read(spark, "ldap", **options)
    labels = frame.selectExpr("string(attributes['mSMQLabelEx'][0]) as label").orderBy("label").collect()
    assert [row.label for row in labels] == ["Größe 0", "Größe 1", "Größe 2"]


def test_settings_and_computers(spark, enterprise) -> None:
    assert read(spark, "settings", **enterprise.options()).count() == 1
    names = read(spark, "computer", columns=["Name"], **enterprise.options()).orderBy("Name").collect()
    assert [row.Name for row in names] == ["web01", "web02"]


def test_a_few_rows_leave_no_search_behind(spark, enterprise) -> None:
    frame = read(spark, "ldap", **enterprise.options(pagesize="1"))
    assert len(frame.take(1)) == 1
    assert len(frame.limit(2).collect()) == 2


def test_a_reader_that_is_closed_ends_its_search(enterprise) -> None:
    options = SourceOptions.parse(enterprise.options(object="ldap", pagesize="1"))
    found = MqdssmReader(options, options.columns).read(InputPartition(None))
    assert next(found).num_rows > 0
    found.close()
    assert gc.isenabled()
    with pytest.raises(StopIteration):
        next(found)


def test_a_session_beside_one_that_knows_the_format(spark, enterprise) -> None:
    register(spark)
    other = spark.newSession()
    for _ in range(2):
        assert read(other, "site", **enterprise.options()).count() == 2
    assert SparkSession.getActiveSession() is spark


def test_no_secret_in_plans_logs_or_errors(spark, enterprise, event_log, tmp_path, capsys) -> None:
    secret = enterprise.server.password
    frame = read(spark, "queue", **enterprise.options())
    frame.createOrReplaceTempView("secretly")  # a command: its plan is logged with all options
    spark.sql("select count(*) from secretly").collect()
    frame.write.parquet((tmp_path / "out").as_uri())
    shown = frame._jdf.queryExecution().toString() + str(frame.schema) + repr(frame)
    frame.where("Label = 'x'").explain("extended")
    shown += capsys.readouterr().out
    logs = [*event_log.rglob("*"), *Path(spark.conf.get("spark.local.dir")).rglob("*.log")]
    texts = [path.read_text(errors="replace") for path in logs if path.is_file()]
    assert any(path.name == LOG_NAME for path in logs)
    assert any("credentialsfile" in text for text in texts)  # the options are there
    assert not [text for text in [*texts, shown] if secret in text]
    conf = spark.sparkContext.getConf().getAll()
    assert secret not in str(conf)
