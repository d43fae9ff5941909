"""One empty enterprise for each test: a real server, our directory on it, and plain LDAP tools beside it."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from support.servers.plain_ldap import PlainLdap
from support.watching.kinds import KINDS, MADE_BY_THE_SERVER, Kind, Started, parameters

import mqdssm
from mqdssm.wire.sid import BUILTIN_ADMINISTRATORS

_numbers = count(1)


@dataclass
class World:
    """What most tests begin with, and makers of the usual objects; names are never used twice."""

    directory: mqdssm.Directory
    kind: Kind
    server: Any
    ldap: PlainLdap
    root: str
    _names: dict[UUID, str] = field(default_factory=dict)

    @property
    def sites_dn(self) -> str:
        return f"CN=Sites,CN=Configuration,{self.root}"

    @property
    def services_dn(self) -> str:
        return f"CN=MsmqServices,CN=Services,CN=Configuration,{self.root}"

    def name(self, stem: str = "x") -> str:
        """A name that no other test has."""
        return f"{stem}{next(_numbers)}"

    def computer(self, name: str | None = None) -> str:
        """Add a computer as another program would; return its name."""
        name = name or self.name("pc")
        self.kind.add_computer(self.server, name)
        return name

    def user(self, name: str | None = None) -> tuple[str, str]:
        """Add a user without special rights; return the DN and the password."""
        return self.kind.add_user(self.server, name or self.name("user"))

    def make_administrator(self, dn: str) -> None:
        """Let a user do everything."""
        self.kind.make_administrator(self.server, dn)

    @property
    def creator(self) -> mqdssm.Sid:
        """Owner of new objects: the account of our directory, or the administrators without one (M41)."""
        sid = self.directory.session.bound_sid()
        return BUILTIN_ADMINISTRATORS if sid is None else mqdssm.Sid(sid)

    def values(self, found: mqdssm.DirectoryObject) -> dict[str, Any]:
        """The populated attributes of an object, without a descriptor that is only the server's default."""
        values = {adm: getattr(found, found.field_name(adm)) for adm in found.populated}
        if (image := values.pop("Security", None)) and (written := self.kind.security(image)):
            values["Security"] = written
        return values

    def created(self, dn: str) -> int:
        """CreateTime of an object that brought along, where it may, when it was made."""
        stamp = self.ldap.entry(dn, "whenCreated")["whenCreated"][0].decode()
        return int(datetime.strptime(stamp, "%Y%m%d%H%M%S.0Z").replace(tzinfo=UTC).timestamp())

    def connect(self, **options: Any) -> mqdssm.Directory:
        """Another directory on the same server."""
        return self.kind.connect(self.server, **options)

    def search(self, kind: type[Any], *filters: mqdssm.Filter, **options: Any) -> list[Any]:
        """What a search finds, without what the server had before anybody came."""
        found = self.directory.search(kind, *filters, **options)
        return [one for one in found if one.name not in self.kind.own_sites]

    def computer_dn(self, name: str) -> str:
        return f"CN={name},CN=Computers,{self.root}"

    def site(self, name: str | None = None, **values: object) -> UUID:
        name = name or self.name("site")
        guid = self.directory.create(mqdssm.Site(name=name, **values))
        self._names[guid] = name
        return guid

    def site_name(self, guid: UUID) -> str:
        return self._names[guid]

    def queue_manager(self, computer: str | None = None, **values: object) -> UUID:
        """A queue manager on a computer of its own; served sites default to a new one."""
        computer = computer or self.computer()
        if "site_identifier_list" not in values:
            values["site_identifier_list"] = [self.site()]
        guid = self.directory.create(mqdssm.QueueManager(computer_name=computer, **values))
        self._names[guid] = computer
        return guid

    def computer_of(self, queue_manager: UUID) -> str:
        return self._names[queue_manager]

    def queue(self, computer: str | None = None, name: str | None = None, **values: object) -> UUID:
        """A queue, on a new queue manager unless a computer that has one is named."""
        if computer is None:
            computer = self.computer_of(self.queue_manager())
        pathname = f"{computer}\\{name or self.name('q')}"
        return self.directory.create(mqdssm.Queue(pathname=pathname, **values))

    def queue_dn(self, computer: str, cn: str) -> str:
        return f"CN={cn},CN=msmq,{self.computer_dn(computer)}"

    def settings_dn(self, site: str, computer: str) -> str:
        return f"CN=MSMQ Settings,CN={computer},CN=Servers,CN={site},{self.sites_dn}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test of an event runs on every kind of server, see `support.watching.kinds`."""
    if "world" in metafunc.fixturenames:
        file, test = metafunc.definition.path.name, metafunc.definition.originalname
        metafunc.parametrize("world", parameters(file, test), indirect=True)


@pytest.fixture(scope="session")
def started() -> Iterator[Started]:
    """The servers that the tests of the events run on."""
    with ExitStack() as stack:
        yield Started(stack)


@pytest.fixture
def world(request: pytest.FixtureRequest, started: Started) -> Iterator[World]:
    """An enterprise that holds the base tree alone; what the test adds is taken away again."""
    kind = KINDS[request.param]
    server, cleaner = started.server(kind), started.cleaner(kind)
    services = f"CN=MsmqServices,CN=Services,{cleaner.naming.configuration}"
    written = ["*", "nTSecurityDescriptor"]
    then, before = kind.now(cleaner), cleaner.get(services, written).attributes
    with kind.connect(server) as directory:
        yield World(directory, kind, server, kind.plain(server), server.base_dn)
    kind.clean(cleaner, then, keep=services)
    after = cleaner.get(services, written).attributes
    changed = {
        name: before.get(name, [])
        for name in {*before, *after} - MADE_BY_THE_SERVER - {"objectguid"}
        if before.get(name) != after.get(name)
    }
    cleaner.modify(services, changed)
