"""Storage of one property in an entry: carriers and rows.

The entry is one of the replication store.
A carrier converts the property's value into values of one LDAP attribute and back. Some
values would not come back bit for bit: a boolean of 7, an empty text, a list in its order. For these the
entry also keeps the octets of the value, in ``mqisExact`` (decision R27).

Neither the mapping table nor the abstract model has the facts at the end: the classes of the objects of each
type, the replicated properties, and the LDAP attributes of properties for which [MS-MQDSSM] has none.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeAlias

from mqdssm.errors import DecodeError, MappingError
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.messages import PropertyValue
from mqdssm.model.propids import INTEGERS, ObjectType, Propid, Variant
from mqdssm.model.queuenames import QueueRdn, check_stored_name, rdn_of
from mqdssm.tables import TABLES, compute, schema_mqis, table_of
from mqdssm.tables.row import Row
from mqdssm.tables.syntax import BOOLEAN, DESCRIPTOR, UINT32, UNICODE, Kind
from mqdssm.wire.dtyp import SecurityDescriptor, Sid
from mqdssm.wire.propvalue import decode_value, encode_value

Raws: TypeAlias = tuple[bytes, ...]
"""Values of an LDAP attribute; an empty tuple: the attribute is absent."""
Entry: TypeAlias = Mapping[str, Sequence[bytes]]
"""LDAP attributes of an entry, named as in the schema or in lower case; one left out is absent."""

DESCRIPTORS_REMEMBERED: Final = 4096
"""Size of the cache of descriptors: thousands of objects share a few."""
SHOWN_CHARS_MAX: Final = 60  # of a wrong value in a message
NONE: Final = b""
"""Octets in ``mqisExact`` of a property that the object does not have; those of a value are never empty."""
_DECIMAL: Final = re.compile(rb"0|-?[1-9][0-9]{0,19}")


@dataclass(frozen=True, slots=True)
class Carrier:
    """Conversion between a property's value and the values of one LDAP attribute.

    Attributes:
        dump: returns the values to store; none if the attribute cannot represent the value.
        load: returns the property's value from one or more LDAP values; raises MappingError or ValueError.
        about: name in the documentation.
        ordered: True if several values come back in their order; LDAP does not guarantee that.
    """

    dump: Callable[[Any], Raws]
    load: Callable[[Sequence[bytes]], Any]
    about: str
    ordered: bool = True


def pack_value(propid: Propid, value: PropertyValue) -> bytes:
    """Return the octets of a value ([MS-MQCN] 2.2.3) for ``mqisExact``.

    The octets are never empty.

    Raises:
        MappingError: the value does not fit the property's variant.
    """
    try:
        return encode_value(propid.variant, value)
    except ValueError:
        value_text = repr(value)[:SHOWN_CHARS_MAX]
        raise MappingError(f"{propid.spec_name}: {value_text} is no {propid.variant}") from None


def unpack_value(propid: Propid, octets: bytes) -> PropertyValue:
    """Return the value of some octets, bit for bit the argument of `pack_value`.

    Raises:
        MappingError: the octets do not fit the property's variant.
    """
    try:
        value: PropertyValue = decode_value(propid.variant, octets)
    except DecodeError as error:
        raise MappingError(f"{propid.spec_name}: {error}") from None
    return value


def _take_single_value(raws: Sequence[bytes]) -> bytes:
    if len(raws) != 1:
        raise MappingError(f"holds {len(raws)} values, one is expected")
    return raws[0]


def _encode_text(value: str) -> Raws:
    try:
        return (value.encode(),) if value else ()
    except UnicodeEncodeError:  # half of a surrogate pair
        return ()


def _load_number(raws: Sequence[bytes]) -> int:
    raw = _take_single_value(raws)
    if _DECIMAL.fullmatch(raw) is None:
        raise MappingError(f"is no number: {raw!r}")
    return int(raw)


def _split_guids(raws: Sequence[bytes]) -> tuple[Guid, ...]:
    raw = _take_single_value(raws)
    return tuple(Guid(raw[i : i + GUID_BYTES]) for i in range(0, len(raw), GUID_BYTES))


def _store_octets(value: bytes) -> Raws:
    return (value,) if value else ()


@lru_cache(maxsize=DESCRIPTORS_REMEMBERED)
def _store_descriptor(value: bytes) -> Raws:
    try:
        SecurityDescriptor.from_bytes(value)
    except DecodeError:
        return ()  # a damaged one must not be used for access decisions
    return (value,)


def _store_sid(value: bytes) -> Raws:
    try:
        return (value,) if bytes(Sid.from_bytes(value)) == value else ()
    except ValueError:
        return ()


TEXT: Final = Carrier(_encode_text, lambda raws: UNICODE.load(_take_single_value(raws)), "text")
NUMBER: Final = Carrier(lambda value: (b"%d" % value,), _load_number, "number")
GUID: Final = Carrier(lambda value: (bytes(value),), lambda raws: Guid(_take_single_value(raws)), "GUID")
GUIDS: Final = Carrier(
    lambda value: _store_octets(b"".join(value)), _split_guids, "GUIDs, one behind the other"
)
GUID_SET: Final = Carrier(
    lambda value: tuple(dict.fromkeys(map(bytes, value))),
    lambda raws: tuple(map(Guid, raws)),
    "a value for each GUID, without order",
    ordered=False,
)
FIRST_GUID: Final = Carrier(GUID.dump, lambda raws: Guid(raws[0]), "the only GUID of a list")
OCTETS: Final = Carrier(_store_octets, _take_single_value, "octets")
SECURITY: Final = Carrier(_store_descriptor, _take_single_value, "security descriptor, if it is one")
SID_OCTETS: Final = Carrier(_store_sid, _take_single_value, "SID, if it is one")
UNSIGNED: Final = Carrier(
    lambda value: (UINT32.dump(value),), lambda raws: UINT32.load(_take_single_value(raws)), "UINT32"
)


def carrier_of(variant: Variant, row: Row, codes: Mapping[int, Any] | None, *, first: bool) -> Carrier | None:
    """Return the carrier of a property for a row of the mapping table.

    Returns None if the attribute cannot keep the property.

    Args:
        variant: variant of the property.
        row: row of the attribute of the abstract model.
        codes: number -> abstract value, if numbers have a meaning.
        first: True if the property is the first item of the row's list.
    """
    if variant in INTEGERS:
        if codes is None:
            return _of_number(row)
        return _of_flags(row, codes) if row.kind is Kind.BOOLEAN else _of_codes(row, codes)
    carriers = {
        (Variant.LPWSTR, Kind.TEXT, False): TEXT,
        (Variant.CLSID, Kind.GUID, False): GUID,
        (Variant.CLSID, Kind.GUID, True): FIRST_GUID if first else None,
        (Variant.CLSIDS, Kind.GUID, True): GUID_SET,
        (Variant.CLSIDS, Kind.BYTES, True): GUID_SET,  # digests stand in GUIDs ([MS-MQMQ] 2.3.6.5)
        (Variant.BLOB, Kind.BYTES, False): SECURITY if row.syntax is DESCRIPTOR else OCTETS,
        (Variant.BLOB, Kind.SID, False): SID_OCTETS,
    }
    return carriers.get((variant, row.kind, row.multi))


def _of_number(row: Row) -> Carrier:
    def dump(value: int) -> Raws:
        return (row.syntax.dump(value),)

    def load(raws: Sequence[bytes]) -> int:
        return int(row.syntax.load(_take_single_value(raws)))

    return Carrier(dump, load, row.syntax.name)


def _of_flags(row: Row, codes: Mapping[int, Any]) -> Carrier:
    """Make the carrier of a boolean.

    A number without a meaning is False ([MS-MQDS] 3.1.4.21.8).
    """
    numbers = {bool(flag): number for number, flag in sorted(codes.items(), reverse=True)}

    def dump(value: int) -> Raws:
        return (row.syntax.dump(codes.get(value, False)),)

    def load(raws: Sequence[bytes]) -> int:
        flag: bool = row.syntax.load(_take_single_value(raws))
        return numbers[flag]

    return Carrier(dump, load, f"{row.syntax.name}: {numbers[True]} is true")


def _of_codes(row: Row, codes: Mapping[int, Any]) -> Carrier:
    """Make the carrier of an enumeration.

    A number without a meaning would make the object unreadable.
    """

    def dump(value: int) -> Raws:
        return (b"%d" % value,) if value in codes else ()

    def load(raws: Sequence[bytes]) -> int:
        return int(row.syntax.load(_take_single_value(raws)))

    return Carrier(dump, load, f"{row.syntax.name}, if it is one")


class PropertyRole(Enum):
    """Role of a property in the store."""

    VALUE = "value"
    IDENTITY = "GUID of the object"
    NAME = "path name"
    PARTITION = "partition of the number"
    SEQNUM = "sequence number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Also:
    """An attribute that is also written, for the adapter, and not read back.

    Attributes:
        ldap: its name.
        dump: its values for the property's value.
    """

    ldap: str
    dump: Callable[[Any], Raws]


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyReference:
    """A property whose GUIDs the adapter needs as DNs of other objects.

    Attributes:
        propid: the property, a GUID or a list of GUIDs.
        ldap: the attribute that holds the DNs.
        ldap_class: class of the objects.
        required: True if the entry must have it: a missing object needs a DN, too.
    """

    propid: Propid
    ldap: str
    ldap_class: str
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRow:
    """Storage of a property.

    Attributes:
        propid: the property.
        adm: the attribute of the abstract model, if it has one.
        ldap: the LDAP attribute; empty: only octets are kept.
        carrier: the conversion; None if `ldap` is empty.
        role: role in the store.
        also: further attributes to write.
        stand_in: value of the attribute for objects without the property, if the class of the entry requires
            one; then `NONE` stands in ``mqisExact`` (decision R65).
    """

    propid: Propid
    adm: str | None = None
    ldap: str = ""
    carrier: Carrier | None = None
    role: PropertyRole = PropertyRole.VALUE
    also: tuple[Also, ...] = ()
    stand_in: Raws = ()

    @property
    def is_numbering(self) -> bool:
        """True if the numbering of the change determines the value.

        A given value is not used ([MS-MQDS] 3.1.6.3).
        """
        return self.role is PropertyRole.PARTITION or self.role is PropertyRole.SEQNUM

    def encode_stored(self, value: PropertyValue) -> tuple[Raws, bytes | None]:
        """Return the stored form of a value: attribute values, and octets.

        There are octets if the attribute's values do not suffice.

        Raises:
            MappingError: the value does not fit the property's variant.
        """
        octets = pack_value(self.propid, value)
        if self.carrier is None:
            return (), octets
        raws = self.carrier.dump(value)
        sure = len(raws) == 1 or (len(raws) > 1 and self.carrier.ordered)
        return raws, None if sure and self.carrier.load(raws) == value else octets

    def value(self, raws: Sequence[bytes], octets: bytes | None) -> PropertyValue | None:
        """Return the value that an entry keeps; None: it does not have the property.

        The octets count while the attribute has the values that belong to them. If another program has
        written the attribute since, its value counts (decision R27).

        Args:
            raws: the values of the attribute.
            octets: the octets in ``mqisExact``; None: none.

        Raises:
            MappingError: the entry holds no value of the property's variant.
        """
        if octets == NONE and self.stand_in and tuple(raws) == self.stand_in:
            return None
        if octets is not None and not (octets == NONE and self.stand_in):
            exact = unpack_value(self.propid, octets)
            if self.carrier is None or frozenset(self.carrier.dump(exact)) == frozenset(raws):
                return exact
        if not raws or self.carrier is None:
            return None
        try:
            value: PropertyValue = self.carrier.load(raws)
        except ValueError as error:
            raise MappingError(f"{self.propid.spec_name}: {self.ldap} {error}") from None
        pack_value(self.propid, value)  # the attribute may hold more than the variant
        return value


_ELEMENTS: Final[Mapping[ObjectType, str]] = {
    ObjectType.QUEUE: "Queue",
    ObjectType.MACHINE: "QueueManager",
    ObjectType.SITE: "Site",
    ObjectType.ENTERPRISE: "Enterprise",
    ObjectType.USER: "User",
    ObjectType.ROUTING_LINK: "RoutingLink",
}
_BESIDE: Final[Mapping[ObjectType, str]] = {
    ObjectType.QUEUE: "mqisQueue",
    ObjectType.MACHINE: "mqisMachine",
    ObjectType.SITE: "mqisSite",
    ObjectType.ENTERPRISE: "mqisEnterprise",
    ObjectType.USER: "mqisUser",
    ObjectType.ROUTING_LINK: "mqisRoutingLink",
}
CLASSES: Final[Mapping[ObjectType, tuple[str, str]]] = {
    ObjectType.CN: ("mqisConnectedNetwork", schema_mqis.NUMBERED),
    ObjectType.DELETED_OBJECT: ("mqisTombstone", schema_mqis.NUMBERED),
    **{kind: (table_of(name).ldap_class, _BESIDE[kind]) for kind, name in _ELEMENTS.items()},
}
"""Structural class of the entries of each type, and the auxiliary class beside it."""


def _find_propids(prefix: str, names: str) -> tuple[Propid, ...]:
    return tuple(Propid[f"{prefix}_{name}"] for name in names.split())


# fmt: off
CHANGED: Final[Mapping[ObjectType, tuple[Propid, ...]]] = {
    ObjectType.SITE: _find_propids("S", "GATES INTERVAL1 INTERVAL2 PATHNAME PSC PSC_SIGNPK SECURITY"),
    ObjectType.CN: _find_propids("CN", "NAME PROTOCOLID SECURITY"),
    ObjectType.ENTERPRISE: _find_propids(
        "E", "NAME NAMESTYLE CSP_NAME PECNAME LONG_LIVE VERSION SECURITY S_INTERVAL1 S_INTERVAL2 CRL "
        "CSP_TYPE ENCRYPT_ALG SIGN_ALG HASH_ALG CIPHER_MODE"),
    ObjectType.USER: _find_propids("U", "SID DIGEST SIGN_CERT"),
    ObjectType.ROUTING_LINK: _find_propids("L", "COST NEIGHBOR1 NEIGHBOR2"),
    ObjectType.MACHINE: _find_propids(
        "QM", "FOREIGN QUOTA JOURNAL_QUOTA CNS MACHINE_TYPE OS ADDRESS CREATE_TIME ENCRYPT_PK INFRS "
        "MODIFY_TIME OUTFRS PATHNAME SERVICE SIGN_PK SITE_ID SECURITY HASHKEY"),
    ObjectType.QUEUE: _find_propids(
        "Q", "SCOPE QMID TYPE BASEPRIORITY JOURNAL QUOTA JOURNAL_QUOTA CREATE_TIME MODIFY_TIME PATHNAME "
        "LABEL AUTHENTICATE PRIV_LEVEL TRANSACTION SECURITY HASHKEY LABEL_HASHKEY"),
}
"""DirectoryChangePropID: each type's properties in a synchronization ([MC-MQDSRP] 3.2.7.8), in its order."""
RESERVED: Final = frozenset((
    *_find_propids("Q", "HASHKEY LABEL_HASHKEY"), Propid.QM_HASHKEY,
    *_find_propids("E", "S_INTERVAL1 S_INTERVAL2 CRL CSP_TYPE ENCRYPT_ALG SIGN_ALG HASH_ALG CIPHER_MODE"),
))
"""Replicated properties that are not looked up: their values have no meaning ([MC-MQDSRP] 3.2.7.8)."""
NAMES: Final = frozenset((
    Propid.Q_PATHNAME, Propid.QM_PATHNAME, Propid.S_PATHNAME, Propid.CN_NAME, Propid.E_NAME,
))
"""Path names of objects ([MS-MQDS] 2.2.9)."""
IDENTITIES: Final[Mapping[Propid, str]] = {
    # an existing account keeps its objectGUID (decision R28)
    Propid.U_ID: "mqisUserID",
    # the object of a tombstone still exists when the tombstone is written (decision R15)
    Propid.D_IDENTIFIER: "mqisDeletedID",
}
"""LDAP attributes of GUIDs that are not the entry's objectGUID."""
OWN: Final[Mapping[Propid, tuple[str, Carrier]]] = {
    # whenChanged would include the adapter's writes
    Propid.Q_MODIFY_TIME:  ("mqisModifyTime", NUMBER),
    Propid.Q_SCOPE:        ("mqisScope", NUMBER),
    Propid.Q_QMID:         ("mqisQueueManagerID", GUID),
    Propid.Q_HASHKEY:      ("mqisHashKey", NUMBER),
    Propid.Q_LABEL_HASHKEY: ("mqisLabelHashKey", NUMBER),
    Propid.QM_MODIFY_TIME: ("mqisModifyTime", NUMBER),
    Propid.QM_ADDRESS:     ("mqisAddresses", OCTETS),
    Propid.QM_CNS:         ("mqisConnectedNetworks", GUIDS),
    Propid.QM_OUTFRS:      ("mqisOutRoutingServers", GUIDS),
    Propid.QM_INFRS:       ("mqisInRoutingServers", GUIDS),
    Propid.QM_SERVICE:     ("mSMQServiceType", UNSIGNED),
    Propid.QM_HASHKEY:     ("mqisHashKey", NUMBER),
    # the adapter's PublicSigningKeyList is another structure, of the computer
    Propid.QM_SIGN_PK:     ("mSMQSignKey", OCTETS),
    Propid.S_GATES:        ("mqisSiteGates", GUIDS),
    Propid.S_PSC:          ("mqisPscName", TEXT),
    Propid.S_PSC_SIGNPK:   ("mqisPscSignKey", OCTETS),
    Propid.CN_PROTOCOLID:  ("mqisProtocol", NUMBER),
    Propid.CN_SECURITY:    ("nTSecurityDescriptor", SECURITY),
    # mSMQCSPName holds something else ([MS-MQDSSM] 3.1.6.11.3.3)
    Propid.E_CSP_NAME:     ("mqisCspName", TEXT),
    Propid.E_PECNAME:      ("mqisPecName", TEXT),
    Propid.E_S_INTERVAL1:  ("mSMQInterval1", UNSIGNED),
    Propid.E_S_INTERVAL2:  ("mSMQInterval2", UNSIGNED),
    Propid.E_CRL:          ("mqisCrl", OCTETS),
    Propid.E_CSP_TYPE:     ("mqisCspType", NUMBER),
    Propid.E_ENCRYPT_ALG:  ("mqisEncryptAlgorithm", NUMBER),
    Propid.E_SIGN_ALG:     ("mqisSignAlgorithm", NUMBER),
    Propid.E_HASH_ALG:     ("mqisHashAlgorithm", NUMBER),
    Propid.E_CIPHER_MODE:  ("mqisCipherMode", NUMBER),
    Propid.L_NEIGHBOR1:    ("mqisNeighbor1", GUID),
    Propid.L_NEIGHBOR2:    ("mqisNeighbor2", GUID),
    Propid.D_SCOPE:        ("mqisScope", NUMBER),
    Propid.D_OBJTYPE:      ("mqisObjectType", NUMBER),
}
"""Storage of properties whose attribute the mapping table does not have, or only in an insufficient form."""
# fmt: on

