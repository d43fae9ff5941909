"""The inventory: every object listed, rights as descriptors say, orphans and clones found."""

import csv
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from support.enterprises import report_world as large
from support.enterprises.rules_world import (
    MADE,
    NOW,
    OWNER,
    World,
    computer,
    descriptor,
    guid,
    machine,
    queue,
    settings,
    sound,
    source,
    tables,
    user,
)

from mqdssm.errors import ConfigError
from mqdssm.model.safe_text import make_visible
from mqdssm.pipeline.inventory import TABLES, Inventory, format_json_lines, write_csv, write_inventory_page
from mqdssm.pipeline.inventory.rights import rights_of
from mqdssm.pipeline.inventory.writers import format_cell
from mqdssm.tables.account_names import find_known_name
from mqdssm.wire.acl import allow, deny
from mqdssm.wire.masks import GENERIC_ALL, DescriptorControl, QueueAccess
from mqdssm.wire.sid import ANONYMOUS, EVERYONE, Sid

ANN = Sid("S-1-5-21-1-2-3-70")


def inventory(folder: Path, world: World) -> Inventory:
    return Inventory(source(folder, tables(world)), NOW)


def records(found: Inventory) -> dict[str, list[dict[str, Any]]]:
    made: dict[str, list[dict[str, Any]]] = {}
    for line in format_json_lines(found):
        record = json.loads(line)
        made.setdefault(record.pop("record"), []).append(record)
    return made


def test_a_sound_enterprise(tmp_path) -> None:
    found = records(inventory(tmp_path, sound()))
    assert "problem" not in found
    assert {
        one["Name"]: (one["Machines"], one["Queues"], one["RoutingServers"]) for one in found["site"]
    } == {
        "Mainframe": (2, 0, 1),
        "Oslo": (2, 1, 1),
        "Paris": (2, 3, 1),
    }
    machines = {one["ComputerName"]: one for one in found["machine"]}
    assert {name: one["Queues"] for name, one in machines.items()} == {
        "paris01": 1,
        "oslo01": 0,
        "web01": 2,
        "odd, name": 1,
        "ibm01": 0,
    }
    assert machines["oslo01"]["Sites"] == ["Oslo", "Mainframe"]
    assert machines["ibm01"]["Roles"] == ["ForeignSystem"]
    first = found["queue"][0]
    assert first["Pathname"] == r"web01\orders"
    assert first["CreateTime"] == f"{MADE:%Y-%m-%dT%H:%M:%SZ}"
    assert (first["Owner"], first["Receive"]) == (str(OWNER), [str(OWNER)])
    assert first["Send"] == ["Everyone (S-1-1-0)", str(OWNER)]
    assert found["inventory"][0]["objects"]["queue"] == 4


def broken() -> World:
    world = sound()
    world["queue"].append(queue(80, "gone", "q"))
    world["queue-manager"] += [machine(30, "paris02", [10]), machine(82, "alone", [77])]
    world["computer"].append(computer(90, "paris02"))
    world["settings"].append(settings(83, "nobody", "Oslo", 99))
    return world


def test_orphans_and_clones(tmp_path) -> None:
    found = records(inventory(tmp_path, broken()))
    assert {(one["rule"], one["guid"]) for one in found["problem"]} == {
        ("queue-manager-exists", guid(80)),
        ("queue-manager-computer-exists", guid(82)),
        ("settings-queue-manager-exists", guid(83)),
        ("queue-manager-cloned", guid(30)),
    }
    machines = {one["ComputerName"]: one for one in found["machine"]}
    assert machines["paris01"]["Problems"] == machines["paris02"]["Problems"] == ["queue-manager-cloned"]
    assert machines["alone"]["Problems"] == ["queue-manager-computer-exists"]
    assert machines["alone"]["Sites"] == [guid(77)]
    assert [one["Pathname"] for one in found["queue"] if one["Problems"]] == [r"gone\q"]


def test_accounts_have_names_and_numbers(tmp_path) -> None:
    world = sound()
    account = Sid(f"S-1-5-21-1-2-3-{50}")
    image = descriptor(allow(account, QueueAccess.RECEIVE_MESSAGE), allow(EVERYONE, GENERIC_ALL), owner=ANN)
    world["queue"] = [queue(100 + n, "web01", f"q{n}", Security=image if n < 3 else None) for n in range(5)]
    world["user"].append(user(78, "Ä\\, B", SecurityIdentifier="S-1-5-21-1-2-3-1000"))
    found = inventory(tmp_path, world)
    people = {one["Sid"]: one for one in found.list_people()}
    assert (people[str(ANN)]["Name"], people[str(ANN)]["OwnsQueues"]) == ("ann", 3)
    assert (people[str(account)]["Name"], people[str(account)]["Receive"]) == ("paris01$", 3)
    assert (people[str(account)]["Peek"], people[str(account)]["Send"]) == (3, 0)
    assert (people[str(EVERYONE)]["Name"], people[str(EVERYONE)]["FullControl"]) == ("Everyone", 3)
    assert (people[str(OWNER)]["Name"], people[str(OWNER)]["OwnsMachines"]) == ("Ä, B", 5)
    assert found.rights_problems == {"no security descriptor": 2}


