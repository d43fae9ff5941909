"""Writes that are made only if the object is as it was read (decision M116)."""

import threading
from collections.abc import Callable

import pytest

import mqdssm
from mqdssm.directory.session import Session


def read(world, guid, kind=mqdssm.Queue, **options):
    return world.directory.read(kind, mqdssm.Filter("Identifier", "==", guid), **options)


def before_the_change(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let another program act once, after the values were compared and before the change is sent."""
    modify, waiting = Session.modify, [act]

    def racing(session: Session, *args, **options) -> None:
        if waiting:
            waiting.pop()()
        modify(session, *args, **options)

    monkeypatch.setattr(Session, "modify", racing)


def test_an_unchanged_object_is_written(world) -> None:
    guid = world.queue(label="old", quota=7)
    queue = read(world, guid)
    queue.label = "new"
    world.directory.write(queue, if_unchanged=True)
    queue.quota = 8
    world.directory.write(queue, if_unchanged=True)
    found = read(world, guid)
    assert (found.label, found.quota) == ("new", 8)


@pytest.mark.parametrize("other", [{"label": "theirs"}, {"quota": 9}, {"journaling": True}])
def test_a_changed_object_is_not(world, other) -> None:
    """Also for an attribute that is not written: the decision to write may rest on it."""
    guid = world.queue(label="old", quota=7)
    queue = read(world, guid)
    world.directory.write(mqdssm.Queue(identifier=guid, **other))
    before = read(world, guid)
    queue.label = "ours"
    (name,) = mqdssm.Queue(**other).populated
    with pytest.raises(mqdssm.ObjectChanged, match=f"changed {name} after") as lost:
        world.directory.write(queue, if_unchanged=True)
    assert lost.value.dn == queue.full_path
    assert read(world, guid) == before
    world.directory.write(queue)
    assert read(world, guid).label == "ours", "it is still to be written"


@pytest.mark.parametrize("attribute", ["Label", "Quota"])
def test_the_server_decides_a_race(world, monkeypatch, attribute) -> None:
    """Quota was never stored: what was absent when it was compared must be absent when it is written."""
    guid = world.queue(label="old")
    queue = read(world, guid)
    ours, theirs = {"Label": ("ours", "theirs"), "Quota": (5, 6)}[attribute]
    setattr(queue, queue.field_name(attribute), ours)
    other = mqdssm.Queue.model_validate({"identifier": guid, attribute: theirs})
    with world.connect() as second:
        before_the_change(monkeypatch, lambda: second.write(other))
        with pytest.raises(mqdssm.ObjectChanged, match=attribute):
            world.directory.write(queue, if_unchanged=True)
    assert getattr(read(world, guid), queue.field_name(attribute)) == theirs


def test_what_the_object_was_not_read_with_does_not_count(world, monkeypatch) -> None:
    guid = world.queue(label="old")
    queue = read(world, guid, attributes=["Identifier", "Label"])
    queue.label = "new"
    with world.connect() as second:
        before_the_change(monkeypatch, lambda: second.write(mqdssm.Queue(identifier=guid, quota=5)))
        world.directory.write(queue, if_unchanged=True)
    found = read(world, guid)
    assert (found.label, found.quota) == ("new", 5)


@pytest.mark.parametrize("attributes", [None, ["Quota"]])
def test_what_is_written_must_have_been_read(world, attributes) -> None:
    """Otherwise a value of another program would be replaced by somebody who never saw it."""
    guid = world.queue(label="old")
    queue = read(world, guid, attributes=["Identifier", "Label"])
    queue.quota = 5
    world.directory.write(mqdssm.Queue(identifier=guid, quota=6))
    with pytest.raises(mqdssm.GenericDirectoryError, match=r"was read without Queue\.Quota"):
        world.directory.write(queue, attributes=attributes, if_unchanged=True)
    assert read(world, guid).quota == 6


def test_a_default_that_was_stored_since_is_no_change(world) -> None:
    guid = world.queue(label="old")
    queue = read(world, guid)
    world.directory.write(mqdssm.Queue(identifier=guid, quota=queue.quota, base_priority=0))
    queue.label = "new"
    world.directory.write(queue, if_unchanged=True)
    assert read(world, guid).label == "new"


def test_a_value_is_removed_only_if_it_is_the_one_that_was_read(world) -> None:
    guid = world.queue(label="old", quota=7)
    queue = read(world, guid)
    queue.unset("Quota")
    world.directory.write(mqdssm.Queue(identifier=guid, quota=8))
    with pytest.raises(mqdssm.ObjectChanged, match="Quota"):
        world.directory.write(queue, if_unchanged=True)
    again = read(world, guid)
    again.unset("Quota")
    again.unset("BasePriority")  # has no value that could be removed
    world.directory.write(again, if_unchanged=True)
    assert read(world, guid).quota == mqdssm.Queue().quota


def test_roles_and_sites_of_a_queue_manager(world, monkeypatch) -> None:
    sites = [world.site() for _ in range(3)]
    guid = world.queue_manager(site_identifier_list=sites[:2])
    manager = read(world, guid, mqdssm.QueueManager)
    manager.site_identifier_list = [sites[1], sites[0]]
    manager.routing_server = True
    world.directory.write(manager, if_unchanged=True)
    manager.site_identifier_list = sites[:1]
    with world.connect() as second:
        other = mqdssm.QueueManager(identifier=guid, site_identifier_list=sites[2:])
        before_the_change(monkeypatch, lambda: second.write(other))
        with pytest.raises(mqdssm.ObjectChanged, match="SiteIdentifierList"):
            world.directory.write(manager, if_unchanged=True)
        again = read(world, guid, mqdssm.QueueManager)
        again.directory_server = True
        second.write(mqdssm.QueueManager(identifier=guid, remote_access_server=True))
    with pytest.raises(mqdssm.ObjectChanged, match="RemoteAccessServer"):
        world.directory.write(again, if_unchanged=True)
    found = read(world, guid, mqdssm.QueueManager)
    assert (found.routing_server, found.remote_access_server, found.directory_server) == (True, True, False)
    assert found.site_identifier_list == (sites[2],)


def test_a_counter_loses_no_step(world) -> None:
    """Four programs count up the quota of one queue; each step is a compare and set."""
    guid, lost = world.queue(quota=0), []

    def count() -> None:
        with world.connect() as directory:
            for _ in range(4):
                while True:
                    queue = directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid))
                    queue.quota += 1
                    try:
                        directory.write(queue, if_unchanged=True)
                    except mqdssm.ObjectChanged as error:
                        lost.append(error)
                    else:
                        break

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert read(world, guid).quota == 16
    assert lost, "no race was lost: nothing was proven"


def test_an_object_that_was_never_read_has_nothing_to_compare(world) -> None:
    guid = world.queue(label="old")
    with pytest.raises(mqdssm.GenericDirectoryError, match="never read"):
        world.directory.write(mqdssm.Queue(identifier=guid, label="new"), if_unchanged=True)
    queue = read(world, guid)
    queue.label = "new"
    copied = mqdssm.Queue.from_json(queue.to_json())
    with pytest.raises(mqdssm.GenericDirectoryError, match="Label had when it was read is not known"):
        world.directory.write(copied, if_unchanged=True)
    assert read(world, guid).label == "old"


def test_an_attribute_of_another_object_is_refused(world) -> None:
    manager = read(world, world.queue_manager(), mqdssm.QueueManager)
    manager.public_signing_key_list = b""
    with pytest.raises(mqdssm.GenericDirectoryError, match="kept in another object"):
        world.directory.write(manager, if_unchanged=True)


def test_descriptors_where_the_server_can_compare_them(world) -> None:
    guid = world.queue(label="old")
    queue, other = read(world, guid), read(world, guid)
    queue.security = mqdssm.SecurityDescriptor.from_sddl("O:SYD:(A;;0x24;;;WD)")
    if world.directory.session.profile.asserted_version is None:
        with pytest.raises(mqdssm.GenericDirectoryError, match=r"cannot compare Queue\.Security"):
            world.directory.write(queue, if_unchanged=True)
        return
    world.directory.write(queue, if_unchanged=True)
    other.label = "new"
    with pytest.raises(mqdssm.ObjectChanged, match="Security"):
        world.directory.write(other, if_unchanged=True)
