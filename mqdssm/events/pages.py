"""Pages of a search whose tokens outlive the process (decision M112).

A page has the objects with the smallest Identifiers above the last one of the page before. An objectGUID
never changes, so an object that exists all the time is on exactly one page, whatever else is created or
deleted.
"""

import heapq
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Generic, TypeVar
from uuid import UUID

from mqdssm.events import lookup
from mqdssm.events.conditions import Given, describe, list_conjuncts
from mqdssm.events.context import Context
from mqdssm.events.references import BATCH_TERMS, split_into_batches
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.expressions import Attribute
from mqdssm.tables.element_table import ElementTable

E = TypeVar("E", bound=DirectoryObject)

VERSION: Final = b"\x01"
QUERY_BYTES: Final = 8
CHECK_BYTES: Final = 4  # a token that was cut or mistyped is told from one of another query
GUID_BYTES: Final = 16
TOKEN_BYTES: Final = len(VERSION) + QUERY_BYTES + GUID_BYTES + CHECK_BYTES
NAME: Final = "Identifier"


@dataclass(frozen=True, slots=True)
class SearchPage(Generic[E]):
    """Page of a search.

    Attributes:
        items: the objects, in the order of their Identifiers.
        next_token: token of the next page; None: this is the last one.
    """

    items: tuple[E, ...]
    next_token: str | None


def read_page(
    ctx: Context,
    table: ElementTable,
    filters: Sequence[Given],
    attributes: Sequence[str] | None,
    *,
    limit: int,
    token: str | None,
    below: DN | None,
) -> SearchPage[DirectoryObject]:
    """Read a page.

    Args:
        ctx: of the directory.
        table: of the element.
        filters: all must hold.
        attributes: to set; None: all.
        limit: maximum number of objects.
        token: of the page before; None: read the first page.
        below: look only there and below.

    Raises:
        GenericDirectoryError: a name that cannot be asked for.
        ValueError: a value that an attribute cannot have; no token, or one of another query.
    """
    conjuncts = list_conjuncts(table, filters)
    query = _make_digest(ctx, table, conjuncts, below)
    last = None if token is None else _decode(token, query)
    objects = lookup.search(ctx, table, conjuncts, (NAME,), below=below)
    guids = (obj.identifier for obj in objects)
    # without an Identifier, which the decoder has reported, an object has no place in the order
    later = (guid for guid in guids if guid is not None and (last is None or guid > last))
    chosen = heapq.nsmallest(limit + 1, later)
    token_of_next = _encode(chosen[limit - 1], query) if len(chosen) > limit else None
    items = _read_objects(ctx, table, conjuncts, attributes, chosen[:limit], below=below)
    return SearchPage(tuple(items), token_of_next)


def _read_objects(
    ctx: Context,
    table: ElementTable,
    conjuncts: Sequence[Given],
    attributes: Sequence[str] | None,
    guids: Sequence[UUID],
    *,
    below: DN | None,
) -> Iterable[DirectoryObject]:
    """Yield the objects with some Identifiers that still satisfy the filters."""
    names = None if attributes is None else (*attributes, NAME)
    identifier: Attribute[DirectoryObject, UUID] = Attribute(table.element, NAME)
    for batch in split_into_batches(iter(guids), BATCH_TERMS):
        among = [*conjuncts, identifier.in_(batch)]
        objects = {obj.identifier: obj for obj in lookup.search(ctx, table, among, names, below=below)}
        for guid in batch:
            obj = objects.get(guid)  # others had that GUID elsewhere (M37)
            if obj is None:
                continue
            if attributes is not None and NAME not in attributes:
                obj.forget(NAME)
            yield obj


def _make_digest(ctx: Context, table: ElementTable, conjuncts: Iterable[Given], below: DN | None) -> bytes:
    """Return the digest of a query: directory, element, filters, place."""
    place = "" if below is None else below.normalized
    parts = [ctx.root.normalized, table.name, place, *sorted(describe(table, each) for each in conjuncts)]
    return blake2b("\0".join(parts).encode(errors="surrogatepass"), digest_size=QUERY_BYTES).digest()


def _encode(last: UUID, query: bytes) -> str:
    content = VERSION + query + last.bytes
    return _as_text(content + _check_of(content))


def _as_text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _decode(token: str, query: bytes) -> UUID:
    """Return the last Identifier of the page before.

    Raises:
        ValueError: no token, or one of another query.
    """
    try:
        data = b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except ValueError:
        data = b""
    content, check = data[:-CHECK_BYTES], data[-CHECK_BYTES:]
    is_whole = len(data) == TOKEN_BYTES and _check_of(content) == check and _as_text(data) == token
    if not is_whole or content[:1] != VERSION:
        raise ValueError(f"{token!r} is no token of a page: give next_token as it was")
    if content[1 : 1 + QUERY_BYTES] != query:
        raise ValueError(
            "the token belongs to another query: give directory, kind, filters and below of the page before"
        )
    return UUID(bytes=content[1 + QUERY_BYTES :])


def _check_of(content: bytes) -> bytes:
    return blake2b(content, digest_size=CHECK_BYTES).digest()
