"""The systemd unit of a directory server, run by systemd as process 1 of a container."""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from support.project.source_tree import ROOT
from support.servers.container_engine import engine, server_image

from mqdssm.testing.engine import retry_request

__all__ = ["engine", "server_image"]

pytestmark = [
    pytest.mark.container,
    pytest.mark.xdist_group("containers"),
    pytest.mark.timeout(1800),
]

UNIT: Final = ROOT / "docs" / "server" / "mqdssm-server@.service"
SERVICE: Final = "mqdssm-server@pec"
FOLDER: Final = "/var/lib/mqdssm/pec"
WAIT_S: Final = 120
DOCKERFILE: Final = """
FROM {image}
USER 0:0
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends systemd \
    && rm -rf /var/lib/apt/lists/* && usermod -d /var/lib/mqdssm mqdssm
COPY *.service /etc/systemd/system/
COPY quick.conf "/etc/systemd/system/mqdssm-server@.service.d/quick.conf"
ENV container=docker
STOPSIGNAL SIGRTMIN+3
ENTRYPOINT ["/lib/systemd/systemd"]
CMD []
"""
QUICK: Final = "[Service]\nWatchdogSec=3\nRestartSec=1\n"


class Machine:
    """A container with systemd."""

    def __init__(self, container: Any) -> None:
        self.container = container

    def run(self, *command: str, user: str = "root") -> tuple[int, str]:
        done = retry_request(lambda: self.container.exec_run(list(command), user=user))
        return int(done.exit_code), str(done.output.decode(errors="replace"))

    def sure(self, *command: str, user: str = "root") -> str:
        status, output = self.run(*command, user=user)
        assert status == 0, output + self.run("journalctl", "--no-pager", "-n", "50")[1]
        return output

    def show(self, name: str) -> str:
        """A property of the service."""
        return self.sure("systemctl", "show", "--value", "-p", name, SERVICE).strip()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, self.run("journalctl", "--no-pager", "-n", "50")[1]
            time.sleep(0.5)


@pytest.fixture
def machine(engine: Any, server_image: str, tmp_path: Path) -> Iterator[Machine]:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE.format(image=server_image))
    (tmp_path / "quick.conf").write_text(QUICK)
    shutil.copy(UNIT, tmp_path)
    tag = "mqdssm-test/systemd:latest"
    engine.images.build(path=str(tmp_path), tag=tag, rm=True)
    container = engine.containers.create(
        tag,
        privileged=True,
        tmpfs={"/run": "", "/tmp": ""},
        volumes={"/sys/fs/cgroup": {"bind": "/sys/fs/cgroup", "mode": "rw"}},
    )
    try:
        container.start()
        yield Machine(container)
    finally:
        container.remove(force=True)


def test_the_unit_runs_a_server_and_restarts_one_that_hangs(machine: Machine) -> None:
    machine.wait_until(lambda: machine.run("systemctl", "is-system-running")[1].strip() != "")
    machine.sure("install", "-d", "-o", "mqdssm", "-g", "mqdssm", "-m", "0700", "/var/lib/mqdssm")
    names = ("--name", "Contoso", "--site", "Berlin", "--machine", "PEC01", "--listen", "127.0.0.1:1801")
    machine.sure("mqdssm", "enterprise", "init", FOLDER, *names, user="mqdssm")
    machine.sure("systemctl", "start", SERVICE)  # ends when the server has reported READY
    control = ("--server", f"{FOLDER}/control.sock")
    machine.sure("mqdssm", "create", "queue", r"Pathname=PEC01\orders", *control)
    first = machine.show("MainPID")
    proved = machine.show("WatchdogTimestampMonotonic")
    machine.wait_until(lambda: machine.show("WatchdogTimestampMonotonic") != proved)
    assert (machine.show("NRestarts"), machine.show("MainPID")) == ("0", first)
    machine.sure("sh", "-c", f"kill -STOP {first}")
    machine.wait_until(lambda: machine.show("NRestarts") == "1" and machine.show("SubState") == "running")
    assert machine.show("MainPID") != first
    machine.sure("mqdssm", "write", "queue", r"Pathname=PEC01\orders", "Label=Paid", *control)
    machine.sure("systemctl", "stop", SERVICE)
    assert (machine.show("Result"), machine.show("ExecMainStatus")) == ("success", "0")
    journal = machine.sure("journalctl", "--no-pager", "-u", SERVICE)
    assert len(re.findall("Watchdog timeout", journal)) == 1
    assert "Traceback" not in journal
