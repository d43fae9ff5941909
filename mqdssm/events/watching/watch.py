"""Watch of a directory: follows one of its servers at a time and yields changes."""

import logging
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar
from uuid import UUID

from mqdssm.directory.entries import is_name, parse_name
from mqdssm.directory.options import ConnectionOptions, Endpoint
from mqdssm.directory.session import Session
from mqdssm.directory.watching import source_of
from mqdssm.directory.watching.hints import ANCESTORS, Hints, Rhythm, TouchedEntry
from mqdssm.directory.watching.link import Link
from mqdssm.errors import ConfigError, DirectoryError, DirectoryNotConnected, GenericDirectoryError
from mqdssm.events.machines import find_computer_names
from mqdssm.events.watching.delivery import Delivery
from mqdssm.events.watching.follower import CLASS_OF, Follower
from mqdssm.events.watching.reader import Selection, WatchedObjectReader, build_listed_filter
from mqdssm.events.watching.state_file import StateFile, Subject, WatchState
from mqdssm.model.closeable import Closeable
from mqdssm.model.guid import GUID_BYTES
from mqdssm.model.watching import ObjectChange

log = logging.getLogger(__name__)
T = TypeVar("T")

COMPARE_EVERY_S: Final = 60.0
"""Where only a part of a naming context is watched, objects may leave it with what they stand below: then all
is compared, so often at most, in seconds."""
_TRANSIENT: Final = frozenset({3, 11, 51, 52})
"""Temporary result codes: time or other limits, busy, unavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Pauses before reconnecting, growing and with jitter (decision W1).

    Attributes:
        first_s: the first pause, in seconds.
        longest_s: the longest one.
        factor: by which they grow.
        jitter: part of each pause that is left to chance.
        chance: gives numbers from 0 to 1.
    """

    first_s: float = 0.5
    longest_s: float = 60.0
    factor: float = 2.0
    jitter: float = 0.5
    chance: Callable[[], float] = random.random

    def after(self, failures: int) -> float:
        """Return the pause after a number of failures in a row, in seconds."""
        whole = min(self.longest_s, self.first_s * self.factor ** min(failures - 1, 64))
        return whole * (1 - self.jitter * self.chance())


