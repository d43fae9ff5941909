"""Options of a run of sessions, drawn from its seed."""

from dataclasses import dataclass
from typing import Final

from mqdssm.samples.seeded_random import SeededRandom

PRIORITIES: Final = (0, 3, 7)
"""Priorities of messages."""
MACHINES: Final = ("A", "B", "C", "D")
"""Names of the machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """Options of a run. Times are in seconds.

    Attributes:
        machines: number of queue managers.
        window_sizes: smallest and largest WindowSize.
        unstored_max: recoverable messages that a session takes before they are stored.
        delay_s: longest delay of a packet.
        store_s: longest time until a message is on disk.
        are_counts_high: counts begin shortly before 65,536.
        has_shared_sessions: messages leave also on sessions that the neighbour has opened.
        are_names_direct: neighbours have direct format names.
        are_octets: packets travel as octets, in pieces; a connection can be cut inside a packet.
        has_pings: neighbours are asked before they are connected; packets of UDP may be lost.
        messages: number of messages.
        minutes: time in which messages are sent and faults happen.
    """

    machines: int = 3
    window_sizes: tuple[int, int] = (1, 64)
    unstored_max: int = 1024
    delay_s: float = 2.0
    store_s: float = 3.0
    are_counts_high: bool = False
    has_shared_sessions: bool = False
    are_names_direct: bool = True
    are_octets: bool = False
    has_pings: bool = False
    messages: int = 60
    minutes: int = 10


def session_options_of(seed: int) -> SessionOptions:
    """Draw the options of a seed."""
    rng = SeededRandom("session options", seed)
    return SessionOptions(
        machines=rng.draw_between(2, len(MACHINES)),
        window_sizes=(1, rng.of((1, 2, 5, 64, 64))),
        unstored_max=rng.of((1, 2, 8, 1024, 1024)),
        delay_s=rng.of((0.01, 0.5, 5.0)),
        store_s=rng.of((0.0, 0.5, 20.0)),
        are_counts_high=rng.draw_one_in(2),
        has_shared_sessions=rng.draw_one_in(3),
        are_names_direct=not rng.draw_one_in(3),
        are_octets=rng.draw_one_in(2),
        has_pings=rng.draw_one_in(3),
    )
