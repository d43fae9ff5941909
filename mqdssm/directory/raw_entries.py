"""Entries as the server wrote them, for copies of a directory.

`mqdssm.directory.entries` normalises the keys of attributes; here attribute descriptions keep their case,
options (``;binary``, ``;lang-de``) and order.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from mqdssm.directory.entries import PartialValues, decode_dn, merge_values, parse_attribute_key, parse_entry
from mqdssm.directory.ranges import RangeReader
from mqdssm.directory.read_operations import make_unreadable
from mqdssm.directory.seen_entries import IDENTITY, add_identity
from mqdssm.directory.streams import Begin
from mqdssm.errors import DecodeError

ServerEntry: TypeAlias = tuple[str, dict[str, list[bytes]]]
"""DN and attribute description -> values, as the server wrote them."""
_RANGE_OPTION: Final = "range="


def decode_raw_entry(buffer: bytes, start: int, end: int) -> ServerEntry:
    """Decode the content of a SearchResultEntry.

    The spelling of the attribute descriptions is kept.

    Args:
        buffer: holds the message.
        start: first octet of the content.
        end: first octet behind it.

    Raises:
        DecodeError: as `mqdssm.directory.entries.decode_entry`.
    """
    name, pairs = parse_entry(buffer, start, end)
    attributes: dict[str, list[bytes]] = {}
    for written, values in pairs:
        _, next_index = parse_attribute_key(written)  # also refuses what is no description
        description = written.decode("ascii")
        if _RANGE_OPTION in description.lower():
            description = _remove_range(description)
        raws: list[bytes] = PartialValues(values, next_index) if next_index else values
        if description in attributes:
            raws = merge_values(attributes[description], raws)
        attributes[description] = raws
    return decode_dn(name, start), {name: values for name, values in attributes.items() if values}


def read_raw_entries(
    begin: Begin, attributes: Sequence[str], ranges: Callable[[], RangeReader]
) -> Iterator[ServerEntry]:
    """Read a search to its end, each object once (decision M72).

    Args:
        begin: makes the search.
        attributes: that the caller wants.
        ranges: completes values that came in part.

    Raises:
        DirectoryError: while iterating; a search that breaks off never looks like a short one.
    """
    requested, added = add_identity(attributes)
    search = begin(requested)
    for page in search.read_pages():
        for buffer, messages in page.parts:
            for message in messages:
                try:
                    dn, raws = decode_raw_entry(buffer, message.start, message.end)
                except DecodeError as error:
                    raise make_unreadable(error) from error
                identity = next((name for name in raws if name.lower() == IDENTITY.lower()), IDENTITY)
                if not search.delivered.is_new(dn, raws.get(identity)):
                    continue
                if added:
                    raws.pop(identity, None)
                for name, values in raws.items():
                    if isinstance(values, PartialValues):
                        raws[name] = ranges().values(dn, name, values)
                yield dn, raws


def _remove_range(description: str) -> str:
    parts = [part for part in description.split(";") if not part.lower().startswith(_RANGE_OPTION)]
    return ";".join(parts)
