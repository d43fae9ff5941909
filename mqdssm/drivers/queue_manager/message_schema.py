"""Tables of the database of recoverable messages, and steps from older versions.

The version is SQLite's ``user_version``. A new database begins with the first version, and goes the same
steps as an old one: no second description of the tables can differ (decision T150).
"""

import sqlite3
from typing import Final

from mqdssm.errors import ConfigError

_FIRST: Final = (
    "CREATE TABLE identity (identifier BLOB NOT NULL)",
    "CREATE TABLE queue (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    """CREATE TABLE sent (place INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL UNIQUE,
    packet BLOB NOT NULL)""",
    """CREATE TABLE arrived (place INTEGER PRIMARY KEY AUTOINCREMENT, queue INTEGER NOT NULL,
    source BLOB NOT NULL, number INTEGER NOT NULL, packet BLOB NOT NULL, level INTEGER NOT NULL, sender TEXT,
    UNIQUE (queue, source, number))""",
    """CREATE TABLE known (place INTEGER PRIMARY KEY AUTOINCREMENT, queue INTEGER NOT NULL,
    source BLOB NOT NULL, number INTEGER NOT NULL, UNIQUE (queue, source, number))""",
)
_QUEUE_NUMBERS: Final = (
    "ALTER TABLE queue RENAME TO queue_of_version_1",
    "CREATE TABLE queue (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE)",
    "INSERT INTO queue (number, name) SELECT number, name FROM queue_of_version_1",
    "DROP TABLE queue_of_version_1",
    # version 1 left rows of removed queues behind: their numbers are taken, too
    "DELETE FROM sqlite_sequence WHERE name = 'queue'",
    """INSERT INTO sqlite_sequence (name, seq) SELECT 'queue', max(number) FROM
    (SELECT number FROM queue UNION SELECT queue FROM arrived UNION SELECT queue FROM known)
    HAVING max(number) IS NOT NULL""",
)
STEPS: tuple[tuple[str, ...], ...] = (_FIRST, _QUEUE_NUMBERS)
"""Statements from each version to the next one: the first step makes version 1 of an empty database."""


def prepare_database(database: sqlite3.Connection, *, name: str) -> None:
    """Bring a database to the current version, in one transaction.

    After a crash or an error the database has its old version, with everything in it.

    Args:
        database: in autocommit mode.
        name: name of its file, for errors.

    Raises:
        ConfigError: a newer mqdssm has used the database; nothing is changed.
        sqlite3.Error: it is no database, or cannot be written.
    """
    if _version_of(database, name) == len(STEPS):
        return
    database.execute("BEGIN EXCLUSIVE")
    try:
        for version in range(_version_of(database, name), len(STEPS)):
            for statement in STEPS[version]:
                database.execute(statement)
        database.execute(f"PRAGMA user_version = {len(STEPS)}")
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _version_of(database: sqlite3.Connection, name: str) -> int:
    """Return the version of a database; 0 if it is empty.

    Raises:
        ConfigError: it is newer than the current one.
        sqlite3.Error: it is no database, or has no version of ours.
    """
    version: int = database.execute("PRAGMA user_version").fetchone()[0]
    if version < 0:
        raise sqlite3.DatabaseError(f"it has version {version}")
    if version > len(STEPS):
        raise ConfigError(
            f"{name} was used by a newer mqdssm: its version is {version}, and this mqdssm knows versions up "
            f"to {len(STEPS)}. Use the newer mqdssm; the messages in the file are as they were"
        )
    return version
