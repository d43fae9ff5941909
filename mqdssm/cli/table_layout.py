"""Layout of tables on a terminal: columns, or records if they do not fit."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

Row = Sequence[str]

GAP_COLUMNS: Final = 3
"""Columns of the terminal between two columns of a table."""
WORD_COLUMNS_MAX: Final = 16
"""Length above which words may be folded, except GUIDs and times."""
WHOLE_COLUMNS_MAX: Final = 40
"""A GUID has 36; the others are for brackets and commas around it."""

_WHOLE: Final = re.compile(
    r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
)
_HEADER_PART: Final = re.compile(r"[A-Z]+[^A-Z\s]*|\S+")


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Layout of a table on a terminal, determined by the first rows.

    Attributes:
        columns: names of all columns.
        shown_columns: numbers of the columns that fit.
        width: of the terminal, in columns.
        widths: columns of the terminal for each of them; None: no table, but one record below the other.
    """

    columns: Row
    shown_columns: Sequence[int]
    width: int
    widths: Sequence[int] | None

    @property
    def left_out(self) -> list[str]:
        """Names of the columns that do not fit."""
        return [name for number, name in enumerate(self.columns) if number not in self.shown_columns]

    def render(self, rows: Iterable[Row], *, head: bool) -> "RenderableType":
        """Return the rows as a renderable of rich.

        Args:
            rows: cells in the order of `columns`.
            head: the first rows: the names of the columns come before them.
        """
        shown_rows = ([row[number] for number in self.shown_columns] for row in rows)
        names = [self.columns[number] for number in self.shown_columns]
        if self.widths is None:
            records = (zip(names, row, strict=True) for row in shown_rows)
            return render_records(records, self.width, first=head)
        return _build_table(names, shown_rows, self.widths, head=head)


def layout_of(columns: Row, rows: Sequence[Row], width: int, optional: Collection[str] = ()) -> TableLayout:
    """Return a layout in which the rows fit.

    Text is folded first. Then optional columns are left out, the last first. What still does not fit is
    shown as records.

    Args:
        columns: names of the columns.
        rows: the first rows.
        width: of the terminal, in columns.
        optional: names of columns that may be left out.
    """
    everything = range(len(columns))
    removable = [number for number in everything if columns[number] in optional]
    for count in range(len(removable) + 1):
        removed = removable[len(removable) - count :]
        numbers = [number for number in everything if number not in removed]
        cells = [[row[number] for number in numbers] for row in rows]
        widths = _fit_widths([columns[number] for number in numbers], cells, width)
        if widths is not None:
            return TableLayout(columns, numbers, width, widths)
    return TableLayout(columns, everything, width, None)


def _fit_widths(columns: Row, rows: Sequence[Row], width: int) -> list[int] | None:
    """Return widths of columns that fit; None if the longest words do not fit."""
    from rich.cells import cell_len

    by_column = list(zip(*rows, strict=True)) if rows else [() for _ in columns]
    widths = [
        max([*map(cell_len, _HEADER_PART.findall(name)), *map(_measure_least_width, cells)])
        for name, cells in zip(columns, by_column, strict=True)
    ]
    full_widths = [max(map(cell_len, (name, *cells))) for name, cells in zip(columns, by_column, strict=True)]
    spare = width - sum(widths) - GAP_COLUMNS * (len(columns) - 1)
    if spare < 0:
        return None
    by_need = sorted(range(len(columns)), key=lambda number: full_widths[number] - widths[number])
    for index, number in enumerate(by_need):
        more = min(full_widths[number] - widths[number], spare // (len(columns) - index))
        widths[number] += more
        spare -= more
    return widths


def _measure_least_width(cell: str) -> int:
    from rich.cells import cell_len

    limits = ((word, WHOLE_COLUMNS_MAX if _WHOLE.search(word) else WORD_COLUMNS_MAX) for word in cell.split())
    return max((min(cell_len(word), limit) for word, limit in limits), default=0)


def _build_table(names: Row, rows: Iterable[Row], widths: Sequence[int], *, head: bool) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_header=head, show_edge=False, pad_edge=False)
    for name, width in zip(names, widths, strict=True):
        table.add_column("\n".join(_fold_name(name, width)), width=width, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _fold_name(name: str, width: int) -> Iterator[str]:
    """Yield the lines of a column's name.

    The name is broken before capital letters and at blanks.
    """
    line = ""
    for match in re.finditer(rf"\s*(?:{_HEADER_PART.pattern})", name):
        if line and len(line + match[0]) > width:
            yield line
            line = match[0].strip()
        else:
            line += match[0]
    yield line


def render_records(
    records: Iterable[Iterable[tuple[str, str]]], width: int, *, first: bool = True
) -> "Table":
    """Return records of names and values as a table of rich.

    Args:
        records: the names and values of each.
        width: of the terminal, in columns.
        first: no record was printed before these.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    name_width = max(width - WHOLE_COLUMNS_MAX, WORD_COLUMNS_MAX)
    for number, record in enumerate(records):
        if number or not first:
            table.add_row()
        for name, value in record:
            table.add_row(Text("\n".join(_fold_name(name, name_width))), Text(value))
    return table
