"""How files of Parquet are written."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.pipeline.export import file_writer
from mqdssm.pipeline.export.file_writer import ExportFiles, PartOptions, RowBatch, list_repeating
from mqdssm.pipeline.export.journal import WORK_NAME, ExportFolder
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.frames.columns import FRAME_TYPES

ROWS = 10
TEXTS = (b"short\n", b"and more\n", b"last\n")
LISTED = pa.list_(pa.field("element", pa.string()))


def test_values_that_come_again_have_a_dictionary() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "same": ["x"] * ROWS,
            "different": [str(number) for number in range(ROWS)],
            "half": [number // 2 for number in range(ROWS)],
            "truth": [True] * ROWS,
            "nothing": pa.nulls(ROWS, pa.binary()),
            "listed": pa.array([["p"]] * ROWS, LISTED),
        }
    )
    assert list_repeating(batch) == ["same", "half", "nothing", "listed.list.element"]


def test_parquet_knows_the_columns_by_these_names() -> None:
    for frame in FRAME_TYPES.values():
        schema = make_arrow_schema(frame.columns)
        batch = pa.RecordBatch.from_pylist([{}] * ROWS, schema=schema)
        file = io.BytesIO()
        with pq.ParquetWriter(file, schema, use_dictionary=list_repeating(batch)) as writer:
            writer.write_batch(batch)
        group = pq.ParquetFile(file).metadata.row_group(0)
        paths = {group.column(number).path_in_schema for number in range(group.num_columns)}
        assert set(list_repeating(batch)) <= paths


def test_a_file_ends_when_it_is_large(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(file_writer, "FILE_BYTES", 10)
    (tmp_path / "queue").mkdir()
    (tmp_path / WORK_NAME / "keys").mkdir(parents=True)
    options = PartOptions(ExportFolder(tmp_path), "queue", "jsonl", "none", 0, file_rows=100)
    made = ExportFiles(options, ())
    rows = [
        RowBatch(pa.array([key]), pa.array([key]), [text]) for key, text in zip("abc", TEXTS, strict=True)
    ]
    whole = [one.file for some in rows for one in made.add(some)]
    last = [one.file for one in made.finish(empty=False)]
    assert [one.path for one in whole + last] == ["queue/part-000-00000.jsonl", "queue/part-000-00001.jsonl"]
    assert [(tmp_path / one.path).read_bytes() for one in whole + last] == [TEXTS[0] + TEXTS[1], TEXTS[2]]
    assert [one.rows for one in whole + last] == [2, 1]
