"""Equality of LDAP values by each attribute's matching rule.

Values are not compared by their octets (decision M81).
Servers may change the form of values: letter case of names, inherited entries in descriptors, integers
unsigned or signed. Values of attributes that the schema does not have are compared as octets.
"""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

from mqdssm.errors import DecodeError, MappingError
from mqdssm.model.dn import fold_case, normalize
from mqdssm.tables import TABLES
from mqdssm.tables import adsyntax as ad
from mqdssm.tables.schema import ATTRIBUTES
from mqdssm.tables.syntax import TIME, UINT32_MAX
from mqdssm.wire.acl import AceType, Acl
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import DescriptorControl

Values: TypeAlias = Mapping[str, Collection[bytes]]
"""LDAP attribute, in any case -> its values."""
KEYS_REMEMBERED: Final = 4096  # keys of descriptors: thousands of queues share a few descriptors

_INTEGER: Final = re.compile(rb"-?[0-9]{1,20}")
_DENIES: Final = frozenset({AceType.ACCESS_DENIED, AceType.ACCESS_DENIED_OBJECT})


def key_of(attribute: str, raw: bytes) -> Hashable:
    """Return the comparison key of a value.

    Keys are equal exactly for values that match ([RFC4517] 4.2).

    Args:
        attribute: its LDAP name, in any case.
        raw: the value; if it breaks its syntax, it is compared as octets.
    """
    definition = ATTRIBUTES.get(attribute.lower())
    key = None if definition is None else _KEYS.get(definition.syntax)
    if key is None:
        return raw
    try:
        return key(raw)
    except (ValueError, MappingError, DecodeError):
        return raw


def keys_of(attribute: str, values: Iterable[bytes]) -> frozenset[Hashable]:
    """Return the comparison keys of an attribute's values, as a set.

    LDAP values have no order.
    """
    return frozenset([key_of(attribute, raw) for raw in values])


def are_equal(attribute: str, left_values: Collection[bytes], right_values: Collection[bytes]) -> bool:
    """Return True if two lists of values of an attribute are the same set.

    Values are compared by its matching rule.
    """
    if len(left_values) == len(right_values) == 1:  # the usual case, and usually the same octets
        (a,), (b,) = left_values, right_values
        return a == b or key_of(attribute, a) == key_of(attribute, b)
    return keys_of(attribute, left_values) == keys_of(attribute, right_values)


def has_expected_values(
    attribute: str, expected: Collection[bytes], stored: Collection[bytes], *, hides_sacls: bool = False
) -> bool:
    """Return True if an object holds the given values, like `are_equal`.

    A server may complete a descriptor.
    Active Directory adds the owner and the group if they were left out.

    Args:
        attribute: its LDAP name, in any case.
        expected: the values that were written.
        stored: the values that were read.
        hides_sacls: the server shows SACLs only to auditors: a SACL that is not shown may exist.
    """
    if are_equal(attribute, expected, stored):
        return True
    definition = ATTRIBUTES.get(attribute.lower())
    if (
        definition is None
        or definition.syntax is not ad.SECURITY_DESCRIPTOR
        or len(expected) != 1
        or len(stored) != 1
    ):
        return False
    try:
        expected_descriptor, stored_descriptor = (
            SecurityDescriptor.from_bytes(next(iter(raws))) for raws in (expected, stored)
        )
    except DecodeError:
        return False
    return (
        expected_descriptor.owner in {None, stored_descriptor.owner}
        and expected_descriptor.group in {None, stored_descriptor.group}
        and (
            not expected_descriptor.control & DescriptorControl.DACL_PRESENT
            or _make_dacl_key(expected_descriptor) == _make_dacl_key(stored_descriptor)
        )
        and (
            _make_sacl_key(expected_descriptor) in {None, _make_sacl_key(stored_descriptor)}
            or (hides_sacls and not _has_sacl(stored_descriptor))
        )
    )


