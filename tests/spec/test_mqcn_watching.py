"""A watch of the directory feeds the local state and its subscribers, and notifies the owners of the rest."""

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from support.notification.notified_world import enterprise, replayed
from support.replication.queue_managers import wait_until
from support.watching.watchers import IMPATIENT

import mqdssm
from mqdssm.drivers.notification.watch_feed import WatchFeed
from mqdssm.engines.notification import actions as do
from mqdssm.errors import DirectoryNotConnected
from mqdssm.events.watching.watch import Pauses, Watch
from mqdssm.model.notice import Notice
from mqdssm.model.owned_objects import QueueCreated, QueueDeleted
from mqdssm.model.watching import AttributeChange, ChangeEvent, ObjectChange


@pytest.mark.parametrize("count", [60, pytest.param(1_000, marks=pytest.mark.soak)])
def test_changes_by_anybody_reach_the_subscribers(world, count):
    rng = random.Random(count)
    with enterprise(world) as there:
        here, other = there.machine(settle_s=3600.0), there.machine()
        feed = WatchFeed(world.directory, receiver=here.driver, notifier=there.notifier)
        with world.directory.watch(
            mqdssm.Queue, mqdssm.QueueManager, all_writes=True, on_ready=feed.on_ready
        ) as watch:
            thread = Thread(target=feed.run, args=(watch,), daemon=True)
            thread.start()
            wait_until(lambda: watch.is_settled)
            machines = {here.name: here, other.name: other}
            for number in range(count):
                machine = rng.choice([here, other])
                name = f"q{rng.randrange(8)}"
                dn = world.queue_dn(machine.name, name)
                if not world.ldap.exists(dn):
                    world.queue(machine.name, name)
                elif rng.random() < 0.3:
                    world.directory.delete(mqdssm.Queue(pathname=f"{machine.name}\\{name}"))
                else:  # as any program would
                    world.ldap.modify(dn, f"replace: mSMQQueueQuota\nmSMQQueueQuota: {number}")
            for machine in machines.values():
                wait_until(lambda machine=machine: machine.believed() == machine.in_directory(), 30)
            watch.stop()
            thread.join(20)
            assert not thread.is_alive()
        for machine in machines.values():
            assert replayed(machine.events) == machine.in_directory()


@pytest.mark.spec("MS-MQCN 3.2.5.2")
def test_what_happens_before_the_watch_begins_is_not_missed(world):
    """Decision C25: the watch tells nothing of it, and no notification is sent."""
    with enterprise(world) as there:
        here = there.machine(settle_s=3600.0)  # has read everything
        queue = world.queue(here.name, "early")
        feed = WatchFeed(world.directory, receiver=here.driver)
        with world.directory.watch(
            mqdssm.Queue, mqdssm.QueueManager, all_writes=True, on_ready=feed.on_ready
        ) as watch:
            thread = Thread(target=feed.run, args=(watch,), daemon=True)
            thread.start()
            here.wait(1)
            watch.stop()
            thread.join(20)
        assert [type(event) for event in here.events] == [QueueCreated]
        assert set(here.believed()) == {queue}
        assert feed.counts.copy() == {}


@pytest.mark.spec("MS-MQCN 3.3.4.1")
def test_a_queue_that_moves_is_gone_for_its_old_owner(world):
    """Decision C27: by LDAP anybody can move it, and no event of the specification does."""
    with enterprise(world) as there:
        old, new = there.machine(), there.machine()
        feed = WatchFeed(world.directory, notifier=there.notifier)
        queue = there.directory.create(mqdssm.Queue(pathname=f"{old.name}\\moving"))
        old.wait(1)
        with world.directory.watch(mqdssm.Queue, all_writes=True) as watch:
            thread = Thread(target=feed.run, args=(watch,), daemon=True)
            thread.start()
            wait_until(lambda: watch.is_settled)
            place = f"CN=msmq,{world.computer_dn(new.name)}"
            world.directory.session.rename(world.queue_dn(old.name, "moving"), "CN=moving", place)
            new.wait(1)
            old.wait(2)
            watch.stop()
            thread.join(20)
        assert [type(event) for event in old.events] == [QueueCreated, QueueDeleted]
        assert [type(event) for event in new.events] == [QueueCreated]
        assert (set(old.believed()), set(new.believed())) == (set(), {queue})


@pytest.mark.spec("MS-MQCN 3.3.4.1")
@pytest.mark.parametrize("part", ["dn", "old"])
def test_a_name_that_is_damaged_does_not_end_the_feed(world, part):
    """Nobody is notified of that queue; the owner of the next one is."""
    damaged, moved = "CN=q,CN=msmq,CN;x", ("CN=q,CN=msmq,CN=a,DC=b", "CN=q,CN=msmq,CN=x")
    dn, old = (damaged, moved[0]) if part == "dn" else (moved[1], damaged)
    change = ObjectChange(
        event=ChangeEvent.CHANGED,
        type="queue",
        dn=dn,
        guid=None,
        changes={"FullPath": AttributeChange(old, dn)},
    )
    with enterprise(world) as there:
        here = there.machine()
        feed = WatchFeed(world.directory, notifier=there.notifier)
        queue = world.queue(here.name, "next")
        made = ObjectChange(
            event=ChangeEvent.CREATED, type="queue", dn=world.queue_dn(here.name, "next"), guid=queue
        )
        feed.run([change, made])
        here.wait(1)
        assert set(here.believed()) == {queue}
        assert feed.counts.copy()["changes"] == 2


