"""Where an inventory comes from: what a validation takes, too."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mqdssm.spark.access import LogIn
from mqdssm.spark.cluster import HERE, SparkOptions
from mqdssm.spark.session import check_packages, check_spark, spark_session

if TYPE_CHECKING:
    from mqdssm.spark.validate_sources import Source


@contextlib.contextmanager
def opened(
    export: str | os.PathLike[str] | None = None,
    *,
    urls: Sequence[str] = (),
    access: LogIn | None = None,
    mqis: str | os.PathLike[str] | None = None,
    on: SparkOptions = HERE,
) -> "Iterator[Source]":
    """Open one source.

    Args:
        export: the folder of an export; or
        urls: the servers of a directory (it is exported to a folder of our own), with
        access: how to log in; or
        mqis: a folder of MQIS tables.
        on: where Spark runs.

    Yields:
        The source, for as long as the context lasts.

    Raises:
        ConfigError: it is not whole or not readable, or Java or a package is missing.
        DirectoryError: a directory cannot be read.
    """
    if export is None:
        check_spark()
    else:
        check_packages()
    from mqdssm.spark import validate_sources as sources
    from mqdssm.spark.runner import SparkRunner

    if mqis is not None:
        with (
            spark_session("mqdssm inventory", brief=True, on=on) as spark,
            sources.mqis_source(SparkRunner(spark), Path(mqis), on) as source,
        ):
            yield source
    elif export is not None:
        yield sources.export_source(Path(export))
    else:
        with sources.directory_source(urls, access or {}, on) as source:
            yield source
