"""A replication driver between a scripted engine, a recording queue manager and a store that fails."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from mqdssm.drivers.replication.driver import ReplicationDriver
from mqdssm.drivers.store_thread import StoreThread
from mqdssm.drivers.transport import REPLICATION, Arrival
from mqdssm.engines.replication.actions import Action, Event, Received, Send
from mqdssm.engines.replication.operations import ObjectOutcome, PersistedState
from mqdssm.engines.replication.status import ServerStatus
from mqdssm.errors import DirectoryNotConnected
from mqdssm.model.messages import BSCAckMessage, Command
from mqdssm.model.propids import ObjectType
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.transport import Message, MessageId
from support.replication.queue_managers import guid_of, sender_of, wait_until

ACK = BSCAckMessage(site_id=guid_of("site"), bsc_machine_id=guid_of("BSC1"), bsc_name="BSC1")
SEND = Send(destination="PSC1", message=ACK, timeout_s=10, priority=3, ack_requested=True)


class ScriptedEngine:
    """Answers events as a test says, and keeps them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.times: list[float] = []
        self.threads: set[int] = set()
        self.answers: dict[type, Callable[[Any], list[Action]]] = {}
        self.begun: int | None = None
        """With how many of its messages it has begun; None: with all."""

    @property
    def messages_waiting(self) -> int:
        return 0 if self.begun is None else len(self.of(Received)) - self.begun

    def step(self, event: Event, now: float) -> list[Action]:
        self.threads.add(threading.get_ident())
        self.events.append(event)
        self.times.append(now)
        answer = self.answers.get(type(event))
        return [] if answer is None else answer(event)

    def report_status(self, now: float) -> ServerStatus:
        raise AssertionError

    def of(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


class RecordingInbox:
    def __init__(self) -> None:
        self.arrivals: SimpleQueue[Arrival | None] = SimpleQueue()
        self.is_closed = False

    def receive(self, timeout_s: float) -> Arrival | None:
        return self.arrivals.get(timeout=timeout_s + 60)

    def purge(self) -> None:
        raise AssertionError

    def close(self) -> None:
        self.is_closed = True
        self.arrivals.put(None)


class RecordingTransport:
    machine_name = "BSC1"
    identifier = guid_of("BSC1")

    def __init__(self) -> None:
        self.inbox = RecordingInbox()
        self.sent: list[tuple[Message, object]] = []
        self.error: Exception | None = None

    def open(self, queue) -> RecordingInbox:
        assert queue == REPLICATION
        return self.inbox

    def send(self, message: Message, destination) -> MessageId:
        if self.error is not None:
            raise self.error
        self.sent.append((message, destination))
        return MessageId(self.identifier, len(self.sent))

    def close(self) -> None:
        raise AssertionError


class MemoryOnly:
    """A store that fails as often as it is told."""

    failures = 0
    defect: Exception | None = None

    def perform(self, operation):
        if self.defect is not None:
            raise self.defect
        if self.failures:
            self.failures -= 1
            raise DirectoryNotConnected("away")
        return PersistedState()

    def close(self) -> None:
        """Nothing to let go."""


class Bench:
    """A driver and what is around it."""

    def __init__(self, **changes) -> None:
        self.engine, self.transport, self.store = ScriptedEngine(), RecordingTransport(), MemoryOnly()
        thread = StoreThread(self.store, "store", retry_first_s=0.001)
        self.driver = ReplicationDriver(self.engine, thread, self.transport, **changes)
        self.failure: Exception | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.driver.run()
        except Exception as error:  # noqa: BLE001  tests look at it
            self.failure = error

    def start(self) -> "Bench":
        self.thread.start()
        wait_until(lambda: self.engine.events or self.failure)
        return self

    def arrive(self, message: Message, sender="PSC1", service=Service.PSC) -> None:
        known = None if sender is None else sender_of(sender, service)
        self.transport.inbox.arrivals.put(Arrival(message=message, sender=known))

    def counted(self, what: str) -> bool:
        return what in self.driver.counts.copy()

    def stop(self) -> None:
        self.driver.stop()
        if self.thread.is_alive():
            self.thread.join(10)
        assert not self.thread.is_alive()


def change(bench: Bench, **changes: Any) -> ObjectOutcome:
    """Create a queue, or what is given."""
    given: dict[str, Any] = {
        "command": Command.CREATE,
        "object_type": ObjectType.QUEUE,
        "partition_id": PEC_PARTITION_ID,
        "path_name": "m\\q",
        "timeout_s": 10,
    }
    return bench.driver.change(**given | changes)
