"""One job of each kind by both runners: equal files, findings, counts, reports and entries."""

import json
import shutil
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

import pytest
from support.mqis.applied_plans import Entries, connect, everything, operations_in
from support.mqis.plans import lines_of
from support.spark.exports import access_to

import mqdssm
from mqdssm.pipeline.diff.run import ComparisonRequest, compare_sources
from mqdssm.pipeline.diff.sides import GivenSide
from mqdssm.pipeline.export.run import export
from mqdssm.pipeline.exposure import Exposure
from mqdssm.pipeline.exposure import format_json_lines as exposure_lines
from mqdssm.pipeline.inventory import Inventory, format_json_lines, open_source
from mqdssm.pipeline.migrate.applying import ApplyOptions, apply_plan
from mqdssm.pipeline.migrate.plan_file import MigrationPlan
from mqdssm.pipeline.migrate.planning import PlanRequest, plan_migration
from mqdssm.pipeline.migrate.report import MigrationReport
from mqdssm.pipeline.topology.conversion import Broker, convert
from mqdssm.pipeline.validate.rules.rule import Wrong
from mqdssm.pipeline.validate.run import validation
from mqdssm.samples import elements
from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [pytest.mark.spark, pytest.mark.server]

ENGINES = ("local", "spark")
NOW = datetime(2026, 11, 23, tzinfo=UTC)
TYPES = ["queue", "queue-manager", "site", "routing-link", "user", "enterprise", "computer", "settings"]


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "ldif"])
def test_an_export(spark, enterprise, tmp_path, kind) -> None:
    types = ["ldap"] if kind == "ldif" else TYPES
    found = {}
    for engine in ENGINES:
        folder = tmp_path / engine
        made = export(enterprise.server.url, types, folder, format=kind, engine=engine, **enterprise.access)
        made.check(folder)
        assert made.engine == engine
        found[engine] = {file.path: file.sha256 for one in made.types.values() for file in one.files}
    assert found["local"] == found["spark"] != {}


def test_an_inventory_and_an_exposure(spark, enterprise) -> None:
    found = {}
    for engine in ENGINES:
        source = {"urls": [enterprise.server.url], "access": enterprise.access}
        with open_source(**source, engine=engine) as where:
            inventory = Inventory(where, engine=engine)
            exposure = Exposure(inventory, {}, stale_days=90)
            texts = [*format_json_lines(inventory)], [*exposure_lines(exposure)]
        for head, *records in ([*map(json.loads, lines)] for lines in texts):
            assert head.pop("engine") == engine
            del head["taken"]
            assert records
            found.setdefault(engine, []).append((head, records))
    assert found["local"] == found["spark"]


