"""Version 2: what is read from the directory, and from which one ([MS-MQCN] 3.2.5.2)."""

from dataclasses import replace
from uuid import UUID

import pytest
from support.notification.receivers import (
    COMPUTER,
    MINUTE,
    OURS,
    ReceiverBench,
    body,
    deletion,
    manager,
    queue,
    received,
    updates,
)

from mqdssm.engines.notification import actions as do
from mqdssm.model.notification import NotificationEvent
from mqdssm.model.owned_objects import (
    QUEUE_ATTRIBUTES,
    QUEUE_MANAGER_ATTRIBUTES,
    QueueChanged,
    QueueCreated,
    QueueDeleted,
    QueueManagerChanged,
)
from mqdssm.model.watching import ChangeEvent, ObjectChange

CREATE, CHANGE, DELETE, MANAGER = NotificationEvent
ONE = UUID(int=1)
FOREIGN = UUID(int=0xF0)


@pytest.mark.spec("MS-MQCN 3.2.5.2")
class TestEvents:
    def test_a_created_queue_is_read(self):
        bench = ReceiverBench()
        bench.directory[ONE] = queue(1, label="read")
        bench.process(received(body(CREATE, ONE)))
        assert bench.reads == [do.ReadQueue(identifier=ONE)]
        assert bench.events == [QueueCreated(queue(1, label="read"))]

    def test_a_changed_queue_is_read(self):
        bench = ReceiverBench(queue(1))
        bench.directory[ONE] = changed = queue(1, quota=7, label="new", multicast_address="234.1.1.1:8001")
        bench.process(received(body(CHANGE, ONE)))
        assert bench.reads == [do.ReadQueue(identifier=ONE)]
        assert bench.events == [QueueChanged(queue(1), changed)]

    def test_a_deleted_queue_goes_if_the_directory_does_not_have_it(self):
        bench = ReceiverBench(queue(1), queue(2))
        del bench.directory[ONE]
        bench.process(received(body(DELETE, ONE)))
        assert bench.events == [QueueDeleted(queue(1))]
        assert set(bench.queues) == {UUID(int=2)}

    def test_a_deletion_that_is_not_true_deletes_nothing(self):
        bench = ReceiverBench(queue(1))
        bench.process(received(body(DELETE, ONE)))
        assert not bench.events
        assert bench.queues == {ONE: queue(1)}

    def test_a_deletion_of_a_queue_that_we_do_not_have_costs_no_read(self):
        bench = ReceiverBench(queue(1))
        bench.process(received(body(DELETE, UUID(int=9))))
        assert not bench.reads

    def test_the_queue_manager_is_read(self):
        bench = ReceiverBench(queue(1))
        bench.in_directory = manager(queue_manager_quota=5, journal_quota=6, security=b"sd")
        bench.process(received(body(MANAGER, OURS)))
        assert bench.reads == [do.ReadQueueManager()]
        assert bench.events == [QueueManagerChanged(manager(), bench.in_directory)]
        assert bench.queues == {ONE: queue(1)}

    def test_another_queue_manager_is_none_of_ours_and_does_not_wait(self):
        bench = ReceiverBench()
        bench.step(received(body(MANAGER, FOREIGN)))
        assert bench.notes == {"dropped: about another queue manager": 1}
        assert not bench.timers

    def test_a_queue_of_another_machine_is_not_taken(self):
        bench = ReceiverBench()
        bench.directory[FOREIGN] = queue(0xF0, pathname="web02\\q")
        bench.process(received(body(CREATE, FOREIGN)))
        assert not bench.events
        bench.advance(3600)
        assert len(bench.reads) == 1  # and it is not looked at again

    def test_a_queue_that_another_machine_has_now_is_ours_no_more(self):
        bench = ReceiverBench(queue(1))
        bench.directory[ONE] = queue(1, pathname="web02\\q")
        bench.process(received(body(CHANGE, ONE)))
        assert bench.events == [QueueDeleted(queue(1))]

    def test_no_signature_is_needed(self):
        bench = ReceiverBench()
        bench.directory[ONE] = queue(1)
        bench.process(received(body(CREATE, ONE), from_directory_server=False))
        assert bench.queues == {ONE: queue(1)}

    def test_what_is_read(self):
        assert set(QUEUE_ATTRIBUTES) == {
            *("Type", "Identifier", "BasePriority", "Journaling", "Quota", "JournalQuota", "CreateTime"),
            *("ModifyTime", "Security", "Pathname", "Label", "Authentication", "PrivacyLevel"),
            *("Transactional", "MulticastAddress", "DirectoryPath"),
        }
        assert set(QUEUE_MANAGER_ATTRIBUTES) == {"QueueManagerQuota", "JournalQuota", "Security"}


