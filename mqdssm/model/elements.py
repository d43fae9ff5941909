"""The elements of the abstract model that a directory holds.

See [MS-MQDSSM] 3.1.1.1, 3.1.1.4 and 3.1.6.20.

Every attribute of the tables in 3.1.6.20, in their order. Defaults are the ones that 3.1.6.11 and the notes
<10> to <17> of its appendix give to an attribute that a directory does not hold; None stands where the
specification has no default. Names are those of [MS-MQDMPR] 3.1.1 (M27).
"""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar, Final

from mqdssm.model.base import DirectoryObject, adm
from mqdssm.model.enums import OperatingSystemType, PrivacyLevel
from mqdssm.model.fieldtypes import (
    BasePriority,
    Blob,
    Boolean,
    CertificateBlob,
    Description,
    Digests,
    Guid,
    Guids,
    Label,
    MulticastAddress,
    OperatingSystemTypeValue,
    OptionalBlob,
    OptionalBoolean,
    OptionalCost,
    OptionalDirectoryServerTypeValue,
    OptionalDnText,
    OptionalGuid,
    OptionalName,
    OptionalPath,
    OptionalQualifiedPath,
    OptionalSeconds,
    OptionalSidText,
    OptionalText,
    PrivacyLevelValue,
    Text,
    Unsigned,
    time_of_seconds,
)

GUID_NULL: Final = uuid.UUID(int=0)
QUOTA_UNLIMITED: Final = 0xFFFF_FFFF
"""No limit, for a quota in kilobytes ([MS-MQDMPR] 3.1.1)."""
QUEUE_MANAGER_QUOTA_DEFAULT: Final = 0x0010_0000
"""[MS-MQDSSM] 3.1.6.11.1; Windows XP took QUOTA_UNLIMITED (note <10>)."""
TIME_TO_LIVE_DEFAULT_S: Final = 345_600
"""Four days; Windows XP took 7776000 ([MS-MQDSSM] note <13>)."""
INTRA_SITE_INTERVAL_DEFAULT_S: Final = 2
INTER_SITE_INTERVAL_DEFAULT_S: Final = 10


class TimedObject(DirectoryObject):
    """Base of the elements with times, which are seconds since 1970 UTC."""

    @property
    def created_at(self) -> datetime | None:
        """CreateTime as a datetime in UTC; None if it is not populated."""
        return time_of_seconds(getattr(self, "create_time", None))

    @property
    def modified_at(self) -> datetime | None:
        """ModifyTime as a datetime in UTC; None if it is not populated."""
        return time_of_seconds(getattr(self, "modify_time", None))


class QueueManager(TimedObject):
    """A queue manager: its mSMQConfiguration, and attributes of its computer.

    [MS-MQDSSM] 3.1.6.20.1, 3.1.6.11.1; [MS-MQDMPR] 3.1.1.1. Times are seconds since 1970 UTC, quotas
    kilobytes, keys MQDSPUBLICKEYS images (MQUSERSIGNCERTS where the directory holds that).
    """

    unsupported_names: ClassVar[frozenset[str]] = frozenset({"ConnectedNetworkIdentifierList"})

    identifier: OptionalGuid = adm("Identifier")
    computer_name: OptionalName = adm("ComputerName")
    queue_manager_version: Text = adm("QueueManagerVersion", "")
    operating_system_type: OperatingSystemTypeValue = adm("OperatingSystemType", OperatingSystemType.OTHER)
    qualified_computer_name: OptionalText = adm("QualifiedComputerName")
    create_time: OptionalSeconds = adm("CreateTime")
    modify_time: OptionalSeconds = adm("ModifyTime")
    # undefined unless DirectoryServer is True ([MS-MQDSSM] 3.1.6.11.1.5)
    directory_server_type: OptionalDirectoryServerTypeValue = adm("DirectoryServerType")
    remote_access_server: Boolean = adm("RemoteAccessServer", False)
    queue_manager_quota: Unsigned = adm("QueueManagerQuota", QUEUE_MANAGER_QUOTA_DEFAULT)
    journal_quota: Unsigned = adm("JournalQuota", QUOTA_UNLIMITED)
    foreign_system: Boolean = adm("ForeignSystem", False)
    full_path: OptionalDnText = adm("FullPath")
    site_identifier_list: Guids = adm("SiteIdentifierList", ())
    connected_network_identifier_list: Guids = adm("ConnectedNetworkIdentifierList", ())
    out_routing_server_identifier_list: Guids = adm("OutRoutingServerIdentifierList", ())
    in_routing_server_identifier_list: Guids = adm("InRoutingServerIdentifierList", ())
    routing_server: Boolean = adm("RoutingServer", False)
    directory_server: Boolean = adm("DirectoryServer", False)
    supporting_server: Boolean = adm("SupportingServer", False)
    public_encryption_key_list: Blob = adm("PublicEncryptionKeyList", b"")
    public_signing_key_list: CertificateBlob = adm("PublicSigningKeyList", b"")
    security: OptionalBlob = adm("Security")
    clustered: OptionalBoolean = adm("Clustered")
    operating_system_version: Text = adm("OperatingSystemVersion", "")


