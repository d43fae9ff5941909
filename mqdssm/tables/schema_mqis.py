"""Our own classes and attributes: properties of MQIS objects that [MS-MQDSSM] does not have.

The replication store needs them ([MC-MQDSRP] 3.1.1). Each type of object has an auxiliary class, which stands
beside the object's structural class. So an object and its sequence number change in one LDAP operation
(decision R15). The state of the protocol has structural classes. All OIDs are below `OWN_ARC`: attributes at
``3``, classes at ``4``. They are for OpenLDAP: on Active Directory they would be an extension of the schema.

No attribute that holds a number is indexed: inequalities on an indexed integer take seconds. Objects are
found by ``mqisBucket``, whose values `mqdssm.tables.numbering` makes (decision R26).
"""

from collections.abc import Mapping
from typing import Final

from mqdssm.tables import adsyntax as ad
from mqdssm.tables import schema, schema_attributes, schema_classes
from mqdssm.tables.adsyntax import AdSyntax
from mqdssm.tables.schema_attributes import OWN_ARC, AttributeType
from mqdssm.tables.schema_classes import TOP, ObjectClass

ATTRIBUTE_ARC: Final = f"{OWN_ARC}.3"
CLASS_ARC: Final = f"{OWN_ARC}.4"
NUMBERED: Final = "mqisNumbered"
"""Class of every entry that has a sequence number, objects and tombstones alike."""

OCTETS, TEXT, NUMBER, BOOLEAN = ad.OCTET_STRING, ad.UNICODE, ad.LARGE_INTEGER, ad.BOOLEAN
GUID_BYTES: Final = (16, 16)
BUCKET_BYTES: Final = (24, 24)
DIGEST_BYTES: Final = (16, 16)


