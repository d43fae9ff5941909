"""Loading many queues: [load], [load-single], [load-nosync], [load-growth], [samba-load]."""

import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final
from uuid import UUID, uuid5

import mqdssm
from benchmarks.growing import Measured, grown_apart, memory_folder, most_memory
from benchmarks.harness import Goal, Outcome, Timing, timed
from benchmarks.samba import controller
from benchmarks.world import World, queue_values
from mqdssm.directory.loading.items import TRANSACTION, Action, Effect, Item, LoadOptions
from mqdssm.directory.session import Session
from mqdssm.events.entry_builder import EntryBuilder, EntryTarget, NewEntry, make_dns_lookup
from mqdssm.model.elements import Queue
from mqdssm.tables import places
from mqdssm.tables.ldif import format_entry
from mqdssm.testing import OpenLdapServer

QUEUES: Final = 50_000
QUEUES_QUICK: Final = 400
SAMBA_QUEUES: Final = 2_000
SAMBA_QUICK: Final = 40
GROWN: Final = (10_000, 100_000)
GROWN_QUICK: Final = (200, 1_000)
HOSTS: Final = 50
RUNS: Final = 3
_NAMES: Final = UUID("6d2cbb1f-6c5c-4f0e-9d3b-1b0a3a3c7f10")

LOAD: Final = Goal(
    name="load",
    title="50,000 queues with 10 attributes into a slapd with default durability, transactions of 500",
    against="`ldapadd` of the same entries",
    goal=4,
    direction="at_least",
)
LOAD_SINGLE: Final = Goal(
    name="load-single",
    title="the same without transactions",
    against="`ldapadd` of the same entries",
    goal=1.0,
    direction="at_least",
)
LOAD_NOSYNC: Final = Goal(
    name="load-nosync",
    title="50,000 queues into a slapd without fsync, without transactions",
    against="`ldapadd` of the same entries",
    goal=1.2,
    direction="at_least",
)
LOAD_GROWTH: Final = Goal(
    name="load-growth",
    title="100,000 queues, database in memory, for each of them, and the most memory: "
    "the larger of the two ratios",
    against="10,000 queues",
    goal=1.25,
    direction="at_most",
    quantity="growth",
)
SAMBA_LOAD: Final = Goal(
    name="samba-load",
    title="2,000 queues into Samba's domain controller, in memory",
    against="`ldbadd` over LDAP of the same entries",
    goal=0.9,
    direction="at_least",
)

Tool = Callable[[Path], Sequence[str]]


@dataclass
class Place:
    """A server with queue managers that queues are loaded below."""

    session: Session
    tool: Tool
    maker: EntryBuilder
    numbers: Iterator[int] = field(default_factory=count)

    def entries(self, number: int) -> Iterator[NewEntry]:
        """New queues, spread over the queue managers."""
        root = self.session.naming.root
        for n in (next(self.numbers) for _ in range(number)):
            host = places.computer_dn(root, f"PC{n % HOSTS}")
            guid = uuid5(_NAMES, str(n))
            queue = Queue(identifier=guid, pathname=f"PC{n % HOSTS}\\l{n}", **queue_values(n))
            yield self.maker.queue(queue, host)

    def load(self, number: int, options: LoadOptions) -> Callable[[], None]:
        """Our side; the entries are made before the clock runs, as the file of the other side is."""

        def work() -> None:
            done = sum(one.effect is Effect.ADDED for one in self.session.loader.load(items, options))
            if done != number:
                raise AssertionError(f"{done} of {number} were loaded: this is no measurement")

        items = [
            Item(row=n, action=Action.ADD, dn=str(made.dn), attributes=made.attributes())
            for n, made in enumerate(self.entries(number))
        ]
        return work

    def add(self, number: int, folder: Path) -> Callable[[], None]:
        """The other side: a program that adds a file."""
        path = folder / "queues.ldif"
        with path.open("w", encoding="ascii") as file:
            for made in self.entries(number):
                file.write(format_entry(made.list_pairs()) + "\n")

        def work() -> None:
            subprocess.run(self.tool(path), check=True, stdout=subprocess.DEVNULL)

        return work

    def compare(self, number: int, options: LoadOptions, runs: int) -> Timing:
        """Both in turn; each run has entries of its own."""
        ours: list[float] = []
        theirs: list[float] = []
        with tempfile.TemporaryDirectory() as folder:
            for run in range(runs):
                sides = [
                    (ours, lambda: self.load(number, options)),
                    (theirs, lambda: self.add(number, Path(folder))),
                ]
                for times, prepared in sides if run % 2 else reversed(sides):
                    times.append(timed(prepared()))
        return Timing(tuple(ours), tuple(theirs))


