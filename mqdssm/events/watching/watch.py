"""A watch: follows one server of a directory after the other, and tells the changes, for ever."""

import logging
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from uuid import UUID

from mqdssm.directory.options import ConnectionOptions, Endpoint
from mqdssm.directory.session import Session
from mqdssm.directory.watching.hints import ANCESTORS, Hints, Rhythm, Touched
from mqdssm.directory.watching.link import Link
from mqdssm.directory.watching.sources import source_of
from mqdssm.errors import ConfigError, DirectoryError, DirectoryNotConnected, GenericDirectoryError
from mqdssm.events.watching.follower import CLASS_OF, Follower
from mqdssm.events.watching.mirror import Known
from mqdssm.events.watching.reader import DirectoryReader
from mqdssm.events.watching.state_file import State, StateFile, Subject
from mqdssm.model.dn import DN
from mqdssm.model.guid import GUID_BYTES
from mqdssm.model.watching import LDAP_MARK, WATCHED_TYPES, ObjectChange

log = logging.getLogger(__name__)

SAVE_EVERY_S: Final = 1.0
"""The state is saved this often at most while changes come, in seconds, and when none come."""
SAVE_SHARE_MAX: Final = 0.05
"""Part of the time that saving may take: a state of 100,000 objects takes a second, and is saved three times
a minute. Only after a crash it matters: what was told since is told again."""
COMPARE_EVERY_S: Final = 60.0
"""Where only a part of a naming context is watched, objects may leave it with what they stand below: then all
is compared, so often at most, in seconds."""
_TRANSIENT: Final = frozenset({3, 11, 51, 52})
"""Results of a server that may be better soon: time or other limits, busy, unavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """How long to wait for a server that is away: longer and longer, never two watchers alike (decision W1).

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
        """The pause after so many failures in a row, in seconds."""
        whole = min(self.longest_s, self.first_s * self.factor ** min(failures - 1, 64))
        return whole * (1 - self.jitter * self.chance())


