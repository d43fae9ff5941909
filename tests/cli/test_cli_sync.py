"""``mqdssm sync``: output and exit codes."""

import json
from pathlib import Path

import pytest
from support.sync.declared_worlds import World


@pytest.fixture
def world(server, cli):
    made = World.of(server, server.ldapi_url)
    yield made
    made.clear()


def declared(world: World, folder: Path, queues: str) -> str:
    path = folder / "declared.yaml"
    path.write_text(f"machines:\n  {world.machines[0]}:\n    queues:\n{queues}")
    return str(path)


def test_check_apply_and_nothing_to_do(cli, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = world.machines[0]
    path = declared(world, tmp_path, "      orders: {Label: Orders, Quota: 5}\n")
    seen = cli("sync", path, "--check", code=1)
    assert seen.stdout.splitlines() == [
        f"difference  type   object{' ' * (len(name) + 1)}  attribute  declared  in the directory",
        f"missing     queue  {name}\\orders",
        "1 differences (1 missing, 0 different, 0 extra)",
    ]
    done = cli("sync", path)
    assert done.stdout.splitlines()[-1] == "1 differences (1 missing, 0 different, 0 extra): all removed"
    (plan,) = tmp_path.glob("sync-*Z")
    assert f"{plan.name}/undo.ldif undoes 1 changes: ldapmodify -c -f undo.ldif" in done.stderr
    assert cli("sync", path).stdout == "nothing to do\n"
    assert cli("sync", path, "--check").stdout == "nothing to do\n"
    assert list(tmp_path.glob("sync-*Z")) == [plan]
    path = declared(world, tmp_path, "      orders: {Quota: 6}\n")
    lines = [
        json.loads(line) for line in cli("sync", path, "--check", "-o", "json", code=1).stdout.splitlines()
    ]
    assert lines[0] == {
        "what": "different",
        "type": "queue",
        "name": f"{name}\\orders",
        "key": lines[0]["key"],
        "attributes": {"Quota": {"a": 6, "b": 5}},
    }
    assert lines[1] == {
        "what": "summary",
        "missing": 0,
        "extra": 0,
        "different": 1,
        "refused": None,
        "plan": None,
        "report": None,
    }
    lines = [json.loads(line) for line in cli("sync", path, "--to", "plan", "-o", "json").stdout.splitlines()]
    assert lines[1]["plan"] == "plan"
    assert lines[1]["report"]["operations"] == {"object updated": 1}


def test_prune_has_a_guard(cli, world, tmp_path):
    name = world.machines[0]
    cli("create", "queue", f"Pathname={name}\\old")
    path = declared(world, tmp_path, "      new:\n")
    seen = cli("sync", path, "--check", "--prune", code=1)
    assert f"extra       queue  {name}\\old" in seen.stdout
    assert (
        "the plan cannot be applied: 1 objects would be deleted, 0 are allowed (--allow-deletes)"
        in seen.stderr
    )
    words = "nothing was changed: 1 objects would be deleted, 0 are allowed (--allow-deletes)"
    assert cli.error("sync", path, "--prune", "--to", str(tmp_path / "plan"), code=6) == words
    made = cli(
        "sync", path, "--prune", "--allow-deletes", "1", "--check", "--to", str(tmp_path / "plan"), code=1
    )
    assert f"'mqdssm apply {tmp_path / 'plan'}' does it" in made.stderr
    cli("apply", str(tmp_path / "plan"))
    assert cli("sync", path, "--prune").stdout == "nothing to do\n"
    assert list(world.queues()) == [f"{name}\\new"]


def test_mistakes_in_the_file(cli, tmp_path):
    (tmp_path / "a.yaml").write_text("machine: {}")
    words = f"{tmp_path / 'a.yaml'} line 1: the file has no key 'machine': did you mean machines?"
    assert cli.error("sync", str(tmp_path / "a.yaml"), code=6) == words
