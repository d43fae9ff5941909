"""Our own classes and attributes for properties of MQIS objects.

[MS-MQDSSM] does not have these properties.
The replication store needs them ([MC-MQDSRP] 3.1.1). Each type of object has an auxiliary class, which stands
beside the object's structural class. So an object and its sequence number change in one LDAP operation
(decision R15). The state of the protocol has structural classes. All OIDs are below `OWN_ARC`: attributes at
``3``, classes at ``4``. They are for OpenLDAP: on Active Directory they would be an extension of the schema.

No attribute that holds a number is indexed: inequalities on an indexed integer take seconds. Objects are
found by ``mqisBucket``, whose values `mqdssm.tables.numbering` makes (decision R26).
"""

from typing import Final

from mqdssm.tables import adsyntax as ad
from mqdssm.tables import schema, schema_attributes, schema_classes
from mqdssm.tables.adsyntax import AdSyntax
from mqdssm.tables.schema_attributes import OWN_ARC, AttributeType
from mqdssm.tables.schema_classes import ObjectClass

ATTRIBUTE_ARC: Final = f"{OWN_ARC}.3"
CLASS_ARC: Final = f"{OWN_ARC}.4"
NUMBERED: Final = "mqisNumbered"
"""Class of every entry that has a sequence number, objects and tombstones alike."""

OCTETS, TEXT, NUMBER, BOOLEAN = ad.OCTET_STRING, ad.UNICODE, ad.LARGE_INTEGER, ad.BOOLEAN
GUID_BYTES: Final = (16, 16)
BUCKET_BYTES: Final = (24, 24)
DIGEST_BYTES: Final = (16, 16)


def _attribute(
    number: int,
    name: str,
    syntax: AdSyntax,
    description: str,
    flags: str = "",
    *,
    size: tuple[int | None, int | None] = (None, None),
) -> AttributeType:
    """Make one attribute type; flags are ``index`` and ``multi``."""
    words = flags.split()
    return AttributeType(
        name=name,
        oid=f"{ATTRIBUTE_ARC}.{number}",
        syntax=syntax,
        single="multi" not in words,
        indexed="index" in words,
        lower=size[0],
        upper=size[1],
        description=description,
    )


