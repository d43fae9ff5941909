"""Objects that may differ, field by field, each by its attribute's matching rule (decision M81).

Rows of both sides come sorted by key, those of A before those of B. A column is compared as a whole first;
only values that are not the same octets are looked at by Python.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from enum import StrEnum
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.model.dn import DN
from mqdssm.pipeline.diff.comparable_columns import CERTIFICATES, ComparableType, Field
from mqdssm.pipeline.texts import jsonl_records
from mqdssm.tables import equality
from mqdssm.tables.syntax import DESCRIPTOR, Kind

KEY, SIDE = "__key", "__side"
TEXT_ATTRIBUTE: Final = "cn"
"""An attribute whose matching rule is that of the texts that are computed from names."""
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
"""A difference: its type, what it is, key and name of the object, the attributes, and both sides as JSON."""
DDL: Final = "type string, what string, key string, name string, attributes array<string>, a string, b string"
SHOWN: Final = ("Pathname", "ComputerName", "Name", "FullPath", "SecurityIdentifier", "Identifier")
"""Columns that name an object for people, the best first."""


class What(StrEnum):
    """What a difference is."""

    MISSING = "missing"
    """A holds the object, B does not."""
    EXTRA = "extra"
    """B holds it, A does not."""
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Ground:
    """What has to be known of a side to compare its values. It is pickled into every task.

    Attributes:
        root: where its tree begins; empty: it has none.
        is_mqis: it is made of MQIS tables, in which NULL may say nothing.
        hides_sacls: it is a directory that shows SACLs to auditors alone, or was exported from one.
        names: what it calls objects that the other side calls otherwise: GUID -> common GUID.
    """

    root: str = ""
    is_mqis: bool = False
    hides_sacls: bool = False
    names: Mapping[str, str] = dataclass_field(default_factory=dict)


Same = Callable[[Any, Any], bool]


def sameness(field: Field, a: Ground, b: Ground) -> Same:
    """The rule by which two values of a column are one; None is a value that is not there.

    Args:
        field: the column.
        a: where the first value is from.
        b: where the second one is from.
    """
    keys = (_key_maker(field, a), _key_maker(field, b))
    silent = field.lenient
    loose = _completes(field) and (a.is_mqis or b.is_mqis)

    def same(x: Any, y: Any) -> bool:
        if silent and ((x is None and a.is_mqis) or (y is None and b.is_mqis)):
            return True
        x, y = _filled(field, x), _filled(field, y)
        if x is None or y is None:
            return x is y
        if keys[0](x) == keys[1](y):
            return True
        if not loose:
            return False
        wanted, found, there = (x, y, b) if a.is_mqis else (y, x, a)
        return equality.holds(_attribute(field), [wanted], [found], hides_sacls=there.hides_sacls)

    return same


def _filled(field: Field, value: Any) -> Any:
    if field.column.many:
        return tuple(value) if value else None
    if value is None:
        value = field.default
    return None if value in ("", b"") else value  # a directory stores no empty value (M38)


def _attribute(field: Field) -> str:
    return field.row.ldap[0] if field.row is not None and field.row.ldap else ""


def _completes(field: Field) -> bool:
    """Whether a server may complete what it is given: descriptors."""
    return field.row is not None and field.row.syntax is DESCRIPTOR


def _key_maker(field: Field, ground: Ground) -> Callable[[Any], Hashable]:
    one = _one_key(field, ground)
    if field.column.many:
        return lambda values: frozenset(map(one, values))
    return one


def _one_key(field: Field, ground: Ground) -> Callable[[Any], Hashable]:
    """What of one value counts."""
    if field.is_place:
        return lambda dn: place(dn, ground.root)
    if field.refers:
        names = ground.names
        return lambda guid: names.get(guid, guid)
    attribute = _attribute(field)
    if field.row is None or field.column.kind is Kind.ENUMERATION:
        return _itself
    if field.column.kind is Kind.TEXT:
        name = TEXT_ATTRIBUTE if field.row.computed is not None else attribute
        return lambda text: equality.key_of(name, text.encode())
    if field.column.kind is Kind.DN:
        return lambda text: equality.key_of(attribute, text.encode())
    if field.column.kind is Kind.BYTES:
        return lambda raw: equality.key_of(attribute, raw)
    return _itself


def _itself(value: Any) -> Hashable:
    found: Hashable = value
    return found


def place(dn: str, root: str) -> Hashable:
    """Where an object is below the root of its tree; a text that is no DN stands for itself."""
    try:
        parsed, top = DN.parse(dn), DN.parse(root)
    except ValueError:
        return dn
    if root and parsed.is_at_or_below(top):
        return DN(parsed.rdns[: len(parsed) - len(top)])
    return parsed


class FieldByField:
    """Compares rows of one type.

    Args:
        compared: the type.
        a: the first side.
        b: the second side.
    """

    def __init__(self, compared: ComparableType, a: Ground, b: Ground) -> None:
        self._type = compared.type
        self._strangers = compared.type == "user" and a.is_mqis != b.is_mqis
        self._mqis = (a.is_mqis, b.is_mqis)
        self._rules = [(field, sameness(field, a, b)) for field in compared.fields]

    def differences(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The differences of rows that come sorted by `KEY` and `SIDE`."""
        for rows in _whole_groups(batches):
            found = self._of_groups(rows)
            if found.num_rows:
                yield found

    def _of_groups(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        pairs, lonely = _paired(rows)
        attributes = self._unlike(rows, [one for one, _ in pairs], [other for _, other in pairs])
        unlike = zip(pairs, attributes, strict=True)
        found = [_Found(What.DIFFERENT, a, b, a, names) for (a, b), names in unlike if names]
        for row, of_b in lonely:
            if self._strangers and not self._mqis[of_b] and _without_certificates(rows, row):
                continue  # an account of the directory that is no user of MSMQ
            found.append(_Found(What.EXTRA, None, row, row) if of_b else _Found(What.MISSING, row, None, row))
        return self._batch(rows, found)

    def _unlike(self, rows: pa.RecordBatch, firsts: list[int], seconds: list[int]) -> list[list[str]]:
        """Of each pair the attributes that differ."""
        unlike: list[list[str]] = [[] for _ in firsts]
        if not firsts:
            return unlike
        one, other = pa.array(firsts, pa.int64()), pa.array(seconds, pa.int64())
        for field, same in self._rules:
            column = rows.column(field.name)
            x, y = column.take(one), column.take(other)
            for number in _unlike_octets(x, y):
                if not same(x[number].as_py(), y[number].as_py()):
                    unlike[number].append(field.name)
        return unlike

    def _batch(self, rows: pa.RecordBatch, found: Sequence["_Found"]) -> pa.RecordBatch:
        columns = [name for name in rows.schema.names if name not in {KEY, SIDE}]
        own = rows.select(columns)
        shown = [rows.column(name) for name in SHOWN if name in columns]
        places = [one.named_by for one in found]
        arrays = [
            pa.array([self._type] * len(found), pa.string()),
            pa.array([one.what.value for one in found], pa.string()),
            rows.column(KEY).take(pa.array(places, pa.int64())),
            pa.array([_first(shown, place) for place in places], pa.string()),
            pa.array([one.attributes for one in found], pa.list_(pa.string())),
            pa.array(_texts(own, [one.a for one in found]), pa.string()),
            pa.array(_texts(own, [one.b for one in found]), pa.string()),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _without_certificates(rows: pa.RecordBatch, row: int) -> bool:
    names = [name for name in CERTIFICATES if name in rows.schema.names]
    return not any(rows.column(name)[row].as_py() for name in names)


class _Found(NamedTuple):
    """A difference: which rows, and which attributes of theirs."""

    what: What
    a: int | None
    b: int | None
    named_by: int
    attributes: Sequence[str] = ()


def _first(columns: Sequence[pa.Array], place: int) -> str:
    """What names a row for people."""
    return next((str(column[place].as_py()) for column in columns if column[place].is_valid), "")


def _texts(rows: pa.RecordBatch, places: Sequence[int | None]) -> list[str | None]:
    """Some rows as JSON; None where there is none."""
    known = [place for place in places if place is not None]
    written = jsonl_records(rows.take(pa.array(known, pa.int64())))
    return [None if place is None else next(written).decode().rstrip("\n") for place in places]


def _unlike_octets(x: pa.Array, y: pa.Array) -> list[int]:
    """Places at which two columns do not hold the very same."""
    if pa.types.is_nested(x.type):
        return [
            n for n, (one, other) in enumerate(zip(x.to_pylist(), y.to_pylist(), strict=True)) if one != other
        ]
    same = pc.fill_null(pc.equal(x, y), fill_value=False)
    alike = pc.or_(same, pc.and_(pc.is_null(x), pc.is_null(y)))
    found: list[int] = pc.indices_nonzero(pc.invert(alike)).to_pylist()
    return found


def _whole_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, cut where a key ends."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        last = _last_group(batch.column(KEY))
        if last or (waiting and waiting[-1].column(KEY)[-1] != batch.column(KEY)[0]):
            yield _joined([*waiting, batch.slice(0, last)])
            waiting = []
        waiting.append(batch.slice(last))
    if waiting:
        yield _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches([one for one in batches if one.num_rows])


def _last_group(keys: pa.Array) -> int:
    """Where the last key begins."""
    place: int = pc.index(keys, keys[-1]).as_py()
    return place


def _paired(rows: pa.RecordBatch) -> tuple[list[tuple[int, int]], list[tuple[int, bool]]]:
    """Rows of A and of B that are to be compared, and those that stand alone (True: of B)."""
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
            more, rest = _matched(rows, start, end, sides, by_key=bool(keys[start]))
            pairs += more
            lonely += rest
        start = end
    return pairs, lonely


def _matched(
    rows: pa.RecordBatch, start: int, end: int, sides: Sequence[int], *, by_key: bool
) -> tuple[list[tuple[int, int]], list[tuple[int, bool]]]:
    """Several rows of one key: those that are the very same, then the others in the order of their texts.

    Rows that nothing can be found by are no pair unless they are the same.
    """
    own = rows.select([name for name in rows.schema.names if name not in {KEY, SIDE}])
    texts = list(jsonl_records(own.slice(start, end - start)))
    of_b: dict[bytes, list[int]] = {}
    for place in range(start, end):
        if sides[place]:
            of_b.setdefault(texts[place - start], []).append(place)
    left: list[int] = []
    for place in range(start, end):
        if not sides[place]:
            equal = of_b.get(texts[place - start])
            if equal:
                equal.pop()
            else:
                left.append(place)

    def text_of(place: int) -> bytes:
        return texts[place - start]

    left.sort(key=text_of)  # in whatever order an engine gives them
    rest = sorted((place for places in of_b.values() for place in places), key=text_of)
    both = min(len(left), len(rest)) if by_key else 0
    lonely = [(place, False) for place in left[both:]] + [(place, True) for place in rest[both:]]
    return list(zip(left[:both], rest[:both], strict=True)), lonely
