"""Machines are found by name and identifier in a real directory, in the configured hosts, and in DNS."""

import socket
from ipaddress import ip_address
from uuid import uuid4

import pytest

import mqdssm
from mqdssm.drivers.tcp import name_resolution
from mqdssm.drivers.tcp.name_resolution import (
    ANSWERS_MAX,
    BELIEVED_S,
    UNKNOWN_S,
    DirectoryMachines,
    NameResolver,
    SocketAddress,
)
from mqdssm.errors import DirectoryNotConnected, TransportError
from mqdssm.model.elements import QueueManager
from mqdssm.model.filters import Filter
from mqdssm.model.guid import Guid

HOST = SocketAddress("10.0.0.5", 1802)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def queue_manager(name: str, identifier: Guid) -> QueueManager:
    return QueueManager(computer_name=name, identifier=identifier.uuid, site_identifier_list=[uuid4()])


@pytest.fixture
def web01(openldap_server, openldap_directory):
    """The identifier of a queue manager, whose computer is web01.example.com in DNS."""
    openldap_server.add_computer("web01")
    identifier = Guid.of(uuid4())
    openldap_directory.create(queue_manager("web01", identifier))
    return identifier


@pytest.fixture
def directory(openldap_directory):
    return DirectoryMachines(openldap_directory)


@pytest.mark.spec("MS-MQQB 2.3")
@pytest.mark.spec("MS-MQQB 3.1.5.2.1")
@pytest.mark.parametrize("host", ["WEB01", "web01.example.com"])
def test_an_identifier_leads_to_a_host_by_either_name(web01, directory, host):
    assert NameResolver({host: HOST}, directory).resolve(web01) == (HOST,)


def test_a_machine_with_a_new_name_has_the_host_of_its_identifier(web01, directory):
    """Hosts of the configuration have its former name."""
    assert NameResolver({"old": HOST, web01: HOST}, directory).resolve("web01") == (HOST,)


@pytest.mark.spec("MS-MQQB 3.1.7.4")
def test_short_and_full_names_lead_to_one_host(web01, directory):
    resolver = NameResolver({"Web01.Example.com": HOST}, directory)
    assert resolver.resolve("web01") == resolver.resolve("WEB01.example.COM") == (HOST,)


def test_a_full_name_of_another_domain_is_another_machine(web01, directory):
    with pytest.raises(TransportError, match=r"DNS has no address of web01\.invalid"):
        NameResolver({"web01.example.com": HOST}, directory).resolve("web01.invalid")


def test_an_unknown_identifier(directory):
    unknown = Guid.of(uuid4())
    with pytest.raises(TransportError, match=f"no machine has the identifier {unknown} in the directory"):
        NameResolver({}, directory).resolve(unknown)


@pytest.mark.spec("MS-MQQB 3.1.5.2.1")
def test_hosts_come_before_the_directory():
    guid = Guid.of(uuid4())
    resolver = NameResolver({guid: HOST, ip_address("10.1.1.1"): HOST})
    assert resolver.resolve(guid) == resolver.resolve(ip_address("10.1.1.1")) == (HOST,)


@pytest.mark.spec("MS-MQQB 3.1.5.2.1")
def test_addresses_and_dns():
    resolver = NameResolver(port=1805)
    assert resolver.resolve(ip_address("10.1.1.1")) == (SocketAddress("10.1.1.1", 1805),)
    assert SocketAddress("127.0.0.1", 1805) in resolver.resolve("localhost")


@pytest.mark.parametrize("name", ["nobody.invalid", "a" * 70, "a..b"])
def test_names_that_nobody_knows(name):
    with pytest.raises(TransportError, match=r"DNS has no address of .*: add one there, or to the hosts"):
        NameResolver().resolve(name)


def test_answers_and_failures_last_their_time(clock, web01, openldap_directory, directory):
    resolver = NameResolver({"web01.example.com": HOST, "web02.example.com": HOST}, directory, clock=clock)
    other = Guid.of(uuid4())
    with pytest.raises(TransportError):
        resolver.resolve(other)
    assert resolver.resolve(web01) == (HOST,)
    openldap_directory.delete(openldap_directory.read(QueueManager, Filter("Identifier", "==", web01.uuid)))
    clock.now += BELIEVED_S - 1
    assert resolver.resolve(web01) == (HOST,), "believed"
    clock.now += 1
    with pytest.raises(TransportError):
        resolver.resolve(web01)
    clock.now += UNKNOWN_S - 1
    openldap_directory.create(queue_manager("web01", web01))
    with pytest.raises(TransportError):
        resolver.resolve(web01)
    clock.now += 1
    assert resolver.resolve(web01) == (HOST,)


