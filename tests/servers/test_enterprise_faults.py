"""Directory servers as processes on a bad network: each acknowledged change is at each server, once."""

import signal
import time
from collections.abc import Sequence
from typing import Final

import pytest
from support.servers.enterprise import (
    FIVE,
    EnterpriseProcesses,
    enterprise,
    wait_for,
)
from support.servers.namespaces import why_not
from support.servers.recording_clients import RecordingClient, differences

QUICK: Final = """
[timers]
intrasite_s = 0.2
intersite_s = 0.5
header_s = 2
sync_wait_s = 2
request_wait_s = 3
forwarded_wait_s = 4
retry_connect_s = 1
retry_connect_max_s = 5
"""
WHOLE_S: Final = 300.0


@pytest.fixture(autouse=True)
def needs_namespaces() -> None:
    if reason := why_not():
        pytest.skip(reason)


class Crew:
    """Clients at all servers.

    Args:
        servers: the enterprise.
        each: clients of each server.
        pause_s: of each client between two changes.
        owners: servers whose queues are changed; none: those of all PSCs and the PEC.
    """

    def __init__(
        self, servers: EnterpriseProcesses, each: int, pause_s: float, owners: Sequence[str] = ()
    ) -> None:
        everybody = {servers.psc_of(member.place.site).name for member in servers.members.values()}
        self.clients = [
            RecordingClient(
                f"{member.host}c{number}",
                member,
                sorted(owners or everybody),
                pause_s=pause_s,
            )
            for member in servers.members.values()
            for number in range(each)
        ]
        for client in self.clients:
            client.start()

    @property
    def acknowledged(self) -> int:
        return sum(client.acknowledged for client in self.clients)

    def work(self, changes: int, seconds: float = 120) -> None:
        """Wait until so many further changes were acknowledged."""
        until = self.acknowledged + changes

        def is_done() -> bool:
            for client in self.clients:
                if client.failure is not None:
                    raise client.failure
            return self.acknowledged >= until

        wait_for(f"{changes} changes", seconds, is_done)

    def stop(self) -> None:
        for client in self.clients:
            client.stop()


def check_whole(servers: EnterpriseProcesses, crew: Crew) -> None:
    """Stop the clients; all replicas become equal, and have what was acknowledged."""
    crew.stop()
    wait_for("all replicas have the last numbers", WHOLE_S, lambda: servers.lag() == 0)
    summary = servers.compare()
    assert (summary["differences"], summary["lag"]) == (0, 0)
    for member in servers.members.values():
        assert not differences(crew.clients, member.ldapi_url), member.name


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
@pytest.mark.timeout(120)
def test_a_pec_and_a_psc_on_a_bad_network(tmp_path):
    """Packets are lost, late and out of order; the network is cut; the PSC is killed."""
    with enterprise(tmp_path, FIVE[:2], settings=QUICK) as (servers, relay):
        crew = Crew(servers, 1, 0.05, owners=["PEC01"])  # a server takes no requests soon after its start
        relay.delay_s, relay.jitter_s, relay.loss = 0.005, 0.02, 0.1
        crew.work(40)
        relay.cut = frozenset({"psc01"})
        time.sleep(1)
        relay.cut = frozenset()
        crew.work(20)
        servers.end("PSC01", signal.SIGKILL)
        servers.start("PSC01")
        crew.work(20)
        assert relay.overtaken
        relay.loss = relay.delay_s = relay.jitter_s = 0
        check_whole(servers, crew)