# fmt: off
ATTRIBUTES: Final = (
    # of every numbered entry
    _attribute(1, "mqisPartitionID", OCTETS,
               "Replication partition of the object: GUID of a site, null for the enterprise",
               "index", size=GUID_BYTES),
    _attribute(2, "mqisSeqNumber", NUMBER,
               "Sequence number of the last change of the object, 0 to 2^64-1"),  # never indexed
    _attribute(3, "mqisBucket", OCTETS,
               "Partition and range of sequence numbers, by which changed objects are found",
               "index", size=BUCKET_BYTES),
    _attribute(4, "mqisExact", OCTETS, "Property values that no other attribute keeps exactly", "multi"),
    _attribute(5, "mqisPathName", TEXT, "Path name of the object as MSMQ replicates it", "index"),
    # of several types of object
    _attribute(6, "mqisModifyTime", NUMBER, "Time of the last change, seconds since 1970 UTC"),
    _attribute(7, "mqisHashKey", NUMBER, "Hash of the path name, as MQIS computes it"),
    _attribute(8, "mqisScope", NUMBER, "Scope of the object: 0 site, 1 enterprise"),
    _attribute(9, "mqisObjectID", OCTETS,
               "GUID of the object where another entry has it as objectGUID", "index", size=GUID_BYTES),
    _attribute(10, "mqisDigest", OCTETS,
               "Digest of the replicated properties at the last numbered change", size=DIGEST_BYTES),
    # of queues
    _attribute(20, "mqisQueueManagerID", OCTETS, "GUID of the machine that has the queue", size=GUID_BYTES),
    _attribute(21, "mqisLabelHashKey", NUMBER, "Hash of the label, as MQIS computes it"),
    # of machines; lists of GUIDs are one value, since LDAP keeps no order
    _attribute(30, "mqisAddresses", OCTETS, "Network addresses of the machine, an array of TA_ADDRESS"),
    _attribute(31, "mqisConnectedNetworks", OCTETS,
               "GUIDs of the connected networks of the machine, in order"),
    _attribute(32, "mqisOutRoutingServers", OCTETS,
               "GUIDs of the outgoing routing servers of the machine, in order"),
    _attribute(33, "mqisInRoutingServers", OCTETS,
               "GUIDs of the incoming routing servers of the machine, in order"),
    # of sites
    _attribute(40, "mqisPscName", TEXT, "Machine name of the primary site controller"),
    _attribute(41, "mqisPscSignKey", OCTETS,
               "Public signing keys of the primary site controller, MQDSPUBLICKEYS"),
    _attribute(42, "mqisSiteGates", OCTETS, "GUIDs of the site gates, in order"),
    # of the enterprise
    _attribute(50, "mqisPecName", TEXT, "Machine name of the primary enterprise controller"),
    _attribute(51, "mqisCspName", TEXT, "Name of the cryptographic provider of the enterprise"),
    _attribute(52, "mqisCrl", OCTETS, "Certificate revocation list of the enterprise"),
    _attribute(53, "mqisCspType", NUMBER, "Type of the cryptographic provider of the enterprise"),
    _attribute(54, "mqisEncryptAlgorithm", NUMBER, "Encryption algorithm of the enterprise"),
    _attribute(55, "mqisSignAlgorithm", NUMBER, "Signature algorithm of the enterprise"),
    _attribute(56, "mqisHashAlgorithm", NUMBER, "Hash algorithm of the enterprise"),
    _attribute(57, "mqisCipherMode", NUMBER, "Cipher mode of the enterprise"),
    # of routing links
    _attribute(60, "mqisNeighbor1", OCTETS, "GUID of the first site of the routing link", size=GUID_BYTES),
    _attribute(61, "mqisNeighbor2", OCTETS, "GUID of the second site of the routing link", size=GUID_BYTES),
    # of users: an existing account keeps its objectGUID
    _attribute(70, "mqisUserID", OCTETS,
               "GUID of the user in MQIS; the account keeps its objectGUID", "index", size=GUID_BYTES),
    # of connected networks
    _attribute(80, "mqisProtocol", NUMBER, "Protocol of the connected network: 1 IP, 3 IPX, 5 foreign"),
    # of tombstones
    _attribute(90, "mqisDeletedID", OCTETS, "GUID of the object that was deleted", "index", size=GUID_BYTES),
    _attribute(91, "mqisObjectType", NUMBER,
               "Type of the object that was deleted: MQDS_QUEUE 1, MQDS_MACHINE 2 and so on"),
    # of the state of the protocol
    _attribute(100, "mqisStatePartitionID", OCTETS,
               "Replication partition that the state is of", size=GUID_BYTES),
    _attribute(101, "mqisAuthorityName", TEXT,
               "Machine name of the server that gives the numbers of the partition"),
    _attribute(102, "mqisLastSeqNumber", NUMBER, "LastSeqNumber: all changes up to it have been applied"),
    _attribute(103, "mqisCeiling", NUMBER, "No sequence number above it has been given out"),
    _attribute(104, "mqisPurgedSeqNumber", NUMBER, "PurgedSeqNumber: tombstones up to it may be gone"),
    _attribute(105, "mqisAllowedPurgeSeqNumber", NUMBER,
               "AllowedPurgeSeqNumber: tombstones up to it may be removed"),
    _attribute(106, "mqisPurgeState", NUMBER,
               "State of a full synchronization: 0 normal, 1 STARTSYNC0, 2 SYNC0, 3 COMPLETESYNC0"),
    _attribute(107, "mqisOwned", BOOLEAN, "TRUE if this server gives the numbers of the partition"),
    _attribute(108, "mqisPredecessor", TEXT,
               "Machine name of the server that handed the partition over to this one"),
    _attribute(109, "mqisIsNew", BOOLEAN,
               "TRUE if the copy began empty or as an older one, and has not been whole since"),
    _attribute(110, "mqisMachineName", TEXT, "Machine name of a neighbour, or of this server"),
    _attribute(111, "mqisMachineID", OCTETS, "GUID of the machine of this server", size=GUID_BYTES),
    _attribute(112, "mqisSiteID", OCTETS, "GUID of the site of this server", size=GUID_BYTES),
    _attribute(113, "mqisServerRole", NUMBER,
               "Role of a directory server: 2 BSC, 4 PSC, 8 PEC, as in PROPID_QM_SERVICE"),
    _attribute(114, "mqisAckedSeqNumber", NUMBER,
               "Last number of the partition of our site that the neighbour acknowledged"),
    _attribute(115, "mqisAckedPecSeqNumber", NUMBER,
               "Last number of the enterprise partition that the neighbour acknowledged"),
    _attribute(116, "mqisLastAckedTime", NUMBER,
               "Time of the last acknowledgement, milliseconds since 1970 UTC"),
    _attribute(117, "mqisSeenChange", TEXT,
               "entryCSN up to which this server has looked for changes of other programs"),
    _attribute(118, "mqisFollowedSeqNumber", NUMBER,
               "Last number of the enterprise partition when the authority of a site was recorded"),
    _attribute(119, "mqisSyncSource", TEXT,
               "Machine name of the server that a full synchronization began with"),
    _attribute(120, "mqisFormerSeqNumber", NUMBER, "LastSeqNumber before the full synchronization"),
)
# fmt: on


