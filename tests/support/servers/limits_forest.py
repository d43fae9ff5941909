"""What a forest of Windows has and one controller of Samba has not: narrow catalogs, and other domains.

Samba's catalog port returns, and searches, all attributes; that of Windows those of the partial attribute
set. And Samba has no child domains: an organizational unit plays one, by names of the same length,
``OU=eu,DC=x`` for ``DC=eu,DC=x``.
"""

import re
from dataclasses import replace
from typing import Final

from mqdssm.directory.filters import And, Extensible, LdapFilter, Not, Or
from mqdssm.tables import schema

_IN_EVERY_CATALOG: Final = frozenset({"objectclass", "name"})
_NOBODY_HAS: Final = "mSMQNotInTheCatalog"


def in_catalog(name: str) -> bool:
    """Whether an attribute is of the partial set."""
    plain = name.partition(";")[0].lower()
    return plain in _IN_EVERY_CATALOG or schema.is_in_catalog(plain)


def partial_filter(node: LdapFilter) -> LdapFilter:
    """The filter as a catalog understands it: what it does not hold, no object has."""
    if isinstance(node, (And, Or)):
        return replace(node, operands=tuple(map(partial_filter, node.operands)))
    if isinstance(node, Not):
        return Not(partial_filter(node.operand))
    if isinstance(node, Extensible) or in_catalog(node.attribute):
        return node
    return replace(node, attribute=_NOBODY_HAS)


def partial_entry(pairs: list[tuple[bytes, list[bytes]]]) -> list[tuple[bytes, list[bytes]]]:
    """The attributes that a catalog returns."""
    return [pair for pair in pairs if in_catalog(pair[0].decode("ascii"))]


def to_samba(octets: bytes, domain: str) -> bytes:
    """A request about the other domain, as Samba has it; nothing changes its length."""
    return _renamed(octets, domain, "DC", "OU") if domain else octets


def from_samba(octets: bytes, domain: str) -> bytes:
    """An answer about the other domain, as its catalog would write it."""
    return _renamed(octets, domain, "OU", "DC") if domain else octets


def _renamed(octets: bytes, domain: str, old: str, new: str) -> bytes:
    """Args: octets, then the domain as ``eu,DC=contoso,DC=test``, then the two types of its first part."""
    pattern = re.compile(re.escape(f"{old}={domain}").encode(), re.IGNORECASE)
    return pattern.sub(lambda found: new.encode() + found[0][len(old) :], octets)


def is_in(dn: str, domain: str) -> bool:
    """Whether a name is in the other domain."""
    return bool(domain) and f",{dn}".lower().endswith(f",DC={domain}".lower())
