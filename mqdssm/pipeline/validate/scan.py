"""Application of rules to batches of objects with Arrow.

The rules run in workers that read the files themselves.
All rules of a type are applied to a batch while it is in memory. A test computes the mask of bad rows for the
whole batch at once; only rows with findings are processed singly.

Search for values that only one object may have, with Arrow: the key's columns are read up to twice.

The first reading counts the values; usually all are different, and that is all. The second reading, only if
some are repeated, finds their objects. Values are in memory meanwhile, up to a number: more are counted in
several parts, each of which reads the columns anew. Spark, where it is the engine, counts as many by SQL
(`mqdssm.pipeline.validate.worker`).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.errors import ConfigError
from mqdssm.pipeline.frames.arrow_functions import (
    FACTOR,
    any_of,
    first_of_pairs,
    is_in_part,
    matches,
    of_numbers,
    spread,
)
from mqdssm.pipeline.runner import StopRequest
from mqdssm.pipeline.validate.datasets import Dataset, keep_table, values_of
from mqdssm.pipeline.validate.rules.examiners import EXAMINERS, Case, Verdict
from mqdssm.pipeline.validate.rules.rule import (
    UNREADABLE,
    Judged,
    MissingReference,
    Repeated,
    Rule,
    Undecodable,
    Unequal,
    Wrong,
)
from mqdssm.pipeline.validate.translate import Columns, translate, translate_condition, translate_message

if TYPE_CHECKING:
    import numpy.typing as npt

SCHEMA: Final = pa.schema(
    [
        pa.field(name, pa.string())
        for name in ("rule", "severity", "type", "dn", "guid", "attribute", "message", "section")
    ]
)
"""Schema of findings."""
DELETED_MARK: Final = re.compile(r"(?:\\0[Aa]|\\n|\n)DEL:")
"""Pattern of deleted objects' names, as Active Directory writes them, as slapd does, and as `repr` shows."""
VERDICTS_MAX: Final = 65_536  # limit of distinct descriptors and certificates whose verdicts are cached
REMEMBERED_KEYS_MAX: Final = 50_000  # limit of keys that are cached as a set (6 MB)

Findings = Iterator[pa.RecordBatch]
Test = Callable[["ObjectBatch"], Findings]


@dataclass(frozen=True, slots=True)
class ObjectBatch:
    """Some objects of one type.

    Attributes:
        type: of the objects.
        columns: by name.
        rows: how many.
        dn: of all objects, if they have no attribute with it (there is only one enterprise).
    """

    type: str
    columns: Columns
    rows: int
    dn: str | None = None

    def take_rows(self, rows: pa.Array) -> "ObjectBatch":
        """Return some of the objects, by their numbers, which may repeat."""
        columns = {name: values.take(rows) for name, values in self.columns.items()}
        return ObjectBatch(self.type, columns, len(rows), self.dn)

    def keep_rows(self, mask: pa.Array) -> "ObjectBatch":
        """Return the objects for which a mask is true."""
        columns = {name: values.filter(mask) for name, values in self.columns.items()}
        return ObjectBatch(self.type, columns, mask.true_count, self.dn)


def tests_of(
    rules: Sequence[Rule],
    target: Dataset,
    sets: Mapping[str, Dataset],
    now: datetime,
) -> list[Test]:
    """Make the tests of a type.

    Args:
        rules: the rules about single objects.
        target: the type.
        sets: all types, for references.
        now: the moment of the validation.

    Raises:
        Untranslatable: a rule that only Spark can evaluate.
    """
    tests: list[Test] = []
    for rule in rules:
        if isinstance(rule, MissingReference):
            tests.append(_make_reference_test(rule, target, sets[rule.target]))
        elif isinstance(rule, Wrong):
            tests.append(_make_row_test(rule, target))
    tests += _make_judge_tests(rules, target, now)
    if UNREADABLE in target.types:
        tests.append(_make_undecodable_test(rules, target.type))
    return tests


def columns_of(rules: Sequence[Rule], target: Dataset) -> tuple[str, ...]:
    """Return the columns that the rules of a type need.

    Columns that identify an object are among them.
    """
    names = {"Identifier", "FullPath", UNREADABLE}.union(*(rule.columns() for rule in rules))
    return tuple(name for name, _ in target.columns if name in names)


# -- findings


