"""Changes of a directory in a log, on both kinds of servers: each once, whenever the recorder ends."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.watching.kinds import KINDS, Kind
from support.watching.watchers import IMPATIENT

import mqdssm
from mqdssm.events.watching import delivery
from mqdssm.events.watching.watch import Watch
from mqdssm.pipeline.access import DirectoryAccess
from mqdssm.pipeline.changes import recorder
from mqdssm.pipeline.changes.change_log import ChangeLog
from mqdssm.pipeline.changes.change_rows import change_schema
from mqdssm.pipeline.changes.recorder import Recorded, Recorder
from mqdssm.pipeline.frames.bulk import read_batches
from mqdssm.pipeline.frames.columns import FRAME_TYPES

QUEUES = FRAME_TYPES["queue"]
WAIT_S = 60.0


class Killed(BaseException):
    """Stands for the end of the process: nothing handles it."""


@dataclass
class Machine:
    """A queue manager of its own on a server, and the log of changes of queues."""

    directory: mqdssm.Directory
    access: DirectoryAccess
    name: str
    folder: Path

    def create(self, name: str, label: str) -> str:
        return str(self.directory.create(mqdssm.Queue(pathname=rf"{self.name}\{name}", label=label)))

    def queue(self, guid: str) -> mqdssm.Queue:
        return next(one for one in self.directory.search(mqdssm.Queue) if str(one.identifier) == guid)

    @contextmanager
    def recording(self, *, snapshot: bool = False) -> Iterator[tuple[ChangeLog, Recorder]]:
        log = ChangeLog(self.folder, "queue", change_schema(QUEUES.columns)).open()
        made = Recorder(Recorded(self.access, QUEUES, QUEUES.columns, snapshot), log, pauses=IMPATIENT)
        made.start()
        try:
            yield log, made
        finally:
            made.stop()
            log.close()

    def rows(self, log: ChangeLog) -> list[dict[str, Any]]:
        """The changes of this machine, in the order of their numbers."""
        rows = [row for batch in log.read_between(0, log.end) for row in batch.to_pylist()]
        assert [row["Sequence"] for row in rows] == list(range(1, len(rows) + 1))
        assert len({row["ChangeId"] for row in rows}) == len(rows)
        return [row for row in rows if self.name.lower() in row["ObjectName"].lower()]

    def wait(self, log: ChangeLog, count: int) -> list[dict[str, Any]]:
        end = time.monotonic() + WAIT_S
        while len(found := self.rows(log)) < count and time.monotonic() < end:
            time.sleep(0.05)
        assert len(found) == count, found
        return found


@pytest.fixture(params=["openldap", pytest.param("samba", marks=pytest.mark.samba)])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    kind: Kind = KINDS[request.param]
    server = request.getfixturevalue(f"{kind.name}_server")
    secret = tmp_path / "password"
    secret.write_text(server.password)
    with kind.connect(server) as directory:
        name = f"Y{uuid4().hex[:8].upper()}"
        kind.add_computer(server, name)
        site = directory.create(mqdssm.Site(name=name))
        directory.create(mqdssm.QueueManager(computer_name=name, site_identifier_list=[site]))
        urls = tuple(one.url for one in directory.session.options.endpoints)
        access = DirectoryAccess(
            urls=urls, user=server.user, password_file=str(secret), ca_file=server.ca_file
        )
        yield Machine(directory, access, name, tmp_path / "state")


def events(rows: list[dict[str, Any]]) -> list[tuple[str, str, str | None]]:
    return [(row["Change"], row["ObjectGuid"], row["Label"]) for row in rows]


def test_rows_have_the_columns_of_the_batch_source(machine: Machine) -> None:
    there = machine.create("there", "Größe")
    with machine.recording(snapshot=True) as (log, made):
        made.wait_until_settled()
        (existing,) = machine.rows(log)
        guid = machine.create("orders", "1")
        machine.wait(log, 2)
        queue = machine.queue(guid)
        queue.label = "2"
        machine.directory.write(queue)
        rows = machine.wait(log, 3)
        (expected,) = (
            row
            for batch in read_batches(machine.directory, QUEUES)
            for row in batch.to_pylist()
            if row["Identifier"] == guid
        )
        machine.directory.delete(queue)
        rows = machine.wait(log, 4)
    assert events([existing]) == [("existing", there, "Größe")]
    assert events(rows[1:]) == [("created", guid, "1"), ("changed", guid, "2"), ("deleted", guid, None)]
    assert {name: rows[2][name] for name in expected} == expected
    assert "Label" in rows[2]["ChangedAttributes"]
    assert {row["ObjectType"] for row in rows} == {"queue"}
    assert all(rows[3][column.name] is None for column in QUEUES.columns)
    assert rows[3]["ObjectName"].lower() == expected["FullPath"].lower()
    assert [row["SeenTime"] for row in rows] == sorted(row["SeenTime"] for row in rows)


@pytest.mark.parametrize("when", ["before the rows", "after the rows"])
def test_a_recorder_that_dies_loses_and_repeats_nothing(
    machine: Machine, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are on the disk before the watch's place moves; what is told again is known by its id."""
    with machine.recording() as (_, made):
        made.wait_until_settled()
    guids = [machine.create(f"q{number}", str(number)) for number in range(3)]
    with monkeypatch.context() as dying:

        def die(*_: object) -> None:
            raise Killed

        target: Any = Watch if when == "after the rows" else ChangeLog
        dying.setattr(target, "commit" if target is Watch else "append", die)
        dying.setattr(recorder.threading, "excepthook", lambda _: None)
        with machine.recording() as (_, made):
            made._thread.join(WAIT_S)
            assert not made._thread.is_alive()
    machine.directory.delete(machine.queue(guids[1]))
    with machine.recording() as (log, made):
        made.wait_until_settled()
        rows = machine.rows(log)
    kept = "1" if when == "after the rows" else None  # else it was gone when the row was made
    assert sorted(events(rows[:3])) == sorted(
        ("created", guid, kept if number == 1 else str(number)) for number, guid in enumerate(guids)
    )
    assert events(rows[3:]) == [("deleted", guids[1], None)]
    with machine.recording() as (log, made):
        made.wait_until_settled()
        assert machine.rows(log) == rows


def test_ids_are_on_the_disk_before_the_rows(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power failure a change would be told with another id, and come twice (decision W20)."""
    monkeypatch.setattr(delivery, "SYNC_EVERY_S", 1e9)
    synced = []
    append = ChangeLog.append

    def appended(log: ChangeLog, rows: Any) -> None:
        watch = made._watch
        assert watch is not None
        assert watch._file is not None
        synced.append(watch._file.journal._is_synced)
        append(log, rows)

    monkeypatch.setattr(ChangeLog, "append", appended)
    with machine.recording() as (log, made):
        made.wait_until_settled()
        machine.create("orders", "1")
        machine.wait(log, 1)
    assert synced
    assert all(synced)


def test_many_changes_come_in_several_files(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "ROWS_MAX", 2)
    guids = {machine.create(f"q{number}", str(number)) for number in range(5)}
    with machine.recording(snapshot=True) as (log, made):
        made.wait_until_settled()
        assert {row["ObjectGuid"] for row in machine.rows(log)} == guids
        assert all(batch.num_rows <= 2 for batch in log.read_between(0, log.end))
        assert machine.rows(log)[0]["Change"] == "existing"
