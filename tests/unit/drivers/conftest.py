"""Two queue managers, on every transport there is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from support.replication.driver_bench import Bench
from support.replication.queue_managers import World

from mqdssm.drivers.transport import Transport


@dataclass
class Pair:
    """Two queue managers that trust each other, and how time passes for them."""

    left: Transport
    right: Transport
    advance: Callable[[float], None]


@pytest.fixture
def world() -> Iterator[World]:
    made = World(["LEFT", "RIGHT", "THIRD"])
    yield made
    made.network.close()


@pytest.fixture(params=["inprocess"])
def pair(request, world) -> Pair:
    """One for each implementation of `Transport`: the tests of the interface hold for all."""
    return Pair(world.add("LEFT"), world.add("RIGHT"), world.advance)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.stop()
    assert made.failure is None
