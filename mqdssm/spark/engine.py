"""The engine for Spark, which `mqdssm.pipeline.engines` loads by name."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mqdssm.pipeline.spark_options import SparkOptions
from mqdssm.spark.cluster import probe, refuse_speculation
from mqdssm.spark.runner import RETRIES, SparkRunner
from mqdssm.spark.session import check_spark, spark_session


def check() -> None:
    """See `mqdssm.pipeline.engines.SparkEngine`."""
    check_spark()


@contextlib.contextmanager
def runner(
    app: str,
    on: SparkOptions,
    files: Sequence[Path],
    *,
    conf: Mapping[str, str],
    may_speculate: bool,
    brief: bool,
) -> Iterator[SparkRunner]:
    """See `mqdssm.pipeline.engines.SparkEngine`."""
    with spark_session(app, brief=brief, conf={**RETRIES, **conf}, on=on) as spark:
        if not may_speculate:
            refuse_speculation(spark)
        probe(spark, on, files)
        yield SparkRunner(spark, on.shared)