_SITE: Final = CLASSES[ObjectType.SITE][0]
_MACHINE: Final = CLASSES[ObjectType.MACHINE][0]
REFERENCES: Final = (
    PropertyReference(propid=Propid.L_NEIGHBOR1, ldap="mSMQSite1", ldap_class=_SITE, required=True),
    PropertyReference(propid=Propid.L_NEIGHBOR2, ldap="mSMQSite2", ldap_class=_SITE, required=True),
    PropertyReference(propid=Propid.L_GATES, ldap="mSMQSiteGates", ldap_class=_MACHINE),
    PropertyReference(propid=Propid.QM_OUTFRS, ldap="mSMQOutRoutingServers", ldap_class=_MACHINE),
    PropertyReference(propid=Propid.QM_INFRS, ldap="mSMQInRoutingServers", ldap_class=_MACHINE),
)
"""Properties that the adapter needs as DNs; the GUIDs are kept, too."""
STAND_INS: Final[Mapping[Propid, Raws]] = {Propid.L_COST: (b"0",)}
"""Values of attributes that the class requires, for objects without the property (decision R65).

A replica must not stop at a link whose authority did not give its cost ([MS-MQDSSM] 2.2.2 requires it).
"""


def make_queue_rdn(path_name: str) -> QueueRdn | None:
    r"""Return the ``cn`` and extension of a queue.

    Returns None if the directory cannot hold its name.

    Args:
        path_name: PROPID_Q_PATHNAME, ``computer\queue``.
    """
    _, _, name = path_name.partition("\\")
    try:
        check_stored_name(name)
    except ValueError:
        return None
    return rdn_of(name)


def _name_extension(path_name: str) -> Raws:
    rdn = make_queue_rdn(path_name)
    return (rdn.extension.encode(),) if rdn and rdn.extension else ()


def _make_flag(bits: int) -> Any:
    return lambda service: (BOOLEAN.dump(bool(service & bits)),)


ALSO: Final[Mapping[Propid, tuple[Also, ...]]] = {
    Propid.Q_PATHNAME: (Also(ldap="mSMQQueueNameExt", dump=_name_extension),),
    Propid.QM_SERVICE: tuple(
        Also(ldap=TABLES[table_of("QueueManager").element].row(adm).ldap[0], dump=_make_flag(bits))
        for adm, bits in compute.SERVICE_BITS.items()
        if adm in {"RoutingServer", "DirectoryServer"}
    ),
}
"""Attributes that are written only for the adapter; a property is read back from a single attribute."""
