"""The simulation on real directories: each simulated server has a slapd of its own."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Final

from mqdssm.directory.session import Session
from mqdssm.engines.replication.operations import Operation
from mqdssm.errors import DirectoryError
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Properties
from mqdssm.store.performer import Store
from mqdssm.testing.memory_store.disk import Disk
from mqdssm.testing.openldap import OpenLdapServer
from mqdssm.testing.simulation.options import Options, options_of
from mqdssm.testing.simulation.run import RunReport, Simulation
from mqdssm.testing.simulation.stores import SimulatedStore, write_beside
from support.servers.sessions import options_for
from support.store.slapd_store import Cutter, LdapHarness

SERVERS_MAX: Final = 5


class SlapdStore(SimulatedStore):
    """A store on a slapd, whose connections end between two writes when its server crashes."""

    def __init__(self, server: OpenLdapServer, cutter: Cutter) -> None:
        private = {"user": None, "password": None, "ca_file": None}
        self._options = options_for(server, server.ldapi_url, **private)
        self._harness = LdapHarness(self._options, cutter)
        self.disk = Disk()  # never full
        super().__init__()

    def open(self) -> Store:
        """Open the store, for the first time or again after a crash."""
        self._harness.reopen()
        return self._harness.store

    def _write_foreign(self, identifier: Guid, properties: Properties) -> None:
        with closing(Session.open(replace(self._options, allow_replicated=True))) as session:
            write_beside(session, identifier, properties)

    def perform_torn(self, operation: Operation, moments: int) -> None:
        """Perform an operation up to a moment around one of its writes, and open the store anew."""
        self._harness.arm(moments)
        try:
            self._harness.store.perform(operation)
        except DirectoryError:
            pass
        finally:
            self._harness.disarm()
            self.reopen()

    def close(self) -> None:
        """Let go of the directory."""
        self._harness.store.close()


def few_servers(seed: int) -> Options:
    """The run of a seed with at most `SERVERS_MAX` servers: none come later."""
    options = options_of(seed)
    room = SERVERS_MAX - 1
    bscs = [min(options.bscs[0], room)]
    room -= bscs[0]
    for wanted in options.bscs[1:]:
        if room:
            bscs.append(min(wanted, room - 1))
            room -= 1 + bscs[-1]
    work = replace(options.work, sites_come=False, bscs_come=False)
    return replace(options, bscs=tuple(bscs), work=work)


def simulate(options: Options) -> RunReport:
    """Run a simulation on as many slapds as it has servers; one that loses its disk gets another one."""
    count = sum(options.bscs) + len(options.bscs)
    with ExitStack() as stack, Cutter().installed() as cutter, ThreadPoolExecutor(count) as workers:
        begun = [OpenLdapServer(durable=False, replication=True) for _ in range(count)]
        free = list(workers.map(stack.enter_context, begun))

        def make_store() -> SlapdStore:
            server = (
                free.pop() if free else stack.enter_context(OpenLdapServer(durable=False, replication=True))
            )
            store = SlapdStore(server, cutter)
            stack.callback(store.close)
            return store

        return Simulation(options, make_store=make_store).run()
