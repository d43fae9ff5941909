"""One empty enterprise for each test: a real slapd, our directory on it, and plain LDAP tools beside it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

import pytest
from plain_ldap import PlainLdap

import mqdssm
from mqdssm.directory.filters import Present
from mqdssm.testing.openldap import OpenLdapServer

_numbers = count(1)


@dataclass
class World:
    """What most tests begin with, and makers of the usual objects; names are never used twice."""

    directory: mqdssm.Directory
    server: OpenLdapServer
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
        self.server.add_computer(name)
        return name

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


@pytest.fixture(scope="session")
def openldap_server() -> Iterator[OpenLdapServer]:
    """A server of these tests alone: other tests leave users and computers behind on theirs."""
    with OpenLdapServer(durable=False) as server:
        yield server


@pytest.fixture
def ldap(openldap_server: OpenLdapServer) -> PlainLdap:
    """The directory as OpenLDAP's own tools see it."""
    return PlainLdap(openldap_server)


@pytest.fixture
def world(
    openldap_server: OpenLdapServer, openldap_directory: mqdssm.Directory, ldap: PlainLdap
) -> Iterator[World]:
    """An enterprise that holds the base tree alone; what the test adds is taken away again."""
    session = openldap_directory.session
    root = openldap_server.base_dn
    everything = Present("objectClass")
    before = {entry.dn for entry in session.find(root, everything, ["1.1"])}
    services = session.get(f"CN=MsmqServices,CN=Services,CN=Configuration,{root}", ["*"])
    yield World(openldap_directory, openldap_server, ldap, root)
    with mqdssm.connect(openldap_server.ldapi_url) as cleaner:  # the test may have closed its own
        added = [e.dn for e in cleaner.session.find(root, everything, ["1.1"]) if e.dn not in before]
        for dn in sorted(added, key=lambda dn: -dn.count(",")):
            cleaner.session.delete(dn)
        now = cleaner.session.get(services.dn, ["*"])
        changed = {
            name: services.attributes.get(name, [])
            for name in {*services.attributes, *now.attributes}
            if services.attributes.get(name) != now.attributes.get(name)
        }
        cleaner.session.modify(services.dn, changed)
