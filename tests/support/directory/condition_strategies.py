"""Hypothesis strategies for conditions on the attributes of some objects."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

import mqdssm
from mqdssm.model.expressions import (
    Attribute,
    BooleanAttribute,
    Condition,
    ListAttribute,
    OrderedAttribute,
    TextAttribute,
)
from mqdssm.tables import table_of

EMPTY = ("", b"", ())


def values_of(kind: Any, objects: Sequence[mqdssm.DirectoryObject], attribute: str) -> list[Any]:
    """Values of an attribute that objects have, its default, single items of lists, and neighbours."""
    row = table_of(kind).row(attribute)
    found = [getattr(each, kind.field_name(attribute)) for each in objects if each.is_populated(attribute)]
    if row.has_default:
        found.append(row.default)
    found += [item for value in found if isinstance(value, tuple) for item in value]
    found += [
        value + step
        for value in found
        if type(value) is int
        for step in (-1, 1)
        if attribute in {"CreateTime", "ModifyTime", "Quota", "JournalQuota"} and 0 <= value + step < 2**32
    ]
    found += [
        value.swapcase() for value in found if isinstance(value, str) and attribute in {"Label", "Name"}
    ]
    return [value for value in found if value is not None]


def leaves(kind: Any, attribute: str, values: Sequence[Any]) -> st.SearchStrategy[Condition[Any]]:
    """Every condition that an attribute has by itself, with these values and parts of them."""
    field: Any = getattr(kind, kind.field_name(attribute))
    row = table_of(kind).row(attribute)
    value = st.sampled_from(values)
    made = []
    if isinstance(field, ListAttribute):
        items = [each for each in values if not isinstance(each, tuple)]
        lists = st.sampled_from([each for each in values if isinstance(each, tuple)])
        made += [st.builds(field.__eq__, lists), st.builds(field.__ne__, lists)]
        if items:
            made.append(st.builds(field.contains, st.sampled_from(items)))
    else:
        made += [
            st.builds(field.__eq__, value),
            st.builds(field.__ne__, value),
            st.builds(field.in_, st.lists(value, max_size=3)),
        ]
    if isinstance(field, BooleanAttribute):
        made.append(st.just(field))
    if isinstance(field, OrderedAttribute):
        made += [st.builds(getattr(field, sign), value) for sign in ("__lt__", "__le__", "__gt__", "__ge__")]
    if not row.has_default or row.default in EMPTY:
        made.append(st.builds(Attribute.exists, st.just(field)))
    if isinstance(field, TextAttribute) and row.kind.value in {"text", "DN"}:
        parts = st.sampled_from([part for text in values for part in _parts(text)] or ["?"])
        made += [st.builds(look, parts) for look in (field.startswith, field.endswith, field.contains)]
    return st.one_of(made)


def _parts(text: str) -> list[str]:
    half = len(text) // 2
    return [part for part in (text, text[:half], text[half:], text[1:-1].swapcase()) if part.strip()]


def conditions_over(
    kind: Any, objects: Sequence[mqdssm.DirectoryObject]
) -> st.SearchStrategy[Condition[Any]]:
    """Conditions of any form on attributes that at least one object has."""
    known = {name: values for name in table_of(kind).names() if (values := values_of(kind, objects, name))}
    leaf = st.sampled_from(sorted(known)).flatmap(lambda name: leaves(kind, name, known[name]))
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(lambda a, b: a & b, inner, inner),
            st.builds(lambda a, b: a | b, inner, inner),
            st.builds(lambda a: ~a, inner),
        ),
        max_leaves=5,
    )
