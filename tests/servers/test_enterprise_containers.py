"""An enterprise of five directory servers in containers (`make test-containers`): docker/enterprise.yaml."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from support.project.source_tree import ROOT
from support.servers import queue_load
from support.servers.container_engine import (
    compose,
    engine,
    read_log,
    run_once,
    server_image,
    wait_for_end,
)

from mqdssm.engines.replication.requests import QUIET_S
from mqdssm.testing.engine import retry_request

__all__ = ["engine", "server_image"]

pytestmark = [
    pytest.mark.container,
    pytest.mark.xdist_group("containers"),
    pytest.mark.timeout(1800),
]

COMPOSE: Final = ROOT / "docker" / "enterprise.yaml"
OWNERS: Final = {"pec01": "pec01", "psc01": "psc01", "psc02": "psc02", "bsc01": "psc01", "bsc02": "psc02"}
"""The server that owns the partition of each server's site."""
SERVERS: Final = tuple(OWNERS)
OBJECTS: Final = 400
CONVERGE_S: Final = 180
PARTITIONS: Final = 4
"""That of the enterprise, and those of three sites."""


class Enterprise:
    """The containers of the compose file."""

    def __init__(self, engine: Any, image: str) -> None:
        self._engine, self._image = engine, image
        self.project = f"mqdssm-test-{uuid.uuid4().hex[:8]}"

    def start(self) -> None:
        """Start what does not run; wait until all servers have joined."""
        compose(COMPOSE, self.project, ("up", "-d"))
        status, output = wait_for_end(self.container("joining"))
        assert status == 0, output

    def container(self, name: str) -> Any:
        filters = {"name": f"{self.project}.{name}"}
        (found,) = self._engine.containers.list(all=True, sparse=True, filters=filters)
        return found

    def run(self, name: str, *command: str) -> str:
        """Run a command of mqdssm in the container of a server."""
        status, output = self._run(name, *command)
        assert status == 0, (name, output, read_log(self.container(name)))
        return output

    def is_ready(self, name: str) -> bool:
        """Return True if a server answers on its control socket."""
        return self._run(name, "status")[0] == 0

    def _run(self, name: str, *command: str) -> tuple[int, str]:
        line = ["mqdssm", *command, "--server", "/data/server/control.sock", "-o", "json"]
        done = retry_request(lambda: self.container(name).exec_run(line))
        return int(done.exit_code), str(done.output.decode())

    def numbers(self, name: str) -> dict[str, int]:
        """The last number of each partition at a server."""
        snapshot = json.loads(self.run(name, "status"))
        return {part["partition_id"]: part["last_number"] for part in snapshot["partitions"]}

    def converge(self, total: int) -> None:
        """Wait until all servers have the same numbers, so many in all."""

        def is_done() -> bool:
            known = [self.numbers(name) for name in SERVERS]
            return all(numbers == known[0] for numbers in known) and sum(known[0].values()) == total

        wait_until(is_done)

    def settled(self) -> int:
        """Wait until the servers have joined, and no number changes any more; return the sum of all."""
        seen: list[dict[str, int]] = []

        def is_done() -> bool:
            before = seen.copy()
            seen[:] = [self.numbers(name) for name in SERVERS]
            is_equal = all(numbers == seen[0] for numbers in seen)
            return len(seen[0]) == PARTITIONS and is_equal and seen == before

        wait_until(is_done)
        return sum(seen[0].values())

    def compare(self) -> dict[str, Any]:
        """Compare the replicas object by object; the summary of the command."""
        urls = [
            f"ldapi://{quote(f'/servers/{name}/server/directory/run/ldapi', safe='')}" for name in SERVERS
        ]
        output = self._run_beside("compare-replicas", *urls, "-o", "json")
        summary: dict[str, Any] = json.loads(output.splitlines()[-1])
        return summary

    def load(self, objects: int) -> list[dict[str, Any]]:
        """Create queues at all servers, as `make enterprise` does; the outcomes of each server."""
        loaded = [f"{name}={owner}=/servers/{name}/server/control.sock" for name, owner in OWNERS.items()]
        program = ["python", "-c", Path(queue_load.__file__).read_text(encoding="utf-8")]
        output = self._run_beside(str(objects), *loaded, entrypoint=["tini", "--", *program])
        return [json.loads(line) for line in output.splitlines()]

    def _run_beside(self, *command: str, **options: Any) -> str:
        """Run a command in a container of its own, which has the folders of all servers; its output."""
        volumes = {f"{self.project}_{name}": {"bind": f"/servers/{name}", "mode": "rw"} for name in SERVERS}
        status, output = run_once(self._engine, self._image, *command, volumes=volumes, **options)
        assert status == 0, output
        return output

    def stop(self) -> None:
        compose(COMPOSE, self.project, ("down", "-v", "-t", "5"))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + CONVERGE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(1)


@pytest.fixture
def enterprise(engine: Any, server_image: str) -> Iterator[Enterprise]:
    made = Enterprise(engine, server_image)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_five_containers_are_an_enterprise(enterprise: Enterprise) -> None:
    """They join by tokens and find each other by name; a killed one comes back at another address."""
    made = enterprise.settled()
    for name, owner in (("bsc01", "psc01"), ("psc02", "bsc02"), ("bsc02", "pec01")):
        enterprise.run(name, "create", "queue", rf"Pathname={owner}\from-{name}")
    enterprise.converge(made + 3)
    killed = enterprise.container("psc01")
    killed.kill()
    wait_for_end(killed)
    killed.remove(force=True)
    enterprise.start()
    wait_until(lambda: enterprise.is_ready("psc01"))
    back_at = time.monotonic()
    enterprise.run("psc01", "create", "queue", r"Pathname=pec01\from-psc01")
    enterprise.converge(made + 4)
    before = enterprise.compare()
    assert before.items() >= {"differences": 0, "lag": 0}.items()
    # soon after its start a server drops the change requests of others (decision R33)
    time.sleep(max(back_at + QUIET_S + 2 - time.monotonic(), 0))
    for outcome in enterprise.load(OBJECTS):
        assert (outcome["created"], outcome["failed"]) == (OBJECTS // len(SERVERS), 0), outcome
    enterprise.converge(made + 4 + OBJECTS)
    after = enterprise.compare()
    assert after.items() >= {"differences": 0, "lag": 0, "objects": before["objects"] + OBJECTS}.items()
    for name in SERVERS:
        words = read_log(enterprise.container(name))
        assert "Traceback" not in words
        assert "mqdssm-join-1." not in words
