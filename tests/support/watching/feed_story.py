"""From plain LDAP tools to subscribers, while the watcher and its server are stopped and killed.

Two queue managers hear of the changes of their objects: HERE belongs to the program that watches, which tells
it what it sees; OTHER is an owner elsewhere, to which the watcher sends notifications.
What their subscribers hold follows from what they were told alone.
"""

import random
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock, Thread
from typing import Any, Final
from uuid import UUID, uuid4

import mqdssm
from mqdssm.drivers.notification.owned_reader import OwnedReader
from mqdssm.drivers.notification.watch_feed import WatchFeed
from mqdssm.engines.notification import actions as do
from mqdssm.errors import DirectoryNotConnected
from mqdssm.events.watching.watch import Watch
from mqdssm.model.owned_objects import OwnedQueue, QueueChanged, QueueCreated, QueueDeleted
from mqdssm.model.watching import ChangeEvent, ObjectChange
from support.notification.notified_world import Enterprise, Machine, replayed
from support.replication.queue_managers import wait_until
from support.servers.plain_ldap import PlainLdap, Values
from support.watching.kinds import Kind
from support.watching.watchers import IMPATIENT, QUICK

BATCH_MAX: Final = 8
"""Changes of one LDIF file."""
WAIT_S: Final = 60.0
_KINDS: Final = {"add": 5, "write": 7, "toggle": 3, "delete": 3, "move": 2, "manager": 1}
"""What is done -> how often."""


@dataclass
class ServerWorld:
    """A server of its own, as `Enterprise` wants it."""

    kind: Kind
    server: Any
    directory: mqdssm.Directory

    def connect(self, **options: Any) -> mqdssm.Directory:
        return self.kind.connect(self.server, **options)

    def computer(self) -> str:
        name = f"F{uuid4().hex[:8].upper()}"
        self.kind.add_computer(self.server, name)
        return name

    def queue_manager(self, computer: str) -> UUID:
        site = self.directory.create(mqdssm.Site(name=f"S{uuid4().hex[:8]}"))
        manager = mqdssm.QueueManager(computer_name=computer, site_identifier_list=(site,))
        return self.directory.create(manager)


class LookingReader(OwnedReader):
    """Remembers all that it was shown of queues, in order."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.looks: list[OwnedQueue] = []

    def perform(self, operation: do.Operation) -> do.Result:
        result = super().perform(operation)
        match result:
            case do.QueueRead(queue=OwnedQueue() as queue):
                self.looks.append(queue)
            case do.AllRead(queues=queues):
                self.looks += queues
        return result


class CrashedError(Exception):
    """The program is gone."""


class Ear:
    """What the feed knows as the receiver: outlives it, and can be made deaf between any two changes.

    Attributes:
        told: name of a queue's entry -> the last number that the watch told of it.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.gate = RLock()
        self.is_deaf = False
        self.told: dict[str, int] = {}

    def refresh(self) -> None:
        if not self.is_deaf:
            self._machine.driver.refresh()

    def on_changes(self, changes: Iterable[ObjectChange]) -> None:
        with self.gate:
            if self.is_deaf:
                raise CrashedError
            for change in changes:
                self._machine.driver.on_changes((change,))
                label = change.changes.get("Label")
                if change.event is not ChangeEvent.DELETED and label is not None:
                    self.told[change.dn.lower()] = number_of(label.new)


