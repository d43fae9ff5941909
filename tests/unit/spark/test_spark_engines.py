"""Which engine does the work, and what each one needs."""

import pytest

from mqdssm.errors import ConfigError, MissingPackageError
from mqdssm.pipeline import spark_options
from mqdssm.pipeline.engines import EngineKind, JobEngine
from mqdssm.pipeline.local import LocalRunner
from mqdssm.pipeline.spark_options import HERE, SparkOptions

ON = SparkOptions("spark://head:7077")


@pytest.fixture(autouse=True)
def no_session(monkeypatch):
    monkeypatch.setattr(spark_options, "_master_of_session", lambda: None)


@pytest.mark.parametrize(
    ("kind", "on", "chosen"),
    [
        ("auto", HERE, "local"),
        ("local", HERE, "local"),
        ("spark", HERE, "spark"),
        ("auto", ON, "spark"),
        ("auto", SparkOptions(conf={"spark.executor.memory": "1g"}), "spark"),
        ("spark", ON, "spark"),
    ],
)
def test_what_is_chosen(kind, on, chosen) -> None:
    engine = JobEngine.of(kind, on)
    assert engine.kind == chosen
    assert engine.is_local is (chosen == "local")
    assert engine.on == (on if chosen == "spark" else SparkOptions("local[*]"))


def test_an_active_session_is_joined(monkeypatch) -> None:
    monkeypatch.setattr(spark_options, "_master_of_session", lambda: "spark://head:7077")
    assert JobEngine.of("auto").kind is EngineKind.SPARK
    local = JobEngine.of("local")
    assert local.is_local
    assert not local.on.is_cluster


@pytest.mark.parametrize(
    ("kind", "on", "workers", "words"),
    [
        ("duckdb", HERE, None, "'duckdb' is no engine: use one of auto, local, spark"),
        ("local", ON, None, "the local engine needs no Spark"),
        ("spark", HERE, 2, "workers are those of the local engine"),
        ("auto", ON, 2, "workers are those of the local engine"),
        ("local", HERE, 0, "one worker at least"),
    ],
)
def test_what_does_not_go_together(kind, on, workers, words) -> None:
    with pytest.raises(ConfigError, match=words):
        JobEngine.of(kind, on, workers)


def test_the_local_engine_needs_no_spark(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    JobEngine.of("local").check()
    with JobEngine.of("local", workers=3).runner("test") as runner:
        assert isinstance(runner, LocalRunner)
        assert runner.workers == 3
    with pytest.raises(ConfigError, match="needs Java 17"):
        JobEngine.of("spark").check()


def test_the_extra_of_each_engine(monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for kind, extra in (("local", "pipeline"), ("spark", "spark")):
        with pytest.raises(MissingPackageError) as found:
            JobEngine.of(kind).check()
        assert found.value.extra == extra
