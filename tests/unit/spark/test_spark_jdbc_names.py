"""Names of a database's tables in SQL, and rows of the copies that Spark makes of them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqdssm.errors import ConfigError
from mqdssm.pipeline.mqis import folder
from mqdssm.pipeline.mqis.files import TableFiles
from mqdssm.pipeline.mqis.folder import read_rows, read_source_table
from mqdssm.pipeline.mqis.mapping import SourceMapping, TableMapping
from mqdssm.spark.jdbc import _Reader
from mqdssm.tables.mqis import QUEUE

URL = "jdbc:postgresql://127.0.0.1/mqis"


def names(
    monkeypatch: pytest.MonkeyPatch, found: list[tuple[str, str]], url: str = URL, **tables: str | None
) -> dict[str, str]:
    """Names by which tables are read, of a database that lists some, with a mapping."""

    class Listed:
        def collect(self) -> list[tuple[str, str]]:
            return found

    spark: Any = None
    monkeypatch.setattr(_Reader, "_read", lambda *_: Listed())
    mapping = SourceMapping(tables={name: TableMapping(table=table) for name, table in tables.items()})
    return _Reader(spark, url, mapping, Path()).list_names()


def test_tables_that_are_found_are_quoted_as_they_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """User is a keyword, and PostgreSQL has names in lower case that were not quoted."""
    found = [("public", "queue"), ("MSMQ", "User"), ("public", "other"), ("a", 'si"te')]
    assert names(monkeypatch, found) == {"User": '"MSMQ"."User"', "Queue": '"public"."queue"'}
    assert names(monkeypatch, [("msmq", "User")], "jdbc:mysql://h/msmq") == {"User": "`msmq`.`User`"}
    with pytest.raises(ConfigError, match="has several tables Queue: name one in the --mapping file"):
        names(monkeypatch, [("a", "Queue"), ("b", "queue")])


@pytest.mark.parametrize(
    "name", ["dbo.MSMQ_Queue", '"User"', '"dbo"."User"', "[dbo].[User]", "`msmq`.`User`"]
)
def test_a_name_of_the_mapping_is_sql_as_it_stands(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert names(monkeypatch, [("dbo", "User")], User=name) == {"User": name}
    both = names(monkeypatch, [("dbo", "User"), ("dbo", "queue")], User=name, Queue=None)
    assert both == {"User": name, "Queue": '"dbo"."queue"'}


@pytest.mark.parametrize(
    "name", ["(select 1) x", "User; drop table Queue", "User -- ", " User", "a\nb", "'a'"]
)
def test_what_is_no_name_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with pytest.raises(ConfigError, match="is no name of a table"):
        names(monkeypatch, [], User=name)


def test_rows_are_numbered_through_all_parts_of_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark may write hundreds of parts: the number of rows of each is read once."""
    for part in range(20):
        guids = [f"00000000-0000-0000-0000-{part:06}{row:06}" for row in range(3)]
        pq.write_table(
            pa.table({"PROPID_Q_INSTANCE": guids}), tmp_path / f"part-{part:05}.parquet", row_group_size=2
        )
    reads: list[Path] = []
    real = pq.read_metadata

    def read_metadata(path: Path) -> Any:
        reads.append(path)
        return real(path)

    monkeypatch.setattr(folder.pq, "read_metadata", read_metadata)
    monkeypatch.setattr(folder, "_ROW_GROUP_ROWS", 1)
    files = tuple(sorted(tmp_path.glob("*.parquet")))
    table = read_source_table(TableFiles(QUEUE, "parquet", tmp_path, files, "dbo.Queue"), SourceMapping())
    assert len(table.files) == 40
    assert len(reads) <= 2 * len(files)
    rows = [row for part in table.files for row in read_rows(part, SourceMapping())]
    assert [row.number for row in rows] == list(range(1, 61))
    assert {part.label for part in table.files} == {"dbo.Queue"}