class Watch(Closeable):
    """Endless iterator, also asynchronous, over the changes of a directory.

    A change is acknowledged by `commit` after it was returned. The next watch with the same state file
    returns all other changes again, with the same ids: every change at least once (decisions W7, W13).
    Iterate it once; `stop` ends the iteration from any thread, `close` (or a ``with`` block) disconnects.

    Attributes:
        is_settled: what happened while nobody watched has been told; false while no server is connected.
        url: the server that is watched, or was last.
        connection: how to connect to the very server that is watched, or was last: its address, too.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        types: Collection[str] = (),
        *,
        state: str | Path | None = None,
        ignore: Collection[str] = (),
        events: Collection[str] = (),
        computers: Collection[str] = (),
        snapshot: bool = False,
        once: bool = False,
        all_writes: bool = False,
        rhythm: Rhythm | None = None,
        pauses: Pauses | None = None,
        on_ready: Callable[[str], None] | None = None,
        on_trouble: Callable[[DirectoryError, float], None] | None = None,
        on_quiet: Callable[[], None] | None = None,
    ) -> None:
        """Initialize the watch; it connects when the iteration begins.

        Args:
            options: how to connect.
            types: what to watch, as `WATCHED_TYPES` calls them; nothing: all.
            state: file with the place to go on and the committed changes; None: begin with the present state.
            ignore: attributes whose changes are not told, as `ObjectChange.changes` calls them.
            events: that are told, as `ChangeEvent` calls them; nothing: all.
            computers: names of computers: only their queues and queue managers are told of; nothing: all.
            snapshot: where there is no state yet, tell first what exists, as EXISTING.
            once: end when all that happened before has been told.
            all_writes: tell, too, of objects that were written to and are as they were: CHANGED, without
                changes (decision C29).
            rhythm: how often to look.
            pauses: how long to wait for a server that is away.
            on_ready: told the URL of the server, each time when all that happened before has been told; with
                `all_writes` also when something came and went unseen, or may have.
            on_trouble: told of each lost connection and of the pause in seconds before the next attempt.
            on_quiet: called now and then while the server is connected and there is nothing to tell.

        Raises:
            ConfigError: options that cannot be, an unknown type, attribute or event, a state that is damaged,
                that another one has, or that cannot be kept there.
        """
        if options.forest or options.part_only:
            raise ConfigError(
                "a watch is of one domain: a global catalog tells of no changes (leave forest out)"
            )
        self._options = options
        self._selection = Selection.of(types, ignore=ignore, events=events, computers=computers)
        self._warned: set[str] = set()
        self._types = self._selection.types
        self._all_writes = all_writes
        self._rhythm = rhythm or Rhythm()
        self._pauses = pauses or Pauses()
        self._on_ready = on_ready
        self._on_trouble = on_trouble
        self._on_quiet = on_quiet
        self._once = once
        self._stopped = threading.Event()
        self._file = None if state is None else StateFile(state)
        self._state = WatchState() if self._file is None else self._file.load()
        if snapshot and not self._state.mirror.is_complete:
            self._state.is_first = self._state.mirror.is_complete = True  # nothing is known, and told
        self._delivery = Delivery(self._state, self._file, self._selection)
        self._running = threading.Lock()
        self._changes = self._from_server_to_server()
        self._step: Future[ObjectChange | None] | None = None
        self.is_settled = False
        self.url: str | None = None
        self.connection: ConnectionOptions | None = None

    # -- for callers

    def __iter__(self) -> Iterator[ObjectChange]:
        return self

    def __next__(self) -> ObjectChange:
        step, self._step = self._step, None
        change = self._take() if step is None else step.result()
        if change is None:
            raise StopIteration
        self._delivery.record_returned()
        return change

    def __aiter__(self) -> AsyncIterator[ObjectChange]:
        return self

    async def __anext__(self) -> ObjectChange:
        """Return the next change; after a cancelled wait the next call returns it."""
        import asyncio  # noqa: PLC0415  slow to import, and few need it

        while True:
            step = self._step = self._step or _start_in_thread(self._take)
            with suppress(Exception):  # raised below
                await asyncio.wrap_future(step)
            if self._step is step:  # else another task has got it
                self._step = None
                break
        change = step.result()
        if change is None:
            raise StopAsyncIteration
        self._delivery.record_returned()
        return change

    def commit(self) -> None:
        """Acknowledge every change returned so far: no later watch returns it again.

        Call this after each change or after many, from any thread. Without a state file nothing happens.
        Changes committed in the last second may be returned again after a power failure.

        Raises:
            OSError: the state cannot be written; then the changes are told again.
        """
        self._delivery.acknowledge()

    def sync(self) -> None:
        """Write to disk which changes were returned or committed (decision W20).

        After this a change that is told again has the id that it had, also after a power failure.

        Raises:
            OSError: the state cannot be written.
        """
        self._delivery.sync()

    def stamp(self) -> tuple[str, datetime]:
        """Return an id and the time, as changes have them, for other messages."""
        name, seconds = self._delivery.stamp()
        return name, datetime.fromtimestamp(seconds, UTC)

    def _take(self) -> ObjectChange | None:
        with self._running:
            return next(self._changes, None)

    def stop(self) -> None:
        """End the iteration soon; from any thread, also from a signal handler."""
        self._stopped.set()

    def rest(self, seconds: float) -> bool:
        """Wait for some seconds or until the watch is stopped.

        A change is being handled meanwhile.

        Returns:
            True if the watch goes on; False if it was stopped.
        """
        return not self._stopped.wait(seconds)

    def close(self) -> None:
        """Stop, disconnect, and unlock the state for another watch."""
        self.stop()
        try:
            with self._running:  # in another thread, perhaps, which stops soon
                self._changes.close()
        finally:
            self._delivery.close()

    @property
    def known(self) -> int:
        """Number of known objects."""
        return len(self._state.mirror)

    # -- the work

    def _from_server_to_server(self) -> Generator[ObjectChange, None, None]:
        failures, turn, ever = 0, 0, False
        endpoints = self._options.endpoints
        while not self._stopped.is_set():
            self.is_settled = False
            try:
                yield from self._watch_server(endpoints[turn % len(endpoints)])
            except DirectoryError as error:
                failures = 1 if self.is_settled else failures + 1
                turn += not self.is_settled  # one that worked is tried again first
                ever = ever or self.is_settled
                if is_for_people(error) or (not ever and failures >= len(endpoints)):
                    raise
                pause_s = self._pauses.after(failures)
                level = logging.WARNING if self._on_trouble is None else logging.INFO  # nobody wants it twice
                log.log(level, "%s; trying again in %.1f s", error, pause_s)
                if self._on_trouble is not None:
                    self._on_trouble(error, pause_s)
                self._stopped.wait(pause_s)

    def _watch_server(self, endpoint: Endpoint) -> Iterator[ObjectChange]:
        """Yield the changes from one server until the connection is lost."""
        with ExitStack() as stack:
            link = Link(self._options, endpoint)
            stack.callback(link.close)
            link.open()
            self._check_subject(_subject_of(link, self._types))
            self._delivery.begin()
            session = stack.enter_context(Session.open(link.options))
            classes = classes_of(self._types)
            source = source_of(link, classes, build_listed_filter(session, classes), self._rhythm)
            self._find_computers(session)
            reader = WatchedObjectReader(session, self._types)
            follower = Follower(
                self._state.mirror,
                reader,
                self._types,
                ignore=self._selection.ignore,
                all_writes=self._all_writes,
                note=self._delivery.note,
            )
            self.url, self.connection = endpoint.url, link.options
            place = self._state.place if self._state.server == endpoint.url else None
            doubts = _Doubts(link)
            yield from self._deliver(self._delivery.again(follower))
            for hints in source.read_hints(place):
                if self._stopped.is_set():
                    return
                doubts.take(hints, time.monotonic())
                yield from self._follow(follower, hints, endpoint.url, keep_place=doubts.are_there)
                is_last = self._once and self.is_settled
                if doubts.are_due(time.monotonic()) or (is_last and doubts.are_there):
                    yield from self._follow(follower, doubts.settle(), endpoint.url)
                if is_last:
                    self.stop()

    def _follow(
        self, follower: Follower, hints: Hints, url: str, *, keep_place: bool = False
    ) -> Iterator[ObjectChange]:
        yield from self._deliver(follower.follow(hints))
        if self._stopped.is_set():
            return  # the place stays: what is left is looked at again
        others_saw_more = follower.take_unseen() or hints.has_gap
        is_ready = others_saw_more and self._all_writes and self.is_settled
        if hints.place is not None and not keep_place:
            self._state.server, self._state.place = url, hints.place
        if hints.is_current:
            self._state.is_first = False
        self._delivery.perform_due_work()  # who is told that it is ready finds a state
        if hints.is_current:
            is_ready = is_ready or not self.is_settled
            self.is_settled = True
        if is_ready and self._on_ready is not None:
            self._on_ready(url)
        if self.is_settled and self._on_quiet is not None:
            self._on_quiet()

    def _deliver(self, changes: Iterator[ObjectChange]) -> Iterator[ObjectChange]:
        for change in changes:
            if self._stopped.is_set():
                return
            yield change
            self._delivery.perform_due_work()

    def _find_computers(self, session: Session) -> None:
        """Select the changes of the named computers.

        A warning is logged once for each missing computer.
        """
        wanted_names = self._selection.computers
        if wanted_names:
            names, warnings = find_computer_names(session, wanted_names)
            self._delivery.selection = replace(self._selection, computers=wanted_names | names)
            for name in sorted(warnings.keys() - self._warned):
                log.warning("%s", warnings[name])
            self._warned |= warnings.keys()

    def _check_subject(self, subject: Subject) -> None:
        """Raise ConfigError if the state is of another directory or of other types.

        Raises:
            ConfigError: the state does not fit.
        """
        mine = self._state.subject
        if mine is None:
            self._state.subject = subject
            return
        where = "" if self._file is None else f"{self._file.path}: "
        if mine.directory != subject.directory:
            raise ConfigError(
                f"{where}this server has another directory than the one that the state is of ({mine.root}): "
                "name the right server, or another file"
            )
        if mine.root != subject.root:
            raise ConfigError(
                f"{where}the state is of {mine.root}, not of {subject.root}: give the same naming context, "
                "or another file"
            )
        if mine.types != subject.types:
            raise ConfigError(
                f"{where}the state is of {', '.join(mine.types)}, not of {', '.join(subject.types)}: "
                "watch the same, or give another file"
            )


class _Doubts:
    """Pending comparisons of objects that may have left the watched part.

    Meanwhile the place does not change, so that the next watch compares, too.
    """

    def __init__(self, link: Link) -> None:
        naming = link.naming
        self._root = naming.root
        self._is_part = naming.root not in {naming.default, naming.forest}
        self._due: float | None = None
        self._place: str | None = None

    @property
    def are_there(self) -> bool:
        """True if a comparison is pending."""
        return self._due is not None

    def take(self, hints: Hints, now: float) -> None:
        """Schedule a comparison if hints are at entries outside the watched part."""
        self._place = hints.place or self._place
        if self._is_part and self._due is None and any(map(self._is_outside, hints.touched)):
            self._due = now + COMPARE_EVERY_S

    def are_due(self, now: float) -> bool:
        """Return True if all objects have to be compared now."""
        return self._due is not None and now >= self._due

    def settle(self) -> Hints:
        """Return the hints for a full comparison, which is no longer pending."""
        self._due = None
        return Hints(full=True, place=self._place)

    def _is_outside(self, change: TouchedEntry) -> bool:
        if change.dn is None:
            return False
        return not is_name(change.dn) or not parse_name(change.dn).is_at_or_below(self._root)


def _start_in_thread(step: Callable[[], T]) -> Future[T]:
    """Run a function in a daemon thread and return its future."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # who waits for it may give up; it goes on

    def run() -> None:
        try:
            future.set_result(step())
        except BaseException as error:  # noqa: BLE001  for who waits
            future.set_exception(error)

    threading.Thread(target=run, name="mqdssm watch", daemon=True).start()
    return future


