"""The engines of the pipeline for tests: one Spark session for all, and the engine of the test that runs.

A JVM costs 15 seconds and a gigabyte.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mqdssm.pipeline.runner import Runner

MEMORY: Final = "2g"
"""Of Java's heap: the widest plans take 0.4 GB at a time, and what hundreds of tests leave adds up."""
_LOCAL: Final = "local"
_chosen = [_LOCAL]


def chosen_engine() -> str:
    """The engine of the test that runs: the local one, unless its fixture `engine` says otherwise."""
    return _chosen[-1]


def chosen_runner() -> "Runner":
    """The runner of that engine; the local one does several pieces one after the other, in this process."""
    if chosen_engine() == _LOCAL:
        from mqdssm.pipeline.local import LocalRunner

        return LocalRunner(1)
    from pyspark.sql import SparkSession

    from mqdssm.spark.runner import SparkRunner

    session = SparkSession.getActiveSession()
    assert session is not None
    return SparkRunner(session)


class Shared:
    """The one session of all tests, and another one when its Java has died: that is the fault of one test."""

    def __init__(self, conf: dict[str, str]) -> None:
        self._conf = conf
        self._stack = ExitStack()
        self._session: SparkSession | None = None

    def session(self) -> "SparkSession":
        from mqdssm.spark.gateway import is_java_gone
        from mqdssm.spark.session import spark_session

        if self._session is None or self._session.sparkContext._jsc is None or is_java_gone():
            self.stop()
            self._session = self._stack.enter_context(
                spark_session("mqdssm tests", cores=2, memory=MEMORY, brief=True, conf=self._conf)
            )
        return self._session

    def stop(self) -> None:
        self._stack.close()


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where Spark writes down every plan and option: where a secret would show."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def shared_spark(event_log: Path) -> Iterator[Shared]:
    settings = {
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),  # work of tests
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": event_log.as_uri(),
    }
    shared = Shared(settings)
    yield shared
    shared.stop()


@pytest.fixture
def spark(shared_spark: Shared) -> "SparkSession":
    """The session that commands join when a test calls them."""
    return shared_spark.session()


@pytest.fixture(params=[_LOCAL, pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each of the engines, for ``--engine``; helpers of tests use it as well."""
    if request.param == "spark":
        request.getfixturevalue("spark")
    _chosen.append(str(request.param))
    yield _chosen[-1]
    _chosen.pop()
