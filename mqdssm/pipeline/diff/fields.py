"""Comparison of objects column by column, by matching rules.

The matching rule is that of the attribute (decision M81).
Rows of both sides come sorted by key, those of A before those of B. Arrow compares whole columns first.
Python compares only the values whose octets differ.

Differences of a comparison in sorted files, from which all outputs are made.
"""

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mqdssm.model.dn import DN
from mqdssm.pipeline.diff.comparable_columns import CERTIFICATES, ComparableType, Field
from mqdssm.pipeline.texts import format_jsonl_records
from mqdssm.tables import equality
from mqdssm.tables.syntax import DESCRIPTOR, Kind

KEY, SIDE = "__key", "__side"
TEXT_ATTRIBUTE: Final = "cn"
"""Attribute whose matching rule is used for texts that are computed from names."""
SCHEMA: Final = pa.schema(
    [
        ("type", pa.string()),
        ("what", pa.string()),
        ("key", pa.string()),
        ("name", pa.string()),
        ("attributes", pa.list_(pa.string())),
        ("a", pa.string()),
        ("b", pa.string()),
    ]
)
"""Schema of differences: type, kind, key and name of the object, attributes, both sides as JSON."""
DDL: Final = "type string, what string, key string, name string, attributes array<string>, a string, b string"
SHOWN: Final = ("Pathname", "ComputerName", "Name", "FullPath", "SecurityIdentifier", "Identifier")
"""Columns that name an object in messages, the best first."""


class ObjectDifferenceKind(StrEnum):
    """Kind of a difference."""

    MISSING = "missing"
    """A holds the object, B does not."""
    EXTRA = "extra"
    """B holds the object, A does not."""
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Ground:
    """Properties of a side that affect the comparison of its values.

    The properties are pickled into every task.

    Attributes:
        root: DN of the root of its tree; empty for MQIS tables.
        is_mqis: True for MQIS tables, in which NULL may mean that the value is unknown.
        hides_sacls: True for a directory that shows SACLs to auditors alone, and for its exports.
        names: GUID -> common GUID, for objects that have another GUID on the other side.
    """

    root: str = ""
    is_mqis: bool = False
    hides_sacls: bool = False
    names: Mapping[str, str] = dataclass_field(default_factory=dict)


Same = Callable[[Any, Any], bool]


def choose_sameness(field: Field, a: Ground, b: Ground) -> Same:
    """Return the function that compares two values of a column.

    The function returns True for equal values; None stands for no value.

    Args:
        field: the column.
        a: side of the first value.
        b: side of the second value.
    """
    keys = (_build_key_maker(field, a), _build_key_maker(field, b))
    silent = field.lenient
    loose = _may_complete(field) and (a.is_mqis or b.is_mqis)

    def same(x: Any, y: Any) -> bool:
        if silent and ((x is None and a.is_mqis) or (y is None and b.is_mqis)):
            return True
        x, y = _drop_empty(field, x), _drop_empty(field, y)
        if x is None or y is None:
            return x is y
        if keys[0](x) == keys[1](y):
            return True
        if not loose:
            return False
        expected, actual, side = (x, y, b) if a.is_mqis else (y, x, a)
        return equality.has_expected_values(
            _name_attribute(field), [expected], [actual], hides_sacls=side.hides_sacls
        )

    return same


def _drop_empty(field: Field, value: Any) -> Any:
    if field.column.many:
        return tuple(value) if value else None
    if value is None:
        value = field.default
    return None if value in ("", b"") else value  # a directory stores no empty value (M38)


def _name_attribute(field: Field) -> str:
    return field.row.ldap[0] if field.row is not None and field.row.ldap else ""


def _may_complete(field: Field) -> bool:
    """Return True for security descriptors, which a server may complete."""
    return field.row is not None and field.row.syntax is DESCRIPTOR


