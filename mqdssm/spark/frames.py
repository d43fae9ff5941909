"""Data frames of the objects of a validation or comparison, and validation of data frames."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from mqdssm.errors import ConfigError
from mqdssm.pipeline.shared_folder import scratch
from mqdssm.pipeline.spark_options import HERE, SparkOptions
from mqdssm.pipeline.validate.datasets import Dataset, dataset
from mqdssm.pipeline.validate.rules.vocabulary import FRAMES
from mqdssm.pipeline.validate.sources import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_frame(spark: "SparkSession", objects: Dataset) -> "DataFrame":
    """Read the objects of one type, without a look at the files: each would cost a job of Spark's."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(pa.schema(objects.columns))
    return spark.read.schema(schema).parquet(*(Path(path).resolve().as_uri() for path in objects.paths))


@contextlib.contextmanager
def frames_source(frames: Mapping[str, "DataFrame"], name: str, on: SparkOptions = HERE) -> Iterator[Source]:
    """Take data frames, one of each type.

    Args:
        frames: by the type's name on the command line.
        name: of the source, for people.
        on: where the session runs.

    Raises:
        ConfigError: a type that is not known.
    """
    for one in frames:
        if one not in FRAMES:
            raise ConfigError(f"{name} holds type {one}, which this program does not know")
    with scratch(on, "mqdssm-validate-") as made:
        sets = {}
        for one, frame in frames.items():
            target = made / one
            frame.write.option("compression", "none").parquet(target.as_uri())
            sets[one] = dataset(one, sorted(target.glob("part-*.parquet")))
        yield Source(name, sets)
