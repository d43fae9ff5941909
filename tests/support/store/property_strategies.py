"""Hypothesis strategies for the values of properties of directory objects, by variant."""

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.propids import INTEGERS, Propid, Variant
from mqdssm.wire.dtyp import SecurityDescriptor, Sid

GUIDS = st.one_of(st.just(NULL_GUID), st.binary(min_size=16, max_size=16).map(Guid))
# halves of surrogate pairs are no UTF-8, yet UTF-16 text may hold them; NUL ends a text
TEXTS = st.text(st.characters(exclude_characters="\0"), max_size=40).filter(
    lambda text: text == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
)
DESCRIPTOR = bytes(SecurityDescriptor(owner=Sid.parse("S-1-5-21-1-2-3-1001")))
SID = bytes(Sid.parse("S-1-5-21-1-2-3-1001"))
BLOBS = st.one_of(st.sampled_from([b"", DESCRIPTOR, SID]), st.binary(max_size=40))
VALUES: dict[Variant, st.SearchStrategy[Any]] = {
    # small numbers first: those that stand for something
    **{one: st.one_of(st.integers(0, 3), st.integers(low, high)) for one, (low, high) in INTEGERS.items()},
    Variant.LPWSTR: TEXTS,
    Variant.CLSID: GUIDS,
    Variant.BLOB: BLOBS,
    Variant.BYTES: BLOBS,
    Variant.CLSIDS: st.lists(GUIDS, max_size=4).map(tuple),
    Variant.LPWSTRS: st.lists(TEXTS, max_size=3).map(tuple),
}


def some_of(propids: Iterable[Propid]) -> st.SearchStrategy[dict[Propid, Any]]:
    """Some of the properties, each with a value of its variant."""
    return st.fixed_dictionaries({}, optional={one: VALUES[one.variant] for one in propids})
