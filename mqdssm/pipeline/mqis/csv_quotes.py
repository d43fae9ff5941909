"""Check of the quotation marks in CSV.

Arrow reads ``"a "blue" queue"`` as another text, and says nothing: a quoted value must end with its closing
quotation mark, and marks inside are doubled ([RFC4180] 2.7).
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

_QUOTE: Final = b'"'
_REST: Final = re.compile(rb'(?:[^"]++|"")*+"')
"""Rest of a quoted value on a line, with its closing quotation mark."""


def misquoted_rows(lines: Iterable[bytes], separator: str) -> Iterator[int]:
    """Yield the numbers of the rows in which a value goes on behind its closing quotation mark.

    The numbers are those of Arrow: the first line with names is 0, and empty lines are no rows.

    Args:
        lines: the file from its first line on, as iterating over it gives them.
        separator: of the values.
    """
    mark = re.escape(separator.encode())
    value = re.compile(rb"[^\r\n%b]*" % mark)
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
                end = value.match(line, rest.end())
                is_bad |= end is not None and end.end() > rest.end()
                is_open, at = False, rest.end() if end is None else end.end()
            elif line[at : at + 1] == _QUOTE:
                is_open, is_empty, at = True, False, at + 1
                continue
            else:
                end = value.match(line, at)
                is_empty &= end is None or end.end() == at
                at = at if end is None else end.end()
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
