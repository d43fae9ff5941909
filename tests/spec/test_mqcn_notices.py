"""Which changes of the adapter are told, of what, and to whom ([MS-MQCN] 3.3.4.1, decision C22)."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest

import mqdssm
from mqdssm.errors import ConfigError, DirectoryError, ObjectAlreadyExists, ObjectNotFound, TransportError
from mqdssm.model.notice import Notice, NotifiedOperation
from mqdssm.model.watching import AttributeChange, ChangeEvent, ObjectChange


class TestNotices:
    """Which changes are told, of what, and to whom (decision C22)."""

    @contextmanager
    def collecting(self, world: Any) -> Iterator[tuple[mqdssm.Directory, list[Notice]]]:
        notices: list[Notice] = []
        with world.connect(notify=notices.append) as directory:
            yield directory, notices

    def test_a_created_queue_as_the_directory_has_it(self, world):
        owner = world.queue_manager()
        computer = world.computer_of(owner)
        with self.collecting(world) as (directory, notices):
            guid = directory.create(mqdssm.Queue(pathname=f"{computer}\\q", label="x", quota=9))
        (made,) = notices
        assert (made.operation, made.owner, made.machine) == ("QueueCreation", owner, computer)
        assert made.element.identifier == guid
        assert made.element.create_time is not None
        assert made.element.security
        assert 1 <= len(made.server) <= 256
        assert "/" not in made.server

    @pytest.mark.parametrize("by", ["identifier", "full_path", "pathname"])
    def test_a_written_queue_and_what_was_written(self, world, by):
        owner = world.queue_manager()
        guid = world.queue(world.computer_of(owner))
        found = world.directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid))
        with self.collecting(world) as (directory, notices):
            directory.write(mqdssm.Queue(**{by: getattr(found, by)}, label="new", quota=4))
        (made,) = notices
        assert (made.operation, made.owner) == ("QueueUpdate", owner)
        assert made.changed == {"Label", "Quota"}
        assert (made.element.identifier, made.element.label) == (guid, "new")

    def test_a_deleted_queue_as_it_was(self, world):
        owner = world.queue_manager()
        guid = world.queue(world.computer_of(owner), label="was")
        with self.collecting(world) as (directory, notices):
            directory.delete(mqdssm.Queue(identifier=guid))
        (made,) = notices
        assert (made.operation, made.owner) == ("QueueDeletion", owner)
        assert (made.element.identifier, made.element.label) == (guid, "was")

    def test_a_written_queue_manager(self, world):
        owner = world.queue_manager()
        with self.collecting(world) as (directory, notices):
            directory.write(mqdssm.QueueManager(computer_name=world.computer_of(owner), journal_quota=4))
        (made,) = notices
        assert (made.operation, made.owner) == ("QueueManagerUpdate", owner)
        assert made.element.identifier == owner
        assert made.element.journal_quota == 4
        assert made.changed == {"JournalQuota"}

    def test_the_queues_that_a_queue_manager_takes_along(self, world):
        owner = world.queue_manager()
        guids = {world.queue(world.computer_of(owner)) for _ in range(3)}
        world.queue()
        with self.collecting(world) as (directory, notices):
            directory.delete(mqdssm.QueueManager(identifier=owner), recursive=True)
        assert {made.element.identifier for made in notices} == guids
        assert {made.owner for made in notices} == {owner}
        assert {made.operation for made in notices} == {NotifiedOperation.QUEUE_DELETION}

    def test_what_is_nobodys(self, world):
        with self.collecting(world) as (directory, notices):
            site = directory.create(mqdssm.Site(name=world.name("site")))
            directory.write(mqdssm.Site(identifier=site, intra_site_replication_interval=3))
            computer = world.computer()
            manager = mqdssm.QueueManager(computer_name=computer, site_identifier_list=[site])
            directory.create(manager)
            directory.delete(manager)
            directory.delete(mqdssm.Site(identifier=site))
        assert notices == []

    def test_nothing_of_a_change_that_failed(self, world):
        owner = world.queue_manager()
        computer = world.computer_of(owner)
        world.queue(computer, "there")
        gone = mqdssm.Queue(identifier=uuid4(), label="x")
        with self.collecting(world) as (directory, notices):
            with pytest.raises(ObjectAlreadyExists):
                directory.create(mqdssm.Queue(pathname=f"{computer}\\there"))
            with pytest.raises(ObjectNotFound):
                directory.write(gone)
            with pytest.raises(ObjectNotFound):
                directory.delete(gone)
            with pytest.raises(DirectoryError):
                directory.delete(mqdssm.QueueManager(identifier=owner), recursive=False)
            with pytest.raises(DirectoryError):
                directory.write(mqdssm.Queue(pathname=f"{computer}\\there"), attributes=["CreateTime"])
        assert notices == []

    def test_what_the_callback_raises_neither_undoes_nor_hides_the_change(self, world, caplog):
        owner = world.queue_manager()

        def fails(notice: Notice) -> None:
            raise TransportError("full")

        with world.connect(notify=fails) as directory, caplog.at_level(logging.ERROR):
            queue = mqdssm.Queue(pathname=f"{world.computer_of(owner)}\\q")
            guid = directory.create(queue)
            queue.label = "new"
            directory.write(queue)
            read = directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid))
            assert read.label == "new"
            directory.delete(queue)
        assert [
            one.message.partition(" of ")[0] for one in caplog.records if one.name == "mqdssm.events.notices"
        ] == [
            "QueueCreation",
            "QueueUpdate",
            "QueueDeletion",
        ]

    def test_what_a_watcher_saw(self, world):
        owner = world.queue_manager()
        computer = world.computer_of(owner)
        guid = world.queue(computer, "seen", label="now")
        dn = world.queue_dn(computer, "seen")

        def of(event: ChangeEvent, kind: str, one: UUID | None, dn: str = dn) -> Notice | None:
            changes = {"Label": AttributeChange("was", "now"), "ldap:description": AttributeChange(None, "x")}
            change = ObjectChange(event=event, type=kind, dn=dn, guid=one, changes=changes)
            return world.directory.notice_of(change)

        for event, operation in zip(list(ChangeEvent)[1:], NotifiedOperation, strict=False):
            made = of(event, "queue", guid)
            assert made is not None
            assert (made.operation, made.owner, made.machine) == (operation, owner, computer)
            assert made.element.identifier == guid
        changed = of(ChangeEvent.CHANGED, "queue", guid)
        assert changed is not None
        assert (changed.changed, changed.element.label) == ({"Label"}, "now")
        manager = of(ChangeEvent.CHANGED, "queue-manager", owner)
        assert manager is not None
        assert (manager.operation, manager.owner) == ("QueueManagerUpdate", owner)
        assert of(ChangeEvent.CREATED, "queue-manager", owner) is None
        assert of(ChangeEvent.CHANGED, "site", guid) is None
        assert of(ChangeEvent.CHANGED, "queue", None) is None
        assert of(ChangeEvent.CHANGED, "queue", uuid4()) is None
        gone = f"CN=q,CN=msmq,CN=gone,CN=Computers,{world.root}"
        assert of(ChangeEvent.DELETED, "queue", guid, gone) is None  # whose it was nobody can tell

    def test_without_callback_nothing_more_is_read(self, world):
        computer = world.computer_of(world.queue_manager())

        def trips(**options: Any) -> int:
            with world.connect(**options) as directory:
                before = directory.session.round_trips
                directory.create(mqdssm.Queue(pathname=f"{computer}\\{world.name('q')}"))
                return directory.session.round_trips - before

        assert trips() < trips(notify=lambda _: None)


def test_what_cannot_be_called_is_refused_at_once(world):
    with pytest.raises(ConfigError, match="notify is to be a function of one argument, not 3"):
        world.connect(notify=3)
