"""Delete and Write find the object by Identifier, else by FullPath, else by its name ([MS-MQDSSM] 3.1.6).

The first key that is set decides. If it names no object, the event finds nothing: the later keys name an
object that exists, and it stays as it is.
"""

from dataclasses import dataclass
from uuid import uuid4

import pytest

import mqdssm
from mqdssm import Enterprise, Filter, Queue, QueueManager, RoutingLink, Site, User


@dataclass(frozen=True)
class Case:
    """An element with two keys.

    Attributes:
        first: the key that comes first, which names no object.
        second: the other one.
    """

    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.first}-{self.second}"


QUEUE_MANAGERS = (
    Case("Identifier", "FullPath"),
    Case("Identifier", "ComputerName"),
    Case("FullPath", "ComputerName"),
)
QUEUES = (
    Case("Identifier", "FullPath"),
    Case("Identifier", "DirectoryPath"),
    Case("Identifier", "Pathname"),
    Case("FullPath", "DirectoryPath"),
    Case("FullPath", "Pathname"),
    Case("DirectoryPath", "Pathname"),
)
SITES = (Case("Identifier", "FullPath"), Case("Identifier", "Name"), Case("FullPath", "Name"))
LINKS = (Case("Identifier", "FullPath"),)
USERS = (
    Case("Identifier", "FullPath"),
    Case("Identifier", "SecurityIdentifier"),
    Case("FullPath", "SecurityIdentifier"),
)


def mixed(obj: mqdssm.DirectoryObject, case: Case) -> mqdssm.DirectoryObject:
    """An element whose first key names nothing, and whose second key names an object that exists."""
    nowhere = f"CN=nobody,{obj.full_path.partition(',')[2]}" if case.first != "Identifier" else ""
    absent = {"Identifier": uuid4(), "FullPath": nowhere, "DirectoryPath": f"LDAP://{nowhere}"}[case.first]
    kind = type(obj)
    return kind(**{case.first: absent, case.second: getattr(obj, kind.field_name(case.second))})


def read(world, kind, guid) -> mqdssm.DirectoryObject:
    return world.directory.read(kind, Filter("Identifier", "==", guid))


def link(world) -> mqdssm.DirectoryObject:
    ends = {"site1_identifier": world.site(), "site2_identifier": world.site()}
    return read(world, RoutingLink, world.directory.create(RoutingLink(actual_cost=1, **ends)))


def check_delete(world, obj: mqdssm.DirectoryObject, case: Case) -> None:
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.delete(mixed(obj, case))
    assert read(world, type(obj), obj.identifier) == obj


def check_write(world, obj: mqdssm.DirectoryObject, case: Case, **values: object) -> None:
    changed = mixed(obj, case)
    for field, value in values.items():
        assert getattr(obj, field) != value
        setattr(changed, field, value)
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.write(changed)
    assert read(world, type(obj), obj.identifier) == obj


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.2")
@pytest.mark.parametrize("case", QUEUE_MANAGERS, ids=str)
def test_delete_a_queue_manager(world, case) -> None:
    check_delete(world, read(world, QueueManager, world.queue_manager()), case)


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.2.2")
@pytest.mark.parametrize("case", QUEUES, ids=str)
def test_delete_a_queue(world, case) -> None:
    check_delete(world, read(world, Queue, world.queue()), case)


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.3.2")
@pytest.mark.parametrize("case", SITES, ids=str)
def test_delete_a_site(world, case) -> None:
    check_delete(world, read(world, Site, world.site()), case)


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.4.2")
@pytest.mark.parametrize("case", LINKS, ids=str)
def test_delete_a_routing_link(world, case) -> None:
    check_delete(world, link(world), case)


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.2")
@pytest.mark.parametrize("case", QUEUE_MANAGERS, ids=str)
def test_write_a_queue_manager(world, case) -> None:
    check_write(world, read(world, QueueManager, world.queue_manager()), case, journal_quota=7)


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.2")
@pytest.mark.parametrize("case", QUEUES, ids=str)
def test_write_a_queue(world, case) -> None:
    check_write(world, read(world, Queue, world.queue()), case, label="new")


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.3.2")
def test_write_the_enterprise(world) -> None:
    """There is one; an Identifier that is not its own names no object."""
    enterprise = world.directory.read(Enterprise, ())
    with pytest.raises(mqdssm.ObjectNotFound):
        world.directory.write(Enterprise(identifier=uuid4(), default_time_to_live=7))
    assert world.directory.read(Enterprise, ()) == enterprise


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.4.2")
@pytest.mark.parametrize("case", SITES, ids=str)
def test_write_a_site(world, case) -> None:
    check_write(world, read(world, Site, world.site()), case, intra_site_replication_interval=7)


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.5.2")
@pytest.mark.parametrize("case", LINKS, ids=str)
def test_write_a_routing_link(world, case) -> None:
    check_write(world, link(world), case, actual_cost=7)


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.6.2")
@pytest.mark.parametrize("case", USERS, ids=str)
def test_write_a_user(world, case) -> None:
    dn, _ = world.user()
    user = world.directory.read(User, Filter("FullPath", "==", dn))
    check_write(world, user, case, certificate_digest_list=[b"d" * 16])