@contextmanager
def feeding(feed: WatchFeed, watch: Watch, changes: Iterable[ObjectChange] | None = None) -> Iterator[None]:
    """The feed at work in a thread of its own, from when the watch has seen what there is."""
    thread = Thread(target=feed.run, args=(watch if changes is None else changes,), daemon=True)
    thread.start()
    try:
        wait_until(lambda: watch.is_settled)
        yield
    finally:
        watch.stop()
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.spec("MS-MQCN 3.2.5.2")
def test_what_was_undone_before_the_watch_looked_is_undone_here(world, monkeypatch):
    """Decision C29: the receiver reads what the watch never sees; to the watch nothing has changed."""
    with enterprise(world) as there:
        here = there.machine(settle_s=3600.0)
        queue = world.queue(here.name, "toggled", label="before")
        dn = world.queue_dn(here.name, "toggled")
        read, perform = Event(), here.reader.perform

        def label(text: str) -> None:
            world.ldap.modify(dn, f"replace: mSMQLabelEx\nmSMQLabelEx: {text}")

        def late(operation: do.Operation) -> do.Result:
            if not isinstance(operation, do.ReadQueue) or read.is_set():
                return perform(operation)
            label("before")
            found = perform(operation)
            label("after")  # as the watch knows it
            read.set()
            return found

        def waiting(changes: Iterable[ObjectChange]) -> Iterator[ObjectChange]:
            for change in changes:
                yield change
                assert read.wait(20)  # the watch looks when all of that is over

        monkeypatch.setattr(here.reader, "perform", late)
        feed = WatchFeed(world.directory, receiver=here.driver)
        with (
            world.directory.watch(mqdssm.Queue, all_writes=True, on_ready=feed.on_ready) as watch,
            feeding(feed, watch, waiting(watch)),
        ):
            wait_until(lambda: queue in here.believed())
            label("after")
            wait_until(read.is_set)
            wait_until(lambda: here.believed() == here.in_directory())
        assert here.believed()[queue].label == "after"
        assert replayed(here.events) == here.in_directory()


@pytest.mark.spec("MS-MQCN 3.2.5.2")
def test_what_came_and_went_before_the_watch_looked_is_gone_here(world):
    """Decision C29: the receiver has read it when it began; the watch has never seen it."""
    with enterprise(world) as there:
        here = there.machine(settle_s=3600.0)
        feed, ready = WatchFeed(world.directory, receiver=here.driver), []

        def on_ready(url: str) -> None:
            if not ready:
                queue = world.queue(here.name, "short")
                feed.on_ready(url)
                wait_until(lambda: queue in here.believed())
                world.ldap.delete(world.queue_dn(here.name, "short"))
            else:
                feed.on_ready(url)
            ready.append(url)

        with (
            world.directory.watch(mqdssm.Queue, all_writes=True, on_ready=on_ready) as watch,
            feeding(feed, watch),
        ):
            here.wait(2)
        assert [type(event) for event in here.events] == [QueueCreated, QueueDeleted]


@pytest.mark.spec("MS-MQCN 3.3.4.1")
def test_an_owner_is_notified_although_the_directory_was_away(world, monkeypatch):
    """Decision C28: it says whose an object is, and nobody else would tell the owner."""
    with enterprise(world) as there:
        other = there.machine()
        asked, notice_of = [], world.directory.notice_of

        def away(change: ObjectChange) -> Notice | None:
            asked.append(change)
            if len(asked) < 3:
                raise DirectoryNotConnected("the connection was lost")
            return notice_of(change)

        monkeypatch.setattr(world.directory, "notice_of", away)
        feed = WatchFeed(world.directory, notifier=there.notifier, pauses=IMPATIENT)
        with world.directory.watch(mqdssm.Queue, all_writes=True) as watch, feeding(feed, watch):
            queue = world.queue(other.name, "late")
            other.wait(1)
        assert set(other.believed()) == {queue}
        assert feed.counts.copy() == {"changes": 1, "directory away": 2}


def test_who_stops_a_watch_waits_for_no_directory(world, monkeypatch, tmp_path):
    """And the change, whose owner was not notified, is told by the next watch."""
    with enterprise(world) as there:
        other = there.machine()
        asked, long = Event(), Pauses(first_s=3600.0, longest_s=3600.0)

        def away(_: ObjectChange) -> Notice | None:
            asked.set()
            raise DirectoryNotConnected("the connection was lost")

        with monkeypatch.context() as patched:
            patched.setattr(world.directory, "notice_of", away)
            feed = WatchFeed(world.directory, notifier=there.notifier, pauses=long)
            with (
                world.directory.watch(mqdssm.Queue, state=tmp_path / "state", all_writes=True) as watch,
                feeding(feed, watch),
            ):
                queue = world.queue(other.name, "later")
                assert asked.wait(20)
        assert not other.believed()
        feed = WatchFeed(world.directory, notifier=there.notifier)
        with (
            world.directory.watch(mqdssm.Queue, state=tmp_path / "state", all_writes=True) as watch,
            feeding(feed, watch),
        ):
            other.wait(1)
        assert set(other.believed()) == {queue}
