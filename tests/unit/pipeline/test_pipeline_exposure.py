"""Exposure of machines: each rule of the score fires on its defect alone, and nothing is invented."""

import csv
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.enterprises.rules_world import (
    NOW,
    OWNER,
    World,
    computer,
    computer_dn,
    descriptor,
    guid,
    machine,
    queue,
    sound,
    source,
    tables,
)

from mqdssm.model.dn import normalize
from mqdssm.pipeline.exposure import Exposure, format_json_lines, write_csv, write_exposure_page
from mqdssm.pipeline.exposure.computers import ComputerFacts, moment_of
from mqdssm.pipeline.exposure.rules import SCORE_MAX, SCORE_RULES
from mqdssm.pipeline.inventory import Inventory
from mqdssm.wire.acl import allow
from mqdssm.wire.masks import DescriptorControl, MachineAccess, QueueAccess
from mqdssm.wire.sid import ANONYMOUS, AUTHENTICATED_USERS, EVERYONE

CLOSED = descriptor(allow(OWNER, QueueAccess.GENERIC_ALL))
WEB = normalize(computer_dn("web01"))


def quiet() -> World:
    """A world without findings: queues are closed, and machines have no role."""
    world = sound()
    for row in world["queue"]:
        row |= {"Security": CLOSED, "MulticastAddress": ""}
    for row in world["queue-manager"]:
        row |= {"Security": descriptor(allow(OWNER, MachineAccess.GENERIC_ALL)), "RoutingServer": False}
    return world


def exposure(
    folder: Path, world: World, facts: dict[str, ComputerFacts] | None = None, days: int = 90
) -> Exposure:
    return Exposure(Inventory(source(folder, tables(world)), NOW), facts or {}, stale_days=days)


def findings(found: Exposure, name: str = "web01") -> dict[str, int]:
    record = next(one for one in found.machines() if one["ComputerName"] == name)
    assert record["Score"] == min(SCORE_MAX, sum(one["points"] for one in record["Findings"]))
    return {one["rule"]: one["points"] for one in record["Findings"]}


def test_a_quiet_world_has_no_score(tmp_path) -> None:
    found = exposure(tmp_path, quiet())
    assert [record["Score"] for record in found.machines()] == [0] * 5
    assert (found.highest, list(found.queues())) == (0, [])
    (web,) = [one for one in found.machines() if one["ComputerName"] == "web01"]
    assert (web["Support"], web["SupportEnds"], web["LastLogon"], web["Stale"]) == (
        "unknown",
        None,
        None,
        None,
    )
    assert (web["Tcp"], web["Http"], web["Queues"]) == ("assumed", "unknown", 2)
    (foreign,) = [one for one in found.machines() if one["ComputerName"] == "ibm01"]
    assert foreign["Tcp"] == "no"


def of_machine(world: World, **changes: Any) -> None:
    world["queue-manager"][2] |= changes


def of_queue(world: World, **changes: Any) -> None:
    world["queue"][0] |= changes


def grants(sid: Any, mask: int) -> dict[str, bytes]:
    return {"Security": descriptor(allow(sid, mask), allow(OWNER, QueueAccess.GENERIC_ALL))}


SEND = QueueAccess.WRITE_MESSAGE
DEFECTS: list[tuple[str, int, Any]] = [
    ("server-role", 5, lambda world: of_machine(world, SupportingServer=True)),
    (
        "machine-open",
        15,
        lambda world: of_machine(world, **grants(EVERYONE, MachineAccess.SET_MACHINE_PROPERTIES)),
    ),
    ("machine-open", 15, lambda world: of_machine(world, Security=descriptor(owner=EVERYONE))),
    ("machine-receives", 10, lambda world: of_machine(world, **grants(ANONYMOUS, 0x3))),
    ("machine-rights-unknown", 5, lambda world: of_machine(world, Security=b"\x01\x00")),
    ("machine-rights-unknown", 5, lambda world: of_machine(world, Security=None)),
    (
        "queue-open",
        10,
        lambda world: of_queue(world, **grants(AUTHENTICATED_USERS, QueueAccess.DELETE_QUEUE)),
    ),
    (
        "queue-open",
        10,
        lambda world: of_queue(world, Authentication=True, PrivacyLevel="Body", **grants(EVERYONE, 0xF003F)),
    ),
    ("queue-receives", 8, lambda world: of_queue(world, **grants(EVERYONE, QueueAccess.PEEK_MESSAGE))),
    ("queue-rights-unknown", 3, lambda world: of_queue(world, Security=b"")),
    ("queue-multicast", 3, lambda world: of_queue(world, MulticastAddress="234.1.1.1:8001")),
    (
        "queue-unauthenticated",
        2,
        lambda world: of_queue(world, PrivacyLevel="Body", **grants(ANONYMOUS, SEND)),
    ),
    ("queue-unencrypted", 1, lambda world: of_queue(world, Authentication=True, **grants(EVERYONE, SEND))),
    (
        "http-perhaps",
        3,
        lambda world: world["computer"][2].update(
            ServicePrincipalNames=["HOST/web01", "http/web01.example.com"]
        ),
    ),
    (
        "queue-manager-duplicate",
        10,
        lambda world: world["queue-manager"].append(
            machine(36, "web01", [10], Security=CLOSED, FullPath=f"CN=msmq2,{computer_dn('web01')}")
        ),
    ),
    ("queue-manager-computer-exists", 10, lambda world: world["computer"].pop(2)),
    (
        "queue-manager-cloned",
        20,
        lambda world: (
            world["queue-manager"].append(machine(32, "web02", [10], Security=CLOSED)),
            world["computer"].append(computer(58, "web02")),
        ),
    ),
]