def is_for_people(error: DirectoryError) -> bool:
    """Return True if a retry is useless (decision W1).

    Examples are missing rights, a refused log-in, and a missing overlay.
    """
    if error.ldap_code in _TRANSIENT:
        return False
    return not isinstance(error, DirectoryNotConnected) or error.ldap_code is not None


def classes_of(types: Collection[str]) -> tuple[str, ...]:
    """Return the object classes of all entries that concern some types.

    See decision W4.
    """
    classes = {CLASS_OF[name]: None for name in types}
    if classes.keys() & {"mSMQQueue", "mSMQConfiguration", "user", "mSMQSiteLink"}:
        classes |= dict.fromkeys(ANCESTORS)
    if "mSMQSiteLink" in classes:
        classes |= dict.fromkeys(("site", "mSMQConfiguration"))
    return tuple(classes)


def _subject_of(link: Link, types: tuple[str, ...]) -> Subject:
    """Return the subject of this server's state.

    Raises:
        GenericDirectoryError: the root of its names shows nothing to this user.
    """
    profile, naming = link.profile, link.naming
    root = link.get(str(naming.default), [profile.watch_key]).first(profile.watch_key)
    if root is None:
        raise GenericDirectoryError(
            f"the root of the directory shows no {profile.watch_key}, which tells directories apart",
            dn=str(naming.default),
            hint="may this user read it?",
        )
    identity = str(UUID(bytes_le=root)) if len(root) == GUID_BYTES else root.decode(errors="replace").lower()
    return Subject(directory=identity, root=naming.root.normalized, types=types)
