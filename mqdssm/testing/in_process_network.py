"""Network of queue managers in one process, for tests and the simulation.

Each queue manager has one thread; the wire itself is left out. Links can be cut and healed, and a fault may
drop, double, delay or forge what is under way.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from threading import Lock
from typing import Final, TypeAlias

from mqdssm.drivers.authentication.signatures import Signer, Verifier
from mqdssm.drivers.queue_manager.local_queue_manager import (
    DEFAULTS,
    DeliveryState,
    LocalQueueManager,
    QueueManagerSettings,
)
from mqdssm.drivers.queue_manager.outgoing import Address, QueuedMessage
from mqdssm.model.guid import Guid
from mqdssm.model.transport import Message

Fault: TypeAlias = Callable[[str, str, Message], Iterable[Message]]
"""Returns the messages that arrive for one that was sent: none, the message, a copy, or others."""


class InProcessNetwork:
    """Network that delivers messages to queue managers.

    Messages are addressed by machine name (in any case) or identifier.

    Args:
        clock: seconds since 1970, of all queue managers.
        fault: what happens to messages under way.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time, fault: Fault | None = None) -> None:
        self._clock: Final = clock
        self._lock: Final = Lock()
        self._queue_managers: Final[dict[Address, LocalQueueManager]] = {}
        self._cut: Final[set[frozenset[str]]] = set()
        self._numbers: Final[dict[Guid, Iterator[int]]] = {}
        self.fault: Fault | None = fault

    def add(
        self,
        machine_name: str,
        identifier: Guid,
        *,
        signer: Signer | None = None,
        verifier: Verifier | None = None,
        settings: QueueManagerSettings = DEFAULTS,
        on_work: Callable[[], None] | None = None,
    ) -> LocalQueueManager:
        """Start a queue manager.

        Args:
            machine_name: its name.
            identifier: QueueManager.Identifier.
            signer: signs its messages.
            verifier: verifies the signatures of messages to it.
            settings: its limits.
            on_work: called when there may be something to do for `LocalQueueManager.turn`; None: it has a
                thread.

        Raises:
            ValueError: there is one of that name or identifier.
        """
        queue_manager = LocalQueueManager(
            self,
            machine_name,
            identifier,
            numbers=self.find_numbers(identifier),
            clock=self._clock,
            signer=signer,
            verifier=verifier,
            settings=settings,
            on_work=on_work,
        )
        with self._lock:
            if machine_name.casefold() in self._queue_managers or identifier in self._queue_managers:
                raise ValueError(f"there is a queue manager {machine_name} or {identifier} already")
            self._queue_managers[machine_name.casefold()] = self._queue_managers[identifier] = queue_manager
        if on_work is None:
            queue_manager.start()
        self.wake()
        return queue_manager

    def cut(self, first: str, other: str) -> None:
        """Cut the link between two machines."""
        with self._lock:
            self._cut.add(frozenset({first.casefold(), other.casefold()}))

    def heal(self) -> None:
        """Restore all links that were cut."""
        with self._lock:
            self._cut.clear()
        self.wake()

    def wake(self) -> None:
        """Let every queue manager check its messages.

        The clock advanced, or a machine came back.
        """
        with self._lock:
            queue_managers = list(dict.fromkeys(self._queue_managers.values()))  # each has two addresses
        for queue_manager in queue_managers:
            queue_manager.wake()

    def close(self) -> None:
        """Close all queue managers.

        Raises:
            Exception: as `LocalQueueManager.close`; all are closed.
        """
        with contextlib.ExitStack() as closing, self._lock:
            for queue_manager in dict.fromkeys(self._queue_managers.values()):
                closing.callback(queue_manager.close)

    def find_numbers(self, identifier: Guid) -> Iterator[int]:
        """Return the message numbers of a machine, which continue after a restart."""
        with self._lock:
            return self._numbers.setdefault(identifier, count(1))

    def deliver(self, source: LocalQueueManager, queued: QueuedMessage) -> DeliveryState:
        """Deliver a message to the machine of its address.

        Unreachable and full machines refuse messages.
        """
        message = queued.message
        with self._lock:
            target = self._queue_managers.get(queued.address)
            cut = target is None or _make_link(source, target) in self._cut
        if target is None or cut:
            return DeliveryState.REFUSED
        arriving = self.fault(source.machine_name, target.machine_name, message) if self.fault else (message,)
        return DeliveryState.DELIVERED if target.offer(arriving) else DeliveryState.REFUSED

    def remove(self, queue_manager: LocalQueueManager) -> None:
        """Remove a closed queue manager."""
        with self._lock:
            for address in (queue_manager.machine_name.casefold(), queue_manager.identifier):
                if self._queue_managers.get(address) is queue_manager:
                    del self._queue_managers[address]


def _make_link(first: LocalQueueManager, other: LocalQueueManager) -> frozenset[str]:
    return frozenset({first.machine_name.casefold(), other.machine_name.casefold()})
