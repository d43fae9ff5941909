"""A PostgreSQL of its own in a temporary folder, with MQIS tables; the system's clusters are left alone."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow.parquet as pq

from mqdssm.model.propids import BLOBS, GUIDS, INTEGERS, LISTS, Variant
from mqdssm.tables.mqis import MQIS_TABLES, MqisColumn

DRIVER = Path("/usr/share/java/postgresql.jar")
PASSWORD = "s3cret-of-the-database"
WAIT_S = 120


def why_none() -> str:
    """Why there can be no PostgreSQL here; empty if there can."""
    if os.geteuid() != 0:
        return "starting PostgreSQL as another user needs root"
    if programs() is None:
        return "postgresql is not installed: .ci/setup test does that"
    return "" if DRIVER.exists() else f"{DRIVER} is missing: .ci/setup test installs it"


def programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


@dataclass(frozen=True)
class PostgreSql:
    """A running server."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/mqis"

    def run(self, sql: str, data: str | None = None) -> None:
        command = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder), "-p", str(self.port)]
        done = subprocess.run(
            [*command, "-U", "postgres", "-d", "mqis", "-c", sql],
            input=data,
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_S,
        )
        assert done.returncode == 0, done.stderr

    def load(self, folder: Path) -> None:
        """Make tables of Parquet files, typed as in a database: GUIDs as octets, numbers signed."""
        for name, table in MQIS_TABLES.items():
            read = pq.read_table(folder / f"{name}.parquet")
            columns = [table.column(one) for one in read.column_names]
            declared = ", ".join(f"{column.name.lower()} {_type(column)}" for column in columns)
            self.run(f'create table "{name.lower()}" (row_number serial, {declared})')
            rows = "".join(
                "\t".join(_copied(column, row[column.name]) for column in columns) + "\n"
                for row in read.to_pylist()
            )
            names = ", ".join(column.name.lower() for column in columns)
            self.run(f'copy "{name.lower()}" ({names}) from stdin', rows)
        self.run(f"create role reader login password '{PASSWORD}'")
        self.run("grant select on all tables in schema public to reader")


@contextlib.contextmanager
def postgresql(port: int) -> Iterator[PostgreSql]:
    """Start a server that lets nobody in over the network without a password."""
    binaries = programs()
    assert binaries is not None
    with tempfile.TemporaryDirectory(prefix="mqdssm-pg-") as name:
        folder = Path(name)
        shutil.chown(folder, "postgres")
        data = folder / "data"
        _as_postgres([binaries / "initdb", "-D", data, "-A", "trust", "-E", "UTF8", "--no-sync"])
        (data / "pg_hba.conf").write_text(
            "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n", encoding="ascii"
        )
        control = binaries / "pg_ctl"
        options = f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off"
        _as_postgres([control, "-D", data, "-o", options, "-l", folder / "log", "-w", "start"])
        try:
            server = PostgreSql(folder, port)
            _as_postgres([binaries / "createdb", "-h", folder, "-p", str(port), "mqis"])
            yield server
        finally:
            _as_postgres([control, "-D", data, "-m", "fast", "-w", "stop"])


def _as_postgres(command: Sequence[Any]) -> None:
    done = subprocess.run(
        ["runuser", "-u", "postgres", "--", *map(str, command)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=WAIT_S,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr


def _type(column: MqisColumn) -> str:
    if column.name == "PROPID_Q_LABEL" or column.variant in BLOBS:
        return "bytea"  # labels in the code page of the old server
    if column.variant in LISTS:
        return "text[]"
    if column.variant is Variant.CLSID:
        return "bytea" if column.name.endswith(("_INSTANCE", "_MACHINE_ID")) else "uuid"
    return "integer" if column.variant in INTEGERS else "text"


def _copied(column: MqisColumn, value: Any) -> str:
    """A value as PostgreSQL's COPY takes it."""
    kind = _type(column)
    if value is None:
        return "\\N"
    if kind == "bytea":
        if column.variant in GUIDS:
            value = UUID(value).bytes_le
        data = value.encode("gb18030") if isinstance(value, str) else value
        return "\\\\x" + data.hex()
    if kind == "text[]":
        return "{" + ",".join(value) + "}"
    if kind == "integer":
        return str(value - 2**32 if value > 2**31 - 1 else value)
    return str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
