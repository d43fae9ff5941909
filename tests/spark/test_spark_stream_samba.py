"""``spark.readStream.format("mqdssm")`` on a domain controller: each change of its queues exactly once."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mqdssm
from mqdssm.spark.source import register
from mqdssm.testing import SambaDomainController

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600), pytest.mark.spark]

WAIT_S = 120.0


@pytest.fixture(scope="module")
def domain() -> Iterator[SambaDomainController]:
    with SambaDomainController() as made:
        made.add_computer("web01")
        yield made


class QueueStream:
    """A query that writes all changes of queues into a folder, again and again with one checkpoint."""

    def __init__(self, spark: Any, domain: SambaDomainController, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        (folder / "secret").write_text(domain.password)
        self._options = {
            "url": domain.ldaps_url,
            "user": domain.user,
            "cafile": domain.ca_file,
            "credentialsfile": str(folder / "secret"),
            "object": "queue",
            "columns": "Pathname,Label",
            "state": str(folder / "state"),
            "startingOffset": "snapshot",
            "maxRowsPerTrigger": "2",
        }
        register(spark)

    def start(self, **trigger: Any) -> Any:
        """Start the query from its checkpoint."""
        stream = self._spark.readStream.format("mqdssm").options(**self._options).load().writeStream
        places = {"path": str(self._folder / "out"), "checkpointLocation": str(self._folder / "checkpoint")}
        return stream.format("parquet").options(**places).trigger(**trigger).start()

    def run(self) -> list[dict[str, Any]]:
        """Run the query until all earlier changes are written; return all rows so far."""
        query = self.start(availableNow=True)
        try:
            assert query.awaitTermination(WAIT_S)
        finally:
            query.stop()
        return self.rows()

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows that were written, whose numbers have no gaps."""
        frame = self._spark.read.parquet(str(self._folder / "out")).orderBy("Sequence")
        rows = [row.asDict() for row in frame.collect()]
        assert [row["Sequence"] for row in rows] == list(range(1, len(rows) + 1))
        assert len({row["ChangeId"] for row in rows}) == len(rows)
        return rows


def told(rows: list[dict[str, Any]]) -> list[tuple[str, str, str | None]]:
    """Return what the rows say, in order: kind of change, GUID and label."""
    return [(row["Change"], row["ObjectGuid"], row["Label"]) for row in rows]


def test_creations_changes_and_deletions_of_a_domain_come_once(spark, domain, tmp_path) -> None:
    login = {"user": domain.user, "password": domain.password, "ca_file": domain.ca_file}
    stream = QueueStream(spark, domain, tmp_path)
    with mqdssm.connect(domain.ldaps_url, **login) as directory:
        site = directory.create(mqdssm.Site(name="Paris"))
        directory.create(mqdssm.QueueManager(computer_name="web01", site_identifier_list=[site]))
        kept, gone = (mqdssm.Queue(pathname=rf"web01\{name}", label=name) for name in ("kept", "gone"))
        guids = [str(directory.create(queue)) for queue in (kept, gone)]
        first = stream.run()
        assert sorted(told(first)) == sorted([("existing", guids[0], "kept"), ("existing", guids[1], "gone")])
        assert {row["Pathname"].lower() for row in first} == {r"web01\kept", r"web01\gone"}

        new = str(directory.create(mqdssm.Queue(pathname=r"web01\new", label="new")))
        kept.label = "another"
        directory.write(kept, attributes=["Label"])
        directory.delete(gone)
        second = stream.run()
        assert second[: len(first)] == first
        later = second[len(first) :]
        assert sorted(told(later), key=str) == sorted(
            [("created", new, "new"), ("changed", guids[0], "another"), ("deleted", guids[1], None)], key=str
        )
        (named,) = (row["ChangedAttributes"] for row in later if row["Change"] == "changed")
        assert {"Label"} <= set(named) <= {"Label", "ModifyTime"}
        assert stream.run() == second, "nothing has changed, and nothing is told again"

        query = stream.start(processingTime="0 seconds")  # stays, and sees what happens meanwhile
        try:
            directory.delete(kept)
            begun = time.monotonic()
            while len(rows := stream.rows()) == len(second):
                assert time.monotonic() - begun < WAIT_S
                assert query.exception() is None
                time.sleep(0.2)
        finally:
            query.stop()
        assert rows[: len(second)] == second
        assert told(rows[len(second) :]) == [("deleted", guids[0], None)]
        assert stream.run() == rows
