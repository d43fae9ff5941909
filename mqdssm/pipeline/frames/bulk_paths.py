"""Paths and names computed from the DNs of entries, for many plain ASCII names at once.

Arrow cuts the parts out of a plain DN (no escapes, only ASCII letters, no extension of the queue's name). All
other DNs go to the events' own function, one by one.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.errors import MappingError
from mqdssm.events.computed_attributes import ValueMaker, text_of
from mqdssm.events.references import REMEMBERED_MAX, References
from mqdssm.pipeline.frames.bulk_columns import ComputedColumn, EntryBatch
from mqdssm.pipeline.frames.columns import Column
from mqdssm.tables import compute
from mqdssm.tables.row import Computed, Row

# printable ASCII without the characters that separate RDNs or need a parser: " # + , \
_PLAIN: Final = r" !$-*\--\[\]-~"
_QUEUE_DN: Final = (
    rf"^[A-Za-z]+=(?P<queue>[{_PLAIN}]+),[A-Za-z]+=[{_PLAIN}]*,"
    rf"(?P<above>[A-Za-z]+=(?P<computer>[{_PLAIN}]+),[,{_PLAIN}]*)$"
)


def different_parents(names: pa.Array) -> dict[str, str]:
    """Return parent DN -> one DN below it; a DN that is not plain stands for itself."""
    above = pc.replace_substring_regex(names, rf"^[A-Za-z]+=[{_PLAIN}]*,", "").dictionary_encode()
    _, first = np.unique(above.indices, return_index=True)
    return dict(zip(above.dictionary.to_pylist(), names.take(pa.array(first)).to_pylist(), strict=True))


class FullPath(ComputedColumn):
    """Column with the DN."""

    def quickly(self, batch: EntryBatch) -> pa.Array:
        """See ColumnMaker."""
        return batch.names


class DirectoryPath(ComputedColumn):
    """Column with the DN as an LDAP URL (decision M15)."""

    def quickly(self, batch: EntryBatch) -> pa.Array:
        """See ColumnMaker."""
        return pc.binary_join_element_wise(compute.directory_path(""), batch.names, "")


class Pathname(ComputedColumn):
    r"""Column ``computer\queue``; plain names are only put in lower case ([MS-MQDSSM] 3.1.6.11.2.1)."""

    def quickly(self, batch: EntryBatch) -> pa.Array:
        """See ColumnMaker."""
        parts = _queue_dns(batch)
        array = pc.binary_join_element_wise(self._first(batch, parts), _part(parts, "queue"), "\\")
        needs_thought = np.array(array.is_null())
        for place in self._places:
            needs_thought |= np.asarray(batch.octets(place).is_valid())
        numbers = np.flatnonzero(needs_thought)
        if not len(numbers):
            return array
        cells = self.cells(batch, numbers.tolist())
        return pc.replace_with_mask(array, pa.array(needs_thought), pa.array(cells, self.type))

    def _first(self, batch: EntryBatch, parts: pa.Array) -> pa.Array:
        """Return the part before the backslash; NULL if the events' function has to decide."""
        del batch  # used by the subclass only
        return _part(parts, "computer")


class QualifiedPathname(Pathname):
    r"""Column ``dns-name\queue`` ([MS-MQDSSM] 3.1.6.11.2.2); a computer is read once for all its queues."""

    def __init__(self, column: Column, row: Row, maker: ValueMaker, places: tuple[int, ...]) -> None:
        """See ComputedColumn."""
        super().__init__(column, row, maker, places)
        self._hosts: dict[str, str | None] = {}

    def _first(self, batch: EntryBatch, parts: pa.Array) -> pa.Array:
        """See Pathname."""
        computers = pc.struct_field(parts, "above").dictionary_encode()
        if len(self._hosts) > REMEMBERED_MAX:
            self._hosts.clear()
        known, hosts = self._hosts, []
        for dn in computers.dictionary.to_pylist():
            if dn not in known:
                known[dn] = _host(batch.references, dn)
            hosts.append(known[dn])
        return pc.ascii_lower(pa.array(hosts, pa.string()).take(computers.indices))


def _queue_dns(batch: EntryBatch) -> pa.Array:
    """Return the parts of plain DNs of queues, cut out once for all columns that need them."""
    found = batch.shared.get(_QUEUE_DN)
    if found is None:
        found = batch.shared[_QUEUE_DN] = pc.extract_regex(batch.names, _QUEUE_DN)
    return found


def _part(parts: pa.Array, name: str) -> pa.Array:
    return pc.ascii_lower(pc.ascii_trim(pc.struct_field(parts, name), " "))


def _host(references: References, computer_dn: str) -> str | None:
    """Return the DNS name of a computer if it is plain ASCII; else None, and the events' function decides."""
    computer = references.computer(computer_dn)
    raw = None if computer is None else computer.first("dNSHostName")
    if raw is None:
        return None
    try:
        host = text_of(raw)
    except MappingError:
        return None
    return host if host.isascii() and host else None


PATHS: Final[Mapping[Computed, type[ComputedColumn]]] = MappingProxyType(
    {
        Computed.FULL_PATH: FullPath,
        Computed.DIRECTORY_PATH: DirectoryPath,
        Computed.PATHNAME: Pathname,
        Computed.QUALIFIED_PATHNAME: QualifiedPathname,
    }
)
