"""Data frames of the objects of a validation or comparison."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from mqdssm.pipeline.validate.datasets import Dataset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_frame(spark: "SparkSession", objects: Dataset) -> "DataFrame":
    """Read the objects of one type, without a look at the files: each would cost a job of Spark's."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(pa.schema(objects.columns))
    return spark.read.schema(schema).parquet(*(Path(path).resolve().as_uri() for path in objects.paths))
