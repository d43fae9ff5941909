"""Lists: [list-objects], [list-rows], [last-page], [list-queue-managers]."""

import os
import statistics
import subprocess
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import mqdssm
from benchmarks.harness import Goal, Outcome, Timing, interleaved
from benchmarks.world import OWN_ATTRIBUTES, PAGE, QUEUE_FILTER, ROUTING_SERVERS, World
from mqdssm.directory.filters import Equal

QUEUES_ONLY: Final = Equal("objectClass", b"mSMQQueue")

LIST_OBJECTS: Final = Goal(
    name="list-objects",
    title="50,000 queues as objects, all attributes: `directory.search(Queue)`",
    against="ldap3 paged_search, dictionaries",
    goal=4,
    direction="at_least",
)
LIST_ROWS: Final = Goal(
    name="list-rows",
    title="50,000 queues as rows: `directory.session.rows`, connecting included",
    against="ldapsearch -E pr=1000/noprompt > file",
    goal=0.7,
    direction="at_least",
)
LAST_PAGE: Final = Goal(
    name="last-page",
    title="the last page of 1,000 of that list, as rows",
    against="its first page",
    goal=1.2,
    direction="at_most",
    quantity="time",
)
LIST_QUEUE_MANAGERS: Final = Goal(
    name="list-queue-managers",
    title="2,000 queue managers with 3 routing servers each, all attributes: requests a page",
    against="pages of 1,000",
    goal=3,
    direction="at_most",
    quantity="requests",
)


def list_objects(world: World, *, quick: bool) -> Outcome:
    count = world.size.queues

    def ours() -> None:
        found = sum(1 for _ in world.directory.search(mqdssm.Queue))
        _same(found, count)

    def theirs() -> None:
        entries = world.raw.extend.standard.paged_search(
            world.root, QUEUE_FILTER, attributes=OWN_ATTRIBUTES, paged_size=PAGE, generator=True
        )
        _same(sum(1 for _ in entries), count)

    timing = interleaved(ours, theirs, 1 if quick else 5, warm=0 if quick else 1)
    return timing.speed(LIST_OBJECTS, count, "queues")


def list_rows(world: World, *, quick: bool) -> Outcome:
    count, file = world.size.queues, world.server.folder / "ldapsearch.out"
    command = ["ldapsearch", "-x", "-LLL", "-H", world.server.url, "-D", world.server.user]
    command += ["-y", str(world.server.folder / "password"), "-E", f"pr={PAGE}/noprompt"]
    command += ["-b", world.root, QUEUE_FILTER, *OWN_ATTRIBUTES]
    environment = os.environ | {"LDAPNOINIT": "1"}

    def ours() -> None:
        with world.connect() as directory:
            rows = directory.session.rows(world.root, QUEUES_ONLY, OWN_ATTRIBUTES, page_size=PAGE)
            _same(sum(1 for _ in rows), count)

    def theirs() -> None:
        with file.open("wb") as out:
            subprocess.run(command, stdout=out, check=True, env=environment)

    timing = interleaved(ours, theirs, 3 if quick else 15, warm=1)
    _same(file.read_bytes().count(b"\ndn: ") + 1, count)
    file.unlink()
    return timing.speed(LIST_ROWS, count, "queues")


def last_page(world: World, *, quick: bool) -> Outcome:
    first, second, last = [], [], []
    for _ in range(3 if quick else 25):
        rows = world.directory.session.rows(world.root, QUEUES_ONLY, OWN_ATTRIBUTES, page_size=PAGE)
        pages = [_seconds_of_page(rows) for _ in range(world.size.queues // PAGE)]
        _same(len(list(rows)), 0)
        first.append(pages[0])
        second.append(pages[1])
        last.append(pages[-1])
    flat = statistics.median(last) / statistics.median(second)
    remark = (
        "the first page pays for the beginning of the search, so the second one is the stricter yardstick: "
        f"the last page takes {flat:.2f} times as long as that"
    )
    return replace(Timing(tuple(last), tuple(first)).duration(LAST_PAGE), remark=remark)


def _seconds_of_page(found: Iterable[object]) -> float:
    begin = time.perf_counter()
    deque(zip(range(PAGE), found, strict=False), maxlen=0)
    return time.perf_counter() - begin


def list_queue_managers(world: World, *, quick: bool) -> Outcome:
    del quick  # it is counted, not measured
    before = world.directory.session.round_trips
    begin = time.perf_counter()
    managers = list(world.directory.search(mqdssm.QueueManager))
    seconds = time.perf_counter() - begin
    requests = world.directory.session.round_trips - before
    count = world.size.queue_managers
    _same(len(managers), count)
    _same(sum(len(one.out_routing_server_identifier_list) for one in managers), ROUTING_SERVERS * count)
    _same(sum(one.qualified_computer_name is not None for one in managers), count)
    pages = -(-count // PAGE)
    speed = f"{requests} requests, {count / seconds:,.0f} queue managers/s"
    return Outcome(LIST_QUEUE_MANAGERS, requests / pages, 1, speed, f"{pages} pages")


def _same(found: int, expected: int) -> None:
    if found != expected:
        raise AssertionError(f"{found} instead of {expected}: this is no measurement")


ROWS: Final = {
    LIST_OBJECTS: list_objects,
    LIST_ROWS: list_rows,
    LAST_PAGE: last_page,
    LIST_QUEUE_MANAGERS: list_queue_managers,
}
