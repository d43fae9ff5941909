"""Fast decoder of search result entries to tuples, for bulk reading.

A search for a fixed list of attributes returns entries of few *shapes*: the same attributes in the same
order. For each frequent shape, one regular expression for the whole entry is compiled, and one small function
that turns its groups into the row. A header (tags, lengths and the name) is found by its fixed octets. All
lengths in a header are then compared with what was captured. So a value that itself looks like the next
header makes the match fail, never succeed wrongly. Entries that fail are decoded by
`mqdssm.directory.entries`, which is the reference.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from mqdssm.directory.ber import NAME_BYTES_MAX, OCTET_STRING, read_length
from mqdssm.directory.entries import (
    PartialValues,
    decode_dn,
    merge_values,
    parse_attribute_key,
    parse_entry,
    parse_values,
)
from mqdssm.directory.filters import encode_description

#: Shapes that one decoder keeps compiled.
SHAPES_MAX: Final = 48
#: Shapes that are tried for one entry: each failure costs a sixth of the generic decoder's work.
SHAPES_TRIED_MAX: Final = 6
#: Entries of a shape before it is compiled: compiling costs as much as decoding some hundred entries.
SHAPE_SEEN_MIN: Final = 8
#: Shapes that are counted before they are compiled.
CANDIDATES_MAX: Final = 1024
#: Octets of an entry; in longer ones the search for headers would cost more than it saves.
SHAPE_ENTRY_BYTES_MAX: Final = 64 * 1024
#: Attributes of a shape; wider entries go to the generic decoder.
SHAPE_ATTRIBUTES_MAX: Final = 128
#: Headers whose lengths are remembered (at most some 150 octets each).
HEADERS_MAX: Final = 16_384
#: Longest attribute description in a shape, in octets: its length is one octet.
SHAPE_NAME_BYTES_MAX: Final = 127

#: A row: the distinguished name, then for each column octets, a list of octets, or None.
Row: TypeAlias = tuple[Any, ...]
#: Attribute description, and whether it has exactly one value.
_Shape: TypeAlias = tuple[tuple[bytes, bool], ...]
_Match: TypeAlias = Callable[[bytes, int, int], "re.Match[bytes] | None"]
_Make: TypeAlias = Callable[[tuple[bytes, ...], int], "Row | None"]

# Length octets of every definite form up to four; 0x84 is what Active Directory writes.
_LENGTH: Final = rb"(?:[\x00-\x7f]|\x84....|\x82..|\x81.|\x83...)"


class _DeclaredLengths(dict[bytes, int]):
    """Cache of header -> declared length of the content behind it.

    The length is -1 if the header's lengths disagree.
    """

    def __missing__(self, header: bytes) -> int:
        if len(self) >= HEADERS_MAX:
            self.clear()
        self[header] = length = _decode_length(header)
        return length


def _decode_length(header: bytes) -> int:
    """Return the length that a header declares.

    The header has one of the forms that the regular expressions capture.

    ``04 len`` of the name; ``30 len`` of the attributes; ``30 len 04 len name 31 len`` of an attribute
    with any number of values; ``30 len 04 len name 31 len 04 len`` of one with a single value.
    """
    size, position = read_length(header, 1, "header")
    if position == len(header):
        return size if header[0] != OCTET_STRING or size <= NAME_BYTES_MAX else -1
    element_end = position + size
    position += 2 + header[position + 1]
    size, position = read_length(header, position + 1, "header")
    if position + size != element_end:
        return -1
    if position == len(header):
        return size
    size, position = read_length(header, position + 1, "header")
    return size if position + size == element_end else -1


def _decode_values(content: bytes) -> list[bytes]:
    """Decode the values of a set from its content.

    Raises:
        DecodeError, IndexError: as `parse_values`.
    """
    size = len(content)
    if 2 <= size < 0x82 and content[1] == size - 2 and content[0] == OCTET_STRING:
        return [content[2:]]
    return parse_values(content, 0, size)


def _decode_first(content: bytes) -> bytes | None:
    values = _decode_values(content)
    return values[0] if values else None


class RowDecoder:
    """Decodes entries to rows of fixed columns. One reader uses it at a time.

    Args:
        columns: attribute names; compared without regard to case.
        multi: those of them whose rows hold a list (empty if the server sends no value); the others
            hold the first value. An attribute that the entry lacks is None in both.

    Raises:
        ValueError: a column that is no attribute description or is named twice; a multi that is no column.
    """

    __slots__ = ("_candidates", "_index", "_lengths", "_multi", "_shapes", "columns")

    def __init__(self, columns: Sequence[str], multi: frozenset[str] = frozenset()) -> None:
        self.columns = tuple(columns)
        keys = [parse_attribute_key(encode_description(name))[0] for name in columns]
        self._index = {key: number for number, key in enumerate(keys)}
        if len(self._index) != len(keys):
            raise ValueError(f"a column is named twice in {', '.join(columns)}")
        unknown = {name for name in multi if name.lower() not in self._index}
        if unknown:
            raise ValueError(f"no column: {', '.join(sorted(unknown))}")
        self._multi = frozenset(self._index[name.lower()] for name in multi)
        self._lengths = _DeclaredLengths()
        self._shapes: list[tuple[_Shape, _Match, _Make]] = []
        self._candidates: dict[_Shape, int] = {}

    def rows(self, buffer: bytes, spans: Iterable[tuple[int, int]]) -> list[Row]:
        """Decode entries.

        Args:
            buffer: holds the messages.
            spans: `Message.start` and `Message.end` of each SearchResultEntry.

        Raises:
            DecodeError: as `mqdssm.directory.entries.decode_entry`.
        """
        rows: list[Row] = []
        append = rows.append
        shapes = self._shapes
        _, match, make = shapes[0] if shapes else _NO_SHAPE
        for start, end in spans:
            size = end - start
            if size <= SHAPE_ENTRY_BYTES_MAX:
                match_of_row = match(buffer, start, end)
                if match_of_row is not None:
                    try:
                        row = make(match_of_row.groups(), size)
                    except (ValueError, IndexError):  # the generic decoder raises the right error
                        row = None
                    if row is not None:
                        append(row)
                        continue
                row = self._try_other_shapes(buffer, start, end)
                append(self.decode_generic_row(buffer, start, end) if row is None else row)
                if shapes:  # another shape may have come to the front
                    _, match, make = shapes[0]
            else:
                append(self.decode_generic_row(buffer, start, end))
        return rows

    def _try_other_shapes(self, buffer: bytes, start: int, end: int) -> Row | None:
        """Decode a row by another shape than the first.

        The shape then becomes the first. None if no shape fits.
        """
        shapes = self._shapes
        for number in range(1, min(len(shapes), SHAPES_TRIED_MAX)):
            _, match, make = shapes[number]
            shape_match = match(buffer, start, end)
            if shape_match is None:
                continue
            try:
                row = make(shape_match.groups(), end - start)
            except (ValueError, IndexError):
                continue
            if row is not None:
                shapes.insert(0, shapes.pop(number))
                return row
        return None

    def decode_generic_row(self, buffer: bytes, start: int, end: int) -> Row:
        """Decode a row with the generic decoder, and count the shape of the entry.

        Raises:
            DecodeError: as `mqdssm.directory.entries.decode_entry`.
        """
        name, pairs = parse_entry(buffer, start, end)
        row: list[Any] = [decode_dn(name, start), *[None] * len(self._index)]
        for description, values in pairs:
            key, next_index = parse_attribute_key(description)
            number = self._index.get(key)
            if number is None:
                continue
            raws = PartialValues(values, next_index) if next_index else values
            row[number + 1] = raws if row[number + 1] is None else merge_values(row[number + 1], raws)
        for number in range(len(self._index)):
            if number not in self._multi and row[number + 1] is not None:
                row[number + 1] = row[number + 1][0] if row[number + 1] else None
        self._learn(pairs)
        return tuple(row)

    def _learn(self, pairs: list[tuple[bytes, list[bytes]]]) -> None:
        """Count the shape of an entry, and compile it if it is frequent."""
        if len(pairs) > SHAPE_ATTRIBUTES_MAX:
            return
        shape = tuple([(name, len(values) == 1 and not self._is_multi(name)) for name, values in pairs])
        if len(self._candidates) >= CANDIDATES_MAX:
            self._candidates.clear()
        seen = self._candidates[shape] = self._candidates.get(shape, 0) + 1
        if seen < SHAPE_SEEN_MIN or not _is_plain(shape):
            return
        known_shape = next((entry for entry in self._shapes if entry[0] == shape), None)
        if known_shape is not None:
            self._shapes.remove(known_shape)
        elif len(self._shapes) >= SHAPES_MAX:
            forgotten, _, _ = self._shapes.pop()
            self._candidates.pop(forgotten, None)
        if known_shape is None:
            known_shape = (
                shape,
                re.compile(_build_pattern(shape), re.DOTALL).match,
                self._compile_function(shape),
            )
        self._shapes.insert(0, known_shape)

    def _is_multi(self, description: bytes) -> bool:
        return self._index.get(parse_attribute_key(description)[0]) in self._multi

    def _compile_function(self, shape: _Shape) -> _Make:
        """Compile the function that makes a row from the groups of a shape's pattern.

        Nothing of the input is pasted into its source: only numbers of groups and of columns.
        """
        cells = ["None"] * len(self._index)
        captured = ["d", "name", "l"]
        checks = ["L[d] != len(name)", "L[l] != size - len(d) - len(name) - len(l)"]
        contents = []
        for number, (description, single) in enumerate(shape):
            captured += [f"h{number}", f"v{number}"]
            checks.append(f"L[h{number}] != len(v{number})")
            column = self._index.get(parse_attribute_key(description)[0])
            if single:
                cell = f"v{number}"
            else:
                cell = f"c{number}"
                decode = "values" if column in self._multi else "first"
                contents.append(f"    c{number} = {decode}(v{number})\n")
            if column is not None:
                cells[column] = cell
        source = (
            f"def make(groups, size):\n    {', '.join(captured)} = groups\n"
            f"    if {' or '.join(checks)}:\n        return None\n"
            f"{''.join(contents)}    return ({', '.join(['name.decode()', *cells])},)\n"
        )
        scope: dict[str, Any] = {"L": self._lengths, "values": _decode_values, "first": _decode_first}
        exec(source, scope)  # noqa: S102  the source holds numbers only: see the docstring
        make: _Make = scope["make"]
        return make


def _is_plain(shape: _Shape) -> bool:
    """Return True if a pattern can match the shape.

    Such a shape has short names, each attribute once, and no ranges.
    """
    keys = set()
    for description, _ in shape:
        key, next_index = parse_attribute_key(description)
        if next_index or key in keys or len(description) > SHAPE_NAME_BYTES_MAX:
            return False
        keys.add(key)
    return True


def _build_pattern(shape: _Shape) -> bytes:
    """Return the pattern of a whole entry: headers, with the content between them.

    The content is matched up to where the next header seems to begin, possessively: one pass, no
    backtracking. Each header begins with 0x30, which is the digit ``0``; to recognise it, its name is
    enough.
    """
    beginnings, headers = [], []
    for description, single in shape:
        name = rb"\x04" + re.escape(bytes((len(description),)) + description)
        beginnings.append(_LENGTH + name)
        headers.append(_LENGTH + name + rb"1" + _LENGTH + (rb"\x04" + _LENGTH if single else b""))
    # The header of the list is followed by that of the first attribute, or by the end.
    list_header = _LENGTH + (rb"0" + beginnings[0] if shape else rb"\Z")
    pattern = [rb"(\x04", _LENGTH, rb")", _build_pattern_up_to(list_header), rb"(0", _LENGTH, rb")"]
    for number, header in enumerate(headers, 1):
        pattern += [rb"(0", header, rb")"]
        pattern.append(rb"(.*)" if number == len(shape) else _build_pattern_up_to(beginnings[number]))
    return b"".join(pattern)


def _build_pattern_up_to(beginning: bytes) -> bytes:
    # an atomic group: possessive quantifiers around groups never match in Python 3.11.2 (Debian 12)
    return rb"((?>[^0]*(?:0(?!" + beginning + rb")[^0]*)*))"


def _match_nothing(*_: object) -> None:
    """Match nothing, while no shape is known."""


_NO_SHAPE: Final[tuple[_Shape, _Match, _Make]] = ((), _match_nothing, _match_nothing)
