"""Inventories with files of machines: private and public queues side by side, and who did not answer."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from support.enterprises import machine_files as made
from support.enterprises.machine_files import SCRIPT_FORMATS, State, counter, queue, state
from support.enterprises.rules_world import (
    NOW,
    World,
    computer,
    guid,
    machine,
    machine_dn,
    sound,
    source,
    tables,
)

from mqdssm.pipeline.inventory import Inventory, format_json_lines, write_csv, write_inventory_page
from mqdssm.pipeline.inventory.writers import tables_of

ORDERS = queue(
    "Orders", Id=guid(60), MessageCount=7, BytesInQueue=70, JournalMessageCount=2, BytesInJournal=20
)
PRIVATE = queue("private$\\retry", Label="Größe", MessageCount=5, BytesInQueue=50)
WEB = state("web01", ORDERS, PRIVATE, queue("local-only"), Identifier=guid(32))
STRANGER = state("stranger", queue("private$\\x", MessageCount=1), DnsHostName="stranger.other.com")


def folder_of(folder: Path, *states: State) -> Path:
    files = folder / "machines"
    files.mkdir()
    for number, one in enumerate(states):
        suffix, write = list(SCRIPT_FORMATS.values())[number % len(SCRIPT_FORMATS)]
        (files / f"{number}.{suffix}").write_bytes(write(one))
    return files


def inventory(folder: Path, world: World, *states: State) -> Inventory:
    return Inventory(source(folder, tables(world)), NOW, added=[folder_of(folder, *states)])


def records(found: Inventory) -> dict[str, list[dict[str, Any]]]:
    lines: dict[str, list[dict[str, Any]]] = {}
    for line in format_json_lines(found):
        record = json.loads(line)
        lines.setdefault(record.pop("record"), []).append(record)
    return lines


def test_private_and_public_queues_side_by_side(tmp_path) -> None:
    found = records(inventory(tmp_path, sound(), WEB, STRANGER))
    machines = {one["ComputerName"]: one for one in found["machine-state"]}
    assert {name: one["State"] for name, one in machines.items()} == {
        "paris01": "no answer",
        "oslo01": "no answer",
        "web01": "answered",
        "odd, name": "no answer",
        "ibm01": "no answer",
        "STRANGER": "not in the directory",
    }
    web = machines["web01"]
    assert (web["MatchedBy"], web["Identifier"]) == ("DNS name and GUID", guid(32))
    assert (web["PublicQueues"], web["PrivateQueues"], web["Messages"], web["Bytes"]) == (2, 1, 12, 120)
    assert (web["JournalMessages"], web["DeadLetterMessages"], web["ComputerJournalBytes"]) == (2, 3, 40)
    assert (web["Service"], web["Received"], web["Taken"]) == ("Running", 5, "2026-06-01T12:00:00Z")
    assert machines["ibm01"]["Notes"] == ["a foreign system"]
    assert machines["oslo01"]["DnsName"] == "oslo01.example.com"
    queues = {(one["Machine"], one["Name"]): one for one in found["queue-state"]}
    assert len(queues) == len(found["queue-state"]) == 4 + 3
    orders = queues["web01", "orders"]
    assert (orders["State"], orders["Kind"], orders["Messages"]) == ("directory and machine", "public", 7)
    assert (orders["Label"], orders["Transactional"]) == ("Größe 60", False)  # as the directory says
    retry = queues["WEB01", "private$\\retry"]
    assert (retry["State"], retry["Kind"], retry["Label"]) == ("machine", "private", "Größe")
    assert (retry["Messages"], retry["CreateTime"]) == (5, "2020-06-01T12:00:00Z")
    assert queues["WEB01", "local-only"]["State"] == "machine"
    (long,) = [one for (machine, name), one in queues.items() if machine == "web01" and name != "orders"]
    assert long["State"] == "directory"
    assert queues["odd, name", "orders"]["State"] == "no answer"
    head = found["inventory"][0]
    assert (head["added"], head["not_added"]) == (2, {})
    assert head["machine_states"] == {"no answer": 4, "answered": 1, "not in the directory": 1}


def test_the_answer_does_not_depend_on_the_format(tmp_path) -> None:
    several = []
    for name, (suffix, write) in SCRIPT_FORMATS.items():
        folder = tmp_path / suffix / name
        (folder / "in").mkdir(parents=True)
        (folder / "in" / f"web.{suffix}").write_bytes(write(WEB))
        (folder / "in" / "web.prom").write_bytes(made.as_metrics(WEB))
        found = records(Inventory(source(folder, tables(sound())), NOW, added=[folder / "in"]))
        for one in found["machine-state"]:
            one["Files"] = None
        several.append((found["machine-state"], found["queue-state"]))
    assert all(one == several[0] for one in several)


def test_metrics_alone_do_not_say_which_queues_are_missing(tmp_path) -> None:
    (tmp_path / "web.prom").write_bytes(made.as_metrics(WEB))
    found = records(Inventory(source(tmp_path, tables(sound())), NOW, added=[tmp_path / "web.prom"]))
    states = {(one["Machine"], one["State"]) for one in found["queue-state"]}
    assert ("web01", "no answer") in states
    assert ("web01", "directory") not in states
    (web,) = [one for one in found["machine-state"] if one["State"] == "answered"]
    assert web["Notes"] == ["idle queues may be missing: the files have counters only"]


def test_last_activity_needs_two_moments(tmp_path) -> None:
    later = made.TAKEN.replace(hour=18)
    busy = queue("Orders", Id=guid(60), MessageCount=8, BytesInQueue=80)
    second = state("web01", busy, PRIVATE, Taken=later)
    found = records(inventory(tmp_path, sound(), WEB, second))
    activity = {one["Name"]: one["LastActivity"] for one in found["queue-state"] if one["LastActivity"]}
    assert activity == {"orders": "2026-06-01T18:00:00Z"}


def test_names_that_several_machines_have(tmp_path) -> None:
    world = sound()
    other = machine(35, "web01", [10], FullPath=machine_dn("web01").replace("CN=Computers", "OU=Other"))
    world["queue-manager"].append(other)
    world["computer"].append(
        computer(59, "web01", FullPath=other["FullPath"].partition(",")[2], DnsHostName="web01.other.com")
    )
    found = records(inventory(tmp_path, world, WEB | {"DnsHostName": None, "Identifier": None}))
    (ambiguous,) = [one for one in found["machine-state"] if one["State"] == "ambiguous"]
    assert ambiguous["Notes"] == [
        "the directory has several such machines: web01.example.com, web01.other.com"
    ]
    assert {one["State"] for one in found["queue-state"] if one["Machine"] == "WEB01"} == {"machine"}


def test_queues_without_places_find_machines_by_name(tmp_path) -> None:
    only = {"queue": tables(sound())["queue"]}
    found = records(Inventory(source(tmp_path, only), NOW, added=[folder_of(tmp_path, WEB)]))
    states = {one["Name"]: one["State"] for one in found["queue-state"] if one["Machine"] == "web01"}
    assert states["orders"] == "directory and machine"
    assert [one["State"] for one in found["machine-state"]] == ["not in the directory"]


def test_csv_holds_what_json_holds(tmp_path) -> None:
    found = inventory(tmp_path, sound(), WEB, STRANGER)
    whole = records(found)
    write_csv(found, tmp_path / "csv")
    for name in tables_of(found):
        with (tmp_path / "csv" / f"{name}s.csv").open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(whole.get(name, []))
        for row, record in zip(rows, whole.get(name, []), strict=True):
            assert list(row) == list(record)


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "\x1b[2J", "=1+1", "\u202ea"])
def test_what_machines_say_stays_text(tmp_path, text) -> None:
    evil = queue(f"private$\\{text}", MessageCount=1)
    hostile = state(
        "evil", evil, DnsHostName=f"{text}.x", Problems=[text], QueueCounters=[counter(text, 1, 1, 1, 1)]
    )
    hostile["ComputerName"] = hostile["Service"]["State"] = hostile["OperatingSystem"]["Caption"] = text
    found = inventory(tmp_path, sound(), hostile)
    (tmp_path / "machines" / f"{abs(hash(text))}.json").write_bytes(b"{" + text.encode())
    found = Inventory(source(tmp_path, tables(sound())), NOW, added=[tmp_path / "machines"])
    assert all(line.rstrip("\n").isprintable() for line in format_json_lines(found))
    write_csv(found, tmp_path / "csv")
    for path in (tmp_path / "csv").iterdir():
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        assert all(line.isprintable() for line in lines)
        assert not any('"=' in line for line in lines)
    write_inventory_page(tmp_path / "i.html", found)
    page = (tmp_path / "i.html").read_text(encoding="utf-8")
    assert "Not added: " in page
    assert "\x1b" not in page
    assert page.count("<script>") == 1
