"""Which engine does the work, and what each one needs."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.enterprises.rules_world import sound, tables
from support.spark.exports import write_export

from mqdssm.errors import ConfigError, MissingPackageError
from mqdssm.pipeline import engines, spark_options
from mqdssm.pipeline.engines import EngineKind, JobEngine
from mqdssm.pipeline.local import LocalRunner
from mqdssm.pipeline.spark_options import HERE, SparkOptions
from mqdssm.pipeline.validate import run
from mqdssm.pipeline.validate.run import validation

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


class ChosenError(Exception):
    """Raised where Spark would start."""


@pytest.fixture
def spark_module(monkeypatch) -> SimpleNamespace:
    """Spark's side of the engine, which is installed and never starts."""

    def start(*_: object, **__: object) -> None:
        raise ChosenError

    module = SimpleNamespace(check=lambda: None, runner=start)
    monkeypatch.setattr(engines, "_import_spark_engine", lambda: module)
    return module


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    write_export(tmp_path / "export", tables(sound()))
    return tmp_path / "export"


def count_of(folder: Path) -> int:
    with validation(folder, engine="local") as found:
        return sum(found.summary.objects.values())


def test_many_objects_are_validated_by_spark_where_it_is_installed(
    spark_module, exported, monkeypatch, caplog
) -> None:
    count = count_of(exported)
    monkeypatch.setattr(run, "LOCAL_OBJECTS_MAX", count)
    with validation(exported) as found:  # not more than the limit
        assert found.summary.engine == "local"
    monkeypatch.setattr(run, "LOCAL_OBJECTS_MAX", count - 1)
    with pytest.raises(ChosenError), validation(exported):
        pass
    for chosen in ({"engine": "local"}, {"workers": 1}):  # who says so gets it
        with validation(exported, **chosen) as found:
            assert found.summary.engine == "local"

    def refuse() -> None:
        raise ConfigError("Spark needs Java 17")

    spark_module.check = refuse
    with caplog.at_level("INFO"), validation(exported) as found:
        assert found.summary.engine == "local"
    assert "this would be faster with Spark: Spark needs Java 17" in caplog.text