class Watch:
    """The changes of a directory, as they are made: an iterator, or an asynchronous one, without end.

    A change counts as handled when the next one is asked for. What is not handled is told again by the next
    watch with the same state file: each change at least once (decision W7). Iterate it once; `stop` ends the
    iteration from any thread, `close` (or a ``with`` block) saves the state and disconnects.

    Attributes:
        is_settled: what happened while nobody watched has been told; false while no server is connected.
        url: the server that is watched, or was last.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        types: Collection[str] = (),
        *,
        state: str | Path | None = None,
        ignore: Collection[str] = (),
        all_writes: bool = False,
        rhythm: Rhythm | None = None,
        pauses: Pauses | None = None,
        on_ready: Callable[[str], None] | None = None,
        on_trouble: Callable[[DirectoryError, float], None] | None = None,
    ) -> None:
        """Watch nothing yet: that begins with the iteration.

        Args:
            options: how to connect.
            types: what to watch, as `WATCHED_TYPES` calls them; nothing: all.
            state: file that says where to go on, and is kept true; None: begin with what there is now.
            ignore: attributes whose changes are not told, as `ObjectChange.changes` calls them.
            all_writes: tell, too, of objects that were written to and are as they were: CHANGED, without
                changes (decision C29).
            rhythm: how often to look.
            pauses: how long to wait for a server that is away.
            on_ready: told the URL of the server, each time when all that happened before has been told; with
                `all_writes` also when something came and went unseen, or may have.
            on_trouble: told of each lost connection and of the pause in seconds before the next attempt.

        Raises:
            ConfigError: options that cannot be, an unknown type or attribute, a state that is damaged, that
                another one has, or that cannot be kept there.
        """
        if options.forest or options.part_only:
            raise ConfigError(
                "a watch is of one domain: a global catalog tells of no changes (leave forest out)"
            )
        unknown = set(types) - set(WATCHED_TYPES)
        if unknown:
            raise ConfigError(
                f"{', '.join(sorted(unknown))} cannot be watched: use {', '.join(WATCHED_TYPES)}"
            )
        self._options = options
        self._types = tuple(name for name in WATCHED_TYPES if name in types or not types)
        self._ignore = _ignored(ignore, self._types)
        self._all_writes = all_writes
        self._rhythm = rhythm or Rhythm()
        self._pauses = pauses or Pauses()
        self._on_ready = on_ready
        self._on_trouble = on_trouble
        self._stopped = threading.Event()
        self._file = None if state is None else StateFile(state)
        self._state = State() if self._file is None else self._file.load()
        self._is_saved = True
        self._saving = _Saving()
        self._running = threading.Lock()
        self._changes = self._run()
        self.is_settled = False
        self.url: str | None = None

    # -- for callers

    def __iter__(self) -> Iterator[ObjectChange]:
        return self

    def __next__(self) -> ObjectChange:
        with self._running:
            return next(self._changes)

    def __aiter__(self) -> AsyncIterator[ObjectChange]:
        return self

    async def __anext__(self) -> ObjectChange:
        import asyncio  # noqa: PLC0415  slow to import, and few need it

        try:
            change = await asyncio.to_thread(next, self, None)
        except asyncio.CancelledError:
            self.stop()  # the thread comes to its end by itself
            raise
        if change is None:
            raise StopAsyncIteration
        return change

    def stop(self) -> None:
        """End the iteration soon; from any thread, also from a signal handler."""
        self._stopped.set()

    def rest(self, seconds: float) -> bool:
        """Wait, unless it is stopped: for who works on a change and cannot yet.

        Returns:
            Whether it goes on.
        """
        return not self._stopped.wait(seconds)

    def close(self) -> None:
        """Stop, save the state and disconnect."""
        self.stop()
        try:
            with self._running:  # in another thread, perhaps, which stops soon
                self._changes.close()
        finally:
            if self._file is not None:
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def known(self) -> int:
        """How many objects are known."""
        return len(self._state.mirror)

    # -- the work

    def _run(self) -> Generator[ObjectChange, None, None]:
        """All changes; the state is saved at whatever end."""
        try:
            yield from self._from_server_to_server()
        finally:
            self._save()

    def _from_server_to_server(self) -> Iterator[ObjectChange]:
        failures, turn, ever = 0, 0, False
        endpoints = self._options.endpoints
        while not self._stopped.is_set():
            self.is_settled = False
            try:
                yield from self._at(endpoints[turn % len(endpoints)])
            except DirectoryError as error:
                failures = 1 if self.is_settled else failures + 1
                turn += not self.is_settled  # one that worked is tried again first
                ever = ever or self.is_settled
                if is_for_people(error) or (not ever and failures >= len(endpoints)):
                    raise
                pause_s = self._pauses.after(failures)
                told = logging.WARNING if self._on_trouble is None else logging.INFO  # nobody wants it twice
                log.log(told, "%s; trying again in %.1f s", error, pause_s)
                if self._on_trouble is not None:
                    self._on_trouble(error, pause_s)
                self._stopped.wait(pause_s)

    def _at(self, endpoint: Endpoint) -> Iterator[ObjectChange]:
        """The changes that one server tells, until the connection is lost."""
        with ExitStack() as stack:
            link = Link(self._options, endpoint)
            stack.callback(link.close)
            link.open()
            self._check_subject(_subject_of(link, self._types))
            if self._state.mirror.is_complete and self.url is None:
                self._save(anyway=True)  # from here on what is told can be noted
            session = stack.enter_context(Session.open(link.options))
            source = source_of(link, classes_of(self._types), self._rhythm)
            reader = DirectoryReader(session, self._types)
            follower = Follower(
                self._state.mirror,
                reader,
                self._types,
                ignore=self._ignore,
                all_writes=self._all_writes,
                note=self._note,
            )
            self.url = endpoint.url
            place = self._state.place if self._state.server == endpoint.url else None
            doubts = _Doubts(link)
            for hints in source.hints(place):
                if self._stopped.is_set():
                    return
                doubts.take(hints, time.monotonic())
                yield from self._followed(follower, hints, endpoint.url, keep_place=doubts.are_there)
                if doubts.are_due(time.monotonic()):
                    yield from self._followed(follower, doubts.settled_by(), endpoint.url)

    def _followed(
        self, follower: Follower, hints: Hints, url: str, *, keep_place: bool = False
    ) -> Iterator[ObjectChange]:
        for change in follower.follow(hints):
            if self._stopped.is_set():
                return  # the place stays: what is left is looked at again
            self._is_saved = False
            yield change
            self._save_now_and_then()
        if self._file is not None:
            self._file.told()
        others_saw_more = follower.take_unseen() or hints.has_gap
        is_ready = others_saw_more and self._all_writes and self.is_settled
        if hints.place is not None:
            if not keep_place:
                self._is_saved = self._is_saved and self._state.place == hints.place
                self._state.server, self._state.place = url, hints.place
            is_ready = is_ready or not self.is_settled
            self.is_settled = True
        if is_ready and self._on_ready is not None:
            self._on_ready(url)
        self._save_now_and_then()

    def _check_subject(self, subject: Subject) -> None:
        """Refuse to go on with the state of something else.

        Raises:
            ConfigError: it is one.
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

    # -- saving

    def _note(self, key: str, known: Known | None) -> None:
        if self._file is not None:
            self._file.note(key, known)

    def _save_now_and_then(self) -> None:
        if not self._is_saved and self._saving.is_due(time.monotonic()):
            self._save()

    def _save(self, *, anyway: bool = False) -> None:
        """Save what is known, if that can be gone on with."""
        if self._file is None or (self._is_saved and not anyway) or not self._state.mirror.is_complete:
            return
        began = time.monotonic()
        self._file.save(self._state)
        self._is_saved = True
        self._saving.took(began, time.monotonic())


