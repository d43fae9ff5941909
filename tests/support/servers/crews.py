"""Crews of clients that work at servers of an enterprise, and the check that nothing of theirs is lost."""

from collections.abc import Sequence
from typing import Final

from support.servers.enterprise import EnterpriseProcesses, wait_for
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


class Crew:
    """Clients of servers.

    Args:
        servers: the enterprise.
        each: clients of each server.
        pause_s: of each client between two changes.
        at: the servers; none: all.
        owners: servers whose queues are changed; none: those of all PSCs and the PEC.
        letter: in the names of clients, and so of their queues: two crews at one server differ in it.
        creating: share of the changes that create a queue.
    """

    def __init__(
        self,
        servers: EnterpriseProcesses,
        each: int,
        pause_s: float,
        *,
        at: Sequence[str] = (),
        owners: Sequence[str] = (),
        letter: str = "c",
        creating: float = 0.5,
    ) -> None:
        everybody = {servers.psc_of(member.place.site).name for member in servers.members.values()}
        self.clients = [
            RecordingClient(
                f"{name.lower()}{letter}{number}",
                servers.members[name],
                sorted(owners or everybody),
                pause_s=pause_s,
                creating=creating,
            )
            for name in at or servers.members
            for number in range(each)
        ]
        for client in self.clients:
            client.start()

    @property
    def acknowledged(self) -> int:
        return sum(client.acknowledged for client in self.clients)

    @property
    def created(self) -> int:
        """Number of queues that were created, of which some may be deleted."""
        return sum(len(client.queues) for client in self.clients)

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


def check_whole(servers: EnterpriseProcesses, *crews: Crew) -> None:
    """Stop the clients; all replicas become equal, and have what was acknowledged."""
    for crew in crews:
        crew.stop()
    wait_for("all replicas have the last numbers", WHOLE_S, lambda: servers.lag() == 0)
    summary = servers.compare()
    assert (summary["differences"], summary["lag"]) == (0, 0)
    clients = [client for crew in crews for client in crew.clients]
    for member in servers.members.values():
        assert not differences(clients, member.ldapi_url), member.name