DESCRIPTIONS: Final[Mapping[str, str]] = {
    "mqisPartitionID": "Replication partition of the object: GUID of a site, null for the enterprise",
    "mqisSeqNumber": "Sequence number of the last change of the object, 0 to 2^64-1",
    "mqisBucket": "Partition and range of sequence numbers, by which changed objects are found",
    "mqisExact": "Property values that no other attribute keeps exactly",
    "mqisPathName": "Path name of the object as MSMQ replicates it",
    "mqisModifyTime": "Time of the last change, seconds since 1970 UTC",
    "mqisHashKey": "Hash of the path name, as MQIS computes it",
    "mqisScope": "Scope of the object: 0 site, 1 enterprise",
    "mqisObjectID": "GUID of the object where another entry has it as objectGUID",
    "mqisDigest": "Digest of the replicated properties at the last numbered change",
    "mqisQueueManagerID": "GUID of the machine that has the queue",
    "mqisLabelHashKey": "Hash of the label, as MQIS computes it",
    "mqisAddresses": "Network addresses of the machine, an array of TA_ADDRESS",
    "mqisConnectedNetworks": "GUIDs of the connected networks of the machine, in order",
    "mqisOutRoutingServers": "GUIDs of the outgoing routing servers of the machine, in order",
    "mqisInRoutingServers": "GUIDs of the incoming routing servers of the machine, in order",
    "mqisPscName": "Machine name of the primary site controller",
    "mqisPscSignKey": "Public signing keys of the primary site controller, MQDSPUBLICKEYS",
    "mqisSiteGates": "GUIDs of the site gates, in order",
    "mqisPecName": "Machine name of the primary enterprise controller",
    "mqisCspName": "Name of the cryptographic provider of the enterprise",
    "mqisCrl": "Certificate revocation list of the enterprise",
    "mqisCspType": "Type of the cryptographic provider of the enterprise",
    "mqisEncryptAlgorithm": "Encryption algorithm of the enterprise",
    "mqisSignAlgorithm": "Signature algorithm of the enterprise",
    "mqisHashAlgorithm": "Hash algorithm of the enterprise",
    "mqisCipherMode": "Cipher mode of the enterprise",
    "mqisNeighbor1": "GUID of the first site of the routing link",
    "mqisNeighbor2": "GUID of the second site of the routing link",
    "mqisUserID": "GUID of the user in MQIS; the account keeps its objectGUID",
    "mqisProtocol": "Protocol of the connected network: 1 IP, 3 IPX, 5 foreign",
    "mqisDeletedID": "GUID of the object that was deleted",
    "mqisObjectType": "Type of the object that was deleted: MQDS_QUEUE 1, MQDS_MACHINE 2 and so on",
    "mqisStatePartitionID": "Replication partition that the state is of",
    "mqisAuthorityName": "Machine name of the server that gives the numbers of the partition",
    "mqisLastSeqNumber": "LastSeqNumber: all changes up to it have been applied",
    "mqisCeiling": "No sequence number above it has been given out",
    "mqisPurgedSeqNumber": "PurgedSeqNumber: tombstones up to it may be gone",
    "mqisAllowedPurgeSeqNumber": "AllowedPurgeSeqNumber: tombstones up to it may be removed",
    "mqisPurgeState": "State of a full synchronization: 0 normal, 1 STARTSYNC0, 2 SYNC0, 3 COMPLETESYNC0",
    "mqisPredecessor": "Machine name of the server that handed the partition over to this one",
    "mqisIsNew": "TRUE if the copy began empty or as an older one, and has not been whole since",
    "mqisOwned": "TRUE if this server gives the numbers of the partition",
    "mqisMachineName": "Machine name of a neighbour, or of this server",
    "mqisMachineID": "GUID of the machine of this server",
    "mqisSeenChange": "entryCSN up to which this server has looked for changes of other programs",
    "mqisSiteID": "GUID of the site of this server",
    "mqisServerRole": "Role of a directory server: 2 BSC, 4 PSC, 8 PEC, as in PROPID_QM_SERVICE",
    "mqisAckedSeqNumber": "Last number of the partition of our site that the neighbour acknowledged",
    "mqisAckedPecSeqNumber": "Last number of the enterprise partition that the neighbour acknowledged",
    "mqisLastAckedTime": "Time of the last acknowledgement, milliseconds since 1970 UTC",
    NUMBERED: "Object or tombstone with a sequence number of MSMQ replication",
    "mqisQueue": "Replicated properties of a queue, beside mSMQQueue",
    "mqisMachine": "Replicated properties of a machine, beside mSMQConfiguration",
    "mqisSite": "Replicated properties of a site, beside site",
    "mqisEnterprise": "Replicated properties of the enterprise, beside mSMQEnterpriseSettings",
    "mqisRoutingLink": "Replicated properties of a routing link, beside mSMQSiteLink",
    "mqisUser": "Replicated properties of a user, beside user",
    "mqisConnectedNetwork": "Connected network of MQIS, with mqisNumbered",
    "mqisTombstone": "Deleted object that others still have to learn of, with mqisNumbered",
    "mqisPartition": "State of one replication partition at this server",
    "mqisNeighbor": "Directory server that this one replicates with",
    "mqisServer": "Directory server that keeps its state in this directory",
}
"""Descriptions of all attributes and classes of this module, for readers of a server's schema."""


def _attribute(
    number: int,
    name: str,
    syntax: AdSyntax,
    flags: str = "",
    bounds: tuple[int | None, int | None] = (None, None),
) -> AttributeType:
    """Make one attribute type; flags are ``index`` and ``multi``."""
    words = flags.split()
    return AttributeType(
        name=name,
        oid=f"{ATTRIBUTE_ARC}.{number}",
        syntax=syntax,
        single="multi" not in words,
        indexed="index" in words,
        lower=bounds[0],
        upper=bounds[1],
        description=DESCRIPTIONS[name],
    )


