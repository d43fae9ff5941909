"""Requests of clients, and their replies."""

import threading

import pytest
from support.replication.driver_bench import Bench, change
from support.replication.queue_managers import guid_of, wait_until

from mqdssm.drivers.replication import reply_waiters as clients_module
from mqdssm.engines.actions import StartTimer, TimerFired
from mqdssm.engines.replication.actions import Action, ChangeObject, Reply, Started, TakeOver
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.replication import PEC_PARTITION_ID


def replying(event: ChangeObject) -> list[Action]:
    return [Reply(request=event.request, status=0, identifier=event.identifier)]


class TestClients:
    """Requests and their replies."""

    def test_a_change_and_its_reply(self):
        bench = Bench(make_guid=lambda: guid_of("made"))
        bench.engine.answers[ChangeObject] = replying
        bench.start()
        outcome = change(bench)
        assert (outcome.status, outcome.identifier) == (0, guid_of("made"))
        assert change(bench, identifier=guid_of("given")).identifier == guid_of("given")
        assert change(bench, command=Command.DELETE).identifier is None
        first, *_ = bench.engine.of(ChangeObject)
        assert (first.command, first.path_name) == (Command.CREATE, "m\\q")
        bench.stop()

    def test_new_objects_get_guids_of_their_own(self, bench):
        bench.engine.answers[ChangeObject] = replying
        bench.start()
        assert len({change(bench).identifier for _ in range(5)}) == 5

    def test_other_requests(self, bench):
        bench.engine.answers[TakeOver] = lambda event: [Reply(request=event.request, status=5)]
        bench.start()
        made = bench.driver.ask(
            lambda request: TakeOver(request=request, partition_id=PEC_PARTITION_ID), timeout_s=5
        )
        assert made.status == 5

    def test_many_clients_get_their_own_replies(self, bench):
        held = []

        def hold(event: ChangeObject) -> list[Action]:
            held.append(event)
            if len(held) < 20:
                return []
            return [Reply(request=one.request, status=0, identifier=one.identifier) for one in reversed(held)]

        bench.engine.answers[ChangeObject] = hold
        bench.start()
        got = {}
        threads = [
            threading.Thread(
                target=lambda number=number: got.update(
                    {number: change(bench, identifier=guid_of(str(number))).identifier}
                )
            )
            for number in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert got == {number: guid_of(str(number)) for number in range(20)}

    def test_no_reply_in_time(self, bench):
        bench.start()
        assert change(bench, timeout_s=0.02).status == Hresult.MQDS_NO_RSP_FROM_OWNER
        bench.engine.answers[TimerFired] = lambda _: [Reply(request=1, status=0)]
        bench.engine.answers[ChangeObject] = lambda _: [StartTimer(name="x", after_s=0)]
        assert change(bench, timeout_s=0.05).status == Hresult.MQDS_NO_RSP_FROM_OWNER
        wait_until(lambda: bench.counted("reply to nobody"))

    def test_too_many_clients(self, bench, monkeypatch):
        monkeypatch.setattr(clients_module, "CLIENTS_MAX", 1)
        bench.start()
        waiting = threading.Thread(target=lambda: change(bench, timeout_s=30))
        waiting.start()
        wait_until(lambda: bench.engine.of(ChangeObject))
        assert change(bench).status == Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE
        bench.stop()
        waiting.join(10)
        assert not waiting.is_alive()

    def test_a_request_that_cannot_be_made_takes_no_place(self, bench, monkeypatch):
        monkeypatch.setattr(clients_module, "CLIENTS_MAX", 1)
        bench.engine.answers[ChangeObject] = replying
        bench.start()
        with pytest.raises(ZeroDivisionError):
            bench.driver.ask(lambda _request: 1 // 0)
        assert change(bench).status == Hresult.MQ_OK

    def test_who_waits_at_the_end_hears_that_nobody_knows(self, bench):
        bench.start()
        got = []
        waiting = threading.Thread(target=lambda: got.append(change(bench, timeout_s=60).status))
        waiting.start()
        wait_until(lambda: bench.engine.of(ChangeObject))
        bench.stop()
        waiting.join(10)
        assert got == [Hresult.MQDS_NO_RSP_FROM_OWNER]
        assert change(bench).status == Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE

    def test_who_asks_before_the_start_waits_for_it(self, bench):
        bench.engine.answers[ChangeObject] = replying
        got = []
        early = threading.Thread(target=lambda: got.append(change(bench).status))
        early.start()
        bench.start()
        early.join(10)
        assert got == [0]
        assert bench.engine.events[0] == Started()