def make_findings(rule: Rule, batch: ObjectBatch, messages: pa.Array, *, attribute: str = "") -> Findings:
    """Make findings about all objects of a batch.

    Objects whose attribute could not be decoded are left out.
    """
    if not attribute and UNREADABLE in batch.columns:
        lost = find_unreadable(batch.columns[UNREADABLE], rule.attribute)
        if lost is not None:
            batch, messages = batch.keep_rows(pc.invert(lost)), messages.filter(pc.invert(lost))
    if not batch.rows:
        return
    null = pa.nulls(batch.rows, pa.string())
    dn = batch.columns.get("FullPath", null if batch.dn is None else pa.repeat(batch.dn, batch.rows))
    constant = {
        "rule": rule.id,
        "severity": rule.severity,
        "type": batch.type,
        "attribute": attribute or rule.attribute,
        "section": rule.section,
    }
    arrays = {name: pa.repeat(value, batch.rows) for name, value in constant.items()}
    arrays |= {"dn": dn, "guid": batch.columns.get("Identifier", null), "message": messages}
    yield pa.RecordBatch.from_arrays([arrays[name] for name in SCHEMA.names], schema=SCHEMA)


def find_unreadable(column: Any, attribute: str) -> pa.Array | None:
    """Return a mask of the objects whose attribute could not be decoded.

    Returns None if all values could.
    """
    if column.null_count == len(column):
        return None
    return pc.fill_null(any_of(column, lambda flat: pc.starts_with(flat, f"{attribute}:")), False)


# -- single rows


def _make_row_test(rule: Wrong, target: Dataset) -> Test:
    bad, words = (
        translate_condition(rule.condition, target.types),
        translate_message(rule.message, target.types),
    )

    def test(batch: ObjectBatch) -> Findings:
        try:
            mask = bad(batch.columns, batch.rows)
            if not mask.true_count:
                return
            some = batch.keep_rows(mask)
            messages = words(some.columns, some.rows)
        except pa.ArrowInvalid as error:  # from an own rule that adds or multiplies
            raise ConfigError(f"rule {rule.id} cannot judge some {target.type}: {error}") from error
        yield from make_findings(rule, some, messages)

    return test


# -- references


def _make_reference_test(rule: MissingReference, source: Dataset, target: Dataset) -> Test:
    value, where = translate(rule.value, source.types), translate_condition(rule.where, source.types)
    extra = {"value": pa.string()}
    if isinstance(rule, Unequal):
        extra |= {f"other.{name}": target.types[name] for name in rule.list_other_columns()}
    words = translate_message(rule.message, source.types | extra)
    compare = translate_condition(rule.condition, source.types | extra) if isinstance(rule, Unequal) else None

    def test(batch: ObjectBatch) -> Findings:
        other_columns: dict[str, pa.Array] = {}
        parents, values = _explode_lists(value.evaluate(batch.columns), where(batch.columns, batch.rows))
        if compare is None:
            lost = _without_target(values, target, rule.key)
            if not lost.true_count:
                return
            parents, values = parents.filter(lost), values.filter(lost)
        elif isinstance(rule, Unequal):
            parents, values, other_columns = _join_targets(parents, values, target, rule)
        if not len(parents):
            return
        some = batch.take_rows(parents)
        columns = {**some.columns, "value": values, **other_columns}
        messages = words(columns, some.rows)
        if compare is not None:
            mask = compare(columns, some.rows)
            some, parents, messages = some.keep_rows(mask), parents.filter(mask), messages.filter(mask)
            once = first_of_pairs(parents, messages)  # two targets of one object may give equal messages
            some, messages = some.take_rows(once), messages.take(once)
        yield from make_findings(rule, some, messages)

    return test


