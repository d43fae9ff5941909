"""Bad input: a clear error of the right class, and nothing in the directory has changed (docs/errors.md)."""

import ipaddress
import time
import urllib.parse
from typing import Any
from uuid import uuid4

import pytest

import mqdssm
from mqdssm.testing.certificates import make_certificates
from mqdssm.wire.dtyp import SecurityDescriptor

FRAGMENTS = [
    "*)(objectClass=*",
    "a,CN=b",
    "\\00",
    " leading",
    "#x",
    "a+b",
    'a"b',
    "a;b",
    "trailing ",
    "a\0b",
    "é",
]
"""Names that would be something else where filters or DNs are joined as strings."""


def snapshot(world) -> dict[str, Any]:
    return world.ldap.versions(world.root)


@pytest.fixture
def unchanged(world):
    """The directory is the same, to the last time stamp, after the test as when it began its work."""
    taken: list[dict[str, Any]] = []
    yield lambda: taken.append(snapshot(world))
    assert taken, "the test did not say when its preparations were done"
    assert snapshot(world) == taken[0]


@pytest.mark.spec("MS-MQDSSM 2.2")
@pytest.mark.spec("MS-MQDSSM 3.1")
def test_every_error_carries_a_result_of_the_enumeration() -> None:
    errors = [mqdssm.DirectoryError, *mqdssm.DirectoryError.__subclasses__(), mqdssm.EndOfData]
    results = {error("x").result for error in errors}
    assert results == set(mqdssm.DirectoryOperationResult) - {mqdssm.DirectoryOperationResult.SUCCESS}


@pytest.mark.parametrize("work", ["create", "write", "read", "filter", "sort", "constructor"])
def test_unknown_attribute(world, unchanged, work) -> None:
    guid = world.queue(label="old")
    unchanged()
    queue = mqdssm.Queue(identifier=guid, label="new", pathname="pc\\q")
    match work:
        case "constructor":
            with pytest.raises(ValueError, match=r"Labell.*Label"):
                mqdssm.Queue(Labell="x")
            return
        case "create":
            call = lambda: world.directory.create(queue, attributes=["Pathname", "Labell"])  # noqa: E731
        case "write":
            call = lambda: world.directory.write(queue, attributes=["Labell"])  # noqa: E731
        case "read":
            call = lambda: world.directory.read(mqdssm.Queue, (), attributes=["Labell"])  # noqa: E731
        case "filter":
            call = lambda: list(world.directory.search(mqdssm.Queue, mqdssm.Filter("Labell", "==", "x")))  # noqa: E731
        case _:
            call = lambda: list(world.directory.search(mqdssm.Queue, sort=mqdssm.SortKey("Labell")))  # noqa: E731
    with pytest.raises(mqdssm.GenericDirectoryError, match="Labell"):
        call()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("quota", -1),
        ("quota", 2**32),
        ("quota", "many"),
        ("base_priority", 32768),
        ("label", "x" * 125),
        ("label", "😀" * 63),
        ("label", b"bytes"),
        ("journaling", 1),
        ("privacy_level", 3),
        ("privacy_level", "Secret"),
        ("type", "no guid"),
        ("identifier", b"0123456789abcdef"),
        ("security", "not base64!"),
    ],
)
def test_values_that_the_model_refuses(field, value) -> None:
    with pytest.raises(ValueError, match=mqdssm.Queue.adm_name(field)):
        mqdssm.Queue(**{field: value})
    queue = mqdssm.Queue(pathname="pc\\q")
    with pytest.raises(ValueError, match=mqdssm.Queue.adm_name(field)):
        setattr(queue, field, value)
    assert queue.populated == {"Pathname"}


@pytest.mark.parametrize("cost", [0, 1_000_000, -1])
def test_cost_out_of_range(cost) -> None:
    with pytest.raises(ValueError, match="ActualCost"):
        mqdssm.RoutingLink(actual_cost=cost)


@pytest.mark.parametrize("damaged", [b"x", b"\1\0\4\x80" + bytes(15), SecurityDescriptor.build(dacl=[])])
def test_damaged_descriptors_and_certificates_are_refused_before_sending(world, unchanged, damaged) -> None:
    guid, user = world.queue(), world.user()[0]
    unchanged()
    image = bytes(damaged)[:-1]
    with pytest.raises(mqdssm.DecodeError, match="MS-DTYP"):
        world.directory.write(mqdssm.Queue(identifier=guid, security=image))
    with pytest.raises(mqdssm.DecodeError, match="MS-DTYP"):
        world.directory.create(mqdssm.Site(name="never", security=image))
    read = world.directory.read(mqdssm.User, mqdssm.Filter("FullPath", "==", user))
    read.certificates = b"\2\0\0\0" + bytes(8)
    with pytest.raises(mqdssm.DecodeError, match="MS-MQMQ"):
        world.directory.write(read)


