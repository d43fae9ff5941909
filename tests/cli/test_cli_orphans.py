"""``mqdssm orphans``: output, exit codes, and what is refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.orphans.planted_orphans import OrphanWorld, plant

import mqdssm
from mqdssm.pipeline.migrate.orphan_plan import MIN_AGE_DAYS
from mqdssm.pipeline.orphans.rules import ORPHAN_RULES
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = pytest.mark.server


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[OrphanWorld]:
    with OpenLdapServer(durable=False) as server:
        login = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
        for name, value in (("URL", server.url), *((key.upper(), given) for key, given in login.items())):
            monkeypatch.setenv(f"MQDSSM_{name}", str(value))
        with mqdssm.connect(server.ldapi_url, **login) as directory:
            yield OrphanWorld.made(server, server.ldapi_url, directory)


def test_list_plan_and_apply(alone, world: OrphanWorld, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = alone("orphans", "--check", "--to", "plan")
    assert (seen.stdout, "nothing can be removed: no plan was written" in seen.stderr) == (
        "no orphans\n",
        True,
    )
    assert not (tmp_path / "plan").exists()
    count = len(plant(world).removable)
    waiting = alone("orphans", "--reads-everything", "--check", code=1)
    assert waiting.stdout.splitlines()[-1] == (
        f"0 orphans that a plan can remove, {count} that are not proven or have to wait, 4 objects to look at"
    )
    assert f"less than {MIN_AGE_DAYS} days ago" in waiting.stdout
    listed = alone("orphans", "--older-than", "0", "--reads-everything", "--to", "plan")
    assert listed.stdout.splitlines()[-1] == f"{count} orphans that a plan can remove, 4 objects to look at"
    assert f"'mqdssm apply plan --allow-deletes {count}' does it" in listed.stderr
    lines = alone("orphans", "--older-than", "0", "--reads-everything", "-o", "json").stdout.splitlines()
    *orphans, summary = map(json.loads, lines)
    assert len(orphans) == count + 4
    assert {one["what"] for one in orphans} == {"orphan"}
    assert (summary["removable"], summary["undecided"], summary["plan"], summary["deletes"]) == (
        *(count, 0),
        *(None, 0),
    )
    assert sum(summary["counts"].values()) == len(orphans)
    manager = next(one for one in orphans if one["type"] == "queue-manager")
    assert manager["section"] == "[MS-MQDSSM] 2.2.1"
    assert (manager["removable"], manager["obstacle"], len(manager["dependents"])) == (True, None, 1)
    words = f"the plan deletes {count} objects: allow them with --allow-deletes {count}"
    assert alone.error("apply", "plan", code=6) == words
    done = alone("apply", "plan", "--allow-deletes", str(count))
    assert done.stdout.splitlines()[-1] == f"{count} deleted"
    assert f"undo.ldif undoes {count} changes" in done.stderr
    assert alone("orphans", "--older-than", "0", "--check").stdout.splitlines()[-1] == (
        "0 orphans that a plan can remove, 4 objects to look at"
    )


def test_what_cannot_be(alone, world: OrphanWorld, tmp_path: Path) -> None:
    plant(world)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    words = f"{tmp_path / 'full'} is not empty: a plan needs a folder of its own"
    assert alone.error("orphans", "--older-than", "0", "--to", str(tmp_path / "full"), code=6) == words
    assert "--older-than" in alone("orphans", "--older-than", "-1", code=2).stderr
    words = "this reads whole objects, of one domain: leave --forest and --catalog out"
    assert alone.error("orphans", "--forest", code=2) == words
    assert "argument" in alone("orphans", "web01", code=2).stderr


@pytest.mark.usefixtures("own_settings")
def test_the_kinds_are_explained(alone) -> None:
    printed = alone("orphans", "--explain", "-o", "json").stdout
    assert [one["rule"] for one in json.loads(printed)] == [rule.id for rule in ORPHAN_RULES]
    text = alone("orphans", "--explain").stdout
    assert all(rule.id in text for rule in ORPHAN_RULES)
