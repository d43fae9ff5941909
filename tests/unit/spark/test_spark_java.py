"""Java is looked for before anything is started, and its absence has words."""

import importlib.util
import sys

import pytest

from mqdssm.errors import ConfigError
from mqdssm.spark import session
from mqdssm.spark.gateway import find_java

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-ins for java are shell scripts")

MODERN = 'openjdk version "17.0.15" 2025-04-15'
OLD = 'java version "1.8.0_442"'


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with nothing on its path, and a way to install a Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def install(answer: str, folder: str = "bin", status: int = 0):
        java = tmp_path / folder / "java"
        java.parent.mkdir(parents=True, exist_ok=True)
        java.write_text(f"#!/bin/sh\necho '{answer}' >&2\nexit {status}\n")
        java.chmod(0o755)
        return java

    return install


def test_no_java_says_what_to_install(machine) -> None:
    with pytest.raises(ConfigError, match=r"Java 17.*openjdk"):
        find_java()


@pytest.mark.parametrize(
    "answer", [MODERN, 'openjdk version "21" 2023-09-19', 'openjdk version "25.0.1" 2025-10-21']
)
def test_java_of_the_path(machine, answer: str) -> None:
    java = machine(answer)
    assert find_java() == java


def test_java_home_wins(machine, tmp_path, monkeypatch) -> None:
    machine(OLD)
    java = machine(MODERN, "home/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == java


def test_java_home_that_is_wrong(machine, tmp_path, monkeypatch) -> None:
    machine(MODERN)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"JAVA_HOME is .*nowhere"):
        find_java()


def test_java_too_old(machine) -> None:
    machine(OLD)
    with pytest.raises(ConfigError, match="is Java 8, Spark needs 17 or later"):
        find_java()


def test_a_program_that_is_no_java(machine) -> None:
    machine("hello", status=3)
    with pytest.raises(ConfigError, match="names no version"):
        find_java()


def test_java_that_does_not_run(machine) -> None:
    machine(MODERN).write_bytes(b"\x7fELF broken")
    with pytest.raises(ConfigError, match="does not run"):
        find_java()


def test_missing_package_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pyspark: pip install 'mqdssm\[spark\]'"):
        session.check_spark()


def test_memory_is_bounded(monkeypatch) -> None:
    for mebibytes, expected in [(512, "1024m"), (16_384, "4096m"), (1_000_000, "8192m")]:
        monkeypatch.setattr(
            session.os, "sysconf", lambda name, n=mebibytes: 4096 if name == "SC_PAGE_SIZE" else n * 256
        )
        assert session._choose_driver_memory() == expected