@pytest.mark.spec("MS-MQCN 3.2.5.2")
class TestWhichDirectory:
    def test_a_server_that_is_not_on_the_list_is_not_asked(self):
        bench = ReceiverBench(servers={"dc2"})
        bench.directory[ONE] = queue(1)
        bench.process(received(body(CREATE, ONE, "evil.example.com")))
        assert bench.reads == [do.ReadQueue(identifier=ONE, server=None)]
        assert bench.notes["another directory server was named"] == 1

    def test_one_that_is_on_the_list_is_asked_in_any_case(self):
        bench = ReceiverBench(servers={"dc2.Example.com"})
        bench.others["DC2.example.com"] = {ONE: queue(1, label="of dc2")}
        bench.process(received(body(CREATE, ONE, "DC2.example.com")))
        assert bench.reads == [do.ReadQueue(identifier=ONE, server="DC2.example.com")]
        assert bench.queues[ONE].label == "of dc2"
        assert not bench.notes

    @pytest.mark.parametrize("event", [CHANGE, MANAGER])
    def test_our_own_one_is_asked_where_that_one_does_not_answer(self, event):
        bench = ReceiverBench(queue(1), servers={"dc2"})
        bench.directory[ONE] = queue(1, label="of our own")
        bench.in_directory = manager(journal_quota=1)
        bench.broken = {"dc2"}
        bench.process(received(body(event, ONE if event is CHANGE else OURS, "dc2")))
        assert [read.server for read in bench.reads] == ["dc2", None]
        assert len(bench.events) == 1
        assert bench.notes == {"named directory server not read": 1}

    def test_a_list_of_servers_is_no_text(self):
        with pytest.raises(TypeError, match="not one text"):
            ReceiverBench(servers="dc2")


class TestNotYet:
    """Our directory server may hear of a change later than the one that was named (decision C20)."""

    @pytest.mark.parametrize("event", [CREATE, CHANGE, DELETE])
    def test_what_the_directory_does_not_bear_out_is_looked_at_once_more(self, event):
        held = () if event is CREATE else (queue(1),)
        bench = ReceiverBench(*held)
        bench.step(received(body(event, ONE)))
        bench.advance(MINUTE)
        assert not bench.events
        bench.directory[ONE] = queue(1, label="late")
        if event is DELETE:
            del bench.directory[ONE]
        bench.advance(15 * MINUTE)
        kind = {CREATE: QueueCreated, CHANGE: QueueChanged, DELETE: QueueDeleted}[event]
        assert [type(one) for one in bench.events] == [kind]
        bench.advance(3600)
        assert len(bench.reads) == 2

    def test_the_queue_manager_as_well(self):
        bench = ReceiverBench()
        bench.step(received(body(MANAGER, OURS)))
        bench.advance(MINUTE)
        bench.in_directory = manager(journal_quota=3)
        bench.advance(15 * MINUTE)
        assert bench.events == [QueueManagerChanged(manager(), bench.in_directory)]

    def test_but_not_for_ever(self):
        bench = ReceiverBench(queue(1))
        bench.process(received(body(DELETE, ONE)))
        bench.advance(10 * 3600)
        assert len(bench.reads) == 2

    def test_what_was_true_is_not(self):
        bench = ReceiverBench(queue(1))
        bench.directory[ONE] = queue(1, quota=1)
        bench.process(received(body(CHANGE, ONE)))
        bench.advance(10 * 3600)
        assert len(bench.reads) == 1


class TestReads:
    """Each object is read once for all messages that wait."""

    def test_many_events_of_one_object_are_one_read(self):
        bench = ReceiverBench(queue(1))
        bench.directory[ONE] = queue(1, quota=1)
        for event in (CHANGE, CREATE, CHANGE, DELETE, CHANGE):
            bench.step(received(body(event, ONE)))
        bench.advance(MINUTE)
        assert len(bench.reads) == 1
        assert bench.events == [QueueChanged(queue(1), queue(1, quota=1))]

    def test_a_directory_that_is_away_is_asked_once_and_everything_is_read_later(self):
        bench = ReceiverBench(queue(1))
        bench.broken = {None}
        bench.directory = {one: queue(one.int) for one in map(UUID, map(str, ()))}
        for number in range(2, 50):
            bench.step(received(body(CREATE, UUID(int=number))))
        bench.step(updates(deletion(ONE)))
        bench.advance(MINUTE)
        assert len(bench.reads) == 1
        assert bench.events == [QueueDeleted(queue(1))]  # what needs no directory is done
        bench.directory = {UUID(int=2): queue(2)}
        bench.broken = set()
        bench.advance(MINUTE)
        assert bench.reads[1:] == [do.ReadAll()]
        assert bench.queues == {UUID(int=2): queue(2)}

    def test_it_is_asked_every_minute_until_it_is_back(self):
        bench = ReceiverBench(queue(1), retry_s=60)
        bench.broken = {None}
        bench.step(do.Refresh())
        bench.advance(10 * MINUTE)
        assert len(bench.reads) == 11
        assert bench.queues == {ONE: queue(1)}
        bench.broken = set()
        bench.advance(MINUTE)
        assert bench.known == 1
        bench.advance(3600)
        assert len(bench.reads) == 12


