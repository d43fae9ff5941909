"""Simulated queue managers: waiting messages, a queue, a disk, processes."""

from typing import TYPE_CHECKING, Final

from mqdssm.engines.session import actions as do
from mqdssm.engines.session.core import SessionCore
from mqdssm.engines.session.settings import SessionSettings
from mqdssm.engines.session.timers import SessionState
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.testing.session_simulation.endpoints import SessionEndpoint
from mqdssm.testing.session_simulation.messages import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mqdssm.testing.session_simulation.world import SessionWorld


class SimulatedMachine:
    """A queue manager.

    Args:
        world: the world.
        name: its name.
        identifier: QueueManager.Identifier.

    Attributes:
        waiting: messages for each neighbour, by number.
        sessions: those that it initiates, by neighbour.
        accepted: sessions that neighbours have opened, until they are closed.
        arrivals: messages that arrived, by token.
        history: messages that were delivered to the queue (MessageIDHistoryTable): survives a crash.
        storing: recoverable messages that are not on the disk yet, with those that wait for it.
        lives: number of processes so far.
        disks: number of disks so far.
        is_running: True unless its process has ended.
    """

    def __init__(self, world: "SessionWorld", name: str, identifier: Guid) -> None:
        self.world: Final = world
        self.name: Final = name
        self.identifier: Final = identifier
        self.waiting: dict[str, dict[int, SimulatedMessage]] = {}
        self.sessions: Final[dict[str, SessionEndpoint]] = {}
        self.accepted: Final[list[SessionEndpoint]] = []
        self.arrivals: Final[dict[int, SimulatedMessage]] = {}
        self.history: Final[set[int]] = set()
        self.storing: Final[dict[int, list[tuple[SessionEndpoint, int]]]] = {}
        self.lives = 1
        self.disks = 1
        self.is_running = True

    def endpoints(self) -> list[SessionEndpoint]:
        """Return all sessions."""
        return [*self.sessions.values(), *self.accepted]

    # --- sending

    def queue(self, message: SimulatedMessage) -> None:
        """Let a message wait."""
        self.waiting[message.destination][message.number] = message

    def pump(self, neighbour: str) -> None:
        """Send the messages that wait for a neighbour, as far as windows allow."""
        waiting = self.waiting[neighbour]
        while waiting and self.is_running:
            endpoint = self._choose_endpoint(neighbour)
            capacity = endpoint.session.send_capacity
            if not capacity:
                endpoint.step(do.MessagesWaiting())
                return
            together = self.world.rng.draw_between(1, min(len(waiting), capacity))
            first = sorted(waiting.values(), key=lambda message: message.order)[:together]
            endpoint.send([waiting.pop(message.number) for message in first])
        initiator = self.sessions.get(neighbour)
        if not waiting and initiator is not None and self.world.options.has_shared_sessions:
            initiator.step(do.NothingWaiting())  # messages have left on another session

    def withdraw(self, neighbour: str) -> None:
        """Give the express messages up that wait for a neighbour, as if they had expired."""
        waiting, endpoint = self.waiting[neighbour], self.sessions.get(neighbour)
        self.world.lose(message for message in waiting.values() if not message.is_recoverable)
        self.waiting[neighbour] = waiting = {
            number: message for number, message in waiting.items() if message.is_recoverable
        }
        if not waiting and endpoint is not None and not endpoint.under_way:
            endpoint.handle(do.NothingWaiting())

    def _choose_endpoint(self, neighbour: str) -> SessionEndpoint:
        """Return the session that takes the next message for a neighbour."""
        options = self.world.options
        identifier = self.world.machines[neighbour].identifier
        for endpoint in self.accepted if options.has_shared_sessions else ():
            if endpoint.session.remote_identifier == identifier and endpoint.session.send_capacity:
                return endpoint
        if neighbour not in self.sessions:
            destination = NULL_GUID if options.are_names_direct else identifier
            core = self._make_core(is_initiator=True, destination=destination)
            self.sessions[neighbour] = SessionEndpoint(self, core, neighbour)
        return self.sessions[neighbour]

    def _make_core(self, *, is_initiator: bool, destination: Guid = NULL_GUID) -> SessionCore:
        world = self.world
        settings = SessionSettings(
            identifier=self.identifier,
            window_size=world.rng.draw_between(*world.options.window_sizes),
            unstored_max=world.options.unstored_max,
        )
        cookies: Iterator[int] | None = world.tokens if is_initiator and world.options.has_pings else None
        return SessionCore(
            settings,
            is_initiator=is_initiator,
            destination=destination,
            chance=world.share,
            ping_cookies=cookies,
        )

    # --- receiving

    def acceptor(self, neighbour: str) -> SessionEndpoint:
        """Return the session of a new connection."""
        endpoint = SessionEndpoint(self, self._make_core(is_initiator=False), neighbour)
        self.accepted.append(endpoint)
        return endpoint

    def forget_closed(self) -> None:
        """Forget the sessions of neighbours that are closed."""
        self.accepted[:] = [
            endpoint for endpoint in self.accepted if endpoint.session.state is not SessionState.CLOSED
        ]

    def accept(self, endpoint: SessionEndpoint, token: int) -> None:
        """Deliver a message that arrived, unless it is a second copy.

        A recoverable message is delivered when it is stored.
        """
        world, message = self.world, self.arrivals.pop(token)
        world.check_order(message)
        if not message.is_recoverable:
            self.deliver(message)
        elif message.number in self.storing:
            self.storing[message.number].append((endpoint, token))
        else:
            self.storing[message.number] = [(endpoint, token)]
            is_second = message.number in self.history
            after_s = 0.0 if is_second else world.share() * world.options.store_s
            life = self.lives
            world.after(after_s, lambda: self._store(message, life))

    def _store(self, message: SimulatedMessage, life: int) -> None:
        if life != self.lives:
            return
        self.deliver(message)
        for endpoint, token in self.storing.pop(message.number):
            endpoint.handle(do.MessageStored(token=token))

    def deliver(self, message: SimulatedMessage) -> None:
        """Put a message into its queue, unless it is a second copy."""
        if message.number in self.history:
            self.world.counts["second copies"] += 1
        else:
            self.history.add(message.number)
            self.world.deliver(message, self.disks)

    # --- processes

    def crash(self) -> None:
        """Lose the process: sessions, express messages, and what was not stored."""
        self.world.counts["crashes"] += 1
        for endpoint in self.endpoints():
            endpoint.crash()
            for message in endpoint.under_way.values():
                self.queue(message)
        self._end()

    def stop(self) -> None:
        """End the process in order.

        What has arrived is acknowledged, and what was not acknowledged is taken back.
        """
        self.world.counts["stops"] += 1
        for endpoint in self.endpoints():
            endpoint.step(do.Stop())
            endpoint.is_dead = True
        self._end()

    def lose_disk(self) -> None:
        """Lose the process and its disk: messages that wait, and the history."""
        self.world.counts["disks lost"] += 1
        self.crash()
        self.disks += 1
        self.history.clear()
        for waiting in self.waiting.values():
            self.world.lose(waiting.values())
            waiting.clear()

    def _end(self) -> None:
        self.is_running = False
        self.lives += 1
        self.sessions.clear()
        self.accepted.clear()
        self.storing.clear()
        for neighbour, waiting in self.waiting.items():
            self.world.lose(message for message in waiting.values() if not message.is_recoverable)
            self.waiting[neighbour] = {
                number: message for number, message in waiting.items() if message.is_recoverable
            }

    def restart(self) -> None:
        """Start the process again; it connects where messages wait."""
        self.is_running = True
        for neighbour in self.waiting:
            self.pump(neighbour)
