"""What becomes of a watch that cannot be (decision S17); that it works, real servers show."""

import time
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from threading import Event
from types import SimpleNamespace
from typing import Self

from mqdssm.drivers.discovery.directory_data import KnowledgeWatch
from mqdssm.errors import ConfigError, DirectoryNotConnected, GenericDirectoryError, MqdssmError


def failing(*errors: MqdssmError) -> tuple[SimpleNamespace, list[MqdssmError]]:
    """A directory that cannot be watched, for the last reason for ever, and the failures so far."""
    failures: list[MqdssmError] = []
    coming = chain(errors, repeat(errors[-1]))

    def watch(*_: object, **__: object) -> None:
        failures.append(next(coming))
        raise failures[-1]

    return SimpleNamespace(watch=watch), failures


def until(fits: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not fits():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_each_reason_is_told_once_and_it_is_tried_again() -> None:
    rights, away = GenericDirectoryError("no rights"), DirectoryNotConnected("it is away")
    directory, failures = failing(rights, rights, away, away, rights)
    told: list[str] = []
    watch = KnowledgeWatch(directory, SimpleNamespace(), tell=told.append, retry_s=0.01)
    with watch.run():
        until(lambda: len(failures) >= 8)
    assert told == ["no rights", "it is away", "no rights"]


def test_it_ends_while_it_waits_for_the_next_attempt() -> None:
    directory, failures = failing(DirectoryNotConnected("it is away"))
    with KnowledgeWatch(directory, SimpleNamespace(), tell=lambda _: None, retry_s=3600).run():
        until(lambda: bool(failures))
        began = time.monotonic()
    assert time.monotonic() - began < 1.5
    assert len(failures) == 1


def test_options_that_cannot_be_watched_with_are_not_tried_again() -> None:
    directory, failures = failing(ConfigError("a global catalog tells of no changes"))
    told: list[str] = []
    with KnowledgeWatch(directory, SimpleNamespace(), tell=told.append, retry_s=0.01).run():
        until(lambda: bool(told))
        time.sleep(0.1)
    assert (len(failures), told) == (1, ["a global catalog tells of no changes"])


def test_what_happened_before_the_watch_began_and_while_it_was_away_is_read() -> None:
    """Between the reading and the first word of a watch is a gap, and another one at each new connection."""
    heard: list[str] = []
    cache = SimpleNamespace(invalidate=lambda: heard.append("all"), apply=heard.append)

    class Watched:
        def __init__(self, on_ready: Callable[[str], None]) -> None:
            self._on_ready, self.stopped = on_ready, Event()

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self.stop()

        def stop(self) -> None:
            self.stopped.set()

        def __iter__(self) -> Iterator[str]:
            self._on_ready("ldap://one")
            yield "a change"
            self._on_ready("ldap://two")
            self.stopped.wait(20)

    directory = SimpleNamespace(watch=lambda *_, on_ready: Watched(on_ready))
    with KnowledgeWatch(directory, cache, retry_s=3600).run():
        until(lambda: len(heard) == 3)
    assert heard == ["all", "a change", "all"]
