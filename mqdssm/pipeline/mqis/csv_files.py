"""Header and quotation marks of CSV files, which Arrow reads otherwise.

Arrow reads ``"a "blue" queue"`` as another text, and says nothing: a quoted value must end with its closing
quotation mark, and marks inside are doubled ([RFC4180] 2.7).
"""

import csv
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TextIO

HEADER_CHARS_MAX: Final = 1 << 20
"""Limit of the line with the names of columns: a thousand names take some ten thousand characters."""
TAB: Final = "\t"
_QUOTE: Final = b'"'
_REST: Final = re.compile(rb'(?:[^"]++|"")*+"')
"""Rest of a quoted value on a line, with its closing quotation mark."""


class CsvHeader(NamedTuple):
    """Columns that the first line of a CSV file names.

    Attributes:
        names: of the columns.
        separator: separator of the columns.
    """

    names: tuple[str, ...]
    separator: str = ","


def read_csv_header(lines: TextIO) -> CsvHeader:
    """Read the names of the columns of a CSV file: its first line.

    Empty lines before it are skipped.

    Raises:
        csv.Error: the line is no CSV, or longer than `HEADER_CHARS_MAX`.
    """
    names = tuple(next(filter(None, csv.reader(_limit_lines(lines))), ()))
    if len(names) == 1 and TAB in names[0]:
        return CsvHeader(tuple(name.strip('"') for name in names[0].split(TAB)), TAB)
    return CsvHeader(names)


def _limit_lines(lines: TextIO) -> Iterator[str]:
    room = HEADER_CHARS_MAX
    while line := lines.readline(room + 1):
        room -= len(line)
        if room < 0:
            raise csv.Error(f"the names of its columns have more than {HEADER_CHARS_MAX:,} characters")
        yield line


def find_misquoted_rows(lines: Iterable[bytes], separator: str) -> Iterator[int]:
    """Yield the numbers of rows whose quotation marks are wrong.

    A value goes on behind its closing quotation mark. The numbers are those of Arrow: the first line with
    names is 0, and empty lines are no rows.

    Args:
        lines: the file from its first line on, as iterating over it gives them.
        separator: of the values.
    """
    mark = re.escape(separator.encode())
    unquoted = re.compile(rb"[^\r\n%b]+" % mark)
    whole = re.compile(rb'(?:(?:"[^"]*+"|[^"\r\n%b]*+)(?:%b|\r?\n?\Z))++' % (mark, mark))
    row, is_open, is_bad = 0, False, False
    for line in lines:
        if not is_open and whole.fullmatch(line):  # as nearly all are
            row += bool(line.strip(b"\r\n"))
            continue
        at, is_empty = 0, not is_open
        while at < len(line):
            if is_open:
                rest = _REST.match(line, at)
                if rest is None:
                    break  # the value goes on in the next line
                is_open, at = False, rest.end()
                if behind := unquoted.match(line, at):
                    is_bad, at = True, behind.end()
            elif line[at : at + 1] == _QUOTE:
                is_open, is_empty, at = True, False, at + 1
                continue
            elif value := unquoted.match(line, at):
                is_empty, at = False, value.end()
            if line[at : at + 1] in {b"\r", b"\n", b""}:
                if is_bad:
                    yield row
                row += not is_empty
                is_bad, is_empty = False, True
                at += 2 if line[at : at + 2] == b"\r\n" else 1
            else:
                is_empty, at = False, at + 1
                if at == len(line):  # an empty last value, without the end of a line
                    row += 1