def _explode_lists(values: Any, selected: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return references and the row numbers of their objects, without NULL."""
    rows = _number_rows(len(selected))
    if pa.types.is_list(values.type):
        rows, values = pc.list_parent_indices(values).cast(pa.int64()), pc.list_flatten(values)
        selected = selected.take(rows)
    mask = pc.and_(pc.is_valid(values), selected)
    return rows.filter(mask), values.filter(mask)


def _number_rows(count: int) -> pa.Array:
    """Return the row numbers 0, 1, 2 and so on."""
    return of_numbers(np.arange(count))


def _without_target(values: pa.Array, target: Dataset, key: str) -> pa.Array:
    """Return a mask of the references without a target."""
    keys = keys_of(target, key)
    if len(keys) > REMEMBERED_KEYS_MAX or not pa.types.is_string(values.type):
        return pc.is_null(pc.index_in(values, value_set=keys))
    # neighbours have equal references, and Arrow would hash all keys again for each batch
    encoded = values.dictionary_encode()
    target_keys = _remember_keys(target, key)
    lost = pa.array([value not in target_keys for value in encoded.dictionary.to_pylist()], pa.bool_())
    return lost.take(encoded.indices)


@lru_cache(maxsize=32)
def _remember_keys(target: Dataset, key: str) -> frozenset[str]:
    return frozenset(keys_of(target, key).to_pylist())


@lru_cache(maxsize=32)
def keys_of(target: Dataset, key: str) -> pa.Array:
    """Return the keys of possible targets; computed once in a process."""
    expression = translate(key, target.types)
    table = keep_table(target, tuple(sorted(expression.columns)))
    columns = {name: _join_chunks(table[name]) for name in table.column_names}
    return pc.drop_null(pc.unique(expression.evaluate(columns)))


def _join_chunks(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.chunk(0) if joined.num_chunks else pa.array([], joined.type)
    return joined


def _join_targets(
    parents: pa.Array, values: pa.Array, target: Dataset, rule: Unequal
) -> tuple[pa.Array, pa.Array, dict[str, pa.Array]]:
    """Return each reference with each of its targets."""
    expression = translate(rule.key, target.types)
    names = tuple(sorted(expression.columns | rule.list_other_columns()))
    table = keep_table(target, names)
    columns = {name: _join_chunks(table[name]).cast(target.types[name]) for name in names}
    here, other_rows = matches(values, expression.evaluate(columns))
    other_columns = {f"other.{name}": columns[name].take(other_rows) for name in rule.list_other_columns()}
    return parents.take(here), values.take(here), other_columns


# -- values for examiners


def _make_judge_tests(rules: Sequence[Rule], target: Dataset, now: datetime) -> list[Test]:
    """Make one test for all rules with one examiner and the same columns."""
    groups: dict[tuple[str, tuple[str, ...], str], list[Judged]] = {}
    for rule in rules:
        if isinstance(rule, Judged):
            groups.setdefault((rule.examiner, rule.looks_at, rule.where), []).append(rule)
    return [_judge(members, target, now) for members in groups.values()]


def _judge(members: Sequence[Judged], target: Dataset, now: datetime) -> Test:
    first = members[0]
    where = translate_condition(first.where, target.types)
    by_id = {rule.id: rule for rule in members}
    simple = len(first.looks_at) == 1

    def test(batch: ObjectBatch) -> Findings:
        columns = batch.columns
        if simple and pa.types.is_dictionary(columns[first.looks_at[0]].type):
            parents, judged, places = _by_dictionary(columns[first.looks_at[0]], first, batch.type, now)
        else:
            mask = where(columns, batch.rows)
            if not mask.true_count:
                return
            parents = _number_rows(batch.rows).filter(mask)
            lists = [columns[name].filter(mask).to_pylist() for name in first.looks_at]
            judged = [
                _examine_value(first.examiner, batch.type, _make_hashable(case), now)
                for case in zip(*lists, strict=True)
            ]
            places = _number_rows(len(judged))
        for number, verdicts in enumerate(judged):
            for rule_id, words in verdicts:
                rule = by_id.get(rule_id)
                if rule is not None:
                    some = batch.take_rows(parents.filter(pc.equal(places, number)))
                    yield from make_findings(rule, some, pa.repeat(words, some.rows))

    return test


def _by_dictionary(
    column: Any, rule: Judged, name: str, now: datetime
) -> tuple[pa.Array, list[tuple[Verdict, ...]], pa.Array]:
    """Examine each distinct value of a column once."""
    judged = [
        _examine_value(rule.examiner, name, (value,), now) if value else ()
        for value in column.dictionary.to_pylist()
    ]
    if not any(judged):
        return _number_rows(0), [], _number_rows(0)
    valid = pc.is_valid(column.indices)
    return _number_rows(len(column)).filter(valid), judged, column.indices.filter(valid)


def _make_hashable(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in values)


@lru_cache(maxsize=VERDICTS_MAX)
def _examine_value(examiner: str, name: str, values: tuple[Any, ...], now: datetime) -> tuple[Verdict, ...]:
    return tuple(EXAMINERS[examiner](Case(name, values, now)))


# -- values that could not be decoded


def _make_undecodable_test(rules: Sequence[Rule], name: str) -> Test:
    """Make a test that reports undecodable values.

    Each value is reported by the one rule for its attribute.
    """
    special = {rule.attribute: rule for rule in rules if rule.decodes}
    general = {rule.id: rule for rule in rules if isinstance(rule, Undecodable) and not rule.decodes}
    dangling, other = general.get("reference-dangling"), general.get("attribute-unreadable")
    attributes = _list_decoded_by_rules(name)

    def rule_of(attribute: str, reason: str) -> Rule | None:
        if DELETED_MARK.search(reason):
            return dangling
        return special.get(attribute) if attribute in attributes else other

    def test(batch: ObjectBatch) -> Findings:
        column = batch.columns[UNREADABLE]
        if column.null_count == len(column):
            return
        parents = pc.list_parent_indices(column).cast(pa.int64())
        pieces = pc.list_flatten(column).to_pylist()
        groups: dict[tuple[str, str], list[int]] = {}
        for number, piece in enumerate(pieces):
            attribute, _, reason = (piece or "").partition(": ")
            groups.setdefault((attribute, reason), []).append(number)
        for (attribute, reason), numbers in groups.items():
            rule = rule_of(attribute, reason)
            if rule is not None:
                some = batch.take_rows(parents.take(pa.array(numbers)))
                words = pa.repeat(f"{attribute} cannot be decoded: {reason}", some.rows)
                yield from make_findings(rule, some, words, attribute=attribute)

    return test


def _list_decoded_by_rules(name: str) -> frozenset[str]:
    """Return the attributes of a type that have a rule of their own.

    A rule that is switched off counts, too.
    """
    from mqdssm.pipeline.validate.rules import RULES

    return frozenset(rule.attribute for rule in RULES if rule.decodes and name in rule.types)


ROWS_MAX: Final = 16_384  # rows of one batch
_WORD: Final = 4  # octets


class Part(NamedTuple):
    """A part of all values.

    Attributes:
        number: of the part.
        of: number of parts.
    """

    number: int = 0
    of: int = 1

    def select_values(self, values: pa.Array) -> pa.Array | None:
        """Return a mask of the values in this part; None: all are."""
        if self.of == 1:
            return None
        return is_in_part(values, self.number, self.of)


def find_repeated(
    rule: Repeated, sets: Mapping[str, Dataset], dns: Mapping[str, str], held_max: int, stop: StopRequest
) -> Findings:
    """Yield findings about all objects that share a value.

    Args:
        rule: the rule with the key.
        sets: the types that the rule checks.
        dns: DNs of types whose objects have no attribute with it.
        held_max: objects whose values are in memory together.
        stop: checked for each part.

    Raises:
        Untranslatable: a key that only Spark can compute.
        Stopped: the stop was set.
    """
    count = max(1, -(-sum(dataset.rows for dataset in sets.values()) // held_max))
    for number in range(count):
        stop.check()
        yield from _find_repeated_in_part(rule, sets, dns, Part(number, count))


def _find_repeated_in_part(
    rule: Repeated, sets: Mapping[str, Dataset], dns: Mapping[str, str], part: Part
) -> Findings:
    counts = _count_values(rule, sets, part)
    if len(counts) == 0:
        return
    words = translate_message(rule.message, {"value": pa.string(), "count": pa.string()})
    shared = _find_shared_by_others(rule, sets, counts, part)
    if shared is not None:
        counts = counts.filter(shared)
    for _, values, batch in _read_values(rule, sets, dns, part, whole=True):
        places = pc.index_in(values, value_set=counts["value"].combine_chunks())
        mask = pc.is_valid(places)
        if not mask.true_count:
            continue
        number = counts["count"].combine_chunks().take(places.filter(mask)).cast(pa.string())
        some = batch.keep_rows(mask)
        columns = {"value": display_texts(values.filter(mask)), "count": number}
        yield from make_findings(rule, some, words(columns, some.rows))


def display_texts(values: pa.Array) -> pa.Array:
    """Return values as text; octets in hexadecimal."""
    if pa.types.is_binary(values.type):
        return pa.array([value.hex() for value in values.to_pylist()], pa.string())
    return values


def _count_values(rule: Repeated, sets: Mapping[str, Dataset], part: Part) -> pa.Table:
    """Return the values of a part that occur more than once, and their counts."""
    chunks = [values for _, values, _ in _read_values(rule, sets, {}, part, whole=False)]
    if are_surely_different(chunks):
        return pa.table({"value": pa.array([], pa.string()), "count": pa.array([], pa.int64())})
    value_counts = pc.value_counts(pa.chunked_array(chunks))
    table = pa.table({"value": value_counts.field("values"), "count": value_counts.field("counts")})
    return table.filter(pc.greater(table["count"], 1))


def are_surely_different(chunks: Sequence[pa.Array]) -> bool:
    """Return True if all values are certainly different.

    Only values of one length, as GUIDs, are compared.
    Equal values give equal numbers, so if all numbers differ, all values do. To sort a million numbers
    takes an eighth of the time of counting as many texts. For values of several lengths the result is False.
    """
    numbers = [_as_numbers(values) for values in chunks]
    number_arrays = [array for array in numbers if array is not None]
    if len(number_arrays) < len(numbers):
        return False
    ordered = np.sort(np.concatenate([np.empty(0, np.uint64), *number_arrays]))
    return not bool((ordered[1:] == ordered[:-1]).any())


def _as_numbers(values: pa.Array) -> "npt.NDArray[np.uint64] | None":
    """Return a 64-bit number for each value.

    All values must have one length in whole words; they have no NULL.
    """
    if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        return None
    count = len(values)
    if count == 0:
        return np.empty(0, np.uint64)
    places, octets = spread(values)
    width = int(places[1] - places[0])
    if width == 0 or width % _WORD or bool((np.diff(places) != width).any()):
        return None
    words = np.ascontiguousarray(octets).view(np.uint32).reshape(count, width // _WORD)
    hashes = np.zeros(count, np.uint64)
    for column in range(words.shape[1]):
        hashes = (hashes ^ words[:, column]) * FACTOR
        hashes ^= hashes >> np.uint64(29)
    return hashes


def _find_shared_by_others(
    rule: Repeated, sets: Mapping[str, Dataset], counts: pa.Table, part: Part
) -> pa.Array | None:
    """Return a mask of the values that objects of other types share, too.

    Returns None if the rule needs none.
    """
    if not rule.unless_all or rule.unless_all not in sets:
        return None
    value_set = counts["value"].combine_chunks()
    other_datasets = {name: dataset for name, dataset in sets.items() if name != rule.unless_all}
    shared_values = [
        values.filter(pc.is_in(values, value_set=value_set))
        for _, values, _ in _read_values(rule, other_datasets, {}, part, whole=False)
    ]
    if not shared_values:
        return pa.repeat(pa.scalar(False), len(value_set))
    return pc.is_in(value_set, value_set=pa.chunked_array(shared_values).combine_chunks())


def _deduplicate_values(parents: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return each value of an object once, even if its list holds it twice."""
    rows = first_of_pairs(parents, values)
    return parents.take(rows), values.take(rows)


def _read_values(
    rule: Repeated, sets: Mapping[str, Dataset], dns: Mapping[str, str], part: Part, *, whole: bool
) -> Iterator[tuple[str, pa.Array, ObjectBatch]]:
    """Read the values of objects that are in a part, a row for each.

    `whole` adds the columns that identify the object.
    """
    for name, dataset in sets.items():
        key = translate(rule.key, dataset.types)
        column_names = sorted(
            key.columns | ({"Identifier", "FullPath"} & set(dataset.types) if whole else set())
        )
        for record in dataset.read_batches(column_names, ROWS_MAX):
            columns = values_of(record, dataset.types)
            values: Any = key.evaluate(columns)
            batch = ObjectBatch(name, columns if whole else {}, record.num_rows, dns.get(name))
            if pa.types.is_list(values.type):
                parents, values = _deduplicate_values(pc.list_parent_indices(values), pc.list_flatten(values))
                batch = batch.take_rows(parents)
            mask = pc.is_valid(values)
            values, batch = values.filter(mask), batch.keep_rows(mask) if whole else batch
            chosen = part.select_values(values)
            if chosen is not None:
                values, batch = values.filter(chosen), batch.keep_rows(chosen) if whole else batch
            yield name, values, batch
