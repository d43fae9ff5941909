"""Searches as streams of entries or rows, each object once.

See [MS-MQDSSM] 3.1.6.15 and decision M72.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from mqdssm.directory.channel import Page
from mqdssm.directory.entries import Entry
from mqdssm.directory.profile import Profile
from mqdssm.directory.ranges import RangeReader
from mqdssm.directory.read_operations import decode_whole_entry, make_unreadable
from mqdssm.directory.responses import MessageBounds
from mqdssm.directory.rows import RowDecoder
from mqdssm.directory.searching import PagedSearch
from mqdssm.directory.seen_entries import IDENTITY, add_identity
from mqdssm.errors import DecodeError

Rows = list[tuple[Any, ...]]
Begin = Callable[[tuple[str, ...]], PagedSearch]
"""Makes the search for these attributes without sending it."""


def read_entries(
    begin: Begin, attributes: Sequence[str], ranges: Callable[[], RangeReader]
) -> Iterator[Entry]:
    """Yield the entries of a search, each object once.

    Args:
        begin: makes the search.
        attributes: that the caller wants.
        ranges: completes values that came in part.

    Raises:
        ValueError: an attribute name that is none.
        DirectoryError: while iterating.
    """
    requested, added = add_identity(attributes)
    search = begin(requested)

    def stream() -> Iterator[Entry]:
        for page in search.read_pages():
            for buffer, messages in page.parts:
                for message in messages:
                    entry = decode_whole_entry(buffer, message.start, message.end, message.stop)
                    if not search.delivered.is_new(entry.dn, entry.all(IDENTITY)):
                        continue
                    if added:
                        entry.attributes.pop(IDENTITY.lower(), None)
                    yield ranges().complete(entry)

    return stream()


@dataclass(frozen=True, slots=True)
class RowOptions:
    """Options for making rows from a search.

    Attributes:
        columns: attributes, in the order of the row.
        multi: the columns that come as a list of values.
        profile: of the server.
        brings: the server was asked to bring along what the entries refer to; None: nobody wants it.
        ranges: completes values that came in part.
    """

    columns: tuple[str, ...]
    multi: frozenset[str]
    profile: Profile
    brings: bool | None
    ranges: Callable[[], RangeReader]

    def stream(self, begin: Begin) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a search, each object once.

        Args:
            begin: makes the search.

        Raises:
            ValueError: an attribute name that is none.
            DirectoryError: while iterating.
        """
        requested, added = add_identity(self.columns)
        decoder = RowDecoder(requested if added else self.columns, multi=self.multi)
        keys = [name.partition(";")[0].lower() for name in decoder.columns]
        place = keys.index(IDENTITY.lower()) + 1
        search = begin(requested)

        def rows() -> Iterator[tuple[Any, ...]]:
            for page in search.read_pages():
                for with_identity, decoded in self._decode_page(decoder, page, added=added):
                    new = search.delivered.new(
                        decoded, (row[0] for row in with_identity), [row[place] for row in with_identity]
                    )
                    if self.multi:
                        yield from self.ranges().complete_rows(new, self.columns, self.multi)
                    else:
                        yield from new

        return rows()

    def _decode_page(self, decoder: RowDecoder, page: Page, *, added: bool) -> Iterator[tuple[Rows, Rows]]:
        """Yield the rows of each buffer of a page, as decoded and as the caller wants."""
        for buffer, messages in page.parts:
            try:
                all_columns = decoder.rows(buffer, [(message.start, message.end) for message in messages])
                rows = [row[:-1] for row in all_columns] if added else all_columns
                if self.brings:
                    rows = self.profile.attach_references(rows, self.columns, buffer, messages)
                elif self.brings is not None:
                    rows = [(*row, None) for row in rows]
            except DecodeError as error:
                raise make_unreadable(error) from error
            yield all_columns, rows


class Portion(Protocol):
    """Entries of a page, decoded by the caller."""

    def __len__(self) -> int:
        """Return the number of entries."""

    def list_identities(self) -> tuple[Iterable[str], Sequence[object]]:
        """Return the DNs and the objectGUIDs.

        The DNs are used only if an objectGUID is missing.
        """

    def select_only(self, numbers: Sequence[int]) -> Self:
        """Return a portion of the entries with the given numbers."""


P = TypeVar("P", bound=Portion)
Parts = Sequence[tuple[bytes, Sequence[MessageBounds]]]
"""Buffers, each with the entries that lie in it."""

Decoder = Callable[[tuple[str, ...]], Callable[[Parts], P]]
"""Returns the decoder of a page for the requested attributes."""


def read_portions(begin: Begin, columns: Sequence[str], decoder: Decoder[P]) -> Iterator[P]:
    """Yield the pages of a search, decoded by the caller.

    Args:
        begin: makes the search.
        columns: attributes.
        decoder: gets these attributes, and `IDENTITY` behind them where it is none of them; gives what
            decodes a page.

    Raises:
        ValueError: an attribute name that is none.
        DirectoryError: while iterating.
    """
    requested, _ = add_identity(columns)
    decode = decoder(requested)
    search = begin(requested)

    def stream() -> Iterator[P]:
        for page in search.read_pages():
            if not page.parts:
                continue
            try:
                portion = decode(page.parts)
            except DecodeError as error:
                raise make_unreadable(error) from error
            new = search.delivered.new(list(range(len(portion))), *portion.list_identities())
            yield portion if len(new) == len(portion) else portion.select_only(new)

    return stream()
