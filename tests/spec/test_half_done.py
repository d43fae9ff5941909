"""Events that fail or are overtaken half-way: what they leave, and what they say ([MS-MQDSSM] 3.1.6)."""

from uuid import uuid4

import pytest

import mqdssm
from mqdssm import Filter, Queue, QueueManager

REPEAT = "repeat the call"


def settings(world) -> dict[str, dict[str, list[bytes]]]:
    return world.ldap.search(world.root, "(objectClass=mSMQSettings)")


def queues(world) -> list[str]:
    return world.ldap.dns(world.root, "(objectClass=mSMQQueue)")


# -- the entry is changed, its settings are not -------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.3")
def test_a_create_that_fails_at_the_settings_says_so_and_can_be_repeated(world) -> None:
    """Decision M93."""
    site, computer = world.site(), world.computer()
    manager = QueueManager(computer_name=computer, site_identifier_list=[site], routing_server=True)
    with world.connect(create_server_objects=False) as literal:
        with pytest.raises(mqdssm.ObjectNotFound, match="the queue manager was created, then") as failed:
            literal.create(manager)
        assert "MSMQ Settings" in str(failed.value.dn)
        assert REPEAT in failed.value.hint
        with pytest.raises(mqdssm.ObjectNotFound, match="the queue manager was there already, then"):
            literal.create(manager)
    found = world.directory.read(QueueManager, Filter("ComputerName", "==", computer))
    assert found.routing_server
    assert world.directory.create(manager) == found.identifier
    (place,) = settings(world).values()
    assert place["mSMQQMID"] == [found.identifier.bytes_le]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.3")
def test_an_element_whose_create_failed_at_the_settings_stands_for_the_new_object(world) -> None:
    """Decisions M89, M93: a copy does not go on standing for the original."""
    old, site = world.queue_manager(journal_quota=1), world.site()
    original = world.directory.read(QueueManager, Filter("Identifier", "==", old))
    copied = original.model_copy(
        update={
            "computer_name": world.computer(),
            "site_identifier_list": [site],
            "routing_server": True,
            "public_signing_key_list": b"",
        }
    )
    del copied.identifier
    with world.connect(create_server_objects=False) as literal, pytest.raises(mqdssm.ObjectNotFound):
        literal.create(copied)
    found = world.directory.read(QueueManager, Filter("ComputerName", "==", copied.computer_name))
    assert copied.identifier == found.identifier
    assert "FullPath" not in copied.populated
    assert copied.assigned == {"PublicSigningKeyList"}, "keys of the computer come after the entry"
    copied.journal_quota = 5
    world.directory.write(copied)
    assert world.directory.read(QueueManager, Filter("Identifier", "==", old)).journal_quota == 1
    assert world.directory.create(copied) == found.identifier
    assert len(settings(world)) == 1
    world.directory.delete(copied)
    assert world.directory.read(QueueManager, Filter("Identifier", "==", old)) == original


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
def test_a_write_that_fails_at_the_settings_says_so_and_can_be_repeated(world) -> None:
    """Decision M93."""
    guid = world.queue_manager()
    manager = QueueManager(identifier=guid, routing_server=True)
    with (
        world.connect(create_server_objects=False) as literal,
        pytest.raises(mqdssm.ObjectNotFound, match="the queue manager was written, then") as failed,
    ):
        literal.write(manager)
    assert REPEAT in failed.value.hint
    assert world.directory.read(QueueManager, Filter("Identifier", "==", guid)).routing_server
    assert not settings(world)
    world.directory.write(manager)
    assert len(settings(world)) == 1


