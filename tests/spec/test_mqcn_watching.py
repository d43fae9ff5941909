"""A watch of the directory feeds the local state and its subscribers, and notifies the owners of the rest."""

import random
from threading import Thread
from typing import Any

import pytest
from notified_world import enterprise
from queue_managers import wait_until

import mqdssm
from mqdssm.drivers.watch_feed import WatchFeed
from mqdssm.model.owned import QueueChanged, QueueCreated, QueueDeleted


def replayed(events: list[Any]) -> dict[Any, Any]:
    """What subscribers hold who believe each event; each must fit the one before."""
    held: dict[Any, Any] = {}
    for event in events:
        match event:
            case QueueCreated(queue):
                assert queue.identifier not in held
                held[queue.identifier] = queue
            case QueueChanged(old, new):
                assert held[old.identifier] == old
                held[new.identifier] = new
            case QueueDeleted(queue):
                assert held.pop(queue.identifier) == queue
    return held


@pytest.mark.parametrize("count", [60, pytest.param(1_000, marks=pytest.mark.soak)])
def test_changes_by_anybody_reach_the_subscribers(world, count):
    dice = random.Random(count)
    with enterprise(world) as there:
        here, other = there.machine(settle_s=3600.0), there.machine()
        feed = WatchFeed(world.directory, receiver=here.driver, notifier=there.notifier)
        with world.directory.watch(mqdssm.Queue, mqdssm.QueueManager, on_ready=feed.ready) as watch:
            thread = Thread(target=feed.run, args=(watch,), daemon=True)
            thread.start()
            wait_until(lambda: watch.is_settled)
            machines = {here.name: here, other.name: other}
            for number in range(count):
                machine = dice.choice([here, other])
                name = f"q{dice.randrange(8)}"
                dn = world.queue_dn(machine.name, name)
                if not world.ldap.exists(dn):
                    world.queue(machine.name, name)
                elif dice.random() < 0.3:
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
        with world.directory.watch(mqdssm.Queue, mqdssm.QueueManager, on_ready=feed.ready) as watch:
            thread = Thread(target=feed.run, args=(watch,), daemon=True)
            thread.start()
            here.wait(1)
            watch.stop()
            thread.join(20)
        assert [type(event) for event in here.events] == [QueueCreated]
        assert set(here.believed()) == {queue}
        assert feed.counts.seen() == {}


@pytest.mark.spec("MS-MQCN 3.3.4.1")
def test_a_queue_that_moves_is_gone_for_its_old_owner(world):
    """Decision C27: by LDAP anybody can move it, and no event of the specification does."""
    with enterprise(world) as there:
        old, new = there.machine(), there.machine()
        feed = WatchFeed(world.directory, notifier=there.notifier)
        queue = there.directory.create(mqdssm.Queue(pathname=f"{old.name}\\moving"))
        old.wait(1)
        with world.directory.watch(mqdssm.Queue) as watch:
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
