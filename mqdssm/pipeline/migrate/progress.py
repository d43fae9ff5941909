"""Progress of a migration: what workers have written.

The driver counts it from time to time.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from mqdssm.pipeline.export.journal import progress_of, tell_progress
from mqdssm.pipeline.runner import run_in_background

LOOK_S: Final = 0.5
READ_BYTES: Final = 1024 * 1024


class Doing(NamedTuple):
    """Current activity, and its progress.

    Attributes:
        activity: name of the activity, for people.
        done: how much is done.
        total: how much there is to do; None if not known.
    """

    activity: str
    done: int = 0
    total: int | None = None


Watch = Callable[[Doing], None]
Count = Callable[[], int]


def tell(watch: Watch | None, activity: str) -> None:
    """Report an activity whose progress is not counted."""
    if watch is not None:
        watch(Doing(activity))


@contextlib.contextmanager
def report_count(watch: Watch | None, activity: str, total: int | None, count: Count) -> Iterator[None]:
    """Report the progress of an activity from another thread.

    The progress is reported again and again while the context lasts.

    Args:
        watch: is told; None: nobody looks, and nothing is counted.
        activity: is done.
        total: amount of work.
        count: how much was done.
    """
    if watch is None:
        yield
        return

    def look(ended: threading.Event) -> None:
        while not ended.wait(LOOK_S):
            watch(Doing(activity, count(), total))

    watch(Doing(activity, count(), total))
    with run_in_background(look):
        yield
    watch(Doing(activity, count(), total))


class LineCounter:
    """Counts the lines of growing files; each call reads only new data.

    Args:
        paths: of the files, which need not be there yet.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._read = dict.fromkeys(paths, 0)
        self._lines = 0

    def __call__(self) -> int:
        """Return the number of lines so far."""
        for path in self._read:
            with contextlib.suppress(OSError), path.open("rb") as file:
                file.seek(self._read[path])
                while data := file.read(READ_BYTES):
                    self._lines += data.count(b"\n")
                    self._read[path] += len(data)
        return self._lines


class WorkerProgress:
    """Progress of several workers, with a file for each.

    Args:
        folder: of these files, for this alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self) -> None:
        """Remove the progress of an earlier run."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            for path in self._folder.iterdir():
                path.unlink()

    def tell(self, number: int, count: int) -> None:
        """Write how much a worker has done; errors of the disk are ignored."""
        with contextlib.suppress(OSError):
            tell_progress(self._folder, str(number), count)

    def __call__(self) -> int:
        """Return how much all workers have done."""
        return sum(progress_of(self._folder).values())
