"""Watches at work: in a thread of their own, and what they told."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import mqdssm
from mqdssm.directory.watching.hints import Rhythm
from mqdssm.events.watching.watch import Pauses, Watch
from mqdssm.model.watching import ObjectChange

QUICK: Final = Rhythm(tick_s=0.05, poll_s=0.2, settle_s=0.01, renew_s=2.0)
IMPATIENT: Final = Pauses(first_s=0.05, longest_s=0.2)
WAIT_S: Final = 30.0
T = TypeVar("T")


@dataclass
class Told:
    """A watch in its thread.

    Attributes:
        watch: itself.
        changes: what it told, in order.
        troubles: lost connections.
    """

    watch: Watch
    changes: list[ObjectChange] = field(default_factory=list)
    troubles: list[Exception] = field(default_factory=list)
    failure: BaseException | None = None

    def run(self) -> None:
        try:
            for change in self.watch:
                self.changes.append(change)
                self.watch.commit()
        except BaseException as error:  # noqa: BLE001  whatever it is, the test must say it
            self.failure = error

    def wait(self, fits: Callable[["Told"], T | None], seconds: float = WAIT_S) -> T:
        """Wait until what was told fits; a failure of the watch is raised."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.failure is not None:
                raise self.failure
            if found := fits(self):
                return found
            time.sleep(0.01)
        raise AssertionError(f"told within {seconds} s: {self.changes[-10:]}")

    def one(self, event: str, dn: str) -> ObjectChange:
        """Wait for a change of an object, whatever the server does to the spelling of its name."""

        def fits(self: "Told") -> ObjectChange | None:
            found = [c for c in self.changes if c.event == event and c.dn.lower() == dn.lower()]
            return found[-1] if found else None

        return self.wait(fits)

    def count(self, dn: str) -> int:
        """How often something was told of an object."""
        return sum(one.dn.lower() == dn.lower() for one in self.changes)


@contextmanager
def watching(
    directory: mqdssm.Directory,
    *kinds: Any,
    state: Path | None = None,
    rhythm: Rhythm = QUICK,
    **more: Any,
) -> Iterator[Told]:
    """A watch that has seen all there is; it ends in good order."""
    troubles: list[Exception] = []
    watch = directory.watch(
        *kinds,
        state=state,
        rhythm=rhythm,
        pauses=IMPATIENT,
        on_trouble=lambda error, _: troubles.append(error),
        **more,
    )
    told = Told(watch, troubles=troubles)
    thread = threading.Thread(target=told.run, name="watch")
    thread.start()
    try:
        told.wait(lambda one: one.watch.is_settled)
        yield told
    finally:
        watch.close()
        thread.join(WAIT_S)
        assert not thread.is_alive()
    if told.failure is not None:
        raise told.failure
