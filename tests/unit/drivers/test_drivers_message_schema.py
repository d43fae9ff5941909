"""Databases of recoverable messages of older and newer versions (decision T150)."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support.programs.starting import run
from support.project.source_tree import ROOT
from support.replication.queue_managers import guid_of

from mqdssm.drivers.queue_manager import message_schema
from mqdssm.drivers.queue_manager.message_store import MessageStore
from mqdssm.errors import ConfigError
from mqdssm.model.transport import AuthenticationLevel, MessageId

VERSION_1 = (ROOT / "tests" / "vectors" / "messages-version-1.sql").read_text()
LEFT = guid_of("LEFT")
KILLED_AT = """
import os, signal, sqlite3, sys
from pathlib import Path
from mqdssm.drivers.queue_manager.message_store import MessageStore

connect, left = sqlite3.connect, int(sys.argv[2])

def count(_statement):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

def connect_counting(*arguments, **options):
    database = connect(*arguments, **options)
    database.set_trace_callback(count)
    return database

sqlite3.connect = connect_counting
MessageStore(Path(sys.argv[1])).close()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database that the code of version 1 made."""
    path = tmp_path / "messages.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(VERSION_1)
        database.execute("PRAGMA journal_mode = WAL")
    return path


def version_of(file: Path) -> int:
    with closing(sqlite3.connect(file)) as database:
        return int(database.execute("PRAGMA user_version").fetchone()[0])


def dump(file: Path) -> str:
    """Everything in a database, with its version."""
    with closing(sqlite3.connect(file)) as database:
        return "\n".join((*database.iterdump(), str(database.execute("PRAGMA user_version").fetchone())))


def check_messages(store: MessageStore) -> None:
    """All messages of version 1 are there, with their senders, and what was received stays known."""
    assert [message.body for message in store.read_sent()] == [b"sent 7", b"sent 4294967295", b"sent 0"]
    unsigned, signed = store.read_arrived(8)
    assert (unsigned.message.body, unsigned.sender) == (b"unsigned", None)
    assert signed.message.authentication_level is AuthenticationLevel.SIG20
    assert signed.sender is not None
    assert (signed.sender.machine_name, signed.sender.site_id) == ("LEFT", guid_of("SITE"))
    assert all(store.has_had(8, MessageId(LEFT, number)) for number in (1, 2, 3))
    assert str(store.identifier().uuid) == "8bcc94e1-35a6-4507-ad01-225cfd425655"
    assert store.queues() == {"orders": 8, "answers": 9}


def test_a_database_of_version_1_keeps_everything(file):
    with closing(MessageStore(file)) as store:
        check_messages(store)
    assert version_of(file) == len(message_schema.STEPS) == 2
    once = dump(file)
    with closing(MessageStore(file)) as store:
        check_messages(store)
    assert dump(file) == once


def test_a_new_queue_gets_nothing_that_version_1_left_behind(file):
    """Version 1 kept the messages of removed queues: queue 10 was one (decision T131)."""
    with closing(MessageStore(file)) as store:
        number = store.add_queue("new", 8)
        assert number == 11
        assert not store.read_arrived(number)


def test_an_old_database_is_like_a_new_one(file, tmp_path):
    """The same tables, by the same statements."""

    def tables_of(path: Path) -> list[tuple[str, ...]]:
        with closing(sqlite3.connect(path)) as database:
            return database.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()

    with closing(sqlite3.connect(file)) as database:
        assert database.execute("SELECT count(*) FROM sqlite_sequence WHERE name = 'queue'").fetchone() == (
            0,
        )
    MessageStore(file).close()
    MessageStore(tmp_path / "new").close()
    with closing(sqlite3.connect(tmp_path / "new")) as database:
        assert not database.execute("SELECT * FROM sqlite_sequence").fetchall()
    squeezed = [
        [(name, " ".join((sql or "").split())) for name, sql in tables_of(path)]
        for path in (file, tmp_path / "new")
    ]
    assert squeezed[0] == squeezed[1]


def test_a_newer_database_is_refused_and_stays_as_it_was(file):
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 3")
    before = dump(file)
    problem = (
        r"messages\.sqlite was used by a newer mqdssm: its version is 3, .* up to 2\. Use the newer mqdssm"
    )
    with pytest.raises(ConfigError, match=problem):
        MessageStore(file)
    assert dump(file) == before
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = -1")
    with pytest.raises(ConfigError, match="it has version -1"):
        MessageStore(file)


def test_a_step_that_fails_leaves_the_old_version(file, monkeypatch):
    before = dump(file)
    steps = (*message_schema.STEPS, ("CREATE TABLE third (a)", "INSERT INTO nowhere VALUES (1)"))
    monkeypatch.setattr(message_schema, "STEPS", steps)
    with pytest.raises(ConfigError, match="no such table: nowhere"):
        MessageStore(file)
    assert dump(file) == before


def open_and_kill(file: Path, statement: int) -> "subprocess.CompletedProcess[str]":
    """Open a database in a process that is killed before a statement."""
    return run([sys.executable, "-c", KILLED_AT, str(file), str(statement)], text=True)


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_the_old_version_or_the_new_one(file, tmp_path):
    before, versions = dump(file), []
    for statement in range(1, 100):
        copy = tmp_path / f"{statement}.sqlite"
        copy.write_bytes(file.read_bytes())
        ended = open_and_kill(copy, statement)
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        versions.append(version_of(copy))
        assert versions[-1] == 2 or dump(copy) == before
        with closing(MessageStore(copy)) as store:
            check_messages(store)
    assert versions == sorted(versions)
    assert versions.count(1) > len(message_schema.STEPS[1])
    assert 2 in versions
