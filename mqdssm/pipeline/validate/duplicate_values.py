"""Search for values that only one object may have, with Arrow: the key's columns are read up to twice.

The first reading counts the values; usually all are different, and that is all. The second reading, only if
some are repeated, finds their objects. All values of a rule are in memory meanwhile, so that beyond a number
of objects Spark does it instead, which can spill to disk (`mqdssm.pipeline.validate.worker`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.pipeline.frames.arrow_functions import first_of_pairs, spread
from mqdssm.pipeline.validate.datasets import Dataset, values_of
from mqdssm.pipeline.validate.rules.rule import Repeated
from mqdssm.pipeline.validate.scan import Findings, ObjectBatch, findings
from mqdssm.pipeline.validate.translate import message, translate

if TYPE_CHECKING:
    import numpy.typing as npt

ROWS_MAX: Final = 16_384  # rows of one batch
_WORD: Final = 4  # octets
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)  # odd and without a pattern: 2**64 divided by the golden ratio


def repeated(rule: Repeated, sets: Mapping[str, Dataset], dns: Mapping[str, str]) -> Findings:
    """Yield findings about all objects that share a value.

    Args:
        rule: the rule with the key.
        sets: the types that the rule checks.
        dns: DNs of types whose objects have no attribute with it.

    Raises:
        Untranslatable: a key that only Spark can compute.
    """
    counts = _counts(rule, sets)
    if len(counts) == 0:
        return
    words = message(rule.message, {"value": pa.string(), "count": pa.string()})
    shared = _shared_by_others(rule, sets, counts)
    if shared is not None:
        counts = counts.filter(shared)
    for _, values, batch in _keyed(rule, sets, dns, whole=True):
        places = pc.index_in(values, value_set=counts["value"].combine_chunks())
        mask = pc.is_valid(places)
        if not mask.true_count:
            continue
        number = counts["count"].combine_chunks().take(places.filter(mask)).cast(pa.string())
        some = batch.kept(mask)
        columns = {"value": shown(values.filter(mask)), "count": number}
        yield from findings(rule, some, words(columns, some.rows))


def shown(values: pa.Array) -> pa.Array:
    """Return values as text; octets in hexadecimal."""
    if pa.types.is_binary(values.type):
        return pa.array([value.hex() for value in values.to_pylist()], pa.string())
    return values


def _counts(rule: Repeated, sets: Mapping[str, Dataset]) -> pa.Table:
    """Return the values that occur more than once, and their counts."""
    chunks = [values for _, values, _ in _keyed(rule, sets, {}, whole=False)]
    if surely_different(chunks):
        return pa.table({"value": pa.array([], pa.string()), "count": pa.array([], pa.int64())})
    found = pc.value_counts(pa.chunked_array(chunks))
    table = pa.table({"value": found.field("values"), "count": found.field("counts")})
    return table.filter(pc.greater(table["count"], 1))


def surely_different(chunks: Sequence[pa.Array]) -> bool:
    """Return True if all values are certainly different; only values of one length, as GUIDs, are compared.

    Equal values give equal numbers, so if all numbers differ, all values do. To sort a million numbers
    takes an eighth of the time of counting as many texts. For values of several lengths the result is False.
    """
    numbers = [_as_numbers(values) for values in chunks]
    known = [one for one in numbers if one is not None]
    if len(known) < len(numbers):
        return False
    ordered = np.sort(np.concatenate([np.empty(0, np.uint64), *known]))
    return not bool((ordered[1:] == ordered[:-1]).any())


def _as_numbers(values: pa.Array) -> "npt.NDArray[np.uint64] | None":
    """Return a 64-bit number for each value, if all have one length in whole words; they have no NULL."""
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
    made = np.zeros(count, np.uint64)
    for column in range(words.shape[1]):
        made = (made ^ words[:, column]) * _FACTOR
        made ^= made >> np.uint64(29)
    return made


def _shared_by_others(rule: Repeated, sets: Mapping[str, Dataset], counts: pa.Table) -> pa.Array | None:
    """Return a mask of the values that objects of other types share, too; None if the rule needs none."""
    if not rule.unless_all or rule.unless_all not in sets:
        return None
    value_set = counts["value"].combine_chunks()
    others = {name: found for name, found in sets.items() if name != rule.unless_all}
    held = [
        values.filter(pc.is_in(values, value_set=value_set))
        for _, values, _ in _keyed(rule, others, {}, whole=False)
    ]
    if not held:
        return pa.repeat(pa.scalar(False), len(value_set))
    return pc.is_in(value_set, value_set=pa.chunked_array(held).combine_chunks())


def _once(parents: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return each value of an object once, even if its list holds it twice."""
    rows = first_of_pairs(parents, values)
    return parents.take(rows), values.take(rows)


def _keyed(
    rule: Repeated, sets: Mapping[str, Dataset], dns: Mapping[str, str], *, whole: bool
) -> Iterator[tuple[str, pa.Array, ObjectBatch]]:
    """Read the values of objects, a row for each; `whole`: with the columns that identify the object."""
    for name, found in sets.items():
        key = translate(rule.key, found.types)
        wanted = sorted(key.columns | ({"Identifier", "FullPath"} & set(found.types) if whole else set()))
        for record in found.batches(wanted, ROWS_MAX):
            columns = values_of(record, found.types)
            values: Any = key.evaluate(columns)
            batch = ObjectBatch(name, columns if whole else {}, record.num_rows, dns.get(name))
            if pa.types.is_list(values.type):
                parents, values = _once(pc.list_parent_indices(values), pc.list_flatten(values))
                batch = batch.taken(parents)
            mask = pc.is_valid(values)
            yield name, values.filter(mask), batch.kept(mask) if whole else batch
