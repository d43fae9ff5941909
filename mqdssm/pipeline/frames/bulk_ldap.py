"""Raw entries of a directory as Arrow record batches: any class, all attributes, nothing decoded."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from mqdssm.directory.filters import TRUE, LdapFilter
from mqdssm.directory.raw_entries import ServerEntry
from mqdssm.directory.session import Session
from mqdssm.events.attributes import NO_ATTRIBUTES
from mqdssm.pipeline.frames.arrow import arrow_schema, arrow_type
from mqdssm.pipeline.frames.bases import Base
from mqdssm.pipeline.frames.bulk_values import lists, octets, texts
from mqdssm.pipeline.frames.columns import ATTRIBUTES, DN_COLUMN, OBJECT_CLASS, Column

ALL_USER_ATTRIBUTES: Final = "*"
_OBJECT_CLASS_KEY: Final = OBJECT_CLASS.name.lower()


def raw_entries(
    session: Session,
    columns: Sequence[Column],
    *,
    where: LdapFilter | None,
    bases: Sequence[Base],
    attributes: Sequence[str],
) -> Iterator[ServerEntry]:
    """Read raw entries below some bases.

    Args:
        session: session with the server.
        columns: those wanted, of the raw entry's.
        where: an LDAP filter; None: all entries.
        bases: bases of the searches.
        attributes: attributes to request if column `attributes` is wanted.

    Raises:
        DirectoryError: while iterating.
    """
    asked = list(attributes) if ATTRIBUTES in columns else list(NO_ATTRIBUTES)
    if OBJECT_CLASS in columns:
        asked = [OBJECT_CLASS.name, *(name for name in asked if name not in NO_ATTRIBUTES)]
    for base in bases:
        with base.perhaps_absent():
            yield from session.find_raw(base.dn, where or TRUE, asked)


def entry_bytes(entry: ServerEntry) -> int:
    """Return the number of octets of the values of an entry."""
    return sum(sum(map(len, values)) for values in entry[1].values())


def raw_batch(entries: Sequence[ServerEntry], columns: Sequence[Column]) -> pa.RecordBatch:
    """Convert raw entries into a record batch."""
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
    """Make maps from descriptions to values, in the entry's order."""
    names = [name for entry in entries for name in entry]
    values = lists([value for entry in entries for value in entry.values()], octets, empty=True)
    offsets = np.zeros(len(entries) + 1, np.int32)
    np.cumsum([len(entry) for entry in entries], out=offsets[1:])
    return pa.MapArray.from_arrays(
        pa.array(offsets), pa.array(names, pa.string()), values, type=arrow_type(ATTRIBUTES)
    )
