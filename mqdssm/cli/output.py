"""Output of all commands: tables for people, JSON for programs.

On a terminal tables are rich's. In a pipe or a file they are plain columns: a line for each row, nothing cut
off, nothing coloured. What is said besides the answer (progress, counts, warnings, errors) goes to the
standard error output.
"""

import contextlib
import io
import itertools
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from mqdssm.cli.table_layout import Row, TableLayout, layout_of, render_records
from mqdssm.model.safe_text import escape_json, make_visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress, ProgressColumn
    from rich.text import Text

CHUNK_ROWS: Final = 500
"""Number of rows of a long table that are measured and printed together."""
SAMPLE_MAX: Final = 20
"""Maximum rows of a table that only gives examples."""
PIPE_COLUMNS: Final = 110
"""Width of rich's output without a terminal (plain tables have none)."""
GAP: Final = "  "


class ProgressBar(Protocol):
    """Callback that updates a progress bar."""

    def __call__(self, completed: int, total: int | None, doing: str = ...) -> None:
        """Update the bar.

        Args:
            completed: how many.
            total: how many there will be, if that is known.
            doing: what is done now.
        """


class Output:
    """Output of a command's answer.

    Attributes:
        is_json: programs read it.
    """

    def __init__(self, *, is_json: bool = False) -> None:
        self.is_json = is_json
        self._console: Console | None = None
        self._progress: Progress | None = None
        prepare(sys.stdout, utf8=is_json)
        prepare(sys.stderr)

    @property
    def console(self) -> "Console":
        """Rich's console on the standard output."""
        if self._console is None:
            self._console = make_console(sys.stdout)
        return self._console

    # -- answers

    def answer(self, data: Any, *lines: str) -> None:
        """Print an answer: a JSON document for programs, lines for people."""
        if self.is_json:
            self.document(data)
            return
        for text in lines:
            self.line(text)

    def document(self, data: Any) -> None:
        """Print a JSON document."""
        self.json_line(json.dumps(data, indent=2, ensure_ascii=False))

    def line(self, text: str) -> None:
        """Print a line for people."""
        self.raw(make_visible(text) + "\n")

    def json_line(self, text: str) -> None:
        """Print a JSON text as a line."""
        self.raw(escape_json(text) + "\n")

    def raw(self, text: str) -> None:
        """Print a text unchanged."""
        self._clear_progress()
        sys.stdout.write(text)

    def show(self, renderable: "RenderableType") -> None:
        """Print a renderable of rich; a plain string is printed without markup."""
        self._clear_progress()
        self.console.print(make_plain_text(renderable) if isinstance(renderable, str) else renderable)

    def json_array(self, items: Iterable[str]) -> int:
        """Print JSON texts as one array, element by element, in constant memory.

        If the items break off by an error the array stays open: half an answer is no JSON document.

        Returns:
            How many there were.
        """
        count = 0
        self.raw("[")
        for item in items:
            self.raw(("\n" if count == 0 else ",\n") + escape_json(item))
            count += 1
        self.raw("\n]\n" if count else "]\n")
        return count

    def rows(self, columns: Row, rows: Iterable[Row], *, optional: Collection[str] = ()) -> int:
        """Print a table in chunks; the first chunk determines the widths of the columns.

        Args:
            columns: names of the columns.
            rows: cells for each of them.
            optional: columns that a terminal need not show if it is too narrow for all.

        Returns:
            How many rows there were.
        """
        count = 0
        columns = [make_visible(name) for name in columns]
        widths: list[int] = []
        layout: TableLayout | None = None
        remaining = iter(rows)
        while chunk := [
            [make_visible(cell) for cell in row] for row in itertools.islice(remaining, CHUNK_ROWS)
        ]:
            if sys.stdout.isatty():
                layout = layout or layout_of(columns, chunk, self.console.width, optional)
                self.show(layout.render(chunk, head=count == 0))
            else:
                widths = widths or [max(map(len, column)) for column in zip(columns, *chunk, strict=True)]
                self.raw(_format_plain_table(columns, chunk, widths, head=count == 0))
            count += len(chunk)
        if layout is not None and layout.left_out:
            self.note(f"no room for {', '.join(layout.left_out)}: name what to show with --attributes")
        return count

    def sample(self, columns: Row, rows: Iterable[Row]) -> bool:
        """Print the first `SAMPLE_MAX` rows of a table below a blank line.

        Without rows nothing is printed.

        Returns:
            True if there are more.
        """
        remaining = iter(rows)
        first = list(itertools.islice(remaining, SAMPLE_MAX))
        if first:
            self.line("")
            self.rows(columns, first)
        return next(remaining, None) is not None

    def pairs(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Print names and values, one below the other."""
        visible_pairs = [(name, make_visible(value)) for name, value in pairs]
        width = max((len(name) for name, _ in visible_pairs), default=0)
        if sys.stdout.isatty():
            self.show(render_records([visible_pairs], self.console.width))
            return
        for name, value in visible_pairs:
            self.raw(f"{name:{width}}{GAP}{value}".rstrip() + "\n")

    # -- notes and progress

    def note(self, text: str) -> None:
        """Print a note for people to the standard error output; nothing for JSON."""
        if not self.is_json:
            say(text)

    @contextlib.contextmanager
    def progress(self, doing: str, *, counted: bool = True) -> Iterator[Callable[[int], None]]:
        """Show a spinner while the block runs, only on a terminal.

        Args:
            doing: what.
            counted: show how many were done, too; how many there will be is never known.

        Yields:
            To be called with how many more were done.
        """
        if self.is_json or not sys.stderr.isatty():
            yield lambda _: None
            return
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        words = "{task.description} {task.completed:,.0f}" if counted else "{task.description}"
        with self._show_progress(SpinnerColumn(), TextColumn(words), TimeElapsedColumn()) as progress:
            task = progress.add_task(doing, total=None)
            yield lambda more: progress.advance(task, more)

    @contextlib.contextmanager
    def bar(self, doing: str) -> Iterator["ProgressBar | None"]:
        """Show a progress bar with rate and remaining time, only on a terminal.

        Args:
            doing: what.

        Yields:
            To be called with how many are done and how many there will be, if that is known, and with what is
            done now, if that changes; None where nobody looks.
        """
        if self.is_json or not sys.stderr.isatty():
            yield None
            return
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with self._show_progress(*columns) as progress:
            task = progress.add_task(doing, total=None, rate="")

            def show(completed: int, total: int | None, doing: str = doing) -> None:
                if doing != progress.tasks[0].description:  # another rate, too
                    progress.reset(task, description=doing, completed=completed, total=total, rate="")
                progress.update(task, completed=completed, total=total)
                speed = progress.tasks[0].speed
                progress.update(task, rate=f"{speed:,.0f}/s" if speed else "")

            yield show

    @contextlib.contextmanager
    def _show_progress(self, *columns: "ProgressColumn") -> "Iterator[Progress]":
        from rich.progress import Progress

        progress = Progress(*columns, console=make_console(sys.stderr), transient=True, redirect_stdout=False)
        self._progress = progress
        try:
            with progress:
                yield progress
        finally:
            self._progress = None

    def _clear_progress(self) -> None:
        """Stop the progress display before the answer is printed to the same terminal."""
        if self._progress is not None and sys.stdout.isatty():
            self._progress.stop()


def say(text: str) -> None:
    """Write a line to the standard error output."""
    sys.stderr.write(make_visible(text) + "\n")
    sys.stderr.flush()


def prepare(stream: TextIO, *, utf8: bool = False) -> None:
    """Configure a stream so that no text can make printing fail."""
    if isinstance(stream, io.TextIOWrapper):
        if utf8 and not stream.isatty():
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # JSON is UTF-8 (RFC 8259)
        else:
            stream.reconfigure(errors="backslashreplace")


def make_console(stream: TextIO) -> "Console":
    """Return a console of rich without markup."""
    from rich.console import Console

    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_COLUMNS
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def make_plain_text(text: str, style: str = "") -> "Text":
    """Return a text that rich prints unchanged."""
    from rich.text import Text

    return Text(text, style=style)


def _format_plain_table(columns: Row, rows: Iterable[Row], widths: Sequence[int], *, head: bool) -> str:
    lines = (
        GAP.join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in ((columns, *rows) if head else rows)
    )
    return "".join(line + "\n" for line in lines)
