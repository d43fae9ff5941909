"""A migration by worker processes on a machine with neither Java nor pyspark: equal to one in one process."""

import json
from pathlib import Path

import pytest
from support.mqis.applied_plans import connect, entries_of, login_to, tables
from support.mqis.plans import plan_here
from support.spark.without_java import environment_without_java, run_mqdssm

from mqdssm.errors import ConfigError
from mqdssm.pipeline import local
from mqdssm.pipeline.migrate import applying, planning
from mqdssm.pipeline.migrate.applying import apply_plan
from mqdssm.pipeline.migrate.planning import MigrationSource, PlanRequest, plan_for_ldif, plan_migration
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = pytest.mark.server


@pytest.fixture
def server():
    with OpenLdapServer(durable=False) as made:
        yield made


@pytest.fixture
def processes(monkeypatch) -> list[int]:
    """Makes everything too much work for this process; the number of workers of each job."""
    for module, name in ((planning, "SMALL_BYTES"), (planning, "SMALL_ROWS"), (applying, "SMALL_ROWS")):
        monkeypatch.setattr(module, name, 1)
    started: list[int] = []
    real = local._Pool.__init__

    def init(self, job, count, idle) -> None:
        started.append(count)
        real(self, job, count, idle)

    monkeypatch.setattr(local._Pool, "__init__", init)
    return started


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in (folder / "operations").rglob("*.*"))


def test_a_plan_of_processes_is_that_of_one(server, tmp_path, processes) -> None:
    source = tables(server, tmp_path)
    login = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
    asked = PlanRequest(source=str(source), create_computers=True)
    made = plan_migration(asked, server.url, tmp_path / "many", engine="local", workers=2, **login)
    assert max(processes) == 2
    here = plan_here(server, source, tmp_path / "one", create_computers=True)
    assert made.total == here.total
    assert files(tmp_path / "many") == files(tmp_path / "one") != []
    processes.clear()
    report = apply_plan(tmp_path / "many", server.url, engine="local", workers=2, **login)
    assert processes
    assert report.is_fine
    with connect(server) as directory:
        assert len(entries_of(directory.session)) > made.total["read"]


def test_a_plan_without_a_server(server, tmp_path, processes) -> None:
    source = tables(server, tmp_path)
    made = plan_for_ldif(
        PlanRequest(source=str(source), create_computers=True),
        server.base_dn,
        tmp_path / "plan",
        engine="local",
        workers=2,
    )
    assert set(processes) == {2}
    assert made.total["rejected"] == 0


def test_a_database_needs_spark(monkeypatch, tmp_path) -> None:
    source = MigrationSource.of(PlanRequest(source="jdbc:postgresql://127.0.0.1/mqis"))
    with pytest.raises(ConfigError, match="a database is read by Spark: leave '--engine local' out"):
        source.choose_engine("local", applying.HERE, None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ConfigError, match="needs Java 17"):
        source.choose_engine("auto", applying.HERE, None)


def test_the_commands_without_java_and_pyspark(server, tmp_path) -> None:
    source = tables(server, tmp_path)
    environment = environment_without_java(tmp_path, more=login_to(server, tmp_path))

    def mqdssm(*words: str) -> dict:
        return json.loads(run_mqdssm(environment, *words, "-o", "json")[0])

    mqdssm("plan", str(source), "--to", str(tmp_path / "plan"), "--create-computers")
    report = mqdssm("apply", str(tmp_path / "plan"))
    assert not report["lost"]
    again = mqdssm("migrate", str(source), "--to", str(tmp_path / "again"), "--on-conflict", "skip")
    assert not again["lost"]