# fmt: off
ATTRIBUTES: Final = (
    # of every numbered entry
    _attribute(1,  "mqisPartitionID",  OCTETS, "index", GUID_BYTES),
    _attribute(2,  "mqisSeqNumber",    NUMBER),  # 0 to 2^64-1, never indexed
    _attribute(3,  "mqisBucket",       OCTETS, "index", BUCKET_BYTES),
    _attribute(4,  "mqisExact",        OCTETS, "multi"),
    _attribute(5,  "mqisPathName",     TEXT,   "index"),
    # of several types of object
    _attribute(6,  "mqisModifyTime",   NUMBER),
    _attribute(7,  "mqisHashKey",      NUMBER),
    _attribute(8,  "mqisScope",        NUMBER),
    _attribute(9, "mqisObjectID", OCTETS, "index", GUID_BYTES),
    _attribute(10, "mqisDigest", OCTETS, "", DIGEST_BYTES),
    # of queues
    _attribute(20, "mqisQueueManagerID", OCTETS, "", GUID_BYTES),
    _attribute(21, "mqisLabelHashKey", NUMBER),
    # of machines; lists of GUIDs are one value, since LDAP keeps no order
    _attribute(30, "mqisAddresses",         OCTETS),
    _attribute(31, "mqisConnectedNetworks", OCTETS),
    _attribute(32, "mqisOutRoutingServers", OCTETS),
    _attribute(33, "mqisInRoutingServers",  OCTETS),
    # of sites
    _attribute(40, "mqisPscName",      TEXT),
    _attribute(41, "mqisPscSignKey",   OCTETS),
    _attribute(42, "mqisSiteGates",    OCTETS),
    # of the enterprise
    _attribute(50, "mqisPecName",      TEXT),
    _attribute(51, "mqisCspName",      TEXT),
    _attribute(52, "mqisCrl",          OCTETS),
    _attribute(53, "mqisCspType",      NUMBER),
    _attribute(54, "mqisEncryptAlgorithm", NUMBER),
    _attribute(55, "mqisSignAlgorithm", NUMBER),
    _attribute(56, "mqisHashAlgorithm", NUMBER),
    _attribute(57, "mqisCipherMode",   NUMBER),
    # of routing links
    _attribute(60, "mqisNeighbor1",    OCTETS, "", GUID_BYTES),
    _attribute(61, "mqisNeighbor2",    OCTETS, "", GUID_BYTES),
    # of users: an existing account keeps its objectGUID
    _attribute(70, "mqisUserID",       OCTETS, "index", GUID_BYTES),
    # of connected networks
    _attribute(80, "mqisProtocol",     NUMBER),
    # of tombstones
    _attribute(90, "mqisDeletedID",    OCTETS, "index", GUID_BYTES),
    _attribute(91, "mqisObjectType",   NUMBER),
    # of the state of the protocol
    _attribute(100, "mqisStatePartitionID", OCTETS, "", GUID_BYTES),
    _attribute(101, "mqisAuthorityName", TEXT),
    _attribute(102, "mqisLastSeqNumber", NUMBER),
    _attribute(103, "mqisCeiling",     NUMBER),
    _attribute(104, "mqisPurgedSeqNumber", NUMBER),
    _attribute(105, "mqisAllowedPurgeSeqNumber", NUMBER),
    _attribute(106, "mqisPurgeState",  NUMBER),
    _attribute(107, "mqisOwned",       BOOLEAN),
    _attribute(108, "mqisPredecessor", TEXT),
    _attribute(109, "mqisIsNew",       BOOLEAN),
    _attribute(110, "mqisMachineName", TEXT),
    _attribute(111, "mqisMachineID",   OCTETS, "", GUID_BYTES),
    _attribute(112, "mqisSiteID",      OCTETS, "", GUID_BYTES),
    _attribute(113, "mqisServerRole",  NUMBER),
    _attribute(114, "mqisAckedSeqNumber", NUMBER),
    _attribute(115, "mqisAckedPecSeqNumber", NUMBER),
    _attribute(116, "mqisLastAckedTime", NUMBER),
    _attribute(117, "mqisSeenChange", TEXT),
)
# fmt: on


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _make_auxiliary_class(number: int, name: str, may: str) -> ObjectClass:
    """Make the auxiliary class of one type of object."""
    return ObjectClass(
        name=name,
        oid=f"{CLASS_ARC}.{number}",
        superior=NUMBERED,
        kind="AUXILIARY",
        must=(),
        may=_split_names(may),
        own=True,
        description=DESCRIPTIONS[name],
    )