@pytest.mark.parametrize("name", [*FRAGMENTS, "", "x" * 125])
def test_queue_names_that_are_refused(world, unchanged, name) -> None:
    computer = world.computer_of(world.queue_manager())
    unchanged()
    if name == "#x":  # a legal queue name: it must be one queue, and nothing else
        guid = world.queue(computer, name)
        read = world.directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", f"{computer}\\#x"))
        assert read.identifier == guid
        world.directory.delete(read)
        return
    if name == "*)(objectClass=*":
        guid = world.queue(computer, name)
        found = list(
            world.directory.search(mqdssm.Queue, mqdssm.Filter("Pathname", "==", f"{computer}\\{name}"))
        )
        assert [queue.identifier for queue in found] == [guid]
        world.directory.delete(mqdssm.Queue(pathname=f"{computer}\\{name}"))
        return
    with pytest.raises(ValueError, match=r"queue|path|Pathname"):
        world.directory.create(mqdssm.Queue(pathname=f"{computer}\\{name}"))


@pytest.mark.parametrize("name", [fragment for fragment in FRAGMENTS if "\0" not in fragment])
def test_fragments_of_filters_and_dns_are_only_text(world, name) -> None:
    """In names of sites and computers, in labels, in filters: one object, with exactly this name."""
    decoy = world.site()
    guid = world.site(name)
    site = world.directory.read(mqdssm.Site, mqdssm.Filter("Name", "==", name))
    assert (site.identifier, site.name) == (guid, name)
    assert [
        one.identifier for one in world.directory.search(mqdssm.Site, mqdssm.Filter("Name", "==", name))
    ] == [guid]
    computer = world.computer()
    world.queue_manager(computer, site_identifier_list=[guid], routing_server=True)
    queue = world.queue(computer, "q", label=name)
    world.queue(computer, "other", label="other")
    found = list(world.directory.search(mqdssm.Queue, mqdssm.Filter("Label", "==", name)))
    assert [one.identifier for one in found] == [queue]
    assert found[0].label == name
    world.directory.delete(mqdssm.QueueManager(computer_name=computer), recursive=True)
    world.directory.delete(mqdssm.Site(name=name))
    assert [one.identifier for one in world.search(mqdssm.Site)] == [decoy]
    for kind, attribute in ((mqdssm.QueueManager, "ComputerName"), (mqdssm.Queue, "Label")):
        assert not list(world.directory.search(kind, mqdssm.Filter(attribute, "==", name)))


def test_missing_parent_and_duplicate(world, unchanged) -> None:
    site = world.site("taken")
    unchanged()
    with pytest.raises(mqdssm.ObjectNotFound) as failed:
        world.directory.create(mqdssm.Queue(pathname="nobody\\q"))
    assert "nobody" in str(failed.value)
    with pytest.raises(mqdssm.ObjectAlreadyExists) as failed:
        world.directory.create(mqdssm.Site(name="Taken"))
    assert failed.value.ldap_code == 68
    assert "taken" in str(failed.value).lower()
    if world.kind.keeps_guids:
        with pytest.raises(mqdssm.ObjectAlreadyExists):
            world.directory.create(mqdssm.Site(name="other", identifier=site))


def test_no_rights(world, unchanged) -> None:
    guid, site = world.queue(label="old"), world.site()
    computer = world.computer_of(world.queue_manager())
    user, password = world.user(world.name("reader"))
    unchanged()
    server = world.server
    with mqdssm.connect(server.url, user=user, password=password, ca_file=server.ca_file) as directory:
        assert directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid)).label == "old"
        for work in (
            lambda: directory.create(mqdssm.Queue(pathname=f"{computer}\\new")),
            lambda: directory.write(mqdssm.Queue(identifier=guid, label="new")),
            lambda: directory.delete(mqdssm.Site(identifier=site)),
        ):
            with pytest.raises(mqdssm.GenericDirectoryError) as failed:
                work()
            assert failed.value.ldap_code == 50
            assert failed.value.dn


def test_read_only(world, unchanged) -> None:
    guid = world.queue(label="old")
    unchanged()
    with world.connect(read_only=True) as directory:
        queue = directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid))
        queue.label = "new"
        for work in (
            lambda: directory.write(queue),
            lambda: directory.delete(queue),
            lambda: directory.create(mqdssm.Site(name="s")),
        ):
            with pytest.raises(mqdssm.GenericDirectoryError, match=r"read.only"):
                work()