def find_differences(
    expected: Values, stored: Values, ldap_class: str | None = None, *, hides_sacls: bool = False
) -> tuple[str, ...]:
    """Return the attributes whose values in an object are not the wanted ones.

    The names of the attributes are returned.

    Args:
        expected: attribute -> values; no values: the attribute must be absent. Other attributes are ignored.
        stored: attribute -> values, as read.
        ldap_class: class of the object. An absent attribute then equals the default of the abstract model:
            both have the same meaning ([MS-MQDSSM] 3.1.6.11).
        hides_sacls: as in `has_expected_values`.
    """
    stored_by_name = {name.lower(): values for name, values in stored.items()}
    defaults = DEFAULTS.get(ldap_class or "", {})
    return tuple(
        name
        for name, values in expected.items()
        if not has_expected_values(
            name, values, stored_by_name.get(name.lower(), ()), hides_sacls=hides_sacls
        )
        and not _are_both_default(
            defaults.get(name.lower()), name, values, stored_by_name.get(name.lower(), ())
        )
    )


def _are_both_default(
    default: tuple[bytes, ...] | None, name: str, expected: Collection[bytes], stored: Collection[bytes]
) -> bool:
    if default is None or (expected and stored):
        return False
    return are_equal(name, expected or stored, default)


def _make_defaults() -> Mapping[str, Mapping[str, tuple[bytes, ...]]]:
    by_class: dict[str, Mapping[str, tuple[bytes, ...]]] = {}
    for table in TABLES.values():
        by_class[table.ldap_class] = {
            row.ldap[0].lower(): row.encode(row.default)
            for row in table.rows
            if row.has_default and row.computed is None and row.encode(row.default)
        }
    return by_class


DEFAULTS: Final = _make_defaults()
"""Class -> lower-case attribute -> the values that an absent attribute means."""


# -- keys of each syntax


def _make_text_key(raw: bytes) -> Hashable:
    return fold_case(raw.decode())


def _make_dn_key(raw: bytes) -> Hashable:
    return normalize(raw.decode())


def _make_integer_key(raw: bytes) -> Hashable:
    if _INTEGER.fullmatch(raw) is None:
        raise ValueError(raw)
    number = int(raw)
    return number & UINT32_MAX if -(2**31) <= number <= UINT32_MAX else number  # one of 32 bits (M11)


def _make_large_key(raw: bytes) -> Hashable:
    if _INTEGER.fullmatch(raw) is None:
        raise ValueError(raw)
    return int(raw)


@lru_cache(maxsize=KEYS_REMEMBERED)
def _make_descriptor_key(raw: bytes) -> Hashable:
    """Return the comparison key of a descriptor.

    The key has owner, group and own entries; layout does not count.
    """
    descriptor = SecurityDescriptor.from_bytes(raw)
    return descriptor.owner, descriptor.group, _make_dacl_key(descriptor), _make_sacl_key(descriptor)


def _make_dacl_key(descriptor: SecurityDescriptor) -> Hashable:
    if not descriptor.control & DescriptorControl.DACL_PRESENT:
        return None
    protected = bool(descriptor.control & DescriptorControl.DACL_PROTECTED)
    return protected, _make_acl_key(descriptor.dacl)


def _has_sacl(descriptor: SecurityDescriptor) -> bool:
    return bool(descriptor.control & DescriptorControl.SACL_PRESENT)


def _make_sacl_key(descriptor: SecurityDescriptor) -> Hashable:
    if not _has_sacl(descriptor):
        return None
    explicit_aces = (
        [] if descriptor.sacl is None else [ace for ace in descriptor.sacl.aces if not ace.inherited]
    )
    return frozenset(explicit_aces) or None


def _make_acl_key(acl: Acl | None) -> Hashable:
    """Return the key of a list's own entries.

    Order counts only if a deny entry is behind an allow entry.
    """
    if acl is None:
        return None  # a NULL DACL grants everything: never equal to an empty one
    explicit_aces = [ace for ace in acl.aces if not ace.inherited]
    denies = [ace.type in _DENIES for ace in explicit_aces]
    if denies == sorted(denies, reverse=True):
        return frozenset(explicit_aces)
    return tuple(explicit_aces)


_KEYS: Final[Mapping[Any, Callable[[bytes], Hashable]]] = {
    ad.DN: _make_dn_key,
    ad.TELETEX: _make_text_key,
    ad.PRINTABLE: _make_text_key,
    ad.UNICODE: _make_text_key,
    ad.BOOLEAN: bytes.upper,
    ad.INTEGER: _make_integer_key,
    ad.ENUMERATION: _make_integer_key,
    ad.LARGE_INTEGER: _make_large_key,
    ad.GENERALIZED_TIME: TIME.load,
    ad.SECURITY_DESCRIPTOR: _make_descriptor_key,
}
"""Syntax -> key function of its values; values of other syntaxes are octets."""
