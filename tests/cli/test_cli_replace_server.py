"""``mqdssm replace-server``: output, exit codes, and bad input."""

import json

import pytest
from support.replacement.old_server import OldServer


@pytest.fixture
def world(server, cli):
    return OldServer.make(server, names=("orders",))


def test_plan_apply_and_check(cli, world, tmp_path):
    plan = tmp_path / "plan"
    shown = cli(
        "replace-server", world.old, world.new, "--to", str(plan), "--to-ldif", str(tmp_path / "ldif")
    )
    lines = shown.stdout.splitlines()
    assert lines[0] == f"queue manager {world.guid}"
    ((path, guid),) = world.queues.items()
    assert lines[3].split() == [str(guid), path, path.replace(world.old, world.new)]
    companions = "1 settings add, 1 settings delete"
    assert lines[-1] == f"1 container add, 1 container delete, 6 object modify, 1 object move, {companions}"
    before, after = lines.index("Before:"), lines.index("After:")
    assert before < after
    assert lines[before + 1].startswith("1. Save the state of the directory")
    assert f"the plan is in {plan}; 'mqdssm apply {plan}' does it" in shown.stderr
    assert f"LDIF in {tmp_path / 'ldif'}, for ldapmodify -a or ldifde" in shown.stderr
    steps = (plan / "steps.md").read_text(encoding="utf-8")
    then = lines.index("Then:")
    assert lines[then + 1] == f"1. mqdssm apply {plan}"
    for line in lines[before + 1 : then - 1] + lines[after + 1 : -2]:
        assert line in steps
    assert "changetype: modrdn" in (tmp_path / "ldif" / "changes.ldif").read_text()
    done = cli("apply", str(plan))
    assert done.stdout.splitlines()[-1] == "6 read, 6 written, 0 equal, 0 rejected, 0 lost"
    read = cli.json("read", "queue-manager", f"ComputerName={world.new}")
    assert read["Identifier"] == str(world.guid)
    listed = cli("list", "queue", "--machine", world.new, "-o", "json").stdout
    assert json.loads(listed)[0]["Identifier"] == str(guid)
    cli.error("read", "queue-manager", f"ComputerName={world.old}", code=4)


def test_json(cli, world, tmp_path):
    made = cli.json("replace-server", world.old, world.new, "--to", str(tmp_path / "plan"))
    assert (made["guid"], made["plan"]["kind"]) == (str(world.guid), "replacement")
    assert [queue["new"] for queue in made["queues"]] == [f"{world.new}\\orders"]
    assert made["plan"]["operations"]["object move"] == 1
    assert len(made["before"]) == 4
    assert any("QMId" in step for step in made["after"])


def test_the_same_name(cli, world, tmp_path):
    plan = tmp_path / "plan"
    shown = cli("replace-server", world.old, world.old, "--to", str(plan))
    assert shown.stdout.splitlines()[-1] == "nothing to do"
    assert "keeps its name: nothing is to be moved" in shown.stderr
    assert "mqdssm apply" not in shown.stderr
    assert "Reset the computer account" in (plan / "steps.md").read_text(encoding="utf-8")


def test_bad_input(cli, world, tmp_path):
    to = ("--to", str(tmp_path / "plan"))
    words = cli.error("replace-server", world.old, "nobody", *to, code=6)
    assert words.startswith("there is no computer nobody below ")
    words = cli.error("replace-server", world.old, world.other, *to, code=6)
    assert words == f"{world.other} has a queue manager with queues, as theirs: delete or move them first"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    words = cli.error("replace-server", world.old, world.new, "--to", str(tmp_path / "full"), code=6)
    assert words.endswith("is not empty: a plan needs a folder of its own")
    words = cli.error("replace-server", world.old, *to, code=2)
    assert "NEW" in words
    words = cli.error("replace-server", world.old, world.new, code=2)
    assert "--to" in words
    for name in ("", "a,b", "CN=x", "*", "srv)(cn=*", "x" * 300):
        cli.error("replace-server", name, world.new, *to, code=6)
    assert not (tmp_path / "plan").exists()
