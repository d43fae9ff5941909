"""Inspections of containers. The test answers for podman: its error cannot be provoked at will."""

from types import SimpleNamespace
from typing import Any

import pytest

from mqdssm.testing import engine

docker = pytest.importorskip("docker")


def _container(*answers: Any) -> Any:
    """A container whose inspections answer one after the other: a status, or an error."""
    left = list(answers)
    container = SimpleNamespace(status="running")

    def reload() -> None:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        container.status = answer

    container.reload = reload
    return container


def _error(status: int) -> Any:
    response = SimpleNamespace(status_code=status, reason="", url="http+docker://localhost")
    return docker.errors.APIError("read /proc/7940/cgroup: no such process", response=response)


def test_an_inspection_that_fails_while_the_container_ends_is_asked_again() -> None:
    assert engine.has_ended(_container(_error(500), _error(500), "exited"))
    assert not engine.has_ended(_container(_error(500), "running"))


def test_an_engine_that_goes_on_failing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "ENGINE_WAIT_S", 0.01)
    monkeypatch.setattr(engine, "POLL_S", 0.02)
    with pytest.raises(docker.errors.APIError):
        engine.has_ended(_container(*[_error(500)] * 9))


def test_a_refused_inspection_is_an_error() -> None:
    with pytest.raises(docker.errors.APIError):
        engine.has_ended(_container(_error(403)))


def test_a_container_that_is_gone_is_an_error() -> None:
    response = SimpleNamespace(status_code=404, reason="", url="http+docker://localhost")
    with pytest.raises(docker.errors.NotFound):
        engine.has_ended(_container(docker.errors.NotFound("no such container", response=response)))