def _auxiliary(
    number: int, name: str, description: str, may: str, *, superior: str = NUMBERED
) -> ObjectClass:
    """Make the auxiliary class of one type of object."""
    return ObjectClass(
        name=name,
        oid=f"{CLASS_ARC}.{number}",
        superior=superior,
        kind="AUXILIARY",
        must=(),
        may=tuple(may.split()),
        own=True,
        description=description,
    )


def _structural(number: int, name: str, description: str, must: str, may: str) -> ObjectClass:
    """Make a structural class of our own."""
    return ObjectClass(
        name=name,
        oid=f"{CLASS_ARC}.{number}",
        must=("cn", *must.split()),
        may=tuple(may.split()),
        parents=("container",),
        own=True,
        description=description,
    )


# fmt: off
CLASSES: Final = (
    _auxiliary(1, NUMBERED, "Object or tombstone with a sequence number of MSMQ replication",
               "mqisPartitionID mqisSeqNumber mqisBucket mqisExact mqisPathName mqisObjectID mqisDigest",
               superior="top"),
    _auxiliary(2, "mqisQueue", "Replicated properties of a queue, beside mSMQQueue",
               "mqisModifyTime mqisHashKey mqisScope mqisQueueManagerID mqisLabelHashKey"),
    _auxiliary(3, "mqisMachine", "Replicated properties of a machine, beside mSMQConfiguration",
               "mqisModifyTime mqisHashKey mqisAddresses mqisConnectedNetworks mqisOutRoutingServers "
               "mqisInRoutingServers"),
    _auxiliary(4, "mqisSite", "Replicated properties of a site, beside site",
               "mqisPscName mqisPscSignKey mqisSiteGates"),
    _auxiliary(5, "mqisEnterprise", "Replicated properties of the enterprise, beside mSMQEnterpriseSettings",
               "mqisPecName mqisCspName mqisCrl mqisCspType mqisEncryptAlgorithm mqisSignAlgorithm "
               "mqisHashAlgorithm mqisCipherMode"),
    _auxiliary(6, "mqisRoutingLink", "Replicated properties of a routing link, beside mSMQSiteLink",
               "mqisNeighbor1 mqisNeighbor2"),
    _auxiliary(7, "mqisUser", "Replicated properties of a user, beside user",
               "mqisUserID"),
    _structural(8, "mqisConnectedNetwork", "Connected network of MQIS, with mqisNumbered",
                "", "mqisProtocol"),
    _structural(9, "mqisTombstone", "Deleted object that others still have to learn of, with mqisNumbered",
                "mqisDeletedID", "mqisObjectType mqisScope"),
    _structural(10, "mqisPartition", "State of one replication partition at this server",
                "mqisStatePartitionID",
                "mqisAuthorityName mqisLastSeqNumber mqisCeiling mqisPurgedSeqNumber "
                "mqisAllowedPurgeSeqNumber mqisPurgeState mqisOwned mqisPredecessor mqisIsNew "
                "mqisFollowedSeqNumber mqisSyncSource mqisFormerSeqNumber"),
    _structural(11, "mqisNeighbor", "Directory server that this one replicates with",
                "mqisMachineName",
                "mqisStatePartitionID mqisServerRole mqisAckedSeqNumber mqisAckedPecSeqNumber "
                "mqisLastAckedTime"),
    _structural(12, "mqisServer", "Directory server that keeps its state in this directory",
                "mqisMachineName",
                "mqisMachineID mqisSiteID mqisServerRole mqisPscName mqisPecName mqisSeenChange"),
)
# fmt: on

INDEXED: Final = tuple(attribute.name for attribute in ATTRIBUTES if attribute.indexed)
"""Attributes that a server must index for equality."""

schema.prove((*schema_attributes.ALL, *ATTRIBUTES), (*schema_classes.ALL, *CLASSES))
for _indexed in (attribute for attribute in ATTRIBUTES if attribute.indexed):
    if _indexed.syntax is NUMBER:
        raise ValueError(f"{_indexed.name}: an index of numbers makes inequalities take seconds")
