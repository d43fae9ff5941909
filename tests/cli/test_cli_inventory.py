"""``mqdssm inventory`` with files of machines, and of many queues, in this process and without a server."""

import csv
import json
from collections import Counter
from html import unescape
from pathlib import Path

import pytest
from support.enterprises import machine_files as made
from support.enterprises import report_world as large
from support.enterprises.machine_files import queue, state
from support.enterprises.rules_world import guid, sound, tables
from support.spark.exports import write_export

WEB = state("web01", queue("orders", Id=guid(60), MessageCount=7), queue("private$\\retry", MessageCount=9))


@pytest.fixture
def export(tmp_path: Path) -> Path:
    folder = tmp_path / "export"
    write_export(folder, tables(sound()))
    return folder


@pytest.fixture
def machines(tmp_path: Path) -> Path:
    folder = tmp_path / "machines"
    folder.mkdir()
    (folder / "web01.json").write_bytes(made.as_json51(WEB))
    (folder / "other.prom").write_bytes(made.as_metrics(state("other", queue("private$\\a", MessageCount=1))))
    return folder


def test_tables(alone, export, machines) -> None:
    result = alone("inventory", str(export), "--add", str(machines))
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "web01 answered Running 1 1 16 0" in lines
    assert "OTHER not in the directory running 0 1 1 0" in lines
    place = lines.index("machine queue kind messages bytes in the journal last activity")
    assert lines[place + 1 : place + 4] == [
        "WEB01 private$\\retry private 9 0 0",
        "web01 orders public 7 0 0",
        "OTHER private$\\a private 1 0 0",
    ]
    assert "2 files added; machines: 1 answered, 4 no answer, 1 not in the directory" in result.stderr


def test_files(alone, export, machines, tmp_path) -> None:
    html, folder = tmp_path / "i.html", tmp_path / "csv"
    options = ("--add", str(machines / "web01.json"), "--add", str(machines / "other.prom"))
    alone("inventory", str(export), *options, "--html", str(html), "--csv", str(folder))
    assert "private$\\retry" in html.read_text(encoding="utf-8")
    with (folder / "queue-states.csv").open(encoding="utf-8-sig", newline="") as file:
        assert [row["Name"] for row in csv.DictReader(file) if row["Kind"] == "private"] == [
            "private$\\retry",
            "private$\\a",
        ]


def test_a_broken_file_is_named_and_the_exit_code_says_so(alone, export, machines) -> None:
    broken = machines / "broken.json"
    broken.write_bytes(b'{"Format": 1,')
    result = alone("inventory", str(export), "--add", str(machines), code=1)
    assert f"error: not added: {broken}: line 1, column 14: " in result.stderr
    assert "web01 answered Running" in " ".join(result.stdout.split())
    result = alone("inventory", str(export), "--add", str(machines), "-o", "json", code=1)
    head = json.loads(result.stdout.splitlines()[0])
    assert list(head["not_added"]) == [str(broken)]
    assert head["machine_states"]["answered"] == 1


def test_paths_without_files(alone, export, tmp_path) -> None:
    assert alone.error("inventory", str(export), "--add", "gone", code=2) == "gone does not exist"
    (tmp_path / "empty").mkdir()
    said = alone.error("inventory", str(export), "--add", str(tmp_path / "empty"), code=2)
    assert said.endswith("empty has no files to add")


def test_the_script(alone) -> None:
    shown = alone("inventory", "--script").stdout
    assert shown.startswith("# What this machine says")
    assert "Get-MsmqQueue -QueueType Private" in shown


QUEUES = 10_000
SHOWN = 300
"""Queues that the page shows; the files have all."""


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_many_queues_are_complete(alone, engine, tmp_path) -> None:
    """Each is in the file with its values, and counted with its machine; the page says what it has."""
    world = large.with_queues(large.world_of(sites=20, machines=200), QUEUES)
    write_export(tmp_path / "export", tables(world))
    page, folder = tmp_path / "inventory.html", tmp_path / "csv"
    words = ("--html", str(page), "--csv", str(folder), "--engine", engine)
    alone("inventory", str(tmp_path / "export"), *words)
    compared = ("Identifier", "Pathname", "Label", "Quota")
    expected = sorted(tuple(str(row[name]) for name in compared) for row in world["queue"])
    found = rows_of(folder / "queues.csv")
    assert sorted(tuple(row[name] for name in compared) for row in found) == expected
    assert len(expected) == QUEUES
    counted = {row["ComputerName"]: int(row["Queues"]) for row in rows_of(folder / "machines.csv")}
    machines = Counter(path.partition("\\")[0] for _, path, *_ in expected)
    assert counted == {name: machines[name] for name in counted}
    assert sum(counted.values()) == sum(n for name, n in machines.items() if not name.startswith("gone"))
    text = unescape(page.read_text(encoding="utf-8"))
    assert f"{SHOWN} of {QUEUES:,}: those with problems, then by name" in text
    assert sum(path in text for _, path, *_ in expected) >= SHOWN