def test_wrong_password_and_unknown_user(world, unchanged) -> None:
    unchanged()
    server = world.server
    for user, password in ((server.user, "n0t-the-password"), (f"CN=nobody,{world.root}", "n0r-this")):
        with pytest.raises(mqdssm.DirectoryNotConnected) as failed:
            mqdssm.connect(server.url, user=user, password=password, ca_file=server.ca_file)
        assert failed.value.ldap_code == 49
        assert failed.value.result is mqdssm.DirectoryOperationResult.DIRECTORY_NOT_CONNECTED
        assert password not in str(failed.value)


def test_certificate_that_is_not_trusted_or_of_another_host(world, unchanged, tmp_path) -> None:
    unchanged()
    server = world.server
    make_certificates(tmp_path)
    stranger = tmp_path / "ca.pem"
    for url in (server.url, server.ldaps_url):
        with pytest.raises(mqdssm.DirectoryNotConnected, match="certificate"):
            mqdssm.connect(url, user=server.user, password=server.password, ca_file=str(stranger))
        address = urllib.parse.urlsplit(url).hostname
        other_name = url.replace(address, str(int(ipaddress.ip_address(address))))  # leads to the same server
        with pytest.raises(mqdssm.DirectoryNotConnected, match="certificate"):
            mqdssm.connect(other_name, user=server.user, password=server.password, ca_file=server.ca_file)


def test_clear_text_is_refused_unless_asked_for_by_name() -> None:
    with pytest.raises(mqdssm.ConfigError, match="clear text"):
        mqdssm.connect("ldap://192.0.2.1", user="cn=x", password="secret-of-mine", tls="none")


def test_nobody_listens() -> None:
    begin = time.monotonic()
    with pytest.raises(mqdssm.DirectoryNotConnected):
        mqdssm.connect("ldap://127.0.0.1:1", user="cn=x", password="p")
    assert time.monotonic() - begin < 5


@pytest.mark.slow
def test_server_gone_in_the_middle_of_a_search(monkeypatch) -> None:
    """A list that breaks off is an error, never a short list; the next operation finds the server again."""
    from mqdssm.testing.openldap import OpenLdapServer

    monkeypatch.setattr("mqdssm.directory.searching.RESUME_PAUSES_S", (0.0, 0.1))
    with OpenLdapServer(durable=False) as server, mqdssm.connect(server.ldapi_url, page_size=10) as directory:
        for number in range(50):
            directory.create(mqdssm.Site(name=f"s{number}"))
        found = directory.search(mqdssm.Site)
        assert next(found)
        server.kill()
        with pytest.raises(mqdssm.DirectoryNotConnected):
            list(found)
        with pytest.raises(mqdssm.DirectoryNotConnected):
            directory.read(mqdssm.Site, mqdssm.Filter("Name", "==", "s1"))
        server.start()
        assert len(list(directory.search(mqdssm.Site))) == 50


def test_a_server_that_is_no_msmq_directory(world) -> None:
    """Here: its enterprise object is not there; nothing else is touched."""
    services = world.ldap.entry(world.services_dn)
    world.ldap.delete(world.services_dn)
    try:
        with pytest.raises(mqdssm.GenericDirectoryError, match="no MSMQ directory"):
            world.connect()
        with world.connect(check_msmq=False) as directory:
            assert not list(directory.search(mqdssm.RoutingLink))
            with pytest.raises(mqdssm.ObjectNotFound):
                directory.read(mqdssm.Enterprise, ())
    finally:
        world.ldap.add_again(world.services_dn, services)


def test_guid_of_nothing(world, unchanged) -> None:
    unchanged()
    for kind in (
        mqdssm.Queue,
        mqdssm.QueueManager,
        mqdssm.Site,
        mqdssm.RoutingLink,
        mqdssm.User,
        mqdssm.Enterprise,
    ):
        with pytest.raises(mqdssm.ObjectNotFound):
            world.directory.read(kind, mqdssm.Filter("Identifier", "==", uuid4()))


@pytest.mark.parametrize("name", ["a\\b", "a b", "ä"])
def test_computer_names_that_no_path_name_can_hold(world, unchanged, name) -> None:
    """Its queues could never be named: found or not, such a computer gets no queue manager."""
    site = world.site()
    unchanged()
    with pytest.raises(ValueError, match=r"[cC]omputer|path"):
        world.directory.create(mqdssm.QueueManager(computer_name=name, site_identifier_list=[site]))
