"""Creating queues: [create], [create-literal]."""

import uuid
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import mqdssm
from benchmarks.harness import Goal, Outcome, Timing, interleaved
from benchmarks.world import World, queue_values, raw_read

BATCH: Final = 100
"""Queues in one run."""
HOSTS: Final = 20
"""Queue managers they are spread over; each is looked up once in 30 seconds, which the warm-up does."""

CREATE: Final = Goal(
    name="create",
    title="`directory.create(Queue)` with 10 attributes, default durability",
    against="ldap3 add of the same attributes",
    goal=0.9,
    direction="at_least",
)
CREATE_LITERAL: Final = Goal(
    name="create-literal",
    title="the same, against what the text says literally",
    against="ldap3: read of the parent, add, read back",
    goal=1.3,
    direction="at_least",
)

_numbers: Iterator[int] = count()


def create(world: World, *, quick: bool) -> Outcome:
    stored = _stored(world)

    def theirs() -> None:
        for number in _batch():
            _add(world, number, stored)

    return _measured(world, theirs, quick=quick).speed(CREATE, BATCH, "queues")


def create_literal(world: World, *, quick: bool) -> Outcome:
    stored = _stored(world)

    def theirs() -> None:
        for number in _batch():
            parent = f"CN=msmq,CN=pc{number % HOSTS:05},CN=Computers,{world.root}"
            raw_read(world.raw, parent, "objectClass")
            dn = _add(world, number, stored)
            raw_read(world.raw, dn, "objectGUID")

    return _measured(world, theirs, quick=quick).speed(CREATE_LITERAL, BATCH, "queues")


def _measured(world: World, theirs: Any, *, quick: bool) -> Timing:
    def ours() -> None:
        for number in _batch():
            pathname = world.pathname(number % HOSTS, f"made{number}")
            world.directory.create(mqdssm.Queue(pathname=pathname, **queue_values(number)))

    return interleaved(ours, theirs, 3 if quick else 25)


def _batch() -> Iterator[int]:
    return (next(_numbers) for _ in range(BATCH))


def _stored(world: World) -> dict[str, list[bytes]]:
    """The attributes that our create sends, so that the other side sends the same ones."""
    number = next(_numbers)
    pathname = world.pathname(0, f"made{number}")
    guid = world.directory.create(mqdssm.Queue(pathname=pathname, **queue_values(number)))
    entry = world.directory.session.get(guid, ["*"])
    return {name: values for name, values in entry.attributes.items() if name not in {"cn", "objectguid"}}


def _add(world: World, number: int, stored: dict[str, list[bytes]]) -> str:
    dn = world.queue_dn(number % HOSTS, f"made{number}")
    world.raw.add(dn, attributes={**stored, "objectGUID": uuid.uuid4().bytes_le})
    return dn


ROWS: Final = {CREATE: create, CREATE_LITERAL: create_literal}
