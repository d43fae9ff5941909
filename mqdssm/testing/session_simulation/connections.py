"""Connections between simulated sessions.

Packets are delayed and lost; connections are cut inside a packet, and one end alone may notice it.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from mqdssm.testing.session_simulation.messages import Arrival, Closed, group_arrivals
from mqdssm.wire.message_packets import MessageFramer

if TYPE_CHECKING:
    from mqdssm.testing.session_simulation.endpoints import SessionEndpoint
    from mqdssm.testing.session_simulation.world import SessionWorld

NOTICED_PERCENT: Final = 70
"""Ends that notice a cut; the others find out by their timers."""
_PIECES_MAX: Final = 3


class _End:
    """One end of a connection: what it has received and not yet handled."""

    def __init__(self, endpoint: "SessionEndpoint") -> None:
        self.endpoint: Final = endpoint
        self.number: Final = endpoint.number
        self.framer: Final = MessageFramer()
        self.backlog: Final[deque[Arrival]] = deque()
        self.under_way: Final[deque[Callable[[], None]]] = deque()
        self.last_arrival = 0.0  # time
        self.is_attached = True

    def arrive(self) -> None:
        """Let the next of the things under way arrive."""
        self.under_way.popleft()()

    def process(self) -> None:
        """Handle what has arrived, as far as the session has room."""
        while self.backlog and self.is_attached and self.endpoint.has_room(self.backlog[0]):
            self.endpoint.receive(self.backlog.popleft(), self.number)


class SessionLink:
    """A transport connection: two directions, each in order.

    Args:
        world: the world.
        initiator: one end.
        acceptor: the other end.

    Attributes:
        is_cut: True if nothing arrives any more.
    """

    def __init__(
        self, world: "SessionWorld", initiator: "SessionEndpoint", acceptor: "SessionEndpoint"
    ) -> None:
        self._world = world
        self._ends: Final = _End(initiator), _End(acceptor)
        self.is_cut = False

    def send(self, endpoint: "SessionEndpoint", *arrivals: Arrival) -> None:
        """Bring something to the other end, after all that was sent before."""
        end = self._find_other_end(endpoint)
        for arrival in arrivals:
            self._deliver_later(end, partial(self._process_arrival, end, arrival))

    def write(self, endpoint: "SessionEndpoint", data: bytes) -> None:
        """Bring octets to the other end, in some pieces."""
        end, rng = self._find_other_end(endpoint), self._world.rng
        places = sorted(rng.draw_below(len(data) + 1) for _ in range(rng.draw_below(_PIECES_MAX)))
        for start, stop in zip((0, *places), (*places, len(data)), strict=True):
            self._deliver_later(end, partial(self._process_octets, end, data[start:stop]))

    def close(self, endpoint: "SessionEndpoint") -> None:
        """Close one end: the other one receives what is under way, then the end.

        What comes meanwhile from the other end may still reach the session: the driver has read it before.
        """
        self.send(endpoint, Closed())
        end = self._end(endpoint)
        self._world.after(self._world.rng.of((0.0, 0.0, 10.0)), partial(setattr, end, "is_attached", False))

    def cut(self) -> None:
        """Cut the connection.

        What is under way is lost. Each end notices it at once, late or never.
        """
        rng = self._world.rng
        self.is_cut = True
        for end in self._ends:
            if end.framer.pending_bytes:
                self._world.counts["cut inside a packet"] += 1
            if rng.draw_below(100) < NOTICED_PERCENT:
                self._world.after(rng.of((0.0, 1.0, 30.0)), partial(end.endpoint.lose, "cut", end.number))

    def resume(self, endpoint: "SessionEndpoint") -> None:
        """Handle what has arrived at one end: the session may have room again."""
        self._end(endpoint).process()

    def _end(self, endpoint: "SessionEndpoint") -> _End:
        return self._ends[0] if self._ends[0].endpoint is endpoint else self._ends[1]

    def _find_other_end(self, endpoint: "SessionEndpoint") -> _End:
        return self._ends[1] if self._ends[0].endpoint is endpoint else self._ends[0]

    def _deliver_later(self, end: _End, arrive: Callable[[], None]) -> None:
        if not self.is_cut:
            end.last_arrival = max(end.last_arrival, self._world.now + self._world.delay())
            end.under_way.append(arrive)
            self._world.after(end.last_arrival - self._world.now, end.arrive)

    def _process_arrival(self, end: _End, arrival: Arrival) -> None:
        if end.is_attached and not self.is_cut:
            end.backlog.append(arrival)
            end.process()

    def _process_octets(self, end: _End, data: bytes) -> None:
        if end.is_attached and not self.is_cut:
            end.backlog.extend(group_arrivals(end.framer.feed(data), self._world.percent))
            end.process()
