"""The data source on a real server: types, values, errors, and no secret anywhere."""

from uuid import UUID

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.pandas.types import to_arrow_schema

import mqdssm
from mqdssm.errors import ConfigError, DirectoryNotConnected
from mqdssm.spark.arrow import arrow_schema, batches
from mqdssm.spark.columns import TYPES, columns_of
from mqdssm.spark.failures import unpack
from mqdssm.spark.source import MqdssmDataSource, read, spark_schema

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.xdist_group("spark")]


@pytest.mark.parametrize("element", TYPES.values())
def test_arrow_schema_is_the_one_that_spark_expects(element) -> None:
    columns = columns_of(element)
    assert to_arrow_schema(spark_schema(columns), timezone="UTC").equals(arrow_schema(columns))


def test_values_are_those_of_the_directory(spark, enterprise) -> None:
    for name, element in TYPES.items():
        columns = columns_of(element)
        with enterprise.connect() as directory:
            (expected,) = batches(directory.search(element), columns)
        found = read(spark, name, **enterprise.options()).toArrow()
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
    enterprise.password_file.write_text("wrong")
    with pytest.raises(PySparkException) as caught:
        read(spark, "site", **enterprise.options()).count()
    error = unpack(str(caught.value))
    assert isinstance(error, DirectoryNotConnected)
    assert "49" in str(error)


def test_wrong_options_are_refused_before_spark_sees_them(spark) -> None:
    with pytest.raises(ConfigError, match="credentialsfile"):
        read(spark, "site", url="ldap://127.0.0.1", password="x")
    with pytest.raises(ConfigError, match="is no type"):
        read(spark, "machine", url="ldap://127.0.0.1")


def test_wrong_options_are_refused_by_the_format_itself(spark) -> None:
    spark.dataSource.register(MqdssmDataSource)
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("mqdssm").option("object", "Queue").option("bindpw", "hunter2").load()
    assert "put the password into a file" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_no_secret_in_plans_logs_or_errors(spark, enterprise, event_log, tmp_path) -> None:
    secret = enterprise.server.password
    frame = read(spark, "queue", **enterprise.options())
    frame.createOrReplaceTempView("secretly")  # a command: its plan is logged with all options
    spark.sql("select count(*) from secretly").collect()
    frame.write.parquet((tmp_path / "out").as_uri())
    shown = frame._jdf.queryExecution().toString() + str(frame.schema) + repr(frame)
    texts = [path.read_text() for path in event_log.rglob("*") if path.is_file()]
    assert any("credentialsfile" in text for text in texts)  # the options are there
    assert not [text for text in [*texts, shown] if secret in text]
    conf = spark.sparkContext.getConf().getAll()
    assert secret not in str(conf)
