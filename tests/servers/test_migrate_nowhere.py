"""LDIF of a migration without any server: what an empty directory gets, by the same rules."""

import subprocess

import pytest
from support.mqis.plans import lines_of, operations_of, plan_here, rejects_of
from support.spark import LOCAL_ENGINE
from support.spark.engines import chosen_engine

from mqdssm.errors import ConfigError
from mqdssm.pipeline.migrate.applying import ApplyOptions, refuse
from mqdssm.pipeline.migrate.ldif import write_ldif
from mqdssm.pipeline.migrate.plan_file import MigrationPlan
from mqdssm.pipeline.migrate.planning import PlanRequest, plan_for_ldif
from mqdssm.pipeline.migrate.target import open_offline_session
from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.tables.ldif import format_entry, list_base_tree_entries
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = pytest.mark.usefixtures("engine")

ROOT = "dc=example,dc=com"
SAMPLE = EnterprisePlan(sites=3, machines=12, queues=60, users=2, seed=1, root=ROOT)


def planned(source, to, *, profile="openldap", **asked) -> MigrationPlan:
    return plan_for_ldif(
        PlanRequest(source=str(source), **asked), ROOT, to, profile=profile, engine=chosen_engine()
    )


@pytest.fixture
def source(tmp_path):
    generate(SAMPLE, tmp_path / "mqis", SampleForm.MQIS)
    return tmp_path / "mqis"


@pytest.mark.server
def test_what_is_loaded_is_what_is_planned_for_an_empty_server(source, tmp_path):
    plan = planned(source, tmp_path / "plan", create_computers=True)
    records = write_ldif(plan, tmp_path / "plan", tmp_path / "ldif")
    assert (plan.refused, plan.target.urls) == (None, ())
    assert plan.total["add"] == 3 + 2 + 12 + 60
    assert (plan.tables["Enterprise"].modify, plan.tables["User"].rejected) == (1, 2)
    with OpenLdapServer(durable=False, base_dn=ROOT) as server:
        there = plan_here(server, source, tmp_path / "there", create_computers=True)
        mine = {(one.dn.lower(), one.action) for one in operations_of(plan, tmp_path / "plan")}
        assert mine == {(one.dn.lower(), one.action) for one in operations_of(there, tmp_path / "there")}
        tree = tmp_path / "base-tree.ldif"
        tree.write_text("".join(format_entry(pairs) + "\n" for pairs in list_base_tree_entries(ROOT)))
        server.load(tree, *(tmp_path / "ldif" / name for name in records if name < "7"))
        changes = tmp_path / "ldif" / "8-changes.ldif"
        login = ["-x", "-H", server.url, "-D", server.user, "-w", server.password]
        subprocess.run(["ldapmodify", *login, "-f", changes], check=True, capture_output=True, timeout=120)
        again = plan_here(server, source, tmp_path / "again", create_computers=True)
    assert again.levels == ()
    assert again.total["equal"] == plan.total["add"] + plan.total["modify"]


def test_for_active_directory(source, tmp_path):
    plan = planned(source, tmp_path / "plan", profile="activedirectory", create_computers=True)
    records = write_ldif(plan, tmp_path / "plan", tmp_path / "ldif")
    assert plan.total["add"] == 3 + 2 + 12 + 60
    assert "7-references.ldif" in records
    assert b"objectGUID" not in b"".join(path.read_bytes() for path in (tmp_path / "ldif").glob("[1-4]*"))
    assert lines_of(tmp_path / "ldif" / "waiting.jsonl")


def test_what_only_a_directory_knows_is_refused_by_the_same_rules(source, tmp_path):
    plan = planned(source, tmp_path / "plan")
    assert {name for name, one in plan.tables.items() if one.rejected} == {"Machine", "Queue", "User"}
    (reason,) = {one["reason"].partition(" named ")[0] for one in rejects_of(tmp_path / "plan", "Machine")}
    assert reason == "there is no computer"
    with pytest.raises(ConfigError, match="made without a directory, for LDIF alone"):
        refuse(plan, ApplyOptions())


@LOCAL_ENGINE
@pytest.mark.parametrize(
    ("root", "profile", "words"),
    [
        ("DC=x", "windows", "there is no profile 'windows': openldap, activedirectory are known"),
        ("x", "openldap", "'x' is no root of names: "),
        ("OU=x", "openldap", "has to begin with DC=, not 'OU=x'"),
        ("", "openldap", "has to begin with DC="),
    ],
)
def test_roots_and_profiles_that_are_none(root, profile, words):
    with pytest.raises(ConfigError, match=words):
        open_offline_session(root, profile)
