"""Data frames of the objects of a validation or comparison."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from mqdssm.pipeline.validate.datasets import Dataset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_frame(spark: "SparkSession", objects: Dataset) -> "DataFrame":
    """Return the objects of one type as a data frame, without a Spark job that reads the files' schema."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(pa.schema(objects.columns))
    return spark.read.schema(schema).parquet(*(Path(path).resolve().as_uri() for path in objects.paths))