def _ignored(names: Collection[str], types: Collection[str]) -> frozenset[str]:
    """Attributes whose changes are not told.

    Raises:
        ConfigError: names that nothing of these types has; one text, which would be taken for many letters.
    """
    if isinstance(names, str):
        raise ConfigError(f"ignore is a list of names: [{names!r}], not {names!r}")
    known = {name for one in types for name in WATCHED_TYPES[one].adm_names()}
    for name in names:
        if name not in known and not name.startswith(LDAP_MARK):
            raise ConfigError(
                f"{name!r} cannot be ignored: nothing that is watched has this attribute (of attributes that "
                f"are LDAP's alone: '{LDAP_MARK}NAME')"
            )
    return frozenset(names)


class _Saving:
    """When to save: seldom enough that it costs little."""

    def __init__(self) -> None:
        self._due = 0.0

    def is_due(self, now: float) -> bool:
        """Whether it is time."""
        return now >= self._due

    def took(self, began: float, ended: float) -> None:
        """It was saved."""
        self._due = ended + max(SAVE_EVERY_S, (ended - began) / SAVE_SHARE_MAX)


class _Doubts:
    """Whether something that is watched may have left the part of the directory that is watched.

    As long as that is not known the place stays where it was, so that the next watch has the same doubts.
    """

    def __init__(self, link: Link) -> None:
        naming = link.naming
        self._root = naming.root
        self._is_part = naming.root not in {naming.default, naming.forest}
        self._due: float | None = None
        self._place: str | None = None

    @property
    def are_there(self) -> bool:
        """Whether there are any."""
        return self._due is not None

    def take(self, hints: Hints, now: float) -> None:
        """Have doubts because of these hints."""
        self._place = hints.place or self._place
        if self._is_part and self._due is None and any(map(self._is_outside, hints.touched)):
            self._due = now + COMPARE_EVERY_S

    def are_due(self, now: float) -> bool:
        """Whether it is time to compare all because of them."""
        return self._due is not None and now >= self._due

    def settled_by(self) -> Hints:
        """What ends them; then there are none."""
        self._due = None
        return Hints(full=True, place=self._place)

    def _is_outside(self, one: Touched) -> bool:
        return one.dn is not None and not DN.parse(one.dn).is_at_or_below(self._root)


def is_for_people(error: DirectoryError) -> bool:
    """Whether to try again is of no use (decision W1): no rights, a refused log-in, no overlay."""
    if error.ldap_code in _TRANSIENT:
        return False
    return not isinstance(error, DirectoryNotConnected) or error.ldap_code is not None


def classes_of(types: Collection[str]) -> tuple[str, ...]:
    """The object classes of all entries that matter to some types (decision W4)."""
    wanted = {CLASS_OF[name]: None for name in types}
    if wanted.keys() & {"mSMQQueue", "mSMQConfiguration", "user", "mSMQSiteLink"}:
        wanted |= dict.fromkeys(ANCESTORS)
    if "mSMQSiteLink" in wanted:
        wanted |= dict.fromkeys(("site", "mSMQConfiguration"))
    return tuple(wanted)


def _subject_of(link: Link, types: tuple[str, ...]) -> Subject:
    """What this server has to be watched for.

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