class TestFullRefresh:
    """All that is ours, at the start and on request (decisions C4, C23)."""

    def test_what_is_there_at_the_start_is_no_news(self):
        bench = ReceiverBench(queue(1), queue(2), empty=True)
        bench.step(do.ReceiverStarted())
        assert bench.reads == [do.ReadAll()]
        assert set(bench.queues) == {ONE, UUID(int=2)}
        assert not bench.events
        assert bench.known == 1

    def test_what_changed_while_a_known_state_was_kept_is(self):
        bench = ReceiverBench(queue(1), queue(2), queue(3))
        bench.directory = {
            UUID(int=2): queue(2, quota=4),
            UUID(int=3): queue(3),
            UUID(int=4): queue(4),
            FOREIGN: queue(0xF0, pathname="web02\\q"),
        }
        bench.in_directory = manager(journal_quota=4)
        bench.step(do.ReceiverStarted())
        assert bench.events == [
            QueueManagerChanged(manager(), manager(journal_quota=4)),
            QueueDeleted(queue(1)),
            QueueChanged(queue(2), queue(2, quota=4)),
            QueueCreated(queue(4)),
        ]

    def test_a_queue_made_anew_under_its_name(self):
        bench = ReceiverBench(queue(1))
        made = replace(queue(5), pathname=f"{COMPUTER}\\q1")
        bench.directory = {made.identifier: made}
        bench.step(do.Refresh())
        assert bench.events == [QueueDeleted(queue(1)), QueueCreated(made)]

    def test_names_that_change_places(self):
        one, two = queue(1), queue(2)
        bench = ReceiverBench(one, two)
        bench.directory = {
            ONE: replace(one, pathname=two.pathname),
            UUID(int=2): replace(two, pathname=one.pathname),
        }
        bench.step(do.Refresh())
        assert bench.queues == bench.directory

    def test_without_our_own_object_nothing_is_believed(self):
        bench = ReceiverBench(queue(1))
        bench.directory, bench.in_directory = {}, None
        bench.step(do.Refresh())
        assert bench.queues == {ONE: queue(1)}
        assert bench.notes == {"directory not read": 1}
        assert "refresh" in bench.timers


class TestWatched:
    """What a watcher of the directory saw is read at once: nobody can forge it."""

    def test_a_queue(self):
        bench = ReceiverBench(queue(1))
        bench.directory[ONE] = queue(1, quota=2)
        seen = ObjectChange(event=ChangeEvent.CHANGED, type="queue", dn="CN=q1", guid=ONE)
        event = do.Observed.of(seen)
        assert event is not None
        bench.step(event)
        assert bench.events == [QueueChanged(queue(1), queue(1, quota=2))]
        assert not bench.timers

    def test_the_queue_manager_and_another_one(self):
        bench = ReceiverBench()
        bench.in_directory = manager(journal_quota=2)
        for guid in (FOREIGN, OURS):
            event = do.Observed.of(
                ObjectChange(event=ChangeEvent.CHANGED, type="queue-manager", dn="CN=msmq", guid=guid)
            )
            assert event is not None
            bench.step(event)
        assert bench.reads == [do.ReadQueueManager()]
        assert len(bench.events) == 1

    @pytest.mark.parametrize(("kind", "guid"), [("site", ONE), ("user", ONE), ("queue", None)])
    def test_what_is_no_event(self, kind, guid):
        seen = ObjectChange(event=ChangeEvent.CREATED, type=kind, dn="CN=x", guid=guid)
        assert do.Observed.of(seen) is None

    def test_more_than_can_wait_is_a_refresh(self):
        bench = ReceiverBench(messages_max=10)
        first = bench.engine.step(do.Refresh(), bench.now)  # a read is out
        for number in range(1, 1000):
            assert not bench.engine.step(do.Observed(identifier=UUID(int=number), is_queue=True), bench.now)
        bench.directory = {ONE: queue(1)}
        token = next(action.token for action in first if isinstance(action, do.PerformRead))
        bench.step(do.ReadPerformed(token=token, result=do.AllRead(manager=manager())))
        assert bench.reads == [do.ReadAll()]
        assert bench.queues == {ONE: queue(1)}

    def test_results_that_nobody_waits_for(self):
        bench = ReceiverBench()
        with pytest.raises(ValueError, match="no read 1 is under way"):
            bench.step(do.ReadPerformed(token=1, result=do.QueueRead(queue=None)))
