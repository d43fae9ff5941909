"""Encoding of elements to LDAP values.

See [MS-MQDSSM] 3.1.6.1.x.2 step 2 and 3.1.6.7.x.2 step 2.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.profile import Profile
from mqdssm.errors import GenericDirectoryError, MappingError
from mqdssm.events.context import Context
from mqdssm.events.references import References
from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import QueueManager, Site
from mqdssm.tables import TABLES, compute
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.references import REFERENCES, ReferenceForm
from mqdssm.tables.row import Access, Computed, Holder, Row
from mqdssm.tables.syntax import BOOLEAN, UINT32, Syntax
from mqdssm.wire.certificates import UserSignCerts
from mqdssm.wire.dtyp import SecurityDescriptor

log = logging.getLogger(__name__)
T = TypeVar("T")

SERVICE_NAMES: Final = tuple(compute.SERVICE_BITS)
"""Attributes from which mSMQServiceType is computed ([MS-MQDSSM] 3.1.6.1.1.5)."""

DESCRIPTOR: Final = "nTSecurityDescriptor"

DESCRIPTORS_REMEMBERED: Final = 4096
"""Thousands of objects share a few descriptors."""
_descriptor = lru_cache(maxsize=DESCRIPTORS_REMEMBERED)(SecurityDescriptor.from_bytes)

Values = dict[str, tuple[bytes, ...]]

DnsOf: TypeAlias = Callable[[Sequence[UUID], str], Mapping[UUID, str]]
"""Returns GUID -> DN for the existing objects of a class with some GUIDs."""


def look_up(ctx: Context) -> DnsOf:
    """Return a function for cached look-ups in the directory, for one operation."""
    cache: dict[tuple[UUID, str], str | None] = {}

    def dns_of(identifiers: Sequence[UUID], ldap_class: str) -> Mapping[UUID, str]:
        if unknown := [guid for guid in identifiers if (guid, ldap_class) not in cache]:
            known_dns = References(ctx.session).dns_of(unknown, ldap_class)
            cache.update({(guid, ldap_class): known_dns.get(guid) for guid in unknown})
        dns = ((guid, cache[guid, ldap_class]) for guid in identifiers)
        return {guid: dn for guid, dn in dns if dn is not None}

    return dns_of


def find_incomplete_names(
    obj: DirectoryObject, ldap_class: str, names: Collection[str], dns_of: DnsOf
) -> frozenset[str]:
    """Return the attributes whose references are incomplete.

    References were left out because the objects do not exist.

    Args:
        obj: the element.
        ldap_class: of its entry.
        names: the attributes that were stored.
        dns_of: where the objects are that it refers to.
    """
    incomplete = set()
    for reference in REFERENCES.get(ldap_class, {}).values():
        if reference.form is ReferenceForm.DN and reference.adm in names and obj.is_populated(reference.adm):
            value = getattr(obj, obj.field_name(reference.adm))
            guids = value if isinstance(value, tuple) else () if value is None else (value,)
            if len(dns_of(guids, reference.ldap_class)) < len(set(guids)):
                incomplete.add(reference.adm)
    return frozenset(incomplete)


def values_of(
    table: ElementTable, obj: DirectoryObject, names: Collection[str], access: Access, dns_of: DnsOf
) -> Values:
    """Return LDAP attributes of the element's own entry for some attributes.

    Computed ones whose rule needs more than the attribute itself (the name, mSMQServiceType, the
    descriptor of a create) are the caller's.

    Args:
        table: of the element.
        obj: the element.
        names: the specification's names of the attributes wanted.
        access: only attributes that one of these events knows.
        dns_of: where the objects are that it refers to.

    Returns:
        LDAP attribute -> values; no value where the abstract value cannot be stored (M38), or was unset.

    Raises:
        DecodeError: Security is no security descriptor.
        GenericDirectoryError: a site that does not exist (3.1.6.1.4.4).
        MappingError: a value that the directory cannot carry (M28).
    """
    values: Values = {}
    for row in table.rows:
        if row.adm not in names or not row.access & access or row.holder is not Holder.OWN:
            continue
        value = getattr(obj, row.field)
        match row.computed:
            case None | Computed.QUEUE_MANAGERS | Computed.SITE if not obj.is_populated(row.adm):
                values[row.ldap[0]] = ()  # it was unset: a write removes it
            case None:
                if row.adm == "Security":
                    _descriptor(value)  # a damaged one must not get in
                values[row.ldap[0]] = row.encode(value)
            case Computed.QUEUE_MANAGERS:
                values[row.ldap[0]] = _resolve_queue_managers(dns_of, value)
            case Computed.SITE:
                values[row.ldap[0]] = (_resolve_site(dns_of, row, value),)
            case _:
                pass
    return values


def convert_for_server(ctx: Context, ldap_class: str, values: Values) -> Values:
    """Return the values in the form of this kind of server (decision M31).

    Descriptors are translated.
    """
    return translate_values(ctx.session.profile, ldap_class, values)


def translate_values(profile: Profile, ldap_class: str, values: Values) -> Values:
    """Return the values in the form of a kind of server, without a connection.

    See `convert_for_server`.
    """
    images = values.get(DESCRIPTOR)
    if not images:
        return values
    translate = profile.encode_security
    return values | {DESCRIPTOR: tuple(translate(ldap_class, image) for image in images)}


def compute_service_type(
    obj: QueueManager, names: Collection[str], stored: Mapping[str, Any], bits: int | None = None
) -> tuple[bytes, ...]:
    """Compute mSMQServiceType ([MS-MQDSSM] 3.1.6.1.1.5, 3.1.6.7.1.5).

    Attributes that are not written keep what the directory holds: a write of one of the four must not
    clear the bits of the others, nor bits that nobody has named (decisions M46, M63).

    Args:
        obj: the queue manager.
        names: which of its attributes are written.
        stored: abstract values in the directory; empty on create.
        bits: mSMQServiceType in the directory, None where it is not set.
    """

    def read_value(name: str) -> Any:
        return getattr(obj, obj.field_name(name)) if name in names else stored.get(name)

    value = compute.compute_service_type(
        routing_server=read_value("RoutingServer"),
        remote_access_server=read_value("RemoteAccessServer"),
        directory_server=read_value("DirectoryServer"),
        directory_server_type=read_value("DirectoryServerType"),
    )
    if bits is not None:
        written = 0
        for name in compute.SERVICE_BITS.keys() & set(names):
            written |= int(compute.SERVICE_BITS[name])  # the complement of a flag knows named bits alone
        value = (value & written) | (bits & ~written)
    return (UINT32.dump(value),)


def service_type_of(obj: QueueManager, names: Collection[str], entry: Entry) -> tuple[bytes, ...]:
    """Compute mSMQServiceType for an existing queue manager.

    See [MS-MQDSSM] 3.1.6.7.1.5.

    Args:
        obj: the queue manager.
        names: which of its attributes are written.
        entry: its mSMQConfiguration, read with all of `mqdssm.events.settings.CONFIGURATION_ATTRIBUTES`.

    Raises:
        GenericDirectoryError: a role in the directory is damaged.
    """
    bits = _decode_stored(entry, "mSMQServiceType", UINT32)
    stored = {
        "RoutingServer": _decode_flag(entry, "mSMQRoutingServices"),
        "RemoteAccessServer": compute.is_remote_access_server(bits or 0),
        "DirectoryServer": _decode_flag(entry, "mSMQDsServices"),
        # the bits, whatever the flag says: they come to count when DirectoryServer becomes TRUE
        "DirectoryServerType": compute.compute_directory_server_type(
            directory_server=True, service=bits or 0
        ),
    }
    return compute_service_type(obj, names, stored, bits)


def _decode_flag(entry: Entry, name: str) -> bool:
    return _decode_stored(entry, name, BOOLEAN) is True


def _decode_stored(entry: Entry, name: str, syntax: Syntax[T]) -> T | None:
    """Return the value of an attribute in the directory.

    Raises:
        GenericDirectoryError: it is damaged.
    """
    raw = entry.first(name)
    try:
        return None if raw is None else syntax.load(raw)
    except MappingError as error:
        raise GenericDirectoryError(
            f"{name} {error}", dn=entry.dn, hint="nothing was changed: mend the value with ldapmodify first"
        ) from error


def _resolve_queue_managers(dns_of: DnsOf, identifiers: Sequence[UUID]) -> tuple[bytes, ...]:
    """Return the DNs of existing queue managers ([MS-MQDSSM] 3.1.6.1.1.6).

    Others are skipped.
    """
    if not identifiers:
        return ()
    dns = dns_of(identifiers, TABLES[QueueManager].ldap_class)
    for guid in identifiers:
        if guid not in dns:
            log.warning("there is no queue manager %s: it is left out of the list that is written", guid)
    return tuple(dns[guid].encode() for guid in dict.fromkeys(identifiers) if guid in dns)


def _resolve_site(dns_of: DnsOf, row: Row, identifier: UUID | None) -> bytes:
    """Return the DN of a site ([MS-MQDSSM] 3.1.6.1.4.4).

    Raises:
        GenericDirectoryError: there is no such site.
    """
    if identifier is not None:
        dns = dns_of([identifier], TABLES[Site].ldap_class)
        if identifier in dns:
            return dns[identifier].encode()
    raise GenericDirectoryError(f"{row.adm}: there is no site {identifier}")


KEYS_NAME: Final = "PublicSigningKeyList"
CERTIFICATES: Final = "mSMQSignCertificates"
DIGESTS: Final = "mSMQDigests"


def keys_of(manager: QueueManager, names: AbstractSet[str]) -> dict[str, tuple[bytes, ...]]:
    """Return the values of a queue manager for its computer object.

    See [MS-MQDSSM] 3.1.6.1.1.9 and 3.1.6.7.1.8.

    Args:
        manager: the queue manager.
        names: the attributes to be written; nothing goes there unless the keys are among them.

    Raises:
        DecodeError: as `build_signing_values`.
    """
    return build_signing_values(manager.public_signing_key_list) if KEYS_NAME in names else {}


def build_signing_values(image: bytes) -> dict[str, tuple[bytes, ...]]:
    """Return the attributes for an MQUSERSIGNCERTS structure (decision M21).

    The digests have an attribute of their own.

    The Mig attributes were set by Windows 2000 alone ([MS-MQDSSM] note <9>): they are left as they are.

    Args:
        image: the structure, byte for byte; empty for none.

    Raises:
        DecodeError: no MQUSERSIGNCERTS.
    """
    if not image:
        return {CERTIFICATES: (), DIGESTS: ()}
    digests = UserSignCerts.from_bytes(image).digests()
    # a set of values: LDAP refuses the same digest twice
    return {CERTIFICATES: (image,), DIGESTS: tuple(dict.fromkeys(digests))}
