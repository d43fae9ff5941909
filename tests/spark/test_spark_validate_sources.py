"""Sources of validation that are no export: a directory's schema, data frames, MQIS tables."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.enterprises.rules_world import NOW, guid, queue, sound, tables
from support.mqis.tables import read_sets

import mqdssm
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.session import Session
from mqdssm.errors import ConfigError
from mqdssm.pipeline.engines import JobEngine
from mqdssm.pipeline.local import LocalRunner
from mqdssm.pipeline.validate import mqis_sets
from mqdssm.pipeline.validate.datasets import Dataset, read_dataset
from mqdssm.pipeline.validate.rules import RULES
from mqdssm.pipeline.validate.rules.rule import Wrong
from mqdssm.pipeline.validate.run import apply_rules, validation
from mqdssm.pipeline.validate.sources import (
    ValidationSource,
    find_schema_drift,
    make_expected_source,
    open_directory_source,
    open_mqis_source,
)
from mqdssm.samples.forms import SampleForm, TableForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan as SamplePlan
from mqdssm.spark.runner import SparkRunner
from mqdssm.testing import OpenLdapServer

pytestmark = [pytest.mark.spark]


@pytest.mark.server
def test_a_server_whose_schema_is_another_one_has_drifted(runner) -> None:
    with OpenLdapServer(durable=False) as server:
        lose_an_attribute(server)
        options = ConnectionOptions.of(
            urls=server.url, user=server.user, password=server.password, ca_file=server.ca_file
        )
        with Session.open(options) as session:
            drift = tuple(find_schema_drift(session))
    assert drift
    assert {(one.rule, one.type, one.guid) for one in drift} == {("schema-drift", "directory", None)}
    assert any("mSMQCost" in one.message for one in drift)
    with apply_rules(
        runner, ValidationSource("a server", {}, is_directory=True, findings=drift), now=NOW
    ) as found:
        assert {one.message for one in found.findings} == {one.message for one in drift}
    others = [rule for rule in RULES if rule.id != "schema-drift"]
    with apply_rules(
        runner, ValidationSource("a server", {}, is_directory=True, findings=drift), others, now=NOW
    ) as found:
        assert found.summary.count == 0


def lose_an_attribute(server: OpenLdapServer) -> None:
    """Take an attribute away from the schema that the server reads when it starts."""
    server.stop()
    (schema,) = Path(server.folder).rglob("msmq.schema")
    text = schema.read_text()
    schema.write_text(text.replace("'mSMQCost'", "'mSMQPrice'").replace(" mSMQCost ", " mSMQPrice "))
    assert schema.read_text() != text
    server.start()


def without_dns(folder: Path) -> ValidationSource:
    """Objects as MQIS tables give them: no DN, nothing technical."""
    world = sound()
    world["queue"].append(queue(80, "gone", "q"))
    del world["settings"], world["computer"]
    absent = {
        *("FullPath", "mSMQQueueNameExt", "mSMQServiceType"),
        *("OriginalIdentifier", "StoredSecurity", "Unreadable"),
    }
    sets = {}
    for name, table in tables(world).items():
        path = folder / f"{name}.parquet"
        pq.write_table(table.select([one for one in table.column_names if one not in absent]), path)
        sets[name] = read_dataset(name, [path])
    return ValidationSource("tables", sets)


def test_objects_without_dns(runner, tmp_path) -> None:
    with apply_rules(runner, without_dns(tmp_path), now=NOW) as found:
        ((one),) = found.findings
    assert (one.rule, one.dn, one.guid) == ("queue-manager-exists", None, guid(80))


def test_mqis_tables_are_read_alike_by_both_engines(spark, tmp_path) -> None:
    sample = SamplePlan(sites=3, machines=10, queues=60, users=4, seed=5)
    generate(sample, tmp_path / "mqis", SampleForm.MQIS, table_form=TableForm.CSV, faults=True)
    assert read_sets(tmp_path / "mqis", SparkRunner(spark)) == read_sets(tmp_path / "mqis", LocalRunner(2))
    told = {}
    for engine in ("local", "spark"):
        with validation(mqis=tmp_path / "mqis", now=NOW, engine=engine) as found:
            assert found.summary.source == str(tmp_path / "mqis")
            assert found.summary.engine == engine
            told[engine] = list(found.findings)
    assert told["local"] == told["spark"]
    assert {one.type for one in told["local"]} > {"queue", "site", "user"}


def own(condition: str) -> Wrong:
    return Wrong(
        id="ours",
        types=("queue",),
        attribute="Label",
        section="",
        requirement="ours",
        message="{Label}",
        condition=condition,
    )


def test_own_rules_are_refused_before_a_directory_is_asked(engine: str) -> None:
    """The server cannot be reached: a validation that asked it would say so."""
    where = {"urls": ["ldaps://127.0.0.1:1"], "access": {}, "engine": engine}
    refused = pytest.raises(ConfigError, match=r"rule ours, type queue: .*(?i:no_such_function)")
    with refused, validation(own=[own("no_such_function(Label) = 1")], **where):
        pass
    with pytest.raises(mqdssm.DirectoryNotConnected), validation(own=[own("Label = 'x'")], **where):
        pass


def test_own_rules_are_refused_before_tables_are_converted(engine: str, tmp_path, monkeypatch) -> None:
    sample = SamplePlan(sites=3, machines=10, queues=60, users=4, seed=5)
    generate(sample, tmp_path, SampleForm.MQIS, table_form=TableForm.CSV)
    converted, convert = [], mqis_sets.write_mqis_sets

    def observed(*arguments: Any) -> dict[str, Dataset]:
        converted.append(arguments)
        return convert(*arguments)

    monkeypatch.setattr(mqis_sets, "write_mqis_sets", observed)
    refused = pytest.raises(ConfigError, match=r"rule ours, type queue: .*(?i:no_such_function)")
    with refused, validation(mqis=tmp_path, own=[own("no_such_function(Label) = 1")], engine=engine):
        pass
    assert converted == []
    with validation(mqis=tmp_path, own=[own("Label is null")], engine=engine):
        assert len(converted) == 1


def test_the_columns_of_tables_are_known_before_they_are_converted(tmp_path) -> None:
    generate(SamplePlan(sites=3, machines=10, queues=60, users=4, seed=5), tmp_path, SampleForm.MQIS)
    seen: list[ValidationSource] = []
    with open_mqis_source(LocalRunner(1), tmp_path, check=seen.append) as source:
        assert columns_of(seen[0]) == columns_of(source)
    assert seen[0].rows == 0 < source.rows


@pytest.mark.server
def test_the_columns_of_a_directory_are_known_before_it_is_exported(enterprise) -> None:
    with open_directory_source([enterprise.server.url], enterprise.access, JobEngine.of("local")) as source:
        assert columns_of(make_expected_source()) == columns_of(source)
        assert make_expected_source().list_present() == source.list_present()


def columns_of(source: ValidationSource) -> dict[str, dict[str, pa.DataType]]:
    return {name: one.types for name, one in source.sets.items()}
