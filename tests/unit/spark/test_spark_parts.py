"""How files of Parquet are written."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.spark.arrow import arrow_schema
from mqdssm.spark.columns import FRAME_TYPES
from mqdssm.spark.parts import repeating

ROWS = 10
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
    assert repeating(batch) == ["same", "half", "nothing", "listed.list.element"]


def test_parquet_knows_the_columns_by_these_names() -> None:
    for frame in FRAME_TYPES.values():
        schema = arrow_schema(frame.columns)
        batch = pa.RecordBatch.from_pylist([{}] * ROWS, schema=schema)
        file = io.BytesIO()
        with pq.ParquetWriter(file, schema, use_dictionary=repeating(batch)) as writer:
            writer.write_batch(batch)
        group = pq.ParquetFile(file).metadata.row_group(0)
        paths = {group.column(number).path_in_schema for number in range(group.num_columns)}
        assert set(repeating(batch)) <= paths
