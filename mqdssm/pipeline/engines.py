"""Engine of a job: processes of this machine, without Java, or Spark."""

import contextlib
import importlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol, Self, TypedDict, cast

from mqdssm.errors import ConfigError, require_packages
from mqdssm.pipeline.local import LocalRunner
from mqdssm.pipeline.runner import Runner
from mqdssm.pipeline.spark_options import HERE, SparkOptions, is_spark_wanted

log: Final = logging.getLogger(__name__)

_THIS_MACHINE: Final = SparkOptions("local[*]")
"""Options of the local engine, which ignores an active Spark session on a cluster."""


SPARK_ENGINE: Final = "mqdssm.spark.runner"
"""Module that starts Spark; see `SparkEngine`."""


class SparkEngine(Protocol):
    """Functions of the module `SPARK_ENGINE`."""

    def check(self) -> None:
        """Check, without starting Java, that Spark could run here.

        Raises:
            ConfigError: what is missing and how to install it.
        """

    def runner(
        self,
        app: str,
        on: SparkOptions,
        files: Sequence[Path],
        *,
        conf: Mapping[str, str],
        may_speculate: bool,
        brief: bool,
    ) -> AbstractContextManager[Runner]:
        """Start Spark; see `JobEngine.runner`."""


class EngineKind(StrEnum):
    """Values of ``--engine``."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


class EngineArguments(TypedDict):
    """Arguments of the functions that take an engine."""

    engine: str
    workers: int | None
    on: SparkOptions


@dataclass(frozen=True, slots=True)
class JobEngine:
    """Engine that was chosen for a job.

    Attributes:
        kind: ``local`` or ``spark``.
        on: where workers run; this machine for the local engine.
        workers: processes of the local engine; None: as many as there are cores and memory for.
        is_free: True if the user did not choose the local engine, so that `or_spark` may return Spark.
    """

    kind: EngineKind
    on: SparkOptions = HERE
    workers: int | None = None
    is_free: bool = False

    @classmethod
    def of(cls, kind: str, on: SparkOptions = HERE, workers: int | None = None) -> Self:
        """Choose an engine.

        ``auto`` is Spark if a master, a Spark setting or a shared folder is given, or if the program has an
        active session; otherwise it is the local engine. Jobs that know the number of objects may change that
        (`or_spark`).

        Args:
            kind: one of `EngineKind`.
            on: where Spark runs.
            workers: processes of the local engine.

        Raises:
            ConfigError: an unknown engine, or options of the other one.
        """
        if kind not in set(EngineKind):
            raise ConfigError(f"{kind!r} is no engine: use one of {', '.join(EngineKind)}")
        chosen = EngineKind(kind)
        if chosen is EngineKind.AUTO:
            chosen = EngineKind.SPARK if is_spark_wanted(on) else EngineKind.LOCAL
        if chosen is EngineKind.LOCAL and on not in (HERE, _THIS_MACHINE):
            raise ConfigError("the local engine needs no Spark: leave its master, settings and folder out")
        if chosen is EngineKind.SPARK and workers is not None:
            raise ConfigError(
                "workers are those of the local engine: Spark takes --spark-master 'local[N]' for N cores"
            )
        if workers is not None and workers < 1:
            raise ConfigError("one worker at least is needed")
        is_local = chosen is EngineKind.LOCAL
        is_free = is_local and kind == EngineKind.AUTO and workers is None
        return cls(chosen, _THIS_MACHINE if is_local else on, workers, is_free)

    @property
    def is_local(self) -> bool:
        """True if the engine needs no Spark."""
        return self.kind is EngineKind.LOCAL

    def arguments(self) -> "EngineArguments":
        """Return this engine as arguments for functions that take an engine."""
        if self.is_free:
            return EngineArguments(engine=EngineKind.AUTO.value, workers=None, on=HERE)
        return EngineArguments(engine=self.kind.value, workers=self.workers, on=self.on)

    def check(self) -> None:
        """Check, without starting anything, that the engine could run here.

        Raises:
            ConfigError: what is missing and how to install it.
        """
        if self.is_local:
            require_packages("pyarrow", "numpy", extra="pipeline")
            return
        require_packages("pyspark", "pyarrow", "numpy", extra="spark")  # before its module imports them
        _import_spark_engine().check()

    def or_spark(self) -> "JobEngine":
        """Return Spark if the user left the choice and it is installed.

        Otherwise this engine is returned. Spark is for much work.
        """
        if not self.is_free:
            return self
        spark = JobEngine(EngineKind.SPARK)
        try:
            spark.check()
        except ConfigError as missing:
            log.info("this would be faster with Spark: %s", missing)
            return self
        return spark

    @contextlib.contextmanager
    def runner(
        self,
        app: str,
        files: Sequence[Path] = (),
        *,
        conf: Mapping[str, str] | None = None,
        may_speculate: bool = True,
        brief: bool = True,
    ) -> Iterator[Runner]:
        """Start the engine.

        Args:
            app: name of the application, for Spark.
            files: paths that all machines of a cluster must see.
            conf: further settings of Spark.
            may_speculate: False: refuse a session that starts slow tasks twice (``spark.speculation``).
            brief: Spark itself has little to do, see `mqdssm.spark.session.spark_session`.

        Raises:
            ConfigError: Spark does not start, or the cluster cannot do the work.
            SparkFailed: Spark itself failed, while the context lasts.
        """
        if self.is_local:
            with LocalRunner(self.workers) as local:
                log.info("%s: local engine, up to %d workers", app, local.workers)
                yield local
            return
        log.info("%s: Spark", app)
        started = _import_spark_engine().runner(
            app, self.on, files, conf=conf or {}, may_speculate=may_speculate, brief=brief
        )
        with started as runner:
            yield runner


def _import_spark_engine() -> SparkEngine:
    """Import the Spark engine by its name.

    The layer `mqdssm.spark` is above the pipeline.
    """
    return cast("SparkEngine", importlib.import_module(SPARK_ENGINE))
