"""kill -9 of a streaming query, at steps between reading a batch and committing it.

The query runs in a process of its own, again and again with the same checkpoint, while another program
changes the directory. Its sink overwrites the file of a batch: one that is read again has the same rows.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import mqdssm
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.spark,
    pytest.mark.server,
]

QUERY = """
import os, signal, sys, json
from pathlib import Path
import pyarrow.parquet as pq
from mqdssm.spark.session import spark_session
from mqdssm.spark.source import register

options, sink, checkpoint, phase, batches = json.loads(sys.argv[1])

def store(frame, number):
    rows = frame.toArrow()
    if phase == "read" and number >= batches:
        os.kill(os.getpid(), signal.SIGKILL)
    file = Path(sink) / f"{number}.parquet"
    if file.exists():
        assert pq.read_table(file).sort_by("Sequence").equals(rows.sort_by("Sequence")), "another batch"
    pq.write_table(rows, file.with_suffix(".new"))
    file.with_suffix(".new").replace(file)
    if phase == "stored" and number >= batches:
        os.kill(os.getpid(), signal.SIGKILL)

with spark_session("stream", cores=2, memory="1g", brief=True) as spark:
    register(spark)
    stream = spark.readStream.format("mqdssm").options(**options).load().writeStream
    stream = stream.foreachBatch(store).option("checkpointLocation", checkpoint)
    query = (stream.trigger(availableNow=True) if phase == "end" else stream).start()
    print("begun", flush=True)
    query.awaitTermination()
os._exit(0)  # threads of Py4J for foreachBatch may wait for ever
"""


class Writer(threading.Thread):
    """Creates, changes and deletes queues, and remembers what it did."""

    def __init__(self, server: OpenLdapServer, login: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self._server, self._login = server, login
        self._random = random.Random(7)
        self.ended = threading.Event()
        self.created: list[str] = []
        self.deleted: list[str] = []

    def run(self) -> None:
        with mqdssm.connect(self._server.url, **self._login) as directory:
            there: list[mqdssm.Queue] = []
            while not self.ended.wait(0.3):
                number = len(self.created)
                kind = self._random.random()
                if kind < 0.5 or len(there) < 5:
                    queue = mqdssm.Queue(pathname=rf"web01\q{number}", label="0")
                    self.created.append(str(directory.create(queue)))
                    there.append(queue)
                elif kind < 0.8:
                    queue = self._random.choice(there)
                    queue.label = str(self._random.random())
                    directory.write(queue, attributes=["Label"])
                else:
                    queue = there.pop(self._random.randrange(len(there)))
                    directory.delete(queue)
                    self.deleted.append(str(queue.identifier))


@pytest.fixture
def server() -> Iterator[OpenLdapServer]:
    with OpenLdapServer(durable=False) as made:
        made.add_computer("web01")
        yield made


def test_nothing_is_lost_and_nothing_comes_twice(server: OpenLdapServer, tmp_path: Path) -> None:
    login = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
    (tmp_path / "password").write_text(server.password)
    (tmp_path / "sink").mkdir()
    with mqdssm.connect(server.url, **login) as directory:
        site = directory.create(mqdssm.Site(name="Paris"))
        directory.create(mqdssm.QueueManager(computer_name="web01", site_identifier_list=[site]))
        before = {
            str(directory.create(mqdssm.Queue(pathname=rf"web01\before{number}"))) for number in range(30)
        }
    options = {
        "url": server.url,
        "user": server.user,
        "cafile": server.ca_file,
        "credentialsfile": str(tmp_path / "password"),
        "object": "queue",
        "columns": "Pathname,Label",
        "state": str(tmp_path / "state"),
        "startingOffset": "snapshot",
        "maxRowsPerTrigger": "20",
    }
    writer = Writer(server, login)
    writer.start()
    chance = random.Random(3)
    for phase in ("read", "stored", "any", "any", "read"):
        run(tmp_path, options, phase, 5 + 10 * chance.random())
    writer.ended.set()
    writer.join(60)
    run(tmp_path, options, "end", 0)
    with mqdssm.connect(server.url, **login) as directory:
        labels = {str(one.identifier): one.label for one in directory.search(mqdssm.Queue)}
    compare(tmp_path / "sink", before, writer, labels)


def run(folder: Path, options: dict[str, str], phase: str, seconds: float) -> None:
    """Start the query, and wait until it has killed itself, or ended; "any": it is killed after a while."""
    given = [options, str(folder / "sink"), str(folder / "checkpoint"), phase]
    for _ in range(3):
        done = 1 + max((int(path.stem) for path in (folder / "sink").glob("*.parquet")), default=-1)
        with subprocess.Popen(
            [sys.executable, "-c", QUERY, json.dumps([*given, done + 2])],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as query:
            if phase == "any":  # the process that records the changes dies, too, at any place
                assert query.stdout is not None
                assert query.stdout.readline() == "begun\n"
                time.sleep(seconds)
                os.killpg(query.pid, signal.SIGKILL)
            try:
                _, err = query.communicate(timeout=400)
            finally:
                query.kill()
        if "failed to connect back" not in err:  # within ten seconds: a crash, too, of a busy machine
            break
    assert query.returncode == (0 if phase == "end" else -signal.SIGKILL), err[-3000:]


def compare(sink: Path, before: set[str], writer: Writer, labels: dict[str, str]) -> None:
    """The sink has each change once, in order, and they lead to what the directory holds."""
    files = sorted(sink.glob("*.parquet"), key=lambda path: int(path.stem))
    assert [int(path.stem) for path in files] == list(range(len(files)))
    tables = [pq.read_table(path) for path in files]
    assert all(table.num_rows <= 20 for table in tables)
    rows = sorted((row for table in tables for row in table.to_pylist()), key=lambda row: row["Sequence"])
    assert [row["Sequence"] for row in rows] == list(range(1, len(rows) + 1))
    assert len({row["ChangeId"] for row in rows}) == len(rows)
    told = Counter((row["Change"], row["ObjectGuid"]) for row in rows)
    assert {guid for kind, guid in told if kind == "existing"} >= before
    assert {count for (kind, _), count in told.items() if kind != "changed"} == {1}
    of_object: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        of_object[row["ObjectGuid"]].append(row)
    assert {some[0]["Change"] for some in of_object.values()} <= {"existing", "created"}
    gone = {guid for guid, some in of_object.items() if some[-1]["Change"] == "deleted"}
    # what came and went between two looks is not told at all (docs/watching.md)
    assert set(writer.deleted) >= gone >= set(writer.deleted) & of_object.keys()
    assert (before | set(writer.created)) - set(writer.deleted) <= of_object.keys()
    assert {guid: some[-1]["Label"] for guid, some in of_object.items() if guid not in gone} == labels
