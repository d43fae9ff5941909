"""A container engine for tests, and containers that run one command.

Modules that use the fixtures name them in ``__all__``.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from mqdssm.testing.engine import has_ended, retry_request, why_no_engine
from support.project.source_tree import ROOT

END_WAIT_S: Final = 300
BUILD_S: Final = 900
POLL_S: Final = 0.2


@pytest.fixture(scope="session")
def engine() -> Iterator[Any]:
    """A client of the container engine; docker-py's own."""
    reason = why_no_engine()
    if reason:
        raise _absent(reason)
    client = import_module("docker").from_env(timeout=600)
    yield client
    client.close()


def build_project_image(engine: Any, name: str) -> str:
    """Build docker/NAME from this checkout, as `make images` does; gives the name of the image."""
    context = ROOT / "build" / "images" / name
    command = [str(ROOT / ".ci" / "images"), "context", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stderr
    tag = f"mqdssm/{name}:latest"
    engine.images.build(path=str(context), tag=tag, rm=True)
    return tag


@pytest.fixture(scope="session")
def base_image(engine: Any) -> str:
    """The image docker/mqdssm."""
    return build_project_image(engine, "mqdssm")


@pytest.fixture(scope="session")
def server_image(engine: Any) -> str:
    """The image docker/mqdssm-server."""
    return build_project_image(engine, "mqdssm-server")


@pytest.fixture(scope="session")
def spark_image(engine: Any) -> str:
    """The image docker/mqdssm-spark."""
    return build_project_image(engine, "mqdssm-spark")


def wait_for_end(container: Any, seconds: float = END_WAIT_S) -> tuple[int, str]:
    """Wait until a container has ended; gives its exit code and what it printed."""
    deadline = time.monotonic() + seconds
    while not has_ended(container):
        assert time.monotonic() < deadline, read_log(container)
        time.sleep(POLL_S)
    return int(container.attrs["State"]["ExitCode"]), read_log(container)


def read_log(container: Any) -> str:
    """Return what a container printed so far, both streams."""
    return str(retry_request(container.logs).decode(errors="replace"))


def wait_for_words(container: Any, words: str, seconds: float = 60) -> None:
    """Wait until a container has printed words.

    Raises:
        AssertionError: it ended, or the time is over.
    """
    deadline = time.monotonic() + seconds
    while words not in read_log(container):
        assert not has_ended(container), read_log(container)
        assert time.monotonic() < deadline, read_log(container)
        time.sleep(POLL_S)


def run_once(engine: Any, image: str, *command: str, **options: Any) -> tuple[int, str]:
    """Run a container to its end, and remove it; gives its exit code and what it printed.

    Not `docker run --rm`: podman loses the exit code of a container that is removed.
    """
    container = engine.containers.create(image, list(command), **options)
    try:
        container.start()
        return wait_for_end(container)
    finally:
        container.remove(force=True)


def compose_command() -> list[str]:
    """Return the command of Docker Compose, the plugin or the program of its own; fail or skip without."""
    if shutil.which("docker") and _succeeds("docker", "compose", "version"):
        return ["docker", "compose"]
    program = shutil.which("docker-compose")
    if program:
        return [program]
    reason = "Docker Compose is missing: install docker-compose"
    raise _absent(reason)


def _absent(reason: str) -> BaseException:
    """Return what ends a test without an engine: a failure where one is required."""
    is_required = os.environ.get("MQDSSM_REQUIRE_CONTAINERS")
    return pytest.fail.Exception(reason) if is_required else pytest.skip.Exception(reason)


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def compose(file: Path, project: str, arguments: Sequence[str], **variables: str) -> str:
    """Run Docker Compose; gives what it printed."""
    command = [*compose_command(), "-f", str(file), "-p", project, *arguments]
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=BUILD_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    _keep_bridge_addresses()
    return done.stdout


def _keep_bridge_addresses() -> None:
    """Keep the link addresses of podman's bridges as they are now.

    Without this, a bridge gets another address when a container begins or ends, and the others do not reach
    its DNS server for up to half a minute: ARP still has the old one.
    """
    if os.geteuid() != 0:
        return  # the engine is not ours
    for bridge in Path("/sys/class/net").glob("podman*"):
        address = (bridge / "address").read_text().strip()
        subprocess.run(["ip", "link", "set", "dev", bridge.name, "address", address], check=True)