class Queue(TimedObject):
    """A public queue: its mSMQQueue object.

    [MS-MQDSSM] 3.1.6.20.2, 3.1.6.11.2; [MS-MQDMPR] 3.1.1.2. Times are seconds since 1970 UTC, quotas
    kilobytes.
    """

    unsupported_names: ClassVar[frozenset[str]] = frozenset({"Scope"})

    identifier: OptionalGuid = adm("Identifier")
    label: Label = adm("Label", "")
    create_time: OptionalSeconds = adm("CreateTime")
    modify_time: OptionalSeconds = adm("ModifyTime")
    type: Guid = adm("Type", GUID_NULL)
    pathname: OptionalPath = adm("Pathname")
    qualified_pathname: OptionalQualifiedPath = adm("QualifiedPathname")
    journaling: Boolean = adm("Journaling", False)
    quota: Unsigned = adm("Quota", QUOTA_UNLIMITED)
    journal_quota: Unsigned = adm("JournalQuota", QUOTA_UNLIMITED)
    authentication: Boolean = adm("Authentication", False)
    privacy_level: PrivacyLevelValue = adm("PrivacyLevel", PrivacyLevel.OPTIONAL)
    transactional: Boolean = adm("Transactional", False)
    multicast_address: MulticastAddress = adm("MulticastAddress", "")
    security: OptionalBlob = adm("Security")
    base_priority: BasePriority = adm("BasePriority", 0)
    full_path: OptionalDnText = adm("FullPath")
    directory_path: OptionalText = adm("DirectoryPath")


class Enterprise(DirectoryObject):
    """The enterprise: the mSMQEnterpriseSettings object ``CN=MsmqServices``.

    [MS-MQDSSM] 3.1.6.20.3, 3.1.6.11.3 with notes <13> and <14>; [MS-MQDMPR] 3.1.1.6.
    ``default_time_to_live`` is in seconds.
    """

    identifier: OptionalGuid = adm("Identifier")
    name: OptionalText = adm("Name")
    weakened_security: Boolean = adm("WeakenedSecurity", False)
    non_ldap_capable_queue_manager_notification: Boolean = adm("NonLDAPCapableQueueManagerNotification", True)
    default_time_to_live: Unsigned = adm("DefaultTimeToLive", TIME_TO_LIVE_DEFAULT_S)
    old_directory: Boolean = adm("OldDirectory", True)
    security: OptionalBlob = adm("Security")


class Site(DirectoryObject):
    """A site: its site object.

    [MS-MQDSSM] 3.1.6.20.4, 3.1.6.11.4 with note <15>; [MS-MQDMPR] 3.1.1.7. Intervals are in seconds.
    ``migrated_from_msmq10`` has the default False (M12).
    """

    # both spellings of the signing keys (M27)
    unsupported_names: ClassVar[frozenset[str]] = frozenset(
        {"PrimarySiteController", "PublicSigningKeyList", "PublicSigningKey"}
    )

    identifier: OptionalGuid = adm("Identifier")
    name: OptionalName = adm("Name")
    primary_site_controller: OptionalText = adm("PrimarySiteController")
    intra_site_replication_interval: Unsigned = adm(
        "IntraSiteReplicationInterval", INTRA_SITE_INTERVAL_DEFAULT_S
    )
    inter_site_replication_interval: Unsigned = adm(
        "InterSiteReplicationInterval", INTER_SITE_INTERVAL_DEFAULT_S
    )
    full_path: OptionalDnText = adm("FullPath")
    foreign_site: Boolean = adm("ForeignSite", False)
    public_signing_key_list: Blob = adm("PublicSigningKeyList", b"")
    migrated_from_msmq10: Boolean = adm("MigratedFromMsmq10", False)
    security: OptionalBlob = adm("Security")


class RoutingLink(DirectoryObject):
    """A routing link between two sites: its mSMQSiteLink object.

    [MS-MQDSSM] 3.1.6.20.5, 3.1.6.11.5 with note <16>; [MS-MQDMPR] 3.1.1.8. The cost is 1 to 999999.
    """

    identifier: OptionalGuid = adm("Identifier")
    description: Description = adm("Description", "")
    full_path: OptionalDnText = adm("FullPath")
    actual_cost: OptionalCost = adm("ActualCost")
    site1_identifier: OptionalGuid = adm("Site1Identifier")
    site2_identifier: OptionalGuid = adm("Site2Identifier")
    site_gate_identifier_list: Guids = adm("SiteGateIdentifierList", ())


class User(DirectoryObject):
    """A user with the certificates that sign his messages: his user object.

    [MS-MQDSSM] 3.1.6.20.6, 3.1.1.4 (FullPath), 3.1.6.11.6 with note <17>; [MS-MQDMPR] 3.1.1.15.
    ``certificates`` is an MQUSERSIGNCERTS image, each digest the 16 bytes of an MD5 (M21).
    """

    identifier: OptionalGuid = adm("Identifier")
    security_identifier: OptionalSidText = adm("SecurityIdentifier")
    certificate_digest_list: Digests = adm("CertificateDigestList", ())
    certificates: CertificateBlob = adm("Certificates", b"")
    full_path: OptionalDnText = adm("FullPath")


class ConnectedNetwork(DirectoryObject):
    """A connected network, which no event supports (M44).

    Every event of [MS-MQDSSM] returns GenericError for it.
    [MS-MQDMPR] 3.1.1.9.
    """

    identifier: OptionalGuid = adm("Identifier")
    name: OptionalText = adm("Name")
    security: OptionalBlob = adm("Security")


ELEMENTS: Final[Mapping[str, type[DirectoryObject]]] = {
    element.element_name: element
    for element in (QueueManager, Queue, Enterprise, Site, RoutingLink, User, ConnectedNetwork)
}
"""Every element by its name in the specification."""


def element_of(name: str) -> type[DirectoryObject]:
    """Return the class of an element by its name in the specification.

    Raises:
        ValueError: there is no such element.
    """
    try:
        return ELEMENTS[name]
    except KeyError:
        raise ValueError(f"there is no element {name!r}: one of {', '.join(ELEMENTS)} is expected") from None
