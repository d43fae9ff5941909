"""Applying replicated changes to a directory: [replica-apply]."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Final
from uuid import UUID, uuid5

import ldap3

from benchmarks.harness import Goal, Outcome, Timing, timed
from benchmarks.world import World
from mqdssm.directory.options import ConnectionOptions
from mqdssm.engines.replication.operations import Applied, ApplyChanges
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.store.ldap import LdapStore
from mqdssm.store.rules import complete_properties
from mqdssm.tables.numbering import Numbering
from mqdssm.tables.properties import PROPERTY_TABLES, entry_of
from mqdssm.testing import OpenLdapServer

CHANGES: Final = 3_000
CHANGES_QUICK: Final = 200
BATCH: Final = 500
"""Changes of one message."""
MACHINES: Final = 50
RUNS: Final = 3
_NAMES: Final = UUID("0a0f3a3c-5c7e-4a10-9f6f-2f3d8a1f7b55")
_SITE: Final = Guid.of(uuid5(_NAMES, "site"))

REPLICA_APPLY: Final = Goal(
    name="replica-apply",
    title="3,000 replicated queues into a slapd with default durability, in messages of 500 changes",
    against="ldap3, which adds the same entries one by one",
    goal=2.5,
    direction="at_least",
)


@dataclass
class Replica:
    """A replica of a site with machines that queues come to."""

    server: OpenLdapServer
    store: LdapStore
    raw: ldap3.Connection
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def machines(self) -> None:
        """The machines that all queues are on."""
        changes = [
            _change(
                next(self.numbers),
                ((Propid.QM_PATHNAME, f"PC{n}"), (Propid.QM_SITE_ID, _SITE), (Propid.QM_CNS, ())),
            )
            for n in range(MACHINES)
        ]
        _applied(self.store.perform(ApplyChanges(partition_id=_SITE, changes=changes)), changes)

    def queues(self) -> Iterator[DirectoryChange]:
        """New queues, without end, over all machines."""
        for number in self.numbers:
            yield _change(
                number,
                (
                    (Propid.Q_PATHNAME, f"PC{number % MACHINES}\\r{number}"),
                    (Propid.Q_LABEL, f"label {number}"),
                    (Propid.Q_TYPE, Guid.of(uuid5(_NAMES, f"type {number % 7}"))),
                    (Propid.Q_QUOTA, number),
                    (Propid.Q_JOURNAL, number % 2),
                ),
            )

    def apply(self, number: int) -> Callable[[], None]:
        """Our side."""
        changes = list(islice(self.queues(), number))

        def work() -> None:
            for first in range(0, number, BATCH):
                batch = changes[first : first + BATCH]
                _applied(self.store.perform(ApplyChanges(partition_id=_SITE, changes=batch)), batch)

        return work

    def add(self, number: int) -> Callable[[], None]:
        """The other side: the entries that the store would make."""
        table = PROPERTY_TABLES[ObjectType.QUEUE]
        entries = []
        for change in islice(self.queues(), number):
            properties = complete_properties(ObjectType.QUEUE, None, change.properties)
            guid = change.guid_identifier or _SITE
            values = entry_of(
                ObjectType.QUEUE,
                [*properties.items(), (table.identity, guid)],
                Numbering(_SITE, change.seq_number),
            )
            computer, _, name = str(properties[Propid.Q_PATHNAME]).partition("\\")
            dn = f"CN={name},CN=msmq,CN={computer},CN=Computers,{self.server.base_dn}"
            entries.append((dn, values))

        def work() -> None:
            for dn, values in entries:
                self.raw.add(dn, list(table.classes), values)

        return work


def _change(number: int, properties: Properties) -> DirectoryChange:
    return DirectoryChange(
        command=Command.SYNC,
        guid_identifier=Guid.of(uuid5(_NAMES, str(number))),
        partition_id=_SITE,
        seq_number=SequenceNumber(number),
        properties=properties,
    )


def _applied(applied: Applied, changes: Sequence[DirectoryChange]) -> None:
    if applied != Applied(count=len(changes), status=Hresult.MQ_OK):
        raise AssertionError(f"{applied}: this is no measurement")


@contextmanager
def replica() -> Iterator[Replica]:
    """A slapd of our own with the replication store."""
    with OpenLdapServer(durable=True, replication=True) as server:
        options = ConnectionOptions.of(server.url, user=server.user, password=server.password, tls="none")
        raw = ldap3.Connection(
            ldap3.Server(server.url, get_info=ldap3.NONE),
            user=server.user,
            password=server.password,
            auto_bind=True,
            check_names=False,
            raise_exceptions=True,
        )
        with LdapStore.open(options) as store, raw:
            found = Replica(server, store, raw)
            found.machines()
            yield found


def replica_apply(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  it has a server of its own
    """Both in turn; each run has changes of its own."""
    number, runs = (CHANGES_QUICK, 1) if quick else (CHANGES, RUNS)
    ours: list[float] = []
    theirs: list[float] = []
    with replica() as there:
        for run in range(runs):
            sides = [(ours, there.apply), (theirs, there.add)]
            for times, prepared in sides if run % 2 else reversed(sides):
                times.append(timed(prepared(number)))
    return Timing(tuple(ours), tuple(theirs)).speed(REPLICA_APPLY, number, "changes")


ROWS: Final = {REPLICA_APPLY: replica_apply}