# -- recursive deletion -------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.2")
@pytest.mark.parametrize("place", ["", "CN=q1,"])
def test_nothing_is_deleted_while_something_else_is_below(world, place) -> None:
    """Decision M61: below the queue manager, or below one of its queues."""
    guid = world.queue_manager(routing_server=True)
    computer = world.computer_of(guid)
    for name in ("q1", "q2", "q3"):
        world.queue(computer, name)
    other = world.ldap.add(f"CN=other,{place}CN=msmq,{world.computer_dn(computer)}", {"objectClass": "group"})
    before = world.ldap.dns(world.root)
    with pytest.raises(mqdssm.GenericDirectoryError, match="1 object is below it besides queues") as failed:
        world.directory.delete(QueueManager(identifier=guid), recursive=True)
    assert other.lower() in str(failed.value).lower()
    assert "recursive" not in failed.value.hint
    assert world.ldap.dns(world.root) == before
    with pytest.raises(mqdssm.GenericDirectoryError, match="directly below it") as failed:
        world.directory.delete(QueueManager(identifier=guid))
    assert "recursive" not in failed.value.hint, "that would not help"


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.2")
def test_a_deletion_that_fails_half_way_says_how_many_queues_are_gone(world, monkeypatch) -> None:
    guid = world.queue_manager()
    computer = world.computer_of(guid)
    for name in ("q1", "q2", "q3"):
        world.queue(computer, name)
    loader = world.directory.session.loader
    plain = loader.load

    def load(*arguments: object, **options: object):
        world.ldap.add(f"CN=late,{world.queue_dn(computer, 'q2')}", {"objectClass": "group"})
        yield from plain(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(loader, "load", load)
        with pytest.raises(mqdssm.GenericDirectoryError, match="2 of 3 queues were deleted, then") as failed:
            world.directory.delete(QueueManager(identifier=guid), recursive=True)
    assert failed.value.ldap_code == 66
    assert "repeat the deletion" in failed.value.hint
    assert [dn.lower() for dn in queues(world)] == [world.queue_dn(computer, "q2").lower()]
    world.ldap.delete(f"CN=late,{world.queue_dn(computer, 'q2')}")
    world.directory.delete(QueueManager(identifier=guid), recursive=True)
    assert not queues(world)


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.2")
def test_a_recursive_deletion_tells_how_far_it_is(world) -> None:
    guid = world.queue_manager()
    computer = world.computer_of(guid)
    for name in ("q1", "q2", "q3"):
        world.queue(computer, name)
    told: list[tuple[int, int]] = []
    world.directory.delete(
        QueueManager(identifier=guid),
        recursive=True,
        on_progress=lambda deleted, total: told.append((deleted, total)),
    )
    assert told == [(1, 3), (2, 3), (3, 3)]


# -- another object takes the name in between ---------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.2.2.2")
@pytest.mark.parametrize("event", ["write", "delete"])
def test_a_queue_that_is_made_anew_in_between_is_not_the_one_that_was_found(
    world, monkeypatch, event
) -> None:
    """Decision M92: what was found by its GUID is changed, or nothing."""
    computer = world.computer_of(world.queue_manager())
    old = world.queue(computer, "q", label="old")
    session = world.directory.session
    name = {"write": "modify", "delete": "delete"}[event]
    plain, once = getattr(session, name), iter([True])
    queue = Queue(identifier=old, label="changed")
    if event == "delete":
        queue = Queue(identifier=old)

    def change(*arguments: object, **conditions: object) -> None:
        if next(once, False):
            world.ldap.delete(world.queue_dn(computer, "q"))
            with world.connect() as other:
                other.create(Queue(pathname=f"{computer}\\q", label="new"))
        plain(*arguments, **conditions)

    monkeypatch.setattr(session, name, change)
    with pytest.raises(mqdssm.ObjectNotFound):
        getattr(world.directory, event)(queue)
    (found,) = world.directory.search(Queue, attributes=["Identifier", "Label"])
    assert found.label == "new"
    assert found.identifier != old


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.2")
def test_a_queue_that_is_renamed_in_between_is_found_again(world, monkeypatch) -> None:
    computer = world.computer_of(world.queue_manager())
    guid = world.queue(computer, "q")
    session = world.directory.session
    plain, once = session.modify, iter([True])

    def modify(*arguments: object, **conditions: object) -> None:
        if next(once, False):
            session.rename(world.queue_dn(computer, "q"), "CN=renamed")
        plain(*arguments, **conditions)

    monkeypatch.setattr(session, "modify", modify)
    world.directory.write(Queue(identifier=guid, label="changed"))
    (found,) = world.directory.search(Queue, attributes=["Pathname", "Label"])
    assert (found.pathname, found.label) == (f"{computer}\\renamed", "changed")


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.5")
def test_roles_that_others_change_each_time_are_an_error(world, monkeypatch) -> None:
    """Nothing is written then: neither their roles nor ours are lost."""
    guid = world.queue_manager(routing_server=True)
    place = f"CN=msmq,{world.computer_dn(world.computer_of(guid))}"
    session = world.directory.session
    plain, numbers = session.modify, iter(range(64, 1000))

    def modify(*arguments: object, **conditions: object) -> None:
        plain(place, {"mSMQServiceType": [str(next(numbers)).encode()]})
        plain(*arguments, **conditions)

    monkeypatch.setattr(session, "modify", modify)
    with pytest.raises(mqdssm.ObjectChanged, match="another program changed the object") as failed:
        world.directory.write(QueueManager(identifier=guid, remote_access_server=True))
    assert failed.value.result is mqdssm.DirectoryOperationResult.GENERIC_ERROR
    assert int(world.ldap.entry(place)["mSMQServiceType"][0]) == next(numbers) - 1


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.5")
def test_a_role_that_another_program_takes_away_counts_for_the_service_type(world, monkeypatch) -> None:
    """DirectoryServerType counts for directory servers alone: DirectoryServer was read, not written."""
    guid = world.queue_manager(directory_server=True)
    session = world.directory.session
    plain, once = session.modify, iter([True])

    def modify(*arguments: object, **conditions: object) -> None:
        if next(once, False):
            with world.connect() as other:
                other.write(QueueManager(identifier=guid, directory_server=False))
        plain(*arguments, **conditions)

    monkeypatch.setattr(session, "modify", modify)
    world.directory.write(QueueManager(identifier=guid, directory_server_type="BackupSiteController"))
    place = f"CN=msmq,{world.computer_dn(world.computer_of(guid))}"
    assert world.ldap.entry(place)["mSMQServiceType"] == [b"0"]
    assert world.ldap.entry(place)["mSMQDsServices"] == [b"FALSE"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.2")
def test_a_queue_manager_that_is_deleted_between_two_looks_is_made(world, monkeypatch) -> None:
    computer = world.computer()
    old = world.queue_manager(computer, site_identifier_list=[])
    session = world.directory.session
    plain, once = session.get, iter([True])

    def get(target: object, attributes: object, **options: object):
        if "mSMQSites" in attributes and next(once, False):
            world.ldap.delete(f"CN=msmq,{world.computer_dn(computer)}")
        return plain(target, attributes, **options)

    monkeypatch.setattr(session, "get", get)
    made = world.directory.create(QueueManager(computer_name=computer, site_identifier_list=[uuid4()]))
    assert made != old
    assert world.ldap.entry(f"CN=msmq,{world.computer_dn(computer)}")["objectGUID"] == [made.bytes_le]