def test_rights_are_those_of_the_entries_in_their_order() -> None:
    image = descriptor(
        deny(ANN, QueueAccess.DELETE_MESSAGE),
        allow(ANN, QueueAccess.GENERIC_ALL),
        allow(EVERYONE, QueueAccess.WRITE_MESSAGE),
        allow(ANONYMOUS, QueueAccess.TAKE_QUEUE_OWNERSHIP),
    )
    found = rights_of("queue", image)
    assert found.who == {
        "Send": (str(ANN), str(EVERYONE)),
        "Receive": (),
        "Peek": (str(ANN),),
        "FullControl": (),
        "ChangeRights": (str(ANN), str(ANONYMOUS)),
    }
    assert found.list_sids() == {str(one) for one in (OWNER, ANN, EVERYONE, ANONYMOUS)}


@pytest.mark.parametrize(
    ("image", "words", "who"),
    [
        (None, "no security descriptor", ()),
        (b"", "no security descriptor", ()),
        (b"\x01\x00", "no valid security descriptor", ()),
        (
            descriptor(dacl=False, control=DescriptorControl.DACL_PRESENT),
            "everybody may do everything",
            ("S-1-1-0",),
        ),
    ],
)
def test_descriptors_that_say_too_little_are_named(image, words, who) -> None:
    found = rights_of("queue", image)
    assert words in found.problem
    assert found.who["Receive"] == who


def test_well_known_names() -> None:
    assert find_known_name("S-1-5-32-544") == "Builtin Administrators"
    assert find_known_name("S-1-5-21-1-2-3-512") == "Domain Admins"
    assert find_known_name("S-1-5-32-512") == ""
    assert find_known_name("no SID") == ""


def test_csv_holds_what_json_holds(tmp_path) -> None:
    found = inventory(tmp_path, broken())
    folder = tmp_path / "csv"
    paths = write_csv(found, folder)
    whole = records(found)
    assert {path.stem for path in paths} == {f"{name}s" for name in TABLES}
    if os.name == "posix":  # who may do what is not for everybody
        assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}
    for name in TABLES:
        with (folder / f"{name}s.csv").open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(whole.get(name, []))
        text = (folder / f"{name}s.csv").read_text(encoding="utf-8-sig")
        assert all(line[0] == line[-1] == '"' for line in text.splitlines())  # every cell is quoted
        for row, record in zip(rows, whole[name], strict=True):
            assert list(row) == list(record)
    with pytest.raises(ConfigError, match="not empty"):
        write_csv(found, folder)


def test_csv_without_an_object_has_its_columns(tmp_path) -> None:
    found = inventory(tmp_path, {name: [] for name in sound()})
    for path in write_csv(found, tmp_path / "csv"):
        assert path.read_text(encoding="utf-8-sig").count("\n") == 1


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_value_is_a_formula(text) -> None:
    shown = make_visible(text)
    assert format_cell(text) == f"'{shown}"
    assert format_cell([text, "a"]) == f"'{shown}; a"
    assert format_cell(-1) == "-1"


def test_types_that_are_not_there(tmp_path) -> None:
    made = tables(sound())
    only = Inventory(source(tmp_path, {"queue": made["queue"].drop_columns(["Security", "Label"])}), NOW)
    found = records(only)
    assert len(found["queue"]) == 4
    assert found["queue"][0]["Label"] is None
    assert only.not_looked_for["queue-manager-exists"] == "type queue-manager is not in the source"
    write_inventory_page(tmp_path / "i.html", only)


def test_values_that_cannot_be_read_are_counted_and_named(tmp_path) -> None:
    world = sound()
    world["queue"][0] |= {"Label": None, "Unreadable": ["Label: no text of code page utf-8", "Quota: 'x'"]}
    world["site"][0] |= {"Name": None, "Unreadable": ["Name: no text of code page utf-8"]}
    found = inventory(tmp_path, world)
    assert found.unreadable == {"queue": 2, "site": 1}
    assert records(found)["inventory"][0]["unreadable"] == {"queue": 2, "site": 1}
    wanted = f"site {world['site'][0]['Identifier']}: Name: no text of code page utf-8"
    assert found.first_unreadable in (
        wanted,
        f"queue {world['queue'][0]['Identifier']}: Label: no text of code page utf-8",
    )
    write_inventory_page(tmp_path / "i.html", found)
    page = (tmp_path / "i.html").read_text(encoding="utf-8")
    assert "Values that could not be read: 3" in page
    assert "no text of code page utf-8" in page
    assert ">None<" not in page
    (tmp_path / "sound").mkdir()
    write_inventory_page(tmp_path / "sound.html", inventory(tmp_path / "sound", sound()))
    assert "could not be read" not in (tmp_path / "sound.html").read_text(encoding="utf-8")


def test_sources_without_places_find_machines_by_name(tmp_path) -> None:
    made = tables(broken())
    for name in ("queue", "queue-manager"):
        made[name] = made[name].drop_columns(["FullPath"])
    found = records(Inventory(source(tmp_path, made), NOW))
    assert {one["ComputerName"]: one["Queues"] for one in found["machine"]}["web01"] == 2
    assert [one["Pathname"] for one in found["queue"] if one["Problems"]] == [r"gone\q"]


@pytest.mark.slow
def test_a_page_of_a_large_enterprise_is_bounded_and_escaped(tmp_path) -> None:
    world = large.with_queues(large.world_of(60, 800), 2000)
    for row in world["queue"]:
        row["Label"] = "<script>alert(1)</script>" * 4
    found = inventory(tmp_path, world)
    path = tmp_path / "inventory.html"
    write_inventory_page(path, found)
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < 600_000
    assert text.count("<script>") == 1
    assert "300 of 2,000" in text
    assert "clone" in text
    assert sum(one["Queues"] for one in found.list_sites()) == 2000 - sum(n % 500 == 7 for n in range(2000))