@pytest.mark.parametrize(
    ("rule", "points", "plant"), DEFECTS, ids=[f"{name}-{n}" for n, (name, *_) in enumerate(DEFECTS)]
)
def test_each_defect_gives_its_points_alone(tmp_path, rule, points, plant) -> None:
    world = quiet()
    plant(world)
    found = exposure(tmp_path, world)
    assert findings(found) == {rule: points}
    assert found.counts[rule] >= 1


def test_a_descriptor_without_a_list_is_open_in_every_way(tmp_path) -> None:
    world = quiet()
    of_queue(world, Security=descriptor(dacl=False, control=DescriptorControl.DACL_PRESENT))
    found = exposure(tmp_path, world)
    assert findings(found) == {"queue-open": 10, "queue-unauthenticated": 2, "queue-unencrypted": 1}
    (one,) = found.queues()
    assert one["Senders"] == ["Everyone"]
    assert one["Rules"] == ["queue-open", "queue-unauthenticated", "queue-unencrypted"]


OLD = ComputerFacts(system="Windows Server 2012 R2 Standard", version="6.3 (9600)")
ENDING = ComputerFacts(system="Windows Server 2016 Standard", version="10.0 (14393)")


@pytest.mark.parametrize(
    ("facts", "wanted", "support"),
    [
        (OLD, {"support-ended": 30}, "ended"),
        (ENDING, {"support-ends-soon": 5}, "ends soon"),
        (ComputerFacts(system="Windows Server 2022 Standard", version="10.0 (20348)"), {}, "supported"),
        (ComputerFacts(system="Windows Server 2099"), {}, "unknown"),
        (ComputerFacts(last_logon=NOW - timedelta(days=91)), {"stale": 15}, "unknown"),
        (ComputerFacts(last_logon=NOW - timedelta(days=89)), {}, "unknown"),
        (ComputerFacts(is_disabled=True), {"account-disabled": 10}, "unknown"),
    ],
)
def test_what_active_directory_knows_of_computers(tmp_path, facts, wanted, support) -> None:
    found = exposure(tmp_path, quiet(), {WEB: facts})
    assert findings(found) == wanted
    (web,) = [one for one in found.machines() if one["ComputerName"] == "web01"]
    assert web["Support"] == support


def test_a_version_of_an_export_is_enough_for_a_server(tmp_path) -> None:
    world = quiet()
    of_machine(world, OperatingSystemVersion="6.1 (7601)")
    found = exposure(tmp_path, world)
    assert findings(found) == {"support-ended": 30}
    (web,) = [one for one in found.machines() if one["ComputerName"] == "web01"]
    assert (web["OperatingSystem"], web["SupportEnds"]) == ("Windows Server 2008 R2", "2020-01-14")


def test_points_of_queues_have_a_maximum(tmp_path) -> None:
    world = quiet()
    opened = descriptor(allow(EVERYONE, QueueAccess.GENERIC_ALL))
    world["queue"] = [queue(100 + n, "web01", f"q{n}", Security=opened) for n in range(30)]
    found = exposure(tmp_path, world)
    assert findings(found) == {"queue-open": 30, "queue-unauthenticated": 20, "queue-unencrypted": 10}
    (record,) = [one for one in found.machines() if one["Score"]]
    assert (record["OpenQueues"], record["UnauthenticatedQueues"]) == (30, 30)
    assert [len(one["examples"]) for one in record["Findings"]] == [3, 3, 3]
    assert len(list(found.queues())) == 30
    assert next(found.machines())["ComputerName"] == "web01"  # the highest score first


def test_every_rule_has_a_case() -> None:
    tested = {rule for rule, _, _ in DEFECTS} | {
        "support-ended",
        "support-ends-soon",
        "stale",
        "account-disabled",
    }
    assert {rule.id for rule in SCORE_RULES} == tested
    assert len({rule.id for rule in SCORE_RULES}) == len(SCORE_RULES)
    assert [rule.points for rule in SCORE_RULES] == sorted(
        (rule.points for rule in SCORE_RULES), reverse=True
    )


@pytest.mark.parametrize(
    ("file_time", "wanted"),
    [
        (None, None),
        (0, None),
        (-1, None),
        (2**63 - 1, None),
        (133_500_000_000_000_000, "2024-01-17T21:20:00+00:00"),
    ],
)
def test_times_of_windows(file_time, wanted) -> None:
    found = moment_of(file_time)
    assert (found.isoformat() if found else None) == wanted


def test_files_and_lines_hold_the_records(tmp_path) -> None:
    world = sound()
    world["queue"][0]["Pathname"] = "web01\\=<script>alert(1)</script>\x1b[2J"
    found = exposure(tmp_path, world, {WEB: ComputerFacts(system="<script>x</script>", last_logon=NOW)})
    lines = [json.loads(line) for line in format_json_lines(found)]
    assert all(line.rstrip("\n").isprintable() for line in format_json_lines(found))
    assert lines[0]["record"] == "exposure"
    kinds = {name: [one for one in lines if one["record"] == name] for name in ("machine", "queue", "rule")}
    assert (len(kinds["machine"]), len(kinds["rule"])) == (5, len(SCORE_RULES))
    write_csv(found, tmp_path / "csv")
    for name, records in kinds.items():
        with (tmp_path / "csv" / f"{name}s.csv").open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(records)
        assert [list(row) for row in rows[:1]] == [[key for key in records[0] if key != "record"]]
        assert "\x1b" not in "".join(value for row in rows for value in row.values())
    write_exposure_page(tmp_path / "e.html", found)
    page = (tmp_path / "e.html").read_text(encoding="utf-8")
    assert page.count("<script>") == 1
    assert "\x1b" not in page
    assert 'id="machines"' in page
    assert guid(32) not in page