def _build_key_maker(field: Field, ground: Ground) -> Callable[[Any], Hashable]:
    make_key = _choose_one_key(field, ground)
    if field.column.many:
        return lambda values: frozenset(map(make_key, values))
    return make_key


def _choose_one_key(field: Field, ground: Ground) -> Callable[[Any], Hashable]:
    """Return the function from one value to its comparison key."""
    if field.is_place:
        return lambda dn: strip_root(dn, ground.root)
    if field.refers:
        names = ground.names
        return lambda guid: names.get(guid, guid)
    attribute = _name_attribute(field)
    if field.row is None:
        return lambda value: value
    if field.column.kind is Kind.TEXT:
        name = TEXT_ATTRIBUTE if field.row.computed is not None else attribute
        return lambda text: equality.key_of(name, text.encode())
    if field.column.kind is Kind.DN:
        return lambda text: equality.key_of(attribute, text.encode())
    if field.column.kind is Kind.BYTES:
        return lambda raw: equality.key_of(attribute, raw)
    return lambda value: value


def strip_root(dn: str, root: str) -> Hashable:
    """Return a DN without the root of its tree, or a text that is no DN unchanged."""
    try:
        parsed, top = DN.parse(dn), DN.parse(root)
    except ValueError:
        return dn
    if root and parsed.is_at_or_below(top):
        return DN(parsed.rdns[: len(parsed) - len(top)])
    return parsed