def _make_structural_class(
    number: int, name: str, must: str, may: str, parents: str = "container"
) -> ObjectClass:
    """Make a structural class of our own."""
    return ObjectClass(
        name=name,
        oid=f"{CLASS_ARC}.{number}",
        superior=TOP,
        must=("cn", *_split_names(must)),
        may=_split_names(may),
        parents=_split_names(parents),
        own=True,
        description=DESCRIPTIONS[name],
    )


CLASSES: Final = (
    ObjectClass(
        name=NUMBERED,
        oid=f"{CLASS_ARC}.1",
        superior="top",
        kind="AUXILIARY",
        must=(),
        may=_split_names(
            "mqisPartitionID mqisSeqNumber mqisBucket mqisExact mqisPathName mqisObjectID mqisDigest"
        ),
        own=True,
        description=DESCRIPTIONS[NUMBERED],
    ),
    _make_auxiliary_class(
        2, "mqisQueue", "mqisModifyTime mqisHashKey mqisScope mqisQueueManagerID mqisLabelHashKey"
    ),  # with mSMQQueue
    _make_auxiliary_class(  # with mSMQConfiguration
        3,
        "mqisMachine",
        "mqisModifyTime mqisHashKey mqisAddresses mqisConnectedNetworks mqisOutRoutingServers "
        "mqisInRoutingServers",
    ),
    _make_auxiliary_class(  # with site
        4, "mqisSite", "mqisPscName mqisPscSignKey mqisSiteGates"
    ),
    _make_auxiliary_class(  # with mSMQEnterpriseSettings
        5,
        "mqisEnterprise",
        "mqisPecName mqisCspName mqisCrl mqisCspType mqisEncryptAlgorithm mqisSignAlgorithm "
        "mqisHashAlgorithm mqisCipherMode",
    ),
    _make_auxiliary_class(6, "mqisRoutingLink", "mqisNeighbor1 mqisNeighbor2"),  # with mSMQSiteLink
    _make_auxiliary_class(7, "mqisUser", "mqisUserID"),  # with user
    _make_structural_class(8, "mqisConnectedNetwork", "", "mqisProtocol"),  # with NUMBERED
    _make_structural_class(9, "mqisTombstone", "mqisDeletedID", "mqisObjectType mqisScope"),  # with NUMBERED
    _make_structural_class(
        10,
        "mqisPartition",
        "mqisStatePartitionID",
        "mqisAuthorityName mqisLastSeqNumber mqisCeiling mqisPurgedSeqNumber mqisAllowedPurgeSeqNumber "
        "mqisPurgeState mqisOwned mqisPredecessor mqisIsNew",
    ),
    _make_structural_class(
        11,
        "mqisNeighbor",
        "mqisMachineName",
        "mqisStatePartitionID mqisServerRole mqisAckedSeqNumber mqisAckedPecSeqNumber mqisLastAckedTime",
    ),
    _make_structural_class(
        12,
        "mqisServer",
        "mqisMachineName",
        "mqisMachineID mqisSiteID mqisServerRole mqisPscName mqisPecName mqisSeenChange",
    ),
)

INDEXED: Final = tuple(attribute.name for attribute in ATTRIBUTES if attribute.indexed)
"""Attributes that a server must index for equality."""

schema.prove((*schema_attributes.ALL, *ATTRIBUTES), (*schema_classes.ALL, *CLASSES))
for _indexed in (attribute for attribute in ATTRIBUTES if attribute.indexed):
    if _indexed.syntax is NUMBER:
        raise ValueError(f"{_indexed.name}: an index of numbers makes inequalities take seconds")
