"""Driver of a replication engine: receives messages, acts and runs timers."""

import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Final, Protocol
from uuid import uuid4

from mqdssm.drivers.authentication.signatures import AS_SPECIFIED, SignaturePolicy
from mqdssm.drivers.engine_driver import EngineDriver
from mqdssm.drivers.measurements import MessageCounts, MessageOutcome
from mqdssm.drivers.replication.message_reader import QueueReceiver
from mqdssm.drivers.replication.reply_waiters import CLIENT_WAIT_S, ReplyWaiters
from mqdssm.drivers.replication.sent_messages import SentMessage, SentMessages
from mqdssm.drivers.store_thread import StoreThread
from mqdssm.drivers.threads import WarningLimit
from mqdssm.drivers.transport import REPLICATION, Inbox, Transport
from mqdssm.engines.replication import actions as do
from mqdssm.engines.replication.operations import ObjectOutcome
from mqdssm.engines.replication.status import ServerStatus
from mqdssm.errors import TransportError
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, Properties, Scope
from mqdssm.model.propids import ObjectType
from mqdssm.model.transport import (
    PRIORITY_MAX,
    Acknowledgements,
    Message,
    own_replication_queue,
    replication_queue,
)
from mqdssm.wire.mqdsrp import encode

log: Final = logging.getLogger(__name__)


class Engine(Protocol):
    """`mqdssm.engines.replication.engine.ReplicationEngine`."""

    def step(self, event: do.Event, now: float) -> Iterable[do.Action]:
        """Process one event at a time in seconds since 1970; return the actions in order."""

    @property
    def messages_waiting(self) -> int:
        """Number of messages that wait in the engine until its current work is done."""

    def report_status(self, now: float) -> ServerStatus:
        """Return partitions and neighbours at a time in seconds since 1970.

        Any thread may call this.
        """


class ReplicationDriver(EngineDriver[do.Event]):
    """Runs one directory server.

    Args:
        engine: decides everything.
        store: performs its operations; the driver starts and stops this thread.
        transport: the queue manager; its owner closes it.
        policy: how messages are signed ([MC-MQDSRP] 3.1.7.2.1).
        make_guid: of new objects.
        clock: seconds since 1970 that never go backwards.

    Attributes:
        counts: what was dropped, could not be sent, or was noted by the engine.
        messages: messages by type and outcome, and when each machine was heard last.
        ask: as `ReplyWaiters.ask`, for events that `change` does not make.
    """

    def __init__(
        self,
        engine: Engine,
        store: StoreThread,
        transport: Transport,
        *,
        policy: SignaturePolicy = AS_SPECIFIED,
        make_guid: Callable[[], Guid] = lambda: Guid.of(uuid4()),
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(engine.step, clock)
        self._engine, self._store, self._transport = engine, store, transport
        self._policy, self._make_guid = policy, make_guid
        self._outstanding: Final = SentMessages()
        self._warnings: Final = WarningLimit()
        self._clients: Final = ReplyWaiters(self._events.put)
        self.messages: Final = MessageCounts()
        self._receiver: Final = QueueReceiver(
            self._outstanding, self.counts, self.messages, self._clock, self._events.put
        )
        self.ask: Final = self._clients.ask
        self.performers.update(
            {do.Perform: self._perform, do.Send: self._send, do.Reply: self._reply},
        )

    def run(self) -> None:
        """Run the server until `stop` is called from another thread; once.

        Raises:
            TransportError: the queue manager is closed, or stopped by itself.
            Exception: a defect of engine or store; everything has been stopped.
        """
        with ExitStack() as stopping:  # the last first
            stopping.callback(self._store.stop)
            stopping.callback(self._clients.close)  # before the store, which may wait for its directory
            inbox = self._transport.open(REPLICATION)
            stopping.callback(self._receiver.stop)
            stopping.callback(inbox.close)
            self._store.start()
            self._receiver.start(inbox)
            self.take(do.Started())
            while not self._stopping.is_set():
                self.turn(self.wait())

    def status(self) -> ServerStatus:
        """Return the current state of partitions and neighbours; from any thread."""
        return self._engine.report_status(self._clock())

    def change(
        self,
        *,
        command: Command,
        object_type: ObjectType,
        partition_id: Guid,
        path_name: str | None = None,
        identifier: Guid | None = None,
        properties: Properties = (),
        scope: Scope = Scope.ENTERPRISE,
        timeout_s: float = CLIENT_WAIT_S,
    ) -> ObjectOutcome:
        """Change an object of any partition and wait for the outcome.

        See `ChangeObject` and `ask`.
        """
        if command is Command.CREATE and identifier is None:
            identifier = self._make_guid()
        return self.ask(
            lambda request: do.ChangeObject(
                request=request,
                command=command,
                object_type=object_type,
                path_name=path_name,
                identifier=identifier,
                partition_id=partition_id,
                properties=properties,
                scope=scope,
            ),
            timeout_s,
        )

    def receive(self, inbox: Inbox) -> bool:
        """Take a message from the queue instead of the receiver's thread.

        Returns True if there was one.
        """
        return self._receiver.take_next(inbox, 0.0)

    def turn(self, timeout_s: float | None) -> bool:
        """Process one event and one expired timer.

        Args:
            timeout_s: how long to wait for an event; None: until there is one.

        Returns:
            True if there was an event or a timer.
        """
        had_event = self.take_next(timeout_s)
        had_timer = self.take_timer()
        return had_event or had_timer

    def take(self, event: do.Event) -> None:
        """Pass an event to the engine and perform its actions."""
        self._receiver.count_taken(event)
        super().take(event)
        self._receiver.release(self._engine.messages_waiting)

    def _perform(self, action: do.Perform) -> None:
        self._store.submit(
            action.operation,
            lambda result: self._events.put(do.Performed(token=action.token, result=result)),
            self._events.put,
        )

    def _send(self, action: do.Send) -> None:
        """Send Replication Message ([MC-MQDSRP] 3.1.7.2.1).

        On an error, log the message and count it as not sent.
        """
        own_queue = own_replication_queue(self._transport.identifier) if action.ack_requested else None
        try:
            body = encode(action.message)
            message = Message(
                body=body,
                time_to_reach_queue_s=action.timeout_s,
                time_to_be_received_s=action.timeout_s,
                priority=min(action.priority, PRIORITY_MAX),  # 3.2.7.6 says 8 (decision R56)
                acknowledgements=Acknowledgements.NACK_REACH_QUEUE if own_queue else Acknowledgements.NONE,
                administration_queue=own_queue,
                response_queue=own_queue,
                authentication_level=self._policy.level,
                hash_algorithm=self._policy.hash_algorithm,
            )
            to = replication_queue(action.destination)
            if own_queue is None:
                self._transport.send(message, to)
                self.messages.add(action.message, MessageOutcome.SENT)
                return
            sent = SentMessage(message=action.message, destination=action.destination)
            until = self._clock() + action.timeout_s
            self._outstanding.send(lambda: self._transport.send(message, to), body, sent, until)
            self.messages.add(action.message, MessageOutcome.SENT)
        except (ValueError, TransportError) as error:
            self.counts.add("not sent")
            self.messages.add(action.message, MessageOutcome.NOT_SENT)
            self._warnings.log(log, "a message to %s is not sent: %s", action.destination, error)

    def _reply(self, action: do.Reply) -> None:
        outcome = ObjectOutcome(status=action.status, identifier=action.identifier)
        if not self._clients.reply(action.request, outcome):
            self.counts.add("reply to nobody")