class FieldByField:
    """Comparison of the rows of one type.

    Args:
        compared: the type.
        a: the first side.
        b: the second side.
    """

    def __init__(self, compared: ComparableType, a: Ground, b: Ground) -> None:
        self._type = compared.type
        self._strangers = compared.type == "user" and a.is_mqis != b.is_mqis
        self._mqis = (a.is_mqis, b.is_mqis)
        self._rules = [(field, choose_sameness(field, a, b)) for field in compared.fields]

    def find_differences(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the differences of rows that come sorted by `KEY` and `SIDE`."""
        for rows in _split_at_groups(batches):
            batch = self._of_groups(rows)
            if batch.num_rows:
                yield batch

    def _of_groups(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        pairs, lonely = _match_all_rows(rows)
        attributes = self._find_unlike(rows, [first for first, _ in pairs], [other for _, other in pairs])
        unlike = zip(pairs, attributes, strict=True)
        differences = [
            _Found(ObjectDifferenceKind.DIFFERENT, a, b, a, names) for (a, b), names in unlike if names
        ]
        for row, of_b in lonely:
            if self._strangers and not self._mqis[of_b] and _without_certificates(rows, row):
                continue  # an account that is no user of MSMQ
            differences.append(
                _Found(ObjectDifferenceKind.EXTRA, None, row, row)
                if of_b
                else _Found(ObjectDifferenceKind.MISSING, row, None, row)
            )
        return self._build_batch(rows, differences)

    def _find_unlike(self, rows: pa.RecordBatch, firsts: list[int], seconds: list[int]) -> list[list[str]]:
        """Return the names of the different attributes of each pair of rows."""
        unlike: list[list[str]] = [[] for _ in firsts]
        if not firsts:
            return unlike
        first, other = pa.array(firsts, pa.int64()), pa.array(seconds, pa.int64())
        for field, same in self._rules:
            column = rows.column(field.name)
            x, y = column.take(first), column.take(other)
            for number in _find_unlike_octets(x, y):
                if not same(x[number].as_py(), y[number].as_py()):
                    unlike[number].append(field.name)
        return unlike

    def _build_batch(self, rows: pa.RecordBatch, differences: Sequence["_Found"]) -> pa.RecordBatch:
        columns = [name for name in rows.schema.names if name not in {KEY, SIDE}]
        selected = rows.select(columns)
        name_columns = [rows.column(name) for name in SHOWN if name in columns]
        places = [difference.named_by for difference in differences]
        arrays = [
            pa.array([self._type] * len(differences), pa.string()),
            pa.array([difference.kind.value for difference in differences], pa.string()),
            rows.column(KEY).take(pa.array(places, pa.int64())),
            pa.array([_find_first(name_columns, place) for place in places], pa.string()),
            pa.array([difference.attributes for difference in differences], pa.list_(pa.string())),
            pa.array(_format_rows(selected, [difference.a for difference in differences]), pa.string()),
            pa.array(_format_rows(selected, [difference.b for difference in differences]), pa.string()),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _without_certificates(rows: pa.RecordBatch, row: int) -> bool:
    names = [name for name in CERTIFICATES if name in rows.schema.names]
    return not any(rows.column(name)[row].as_py() for name in names)


class _Found(NamedTuple):
    """Difference by the numbers of its rows, with the names of the attributes."""

    kind: ObjectDifferenceKind
    a: int | None
    b: int | None
    named_by: int
    attributes: Sequence[str] = ()


def _find_first(columns: Sequence[pa.Array], place: int) -> str:
    """Return the first value of a row that is not NULL, as a name for messages."""
    return next((str(column[place].as_py()) for column in columns if column[place].is_valid), "")


def _format_rows(rows: pa.RecordBatch, places: Sequence[int | None]) -> list[str | None]:
    """Return the rows at these places as JSON; None for the place None."""
    valid_places = [place for place in places if place is not None]
    written = format_jsonl_records(rows.take(pa.array(valid_places, pa.int64())))
    return [None if place is None else next(written).decode().rstrip("\n") for place in places]


def _find_unlike_octets(x: pa.Array, y: pa.Array) -> list[int]:
    """Return the places at which the values of two columns are not identical."""
    if pa.types.is_nested(x.type):
        return [
            n
            for n, (first, other) in enumerate(zip(x.to_pylist(), y.to_pylist(), strict=True))
            if first != other
        ]
    same = pc.fill_null(pc.equal(x, y), fill_value=False)
    alike = pc.or_(same, pc.and_(pc.is_null(x), pc.is_null(y)))
    indices: list[int] = pc.indices_nonzero(pc.invert(alike)).to_pylist()
    return indices


def _split_at_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches that do not divide the rows of one key."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        last = _find_last_group(batch.column(KEY))
        if last or (waiting and waiting[-1].column(KEY)[-1] != batch.column(KEY)[0]):
            yield _join_batches([*waiting, batch.slice(0, last)])
            waiting = []
        waiting.append(batch.slice(last))
    if waiting:
        yield _join_batches(waiting)


def _join_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches([batch for batch in batches if batch.num_rows])


def _find_last_group(keys: pa.Array) -> int:
    """Return the place of the first row with the last key."""
    place: int = pc.index(keys, keys[-1]).as_py()
    return place


def _match_all_rows(rows: pa.RecordBatch) -> tuple[list[tuple[int, int]], list[tuple[int, bool]]]:
    """Return pairs of rows of A and B to compare, and rows without a partner.

    A row without a partner has True if it is of B.
    """
    keys, sides = rows.column(KEY).to_pylist(), rows.column(SIDE).to_pylist()
    pairs: list[tuple[int, int]] = []
    lonely: list[tuple[int, bool]] = []
    start = 0
    while start < len(keys):
        end = start + 1
        while end < len(keys) and keys[end] == keys[start]:
            end += 1
        if end - start == 2 and sides[start] != sides[start + 1] and keys[start]:
            pairs.append((start, start + 1))
        else:
            more, rest = _match_rows(rows, start, end, sides, by_key=bool(keys[start]))
            pairs += more
            lonely += rest
        start = end
    return pairs, lonely


def _match_rows(
    rows: pa.RecordBatch, start: int, end: int, sides: Sequence[int], *, by_key: bool
) -> tuple[list[tuple[int, int]], list[tuple[int, bool]]]:
    """Pair several rows of one key.

    Identical rows are dropped; the others are paired in the order of their texts.
    Rows without a key (`by_key` is False) make no pairs.
    """
    selected = rows.select([name for name in rows.schema.names if name not in {KEY, SIDE}])
    texts = list(format_jsonl_records(selected.slice(start, end - start)))
    of_b: dict[bytes, list[int]] = {}
    for place in range(start, end):
        if sides[place]:
            of_b.setdefault(texts[place - start], []).append(place)
    unmatched_a: list[int] = []
    for place in range(start, end):
        if not sides[place]:
            equal = of_b.get(texts[place - start])
            if equal:
                equal.pop()
            else:
                unmatched_a.append(place)

    def text_of(place: int) -> bytes:
        return texts[place - start]

    unmatched_a.sort(key=text_of)  # engines give them in different orders
    rest = sorted((place for places in of_b.values() for place in places), key=text_of)
    both = min(len(unmatched_a), len(rest)) if by_key else 0
    lonely = [(place, False) for place in unmatched_a[both:]] + [(place, True) for place in rest[both:]]
    return list(zip(unmatched_a[:both], rest[:both], strict=True)), lonely


BATCH_ROWS: Final = 1_000
"""Rows of a batch, each of which may hold two objects with certificates."""


@dataclass(frozen=True, slots=True)
class ObjectDifference:
    """Object that differs between the two sides.

    Attributes:
        type: of the object, as on the command line.
        kind: kind of the difference.
        key: value that identifies the object on both sides, in most cases its GUID.
        name: of the object, for messages.
        attributes: those that differ; empty if one side lacks the object.
        a: the object on the first side, as in JSON Lines of an export; None if it is missing there.
        b: the object on the second side, likewise.
    """

    type: str
    kind: ObjectDifferenceKind
    key: str
    name: str
    attributes: tuple[str, ...]
    a: Mapping[str, Any] | None
    b: Mapping[str, Any] | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "ObjectDifference":
        """Make a difference from a row of `mqdssm.pipeline.diff.fields.SCHEMA`."""
        a, b = (None if row[side] is None else json.loads(row[side]) for side in ("a", "b"))
        return cls(
            row["type"],
            ObjectDifferenceKind(row["what"]),
            row["key"],
            row["name"],
            tuple(row["attributes"] or ()),
            a,
            b,
        )


@dataclass(frozen=True, slots=True)
class Differences:
    """Sorted differences in Parquet files.

    Attributes:
        paths: of the files, in order.
    """

    paths: tuple[Path, ...]

    @property
    def count(self) -> int:
        """Number of differences."""
        return sum(pq.read_metadata(path).num_rows for path in self.paths)

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all differences in order, as Arrow batches."""
        for path in self.paths:
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=BATCH_ROWS)

    def __iter__(self) -> Iterator[ObjectDifference]:
        for batch in self.read_batches():
            yield from map(ObjectDifference.of, batch.to_pylist())

    def of(self, type_name: str, kind: ObjectDifferenceKind) -> Iterator[ObjectDifference]:
        """Yield the differences of one type and kind."""
        filters = [("type", "==", type_name), ("what", "==", kind.value)]
        for path in self.paths:
            with pq.ParquetFile(path) as file:
                if file.metadata.num_rows == 0:
                    continue
            table = pq.read_table(path, filters=filters)
            for batch in table.to_batches(max_chunksize=BATCH_ROWS):
                yield from map(ObjectDifference.of, batch.to_pylist())

    def count_kinds(self) -> Counter[tuple[str, ObjectDifferenceKind]]:
        """Return the number of differences of each type and kind."""
        counts: Counter[tuple[str, ObjectDifferenceKind]] = Counter()
        for path in self.paths:
            table = (
                pq.read_table(path, columns=["type", "what"])
                .group_by(["type", "what"])
                .aggregate([([], "count_all")])
            )
            for row in table.to_pylist():
                counts[row["type"], ObjectDifferenceKind(row["what"])] += row["count_all"]
        return counts
