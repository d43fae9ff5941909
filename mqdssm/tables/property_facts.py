"""Facts about the properties of MQIS beyond the mapping table.

The abstract model does not have them either.
These are the classes of the objects of each type, the replicated properties, and the LDAP attributes of
properties for which [MS-MQDSSM] has none.
"""

from collections.abc import Mapping
from typing import Any, Final

from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.queuenames import QueueRdn, check_stored_name, rdn_of
from mqdssm.tables import TABLES, compute, schema_mqis, table_of
from mqdssm.tables.property_rows import (
    GUID,
    GUIDS,
    NUMBER,
    OCTETS,
    SECURITY,
    TEXT,
    UNSIGNED,
    Also,
    Carrier,
    PropertyReference,
    Raws,
)
from mqdssm.tables.syntax import BOOLEAN

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


def queue_rdn(path_name: str) -> QueueRdn | None:
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
    rdn = queue_rdn(path_name)
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