def test_a_conversion(spark, enterprise, tmp_path) -> None:
    found = {}
    for engine in ENGINES:
        source = {"urls": [enterprise.server.url], "access": enterprise.access}
        with open_source(**source, engine=engine) as where:
            made = convert(where, Broker.RABBITMQ, tmp_path / engine, engine=engine)
        assert made.engine == engine
        files = {name: (tmp_path / engine / name).read_text() for name in made.files}
        assert json.loads(files.pop("report.json"))["engine"] == engine
        found[engine] = files
    assert found["local"] == found["spark"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    """Two enterprises as MQIS tables: a sound one, and the same with defects."""
    folder = tmp_path_factory.mktemp("tables")
    sample = EnterprisePlan(sites=3, machines=12, queues=60, users=3, seed=2)
    generate(sample, folder / "sound", SampleForm.MQIS)
    generate(sample, folder / "broken", SampleForm.MQIS, faults=True)
    return folder


def test_a_validation(spark, tables) -> None:
    found = {}
    for engine in ENGINES:
        with validation(mqis=tables / "broken", engine=engine, now=NOW) as made:
            assert made.summary.engine == engine
            same = made.summary.objects, made.summary.rules, made.summary.skipped
            found[engine] = list(made.findings), same
    assert len(found["local"][0]) > 100
    assert found["local"] == found["spark"]


@pytest.mark.parametrize("engine", ENGINES)
def test_folders_with_any_name(spark, enterprise, tables, tmp_path, monkeypatch, engine) -> None:
    """Hadoop does not decode %20, and takes names for patterns."""
    odd = tmp_path / "a b%20#ü=[1]{x,y}*?"
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    made = export(
        enterprise.server.url, ["queue", "site"], odd / "export", engine=engine, **enterprise.access
    )
    made.check(odd / "export")
    rule = Wrong(
        id="own-rule",
        types=("queue",),
        attribute="Label",
        section="own",
        requirement="Queues have no label.",
        message="it has one",
        condition=f"Label {'ilike' if engine == 'spark' else 'like'} '%'",
    )
    with validation(export=odd / "export", own=[rule], engine=engine) as checked:
        own = [finding for finding in checked.findings if finding.rule == "own-rule"]
    assert checked.summary.engine == engine
    assert len(own) == 3
    shutil.copytree(tables, odd / "tables")
    sides = GivenSide(folder=odd / "tables" / "sound"), GivenSide(folder=odd / "tables" / "broken")
    with compare_sources(*sides, ComparisonRequest(types=["queue"]), engine=engine) as compared:
        assert compared.engine == engine
        assert len(list(compared.differences)) > 5


@pytest.mark.soak
def test_a_comparison(spark, tables) -> None:
    """All differences; `test_spark_diff.py` runs the kinds of them under both, in less time."""
    found = {}
    sides = GivenSide(folder=tables / "sound"), GivenSide(folder=tables / "broken")
    asked = ComparisonRequest(types=["queue", "queue-manager"])
    for engine in ENGINES:
        with compare_sources(*sides, asked, engine=engine) as made:
            assert made.engine == engine
            found[engine] = list(made.differences)
    assert len(found["local"]) > 50
    assert found["local"] == found["spark"]


SAMPLE = EnterprisePlan(sites=3, machines=12, queues=60, users=3, seed=1)


def live_in(directory: mqdssm.Directory) -> None:
    """Make what somebody has before a migration: a differing object, a collision, and what is left over."""
    site, other = (elements.make_site(SAMPLE, number) for number in range(2))
    directory.create(mqdssm.Site(name=site.name, identifier=site.identifier, foreign_site=True))
    directory.create(mqdssm.Site(name=other.name, identifier=uuid5(NAMESPACE_OID, "another one")))
    old = directory.create(mqdssm.Site(name="Old", identifier=uuid5(NAMESPACE_OID, "old")))
    computer = directory.session.naming.root.child("CN", "Computers").child("CN", "old")
    directory.session.add(computer, {"objectClass": [b"computer"], "sAMAccountName": [b"old$"]})
    directory.create(
        mqdssm.QueueManager(
            computer_name="old", identifier=uuid5(NAMESPACE_OID, "machine"), site_identifier_list=[old]
        )
    )
    directory.create(mqdssm.Queue(pathname=r"old\q", identifier=uuid5(NAMESPACE_OID, "queue")))


@dataclass(frozen=True)
class Migrated:
    """What a migration by one engine gives, in a directory that was lived in.

    Attributes:
        plan: the plan.
        stopped: the report when an object that somebody made meanwhile had stopped it.
        report: the report of a second application, with any number of errors.
        entries: all entries in the end.
    """

    plan: MigrationPlan
    stopped: MigrationReport
    report: MigrationReport
    entries: Entries


def migrated(source: Path, folder: Path, engine: str) -> Migrated:
    with OpenLdapServer(durable=False) as server, connect(server) as directory:
        login = {"urls": server.url, **access_to(server)}
        of_base_tree = everything(server)
        live_in(directory)
        asked = PlanRequest(source=str(source), create_computers=True, on_conflict="update", allow_deletes=9)
        plan = plan_migration(asked, to=folder, engine=engine, **login)
        meanwhile = next(one for one in operations_in(folder) if one.role == "computer")
        directory.session.add(meanwhile.dn, {"objectClass": (b"container",)})
        stopped = apply_plan(folder, options=ApplyOptions(max_errors=0), engine=engine, **login)
        report = apply_plan(folder, engine=engine, **login)
        entries = everything(server)
    for dn in of_base_tree:
        del entries[dn]["objectguid"]  # each server has its own
    return Migrated(plan, stopped, report, entries)


def test_a_migration(spark, tmp_path) -> None:
    source = tmp_path / "mqis"
    generate(SAMPLE, source, SampleForm.MQIS, faults=True)
    found = [migrated(source, tmp_path / engine, engine) for engine in ENGINES]
    local, on_spark = (tmp_path / engine for engine in ENGINES)
    plans = [
        one.plan.model_dump(include={"tables", "operations", "deletes", "refused", "notes"}) for one in found
    ]
    assert plans[0] == plans[1]
    assert plans[0]["deletes"] == {"Queue": 1, "Machine": 1}
    sites = found[0].plan.tables["Site"]
    assert (sites.modify, sites.conflicts) == (2, 2)  # the one that differs, and the collision
    operations = [
        [replace(one, before={}) for one in operations_in(each)]  # GUIDs of the base tree
        for each in (local, on_spark)
    ]
    assert operations[0] == operations[1] != []
    rejects = [
        {path.name: lines_of(path) for path in each.glob("rejects/*.jsonl")} for each in (local, on_spark)
    ]
    assert rejects[0] == rejects[1] != {}
    own = {"server", "started", "ended", "engine"}
    under_way = {"tables", "operations", "undo_records"}  # pieces that had begun when another one failed
    for reports, excluded in zip(
        zip(*((one.stopped, one.report) for one in found), strict=True), (own | under_way, own), strict=True
    ):
        assert tuple(report.engine for report in reports) == ENGINES
        assert reports[0].model_dump(exclude=excluded) == reports[1].model_dump(exclude=excluded)
    assert found[0].stopped.total["left"] > 0 == found[0].report.total["left"]
    assert found[0].entries == found[1].entries
