"""Machines of a test's own, random declarations for them, and what a directory holds of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from hypothesis import strategies as st

import mqdssm
from mqdssm.directory.filters import Present
from mqdssm.model.dn import normalize
from mqdssm.pipeline.sync import (
    Declaration,
    DeclaredMachine,
    DeclaredQueue,
    DeclaredRights,
    DeclaredSite,
    SyncResult,
    sync,
)
from support.directory.element_strategies import UNSIGNED

Entries = Mapping[str, Mapping[str, Sequence[bytes]]]
QUEUE_NAMES = ("orders", "Paid", "a=b.c_$", "q" * 80, "9<>")
LABELS = st.text(st.characters(categories=["L", "N", "P"]), max_size=20)
ACCOUNTS = ("Everyone", "Anonymous", "S-1-5-21-1-2-3-1104", "S-1-5-32-544")
MADE_BY_SERVERS = frozenset(
    {"objectguid", "whencreated", "whenchanged", "usncreated", "usnchanged", "ntsecuritydescriptor"}
)


@dataclass(frozen=True)
class World:
    """Two machines of a test's own in a directory.

    Attributes:
        server: the server.
        url: by which it is reached.
        machines: names of the computers.
        computers: their DNs.
        sites: names of sites that the test may make.
    """

    server: Any
    url: str
    machines: tuple[str, str]
    computers: tuple[str, str]
    sites: tuple[str, str]

    @classmethod
    def of(cls, server: Any, url: str) -> "World":
        """Make two computers with queue managers, without queues."""
        unique = uuid4().hex[:8]
        machines = (f"sa{unique}", f"sb{unique}")
        computers = tuple(server.add_computer(name) for name in machines)
        world = cls(server, url, machines, computers, (f"SA-{unique}", f"SB-{unique}"))
        with world.connect() as directory:
            home = directory.create(mqdssm.Site(name=f"SH-{unique}"))
            for name in machines:
                directory.create(mqdssm.QueueManager(computer_name=name, site_identifier_list=[home]))
        return world

    @property
    def login(self) -> dict[str, Any]:
        return {"user": self.server.user, "password": self.server.password, "ca_file": self.server.ca_file}

    def connect(self) -> mqdssm.Directory:
        return mqdssm.connect(self.url, **self.login)

    def sync(self, declaration: Declaration | Path, to: Path | None = None, **asked: Any) -> SyncResult:
        return sync(declaration, self.url, to, **asked, **self.login)

    def check(self, declaration: Declaration | Path, **asked: Any) -> SyncResult:
        return self.sync(declaration, check=True, **asked)

    def entries(self) -> Entries:
        """All entries of the machines, and those of the sites."""
        found = {}
        with self.connect() as directory:
            session = directory.session
            for computer in self.computers:
                for entry in session.find(computer, Present("objectClass"), ["*", "nTSecurityDescriptor"]):
                    found[normalize(entry.dn)] = {
                        name: sorted(raws) for name, raws in entry.attributes.items()
                    }
            sites = session.find(
                session.naming.configuration.child("CN", "Sites"),
                Present("objectClass"),
                ["*", "nTSecurityDescriptor"],
            )
            names = {name.lower() for name in self.sites}
            for entry in sites:
                if entry.name.name.lower() in names:
                    found[normalize(entry.dn)] = {
                        name: sorted(raws) for name, raws in entry.attributes.items()
                    }
        return found

    def clear(self) -> None:
        """Remove the queues and the sites, and set the machines back."""
        with self.connect() as directory:
            for queue in self.queues().values():
                directory.delete(queue)
            for site in directory.search(mqdssm.Site, attributes=["Name", "Identifier"]):
                if site.name in self.sites:
                    directory.delete(site)
            for name in self.machines:
                manager = directory.read(mqdssm.QueueManager, [mqdssm.Filter("ComputerName", "==", name)])
                manager.unset("QueueManagerQuota")
                manager.unset("JournalQuota")
                directory.write(manager)

    def queues(self) -> dict[str, mqdssm.Queue]:
        """All queues of the machines, by path name."""
        with self.connect() as directory:
            return {
                queue.pathname or "": queue
                for queue in directory.search(mqdssm.Queue)
                if (queue.pathname or "").partition("\\")[0] in {name.lower() for name in self.machines}
            }

    def identifiers(self) -> dict[str, UUID | None]:
        return {name: queue.identifier for name, queue in self.queues().items()}


QUEUE_ATTRIBUTES = st.fixed_dictionaries(
    {},
    optional={
        "Label": LABELS,
        "Quota": UNSIGNED,
        "JournalQuota": UNSIGNED,
        "Journaling": st.booleans(),
        "Authentication": st.booleans(),
        "PrivacyLevel": st.sampled_from(["None", "Optional", "Body"]),
        "BasePriority": st.integers(-32768, 32767),
        "MulticastAddress": st.sampled_from(["", "234.1.2.3:8001"]),
        "Type": st.uuids().map(str),
    },
)
MACHINE_ATTRIBUTES = st.fixed_dictionaries(
    {}, optional={"QueueManagerQuota": UNSIGNED, "JournalQuota": UNSIGNED}
)
SITE_ATTRIBUTES = st.fixed_dictionaries(
    {},
    optional={
        "IntraSiteReplicationInterval": UNSIGNED,
        "InterSiteReplicationInterval": UNSIGNED,
        "ForeignSite": st.booleans(),
    },
)


def rights(names: Sequence[str]) -> st.SearchStrategy[DeclaredRights | None]:
    """Rights of a kind of object, or none."""
    some = st.lists(st.sampled_from(names), min_size=1, max_size=3).map(tuple)
    accounts = st.dictionaries(st.sampled_from(ACCOUNTS), some, max_size=3)
    # the administrators keep all rights: the test has to change the object again
    own = st.just({"S-1-5-32-544": ("FullControl",)})
    allowed = st.builds(lambda one, two: one | two, accounts, own)
    denied = st.dictionaries(st.sampled_from(["Anonymous", "S-1-5-21-1-2-3-1104"]), some, max_size=1)
    return st.none() | st.builds(DeclaredRights, allow=allowed, deny=denied)


QUEUE_RIGHTS = rights(("Send", "Receive", "Peek", "GET_QUEUE_PROPERTIES", "RECEIVE_JOURNAL_MESSAGE"))
QUEUES = st.dictionaries(st.sampled_from(QUEUE_NAMES), st.tuples(QUEUE_ATTRIBUTES, QUEUE_RIGHTS), max_size=4)


def declared_queues(made: Mapping[str, Any]) -> tuple[DeclaredQueue, ...]:
    return tuple(
        DeclaredQueue(name=name, attributes=attributes, rights=given)
        for name, (attributes, given) in made.items()
    )


@st.composite
def declarations(draw: st.DrawFn, world: World) -> Declaration:
    """A random state of the machines and sites of a world."""
    machines = []
    for name in draw(st.lists(st.sampled_from(world.machines), unique=True)):
        queues = draw(st.none() | QUEUES.map(declared_queues))
        given = draw(rights(("CreateQueue", "GET_MACHINE_PROPERTIES")))
        machines.append(
            DeclaredMachine(name=name, attributes=draw(MACHINE_ATTRIBUTES), rights=given, queues=queues)
        )
    sites = [
        DeclaredSite(
            name=name, attributes=draw(SITE_ATTRIBUTES), rights=draw(rights(("GET_SITE_PROPERTIES",)))
        )
        for name in draw(st.lists(st.sampled_from(world.sites), unique=True))
    ]
    return Declaration(sites=sites, machines=machines)