@contextmanager
def slapd(*, durable: bool, in_memory: bool = False) -> Iterator[Place]:
    """A slapd of our own with queue managers."""
    with ExitStack() as stack:
        folder = stack.enter_context(memory_folder()) if in_memory else None
        server = stack.enter_context(OpenLdapServer(folder, durable=durable, restart=True))
        directory = stack.enter_context(
            mqdssm.connect(server.url, user=server.user, password=server.password, tls="none")
        )
        for number in range(HOSTS):
            server.add_computer(f"PC{number}")
        with_managers(directory)
        session = directory.session

        def tool(path: Path) -> Sequence[str]:
            login = ["-x", "-D", server.user, "-y", f"{server.folder}/password"]
            return ["ldapadd", "-H", server.url, *login, "-f", str(path)]

        yield Place(session, tool, maker_for(session))


def maker_for(session: Session) -> EntryBuilder:
    """Makes entries; nothing refers to anything."""
    return EntryBuilder(EntryTarget.of(session), make_dns_lookup({}))


def with_managers(directory: mqdssm.Directory) -> None:
    """Make queue managers on all computers."""
    site = directory.create(mqdssm.Site(name="Load"))
    for number in range(HOSTS):
        directory.create(mqdssm.QueueManager(computer_name=f"PC{number}", site_identifier_list=(site,)))


@contextmanager
def domain() -> Iterator[Place]:
    """A domain controller of our own with queue managers.

    Raises:
        Skipped: it cannot be run here.
    """
    with (
        controller() as server,
        mqdssm.connect(server.url, user=server.user, password=server.password, tls="none") as directory,
    ):
        for number in range(HOSTS):
            server.add_computer(f"PC{number}")
        with_managers(directory)

        def tool(path: Path) -> Sequence[str]:
            login = [f"--simple-bind-dn={server.user_dn}", f"--password={server.password}"]
            return ["ldbadd", "-H", server.url, *login, str(path)]

        yield Place(directory.session, tool, maker_for(directory.session))


def _number(*, quick: bool) -> int:
    return QUEUES_QUICK if quick else QUEUES


def load(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  it has a server of its own
    with slapd(durable=True) as place:
        number = _number(quick=quick)
        timing = place.compare(number, LoadOptions(transactions=TRANSACTION), 1 if quick else RUNS)
        return timing.speed(LOAD, number, "queues")


def load_single(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  as above
    with slapd(durable=True) as place:
        number = _number(quick=quick)
        return place.compare(number, LoadOptions(), 1 if quick else RUNS).speed(LOAD_SINGLE, number, "queues")


def load_nosync(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  as above
    with slapd(durable=False) as place:
        number = _number(quick=quick)
        return place.compare(number, LoadOptions(), 1 if quick else RUNS).speed(LOAD_NOSYNC, number, "queues")


def load_growth(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  as above
    """The smaller number comes first: what it has needed at most can then only rise."""
    return grown_apart(LOAD_GROWTH, _grown, GROWN_QUICK if quick else GROWN, "queues")


def _grown(small: int, large: int) -> Measured:
    with slapd(durable=False, in_memory=True) as place:
        times, memory = [], []
        for number in (small, small, large):  # the first one warms up
            times.append(timed(_streamed(place, number)))
            memory.append(most_memory())
    return times[1:], memory[1:]


def _streamed(place: Place, number: int) -> Callable[[], None]:
    """Entries are made as they are sent, as a migration does: nothing is kept."""

    def work() -> None:
        items = (
            Item(row=n, action=Action.ADD, dn=str(made.dn), attributes=made.attributes())
            for n, made in enumerate(place.entries(number))
        )
        done = sum(one.effect is Effect.ADDED for one in place.session.loader.load(items))
        if done != number:
            raise AssertionError(f"{done} of {number} were loaded: this is no measurement")

    return work


def samba_load(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  as above
    number = SAMBA_QUICK if quick else SAMBA_QUEUES
    with domain() as place:
        return place.compare(number, LoadOptions(), 1 if quick else RUNS).speed(SAMBA_LOAD, number, "queues")


ROWS: Final = {
    LOAD: load,
    LOAD_SINGLE: load_single,
    LOAD_NOSYNC: load_nosync,
    LOAD_GROWTH: load_growth,
    SAMBA_LOAD: samba_load,
}