@dataclass
class Life:
    """A watch that feeds, in its thread."""

    watch: Watch
    ear: Ear
    feed: WatchFeed
    thread: Thread = field(init=False)
    failure: BaseException | None = None

    def __post_init__(self) -> None:
        self.thread = Thread(target=self._run, name="feed", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.feed.run(self.watch)
        except CrashedError:
            pass
        except BaseException as error:  # noqa: BLE001  whatever it is, the test must say it
            self.failure = error

    def end(self) -> None:
        self.watch.close()
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()


@dataclass
class Plain:
    """Queues of some machines, changed by LDAP's own tools in random order; each label is written once.

    Attributes:
        since: DN -> the number with which the object came to this place.
        done: changes that were made.
    """

    ldap: PlainLdap
    chance: random.Random
    places: tuple[str, ...]
    keeps_guids: bool
    since: dict[str, int] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    done: int = 0

    def number(self) -> int:
        self.done += 1
        return self.done

    def change(self, may_go: list[str]) -> None:
        """A few changes of one kind, as LDIF files have them.

        Args:
            may_go: DNs of what may be deleted or moved.
        """
        what = self.chance.choices([*_KINDS], [*_KINDS.values()])[0]
        many = self.chance.randint(1, BATCH_MAX)
        if what == "manager":
            place, quota = self.chance.choice(self.places), self.number()
            self.ldap.modify(place, f"replace: mSMQQuota\nmSMQQuota: {quota}")
        elif what == "write" and self.since:
            self.ldap.modify_many([self._written() for _ in range(many)])
        elif what == "toggle" and self.since:
            self.ldap.modify_many(self._toggled(self.chance.choice([*self.since]), many))
        elif what in {"delete", "move"} and may_go:
            chosen = self.chance.sample(may_go, min(many, len(may_go)))
            (self._delete if what == "delete" else self._move)(chosen)
        else:
            self._add(many)

    def _written(self) -> tuple[str, str]:
        dn, number = self.chance.choice([*self.since]), self.number()
        more = f"\n-\nreplace: mSMQQueueQuota\nmSMQQueueQuota: {number}" if self.chance.random() < 0.4 else ""
        return dn, f"replace: mSMQLabelEx\nmSMQLabelEx: label {number}{more}"

    def _toggled(self, dn: str, many: int) -> Iterator[tuple[str, str]]:
        """To and fro: somebody may look in between, to whom nothing has changed; or nothing has."""
        for _ in range(many):
            self.number()
            value = "TRUE" if self.chance.randrange(2) else "FALSE"
            yield dn, f"replace: mSMQJournal\nmSMQJournal: {value}"

    def _add(self, many: int) -> None:
        free = [dn for dn in self.gone if dn not in self.since]
        again = self.chance.sample(free, min(many // 3, len(free)))  # another object of the same name
        new = [*again, *(f"CN=q{uuid4().hex[:10]},{self.chance.choice(self.places)}" for _ in range(many))]
        entries: list[tuple[str, Values]] = []
        for dn in dict.fromkeys(new[:many]):
            self.since[dn] = number = self.number()
            guid = {"objectGUID": uuid4().bytes_le} if self.keeps_guids else {}
            entries.append((dn, {"objectClass": "mSMQQueue", "mSMQLabelEx": f"label {number}", **guid}))
        self.ldap.add_many(entries)

    def _delete(self, chosen: list[str]) -> None:
        self.ldap.delete(*chosen)
        for dn in chosen:
            del self.since[dn]
            self.gone.append(dn)
            self.number()

    def _move(self, chosen: list[str]) -> None:
        """To the next machine; what is written at once there tells that it has come."""
        for dn in chosen:
            name, _, place = dn.partition(",")
            there = self.places[(self.places.index(place) + 1) % len(self.places)]
            if f"{name},{there}" in self.since:
                continue
            self.ldap.move_many([(dn, there)])
            del self.since[dn]
            self.since[f"{name},{there}"] = number = self.number()
            self.ldap.modify(f"{name},{there}", f"replace: mSMQLabelEx\nmSMQLabelEx: label {number}")


def number_of(label: object) -> int:
    """The number of a label; 0 of no label."""
    found = re.fullmatch(r"label (\d+)", str(label))
    return int(found[1]) if found else 0


class FeedStory:
    """See above."""

    def __init__(self, world: ServerWorld, there: Enterprise, folder: Path, seed: int) -> None:
        self.world, self.there, self.folder = world, there, folder
        self.chance = random.Random(seed)
        self.here = there.machine(LookingReader, settle_s=3600.0)  # what it is notified of, it never reads
        self.other = there.machine(LookingReader)
        self.machines = (self.here, self.other)
        places = tuple(f"CN=msmq,CN={one.name},CN=Computers,{world.server.base_dn}" for one in self.machines)
        keeps_guids = world.kind.keeps_guids
        self.plain = Plain(world.kind.plain(world.server), self.chance, places, keeps_guids)
        self.told: dict[str, int] = {}
        self.crashes = self.lives = self.rests = self.servers = 0
        self.life: Life | None = None

    @property
    def state(self) -> Path:
        return self.folder / "state"

    # -- what happens

    def change(self) -> None:
        """What nobody ever saw, no owner can be told of (decision C29): OTHER's objects go once they were."""
        here, _ = self.plain.places
        may_go = [
            dn
            for dn, since in self.plain.since.items()
            if dn.endswith(here) or self.told.get(dn.lower(), 0) >= since
        ]
        self.plain.change(may_go)

    def live_on(self) -> None:
        """Something happens to the watcher, to the server, or to both."""
        match self.chance.randrange(5):
            case 0:
                self._without_watcher(crash=False)
            case 1:
                self._without_watcher(crash=True)
            case 2:
                self._restart_server()
            case 3:
                self._without_watcher(crash=bool(self.chance.randrange(2)), server=True)
            case 4:
                self.here.begin_again()

    def _without_watcher(self, *, crash: bool, server: bool = False) -> None:
        if crash:
            self.crash()
        else:
            self.end()
        for _ in range(self.chance.randrange(3)):
            self.change()
        if server:
            self._restart_server()
            self.change()
        if crash:
            self.here.begin_again()  # it was in the same program
        self.start()

    def _restart_server(self) -> None:
        self.servers += 1
        if self.chance.randrange(2):
            self.world.server.kill()
        else:
            self.world.server.stop()
        self.world.server.start()

    # -- lives

    def start(self) -> None:
        """Another life of the watcher."""
        ear = Ear(self.here)
        ear.told = self.told
        feed = WatchFeed(self.world.directory, receiver=ear, notifier=self.there.notifier, pauses=IMPATIENT)
        watch = self.world.directory.watch(
            mqdssm.Queue,
            mqdssm.QueueManager,
            state=self.state,
            all_writes=True,
            rhythm=QUICK,
            pauses=IMPATIENT,
            on_ready=feed.on_ready,
        )
        self.life = Life(watch, ear, feed)
        self.lives += 1

    def revive(self) -> None:
        """Do what supervisors do: a watcher that began while the server was away is started again."""
        life = self.life
        if life is None or life.thread.is_alive():
            return
        self.end()
        assert isinstance(life.failure, DirectoryNotConnected), life.failure
        self.start()

    def end(self) -> None:
        """In good order."""
        assert self.life is not None
        self.life.end()
        self.life = None

    def close(self) -> None:
        """End, however the story ended."""
        if self.life is not None:
            self.end()

    def crash(self) -> None:
        """As by SIGKILL: nothing is told any more, and the files are as they were at that moment."""
        life, self.life = self.life, None
        assert life is not None
        kept = self.folder / "kept"
        kept.mkdir()
        files = [self.folder / "state.journal", self.state]
        with life.ear.gate:
            for file in files:  # in this order: the notes of an older state count for nothing
                if file.exists():
                    shutil.copy(file, kept / file.name)
            life.ear.is_deaf = True
        life.end()
        for file in files:
            file.unlink(missing_ok=True)
            if (kept / file.name).exists():
                shutil.move(kept / file.name, file)
        kept.rmdir()
        self.crashes += 1

    # -- what it came to

    def rest(self) -> None:
        """Wait until all is told: what is there now was seen, since subscribers hold what they were told."""
        self.rests += 1

        def is_told() -> bool:
            self.revive()
            return all(self._differences(one) == [] for one in self.machines)

        try:
            wait_until(is_told, WAIT_S)
        except AssertionError:
            found = [str(one) for machine in self.machines for one in self._differences(machine)]
            raise AssertionError("\n".join(found[:10]) or "too late") from None

    def _differences(self, machine: Machine) -> list[Any]:
        """What a machine's subscribers hold, and the directory does not, or the other way round."""
        with self.world.connect() as fresh:
            read = OwnedReader(fresh, machine.identifier).perform(do.ReadAll())
        assert isinstance(read, do.AllRead)
        held, there = replayed([*machine.events]), {one.identifier: one for one in read.queues}
        found: list[Any] = [
            (machine.name, held.get(key), there.get(key))
            for key in {*held, *there}
            if held.get(key) != there.get(key)
        ]
        if machine.driver.queue_manager != read.manager:
            found.append((machine.driver.queue_manager, read.manager))
        return found

    def check(self) -> None:
        """All that was promised."""
        self.rest()
        for machine, place in zip(self.machines, self.plain.places, strict=True):
            held = replayed(machine.events)
            assert machine.believed() == held
            assert {one.pathname.rpartition("\\")[2].lower(): one.identifier for one in held.values()} == {
                dn.partition(",")[0][3:].lower(): guid for dn, guid in self._by_others(place).items()
            }
            self._check_order(machine)
            self._check_looks(machine)

    def summary(self) -> str:
        told = {one.name: len(one.events) for one in self.machines}
        counts = f"{self.lives} watches, {self.crashes} crashes, {self.servers} restarts of the server"
        return f"{self.plain.done} changes, {counts}, {self.rests} rests, events: {told}"

    def _by_others(self, place: str) -> dict[str, UUID]:
        """DN -> objectGUID of the queues of a machine, as ldapsearch has them."""
        found = self.plain.ldap.search(place, "(objectClass=mSMQQueue)", "objectGUID")
        return {dn: UUID(bytes_le=entry["objectGUID"][0]) for dn, entry in found.items()}

    def _check_order(self, machine: Machine) -> None:
        """What was written to an object was told in that order: its number never runs backwards."""
        reached: dict[UUID, int] = {}
        for event in machine.events:
            match event:
                case QueueCreated(queue) | QueueChanged(_, queue) | QueueDeleted(queue):
                    number = number_of(queue.label)
                    assert reached.get(queue.identifier, 0) <= number, (machine.name, queue)
                    reached[queue.identifier] = number

    def _check_looks(self, machine: Machine) -> None:
        """Each state that a queue was in when it was looked at was told at least once."""
        told = {one.queue for one in machine.events if isinstance(one, QueueCreated)}
        told |= {one.new for one in machine.events if isinstance(one, QueueChanged)}
        assert isinstance(machine.reader, LookingReader)
        assert {one for one in machine.reader.looks if one.is_of(machine.name)} <= told


@contextmanager
def feed_story(kind: Kind, server: Any, folder: Path, seed: int) -> Iterator[FeedStory]:
    """A story that has begun: the first watch has seen what is there."""
    with ExitStack() as stack:
        directory = stack.enter_context(kind.connect(server))
        world = ServerWorld(kind, server, directory)
        there = Enterprise(world)
        stack.enter_context(there.stack)
        story = FeedStory(world, there, folder, seed)
        stack.callback(story.close)
        story.start()
        assert story.life is not None
        watch = story.life.watch
        wait_until(lambda: watch.is_settled, WAIT_S)
        yield story
