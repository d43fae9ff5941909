"""Sources of an inventory: an export, a directory or MQIS tables, as for a validation."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mqdssm.errors import require_packages
from mqdssm.pipeline.access import PipelineLogIn
from mqdssm.pipeline.engines import JobEngine
from mqdssm.pipeline.spark_options import HERE, SparkOptions

if TYPE_CHECKING:
    from mqdssm.pipeline.validate.sources import ValidationSource


@contextlib.contextmanager
def opened(
    export: str | os.PathLike[str] | None = None,
    *,
    urls: Sequence[str] = (),
    access: PipelineLogIn | None = None,
    mqis: str | os.PathLike[str] | None = None,
    mapping: Path | None = None,
    engine: str = "auto",
    workers: int | None = None,
    on: SparkOptions = HERE,
) -> "Iterator[ValidationSource]":
    """Open one source.

    Args:
        export: the folder of an export; or
        urls: the servers of a directory (it is exported to a folder of our own), with
        access: how to log in; or
        mqis: a folder of MQIS tables, with
        mapping: the file that says how they are called and coded; None: as in MQIS, in UTF-8.
        engine: ``local``, ``spark`` or ``auto``, as for `mqdssm.pipeline.export.run.export`; an export needs
            none.
        workers: processes of the local engine; None: one a core, as far as there is memory.
        on: where Spark runs.

    Yields:
        The source, for as long as the context lasts.

    Raises:
        ConfigError: it is not whole or not readable, or Java or a package is missing.
        DirectoryError: a directory cannot be read.
    """
    chosen = JobEngine.of(engine, on, workers)
    check_engine(chosen)
    from mqdssm.pipeline.validate import sources

    if export is not None:
        yield sources.export_source(Path(export))
    elif mqis is not None:
        with (
            chosen.runner("mqdssm inventory") as runner,
            sources.mqis_source(runner, Path(mqis), chosen.on, mapping) as source,
        ):
            yield source
    else:
        with sources.directory_source(urls, access or {}, chosen) as source:
            yield source


def check_engine(engine: JobEngine) -> None:
    """Check that an engine could run here, and that rules can be read.

    Raises:
        ConfigError: what is missing and how to install it.
    """
    engine.check()
    require_packages("pyarrow", "numpy", "sqlglot", extra="pipeline")
