"""Raw entries of a directory as Arrow record batches: any class, all attributes, nothing decoded."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from mqdssm.directory.filters import TRUE, LdapFilter
from mqdssm.directory.session import Session
from mqdssm.directory.spelt import Spelt
from mqdssm.errors import ObjectNotFound
from mqdssm.model.dn import DN
from mqdssm.spark.arrow import arrow_schema, arrow_type
from mqdssm.spark.bulk_values import lists, octets, texts
from mqdssm.spark.columns import ATTRIBUTES, DN_COLUMN, OBJECT_CLASS, Column
from mqdssm.spark.sizes import sized

ALL_USER_ATTRIBUTES: Final = "*"
_OBJECT_CLASS_KEY: Final = OBJECT_CLASS.name.lower()


def raw_batches(
    session: Session,
    columns: Sequence[Column],
    *,
    where: LdapFilter | None,
    base: str | DN | None,
    attributes: Sequence[str] = (ALL_USER_ATTRIBUTES,),
    rows_max: int,
    bytes_max: int,
) -> Iterator[pa.RecordBatch]:
    """Read entries.

    Args:
        session: where to read.
        columns: those wanted, of the raw entry's.
        where: an LDAP filter; None: all entries.
        base: where to begin; None: everything but the schema.
        attributes: to ask for, where column `attributes` is wanted: ``*`` is all that users write, ``+`` all
            others (not on Active Directory).
        rows_max: rows of a batch.
        bytes_max: octets of values after which a batch ends early.

    Raises:
        DirectoryError: while iterating.
    """
    asked = list(attributes) if ATTRIBUTES in columns else ["1.1"]
    if OBJECT_CLASS in columns:
        asked = [OBJECT_CLASS.name, *(name for name in asked if name != "1.1")]
    bases = session.naming.guid_bases if base is None else (base,)
    for one in bases:
        found = _entries(session, one, where or TRUE, asked)
        for entries in sized(found, _entry_bytes, rows_max=rows_max, bytes_max=bytes_max):
            yield _batch(entries, columns)


def _entries(
    session: Session, base: str | DN, where: LdapFilter, attributes: Sequence[str]
) -> Iterator[Spelt]:
    try:
        yield from session.spelt(base, where, attributes)
    except ObjectNotFound:
        return


def _entry_bytes(entry: Spelt) -> int:
    return sum(sum(map(len, values)) for values in entry[1].values())


def _batch(entries: Sequence[Spelt], columns: Sequence[Column]) -> pa.RecordBatch:
    others, classes = [], []
    for _, attributes in entries:
        key = next((name for name in attributes if name.lower() == _OBJECT_CLASS_KEY), None)
        classes.append(attributes.get(key, []) if key else [])
        others.append({name: values for name, values in attributes.items() if name != key})
    arrays = {
        DN_COLUMN: lambda: pa.array([dn for dn, _ in entries], pa.string()),
        OBJECT_CLASS: lambda: lists(classes, texts, empty=True),
        ATTRIBUTES: lambda: _maps(others),
    }
    return pa.RecordBatch.from_arrays([arrays[column]() for column in columns], schema=arrow_schema(columns))


def _maps(entries: Sequence[dict[str, list[bytes]]]) -> pa.Array:
    """Maps from descriptions to values, in the entry's order."""
    names = [name for entry in entries for name in entry]
    values = lists([value for entry in entries for value in entry.values()], octets, empty=True)
    offsets = np.zeros(len(entries) + 1, np.int32)
    np.cumsum([len(entry) for entry in entries], out=offsets[1:])
    return pa.MapArray.from_arrays(
        pa.array(offsets), pa.array(names, pa.string()), values, type=arrow_type(ATTRIBUTES)
    )
