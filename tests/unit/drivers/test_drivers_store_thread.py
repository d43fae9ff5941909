"""The store's thread: one after the other, again while the directory is away, and lookups in between."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pytest
from support.replication.queue_managers import wait_until

from mqdssm.drivers import store_thread
from mqdssm.drivers.store_thread import StoreThread
from mqdssm.engines.replication.operations import (
    Answer,
    Failed,
    HasObjects,
    LoadState,
    Operation,
    PersistedState,
    Result,
)
from mqdssm.errors import DirectoryNotConnected, GenericDirectoryError, MappingError
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.store import damage_log

pytestmark = pytest.mark.slow  # waits for threads and sockets

LOAD = LoadState()
HAS = HasObjects(partition_id=PEC_PARTITION_ID)


class ScriptedStore:
    """Does what a test says, in order; then answers."""

    def __init__(self, *steps: Exception | Callable[[], None]) -> None:
        self.steps = list(steps)
        self.performed: list[Operation] = []
        self.threads: set[str] = set()

    def perform(self, operation: Operation) -> Result:
        self.performed.append(operation)
        self.threads.add(threading.current_thread().name)
        step = self.steps.pop(0) if self.steps else None
        if isinstance(step, Exception):
            raise step
        if step is not None:
            step()
        return Answer(yes=True) if operation == HAS else PersistedState()

    def close(self) -> None:
        """Nothing to let go."""


@pytest.fixture
def started() -> Iterator[Callable[..., tuple[StoreThread, ScriptedStore]]]:
    made = []

    def start(*steps):
        store = ScriptedStore(*steps)
        thread = StoreThread(store, "the store", retry_first_s=0.001, retry_max_s=0.004)
        thread.start()
        made.append(thread)
        return thread, store

    yield start
    for thread in made:
        thread.stop()


def submit(thread: StoreThread, operation: Operation) -> SimpleQueue:
    results = SimpleQueue()
    thread.submit(operation, results.put, results.put)
    return results


def test_operations_are_performed_in_order_in_one_thread(started):
    thread, store = started()
    results = [submit(thread, operation) for operation in (LOAD, HAS, LOAD)]
    assert [one.get(timeout=5) for one in results] == [PersistedState(), Answer(yes=True), PersistedState()]
    assert store.performed == [LOAD, HAS, LOAD]
    assert store.threads == {"the store"}


def test_a_lookup_that_fails_shows_that_the_directory_is_away(started):
    """The next operation may be a minute later; until an attempt succeeds, lookups go on."""
    thread, _ = started(DirectoryNotConnected("away"))
    with pytest.raises(DirectoryNotConnected, match="away"):
        thread.lookup(LOAD)
    state = thread.state()
    assert not state.is_reachable
    assert re.fullmatch(r"away \(no answer since \S{10} \S{8} UTC\)", state.problem)
    assert thread.lookup(LOAD) == PersistedState()
    assert (thread.state().is_reachable, thread.state().problem) == (True, "")


def test_a_directory_that_hangs_is_not_reachable(started, monkeypatch):
    """Lookups fail at once then; a check waits until it is known."""
    monkeypatch.setattr(store_thread, "SILENT_S", 0.3)
    hanging = threading.Event()
    thread, _ = started(lambda: hanging.wait(5))
    begin = time.monotonic()
    thread.check()
    assert 0.3 <= time.monotonic() - begin < 3
    state = thread.state()
    assert not state.is_reachable
    assert re.fullmatch(r"it has not answered since \S{10} \S{8} UTC", state.problem)
    begin = time.monotonic()
    thread.check()
    with pytest.raises(DirectoryNotConnected, match="cannot reach"):
        thread.lookup(LOAD)
    assert time.monotonic() - begin < 0.2
    hanging.set()
    wait_until(lambda: thread.state().is_reachable)
    assert thread.lookup(LOAD) == PersistedState()


def test_a_long_operation_of_a_directory_that_answers(monkeypatch):
    monkeypatch.setattr(store_thread, "SILENT_S", 0.1)
    going_on = threading.Event()
    thread = StoreThread(ScriptedStore(lambda: going_on.wait(5)), "the store", heard_at=time.monotonic)
    thread.start()
    try:
        done = submit(thread, LOAD)
        time.sleep(0.3)
        assert thread.state().is_reachable
        thread.check()  # which asks nothing
        going_on.set()
        assert done.get(timeout=5) == PersistedState()
    finally:
        thread.stop()


def test_a_check_asks_only_if_no_recent_answer_is_known(started):
    thread, store = started(DirectoryNotConnected("away"))
    thread.check()
    assert not thread.state().is_reachable
    thread.check()
    assert thread.state().is_reachable
    thread.check()
    assert store.performed == [HAS, HAS]


def test_a_directory_that_is_away_is_asked_again_and_again(started, caplog):
    errors = [DirectoryNotConnected("away")] * 6 + [GenericDirectoryError("busy")]
    thread, store = started(*errors)
    assert submit(thread, LOAD).get(timeout=5) == PersistedState()
    assert store.performed == [LOAD] * 8
    waits = [record.args[1] for record in caplog.records if "repeated" in record.message]
    assert waits == [0.001, 0.002, 0.004, 0.004, 0.004, 0.004, 0.004]


def test_a_defect_is_handed_over_and_not_repeated(started):
    defect = RuntimeError("defect")
    thread, store = started(defect)
    assert submit(thread, LOAD).get(timeout=5) is defect
    assert store.performed == [LOAD]
    assert submit(thread, LOAD).get(timeout=5) == PersistedState()


def test_damage_is_a_result_that_is_told_once_in_a_while(started, caplog, monkeypatch):
    """Decision R83."""
    damage = [MappingError(f"cn={n % 3}: mqisSeqNumber is none") for n in range(9)]
    thread, store = started(*damage, MappingError("cn=a"), MappingError("cn=b"))
    got = [submit(thread, LOAD).get(timeout=5) for _ in damage]
    assert got == [Failed(reason=str(one)) for one in damage]
    assert store.performed == [LOAD] * 9
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.args[1] for record in told] == [str(one) for one in damage[:3]]
    monkeypatch.setattr(damage_log, "DAMAGES_MAX", 3)
    assert submit(thread, LOAD).get(timeout=5) == Failed(reason="cn=a")
    monkeypatch.setattr(damage_log, "REPEATED_AFTER_S", 0.0)
    assert submit(thread, LOAD).get(timeout=5) == Failed(reason="cn=b")
    told = [record.args[1] for record in caplog.records if record.levelname == "ERROR"]
    assert told[3:] == ["cn=b"]


def test_damage_that_a_lookup_comes_upon_is_its_own_matter(started):
    thread, _ = started(MappingError("cn=a"))
    with pytest.raises(MappingError, match="cn=a"):
        thread.lookup(HAS)
    assert thread.lookup(HAS) == Answer(yes=True)


def test_a_directory_that_is_back_and_damaged_can_be_looked_at(started):
    """Else no sender's key would be found, and no message taken, until something else succeeds."""
    thread, _ = started(DirectoryNotConnected("away"), MappingError("cn=a"))
    assert submit(thread, LOAD).get(timeout=5) == Failed(reason="cn=a")
    assert thread.lookup(HAS) == Answer(yes=True)