def test_a_name_is_asked_for_each_time(clock, monkeypatch):
    """Decision T141: a machine may be back at another address. A configured host may have a name, too."""
    known = {"web01": "10.0.0.1", "host01": "10.0.0.1"}

    def ask(name, port, **_options):
        if name not in known:
            raise socket.gaierror("unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (known[name], port))]

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    resolver = NameResolver({"web02": SocketAddress("host01", 1802)}, clock=clock)
    assert resolver.resolve("web01") == (SocketAddress("10.0.0.1", 1801),)
    assert resolver.resolve("web02") == (SocketAddress("10.0.0.1", 1802),)
    known.update(web01="10.0.0.2", host01="10.0.0.2")
    assert resolver.resolve("web01") == (SocketAddress("10.0.0.2", 1801),)
    assert resolver.resolve("web02") == (SocketAddress("10.0.0.2", 1802),)
    known.clear()
    with pytest.raises(TransportError, match="DNS has no address of host01: add one there"):
        resolver.resolve("web02")
    known.update(host01="10.0.0.3")
    assert resolver.resolve("web02") == (SocketAddress("10.0.0.3", 1802),)


def test_an_outage_of_the_directory(clock, openldap_server, openldap_directory):
    openldap_server.add_computer("web03")
    identifier = Guid.of(uuid4())
    openldap_directory.create(queue_manager("web03", identifier))
    access = {name: getattr(openldap_server, name) for name in ("user", "password", "ca_file")}
    with mqdssm.connect(openldap_server.url, **access) as directory:
        resolver = NameResolver({"web03": HOST}, DirectoryMachines(directory), clock=clock)
        assert resolver.resolve(identifier) == (HOST,)
        directory.close()
        clock.now += BELIEVED_S
        assert resolver.resolve(identifier) == (HOST,), "the old answer is better than none"
        with pytest.raises(TransportError, match="cannot be looked up in the directory"):
            resolver.resolve("web04")


@pytest.mark.spec("MS-MQQB 3.1.5.3.2")
def test_an_identifier_of_another_machine(web01, openldap_server, openldap_directory, directory):
    """Decision T142. A machine that is new, or has another name in DNS, is no other one."""
    openldap_server.add_computer("web05")
    other = Guid.of(uuid4())
    openldap_directory.create(queue_manager("web05", other))
    resolver = NameResolver(directory=directory)
    assert resolver.is_of_another("WEB01", other)
    assert resolver.is_of_another("web01.example.com", other)
    assert not resolver.is_of_another("web01", web01)
    assert not resolver.is_of_another("web01", Guid.of(uuid4())), "installed again, and not replicated yet"
    assert not resolver.is_of_another("alias", other)
    assert not resolver.is_of_another(ip_address("10.0.0.5"), other)
    openldap_directory.close()
    assert not resolver.is_of_another("web01", other), "an outage of the directory"
    assert not NameResolver().is_of_another("web01", other)


def test_the_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(name_resolution, "ANSWERS_MAX", 3)
    resolver = NameResolver({"web01": HOST})
    for number in range(10):
        resolver.resolve(ip_address(f"10.0.0.{number}"))
    assert len(resolver._answers) == 3
    assert ANSWERS_MAX > 3


def test_a_machine_that_was_not_reached_is_looked_up_again(clock):
    class Moving:
        calls = 0

        def find(self, _machine):
            self.calls += 1
            if self.calls == 2:
                raise DirectoryNotConnected("down")
            return name_resolution.MachineNames("web01", "")

    directory = Moving()
    resolver = NameResolver({"web01": HOST}, directory, clock=clock)
    guid = Guid.of(uuid4())
    for _ in range(3):
        assert resolver.resolve(guid) == (HOST,)
        resolver.forget(guid)
    assert directory.calls == 3
