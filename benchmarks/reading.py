"""Reading one queue: [read]."""

import random
from typing import Final

from ldap3.utils.conv import escape_bytes

import mqdssm
from benchmarks.harness import Goal, Outcome, interleaved
from benchmarks.world import OWN_ATTRIBUTES, OWN_NAMES, QUEUE_FILTER, SEED, World

BATCH: Final = 200
"""Queues in one run."""

READ: Final = Goal(
    name="read",
    title="`directory.read` of a queue's own attributes by GUID",
    against="ldap3 search by the indexed objectGUID",
    goal=0.9,
    direction="at_least",
)


def read(world: World, *, quick: bool) -> Outcome:
    chance = random.Random(SEED)

    def ours() -> None:
        for guid in chance.choices(world.guids, k=BATCH):
            wanted = mqdssm.Filter("Identifier", "==", guid)
            queue = world.directory.read(mqdssm.Queue, wanted, attributes=OWN_NAMES)
            if queue.identifier != guid:
                raise AssertionError(f"{queue.identifier} instead of {guid}")

    def theirs() -> None:
        for guid in chance.choices(world.guids, k=BATCH):
            wanted = f"(&{QUEUE_FILTER}(objectGUID={escape_bytes(guid.bytes_le)}))"
            world.raw.search(world.root, wanted, attributes=OWN_ATTRIBUTES)
            if world.raw.response[0]["raw_attributes"]["objectGUID"] != [guid.bytes_le]:
                raise AssertionError(f"another object instead of {guid}")

    return interleaved(ours, theirs, 3 if quick else 25).speed(READ, BATCH, "reads")


ROWS: Final = {READ: read}