def test_lookups_fail_at_once_and_do_not_spoil_the_next(started):
    thread, _ = started(DirectoryNotConnected("away"))
    with pytest.raises(DirectoryNotConnected, match="away"):
        thread.lookup(HAS)
    assert thread.lookup(HAS) == Answer(yes=True)


def test_no_lookup_waits_for_a_directory_that_is_away(started, monkeypatch):
    monkeypatch.setattr(store_thread, "LOOKUP_S", 30)
    back = threading.Event()

    def fail() -> None:
        if not back.is_set():
            raise DirectoryNotConnected("away")

    thread, store = started()
    store.steps = [fail] * 100_000
    results = submit(thread, LOAD)
    wait_until(lambda: len(store.performed) > 1)
    begun = time.monotonic()
    for _ in range(3):
        with pytest.raises(DirectoryNotConnected, match="cannot reach"):
            thread.lookup(HAS)
    assert time.monotonic() - begun < 20
    back.set()
    assert results.get(timeout=5) == PersistedState()
    store.steps.clear()
    assert thread.lookup(HAS) == Answer(yes=True)


def test_no_lookup_waits_for_a_store_that_works_long(started, monkeypatch):
    monkeypatch.setattr(store_thread, "LOOKUP_S", 0.01)
    done = threading.Event()
    thread, _ = started(lambda: done.wait(5))
    results = submit(thread, LOAD)
    with pytest.raises(DirectoryNotConnected, match="busy"):
        thread.lookup(HAS)
    done.set()
    assert results.get(timeout=5) == PersistedState()


def test_a_lookup_that_nobody_waits_for_any_more_is_not_performed(started, monkeypatch):
    monkeypatch.setattr(store_thread, "LOOKUP_S", 0.01)
    done = threading.Event()
    thread, store = started(lambda: done.wait(5))
    results = submit(thread, LOAD)
    for _ in range(3):
        with pytest.raises(DirectoryNotConnected, match="busy"):
            thread.lookup(HAS)
    done.set()
    assert results.get(timeout=5) == PersistedState()
    assert submit(thread, LOAD).get(timeout=5) == PersistedState()
    assert store.performed == [LOAD, LOAD]


def test_stop_tells_who_waits_for_a_lookup(started, monkeypatch):
    """Else the queue manager, which looks keys up, would take as long to close."""
    monkeypatch.setattr(store_thread, "LOOKUP_S", 60)
    begun, done = threading.Event(), threading.Event()
    thread, _ = started(lambda: (begun.set(), done.wait(5)))
    submit(thread, LOAD)
    assert begun.wait(5)
    told = SimpleQueue()

    def look_up() -> None:
        try:
            told.put(thread.lookup(HAS))
        except DirectoryNotConnected as error:
            told.put(error)

    threading.Thread(target=look_up, daemon=True).start()
    wait_until(lambda: thread._jobs.qsize() == 1)
    stopping = threading.Thread(target=thread.stop)
    stopping.start()
    wait_until(thread._stopping.is_set)
    done.set()
    assert "stopped" in str(told.get(timeout=10))
    stopping.join(10)
    assert not stopping.is_alive()


def test_stop_ends_repetitions_and_lookups(started):
    thread, store = started()
    store.steps = [DirectoryNotConnected("away")] * 1_000_000
    results = submit(thread, LOAD)
    thread.stop()
    assert results.empty()
    with pytest.raises(DirectoryNotConnected):
        thread.lookup(HAS)
    StoreThread(store, "never started").stop()
