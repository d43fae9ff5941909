"""The elements of the abstract model that a directory holds ([MS-MQDSSM] 3.1.1.1, 3.1.1.4, 3.1.6.20).

Every attribute of the tables in 3.1.6.20, in their order. Defaults are those that 3.1.6.11 and the notes
<10> to <17> of its appendix give to an attribute that a directory does not hold; None stands where the
specification has no default. Names are those of [MS-MQDMPR] 3.1.1 (M27).
"""

import uuid
from types import MappingProxyType
from typing import ClassVar, Final

from pydantic import Field

from mqdssm.model.base import DirectoryObject
from mqdssm.model.enums import OperatingSystemType, PrivacyLevel
from mqdssm.model.fieldtypes import (
    BasePriority,
    Blob,
    Boolean,
    CertificateBlob,
    ComputerName,
    Cost,
    Description,
    Digests,
    DirectoryServerTypeValue,
    DnText,
    Guid,
    Guids,
    Label,
    MulticastAddress,
    Name,
    OperatingSystemTypeValue,
    Path,
    PrivacyLevelValue,
    QualifiedPath,
    Seconds,
    SidText,
    Text,
    Unsigned,
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


class QueueManager(DirectoryObject):
    """A queue manager: its mSMQConfiguration object, and some attributes of its computer.

    [MS-MQDSSM] 3.1.6.20.1, 3.1.6.11.1; [MS-MQDMPR] 3.1.1.1. Times are seconds since 1970 UTC, quotas
    kilobytes, keys MQDSPUBLICKEYS images (MQUSERSIGNCERTS where the directory holds that).
    """

    unsupported_names: ClassVar[frozenset[str]] = frozenset({"ConnectedNetworkIdentifierList"})

    computer_name: ComputerName | None = Field(default=None, alias="ComputerName")
    queue_manager_version: Text = Field(default="", alias="QueueManagerVersion")
    operating_system_type: OperatingSystemTypeValue = Field(
        default=OperatingSystemType.OTHER, alias="OperatingSystemType"
    )
    qualified_computer_name: Text | None = Field(default=None, alias="QualifiedComputerName")
    create_time: Seconds | None = Field(default=None, alias="CreateTime")
    modify_time: Seconds | None = Field(default=None, alias="ModifyTime")
    # undefined unless DirectoryServer is True ([MS-MQDSSM] 3.1.6.11.1.5)
    directory_server_type: DirectoryServerTypeValue | None = Field(default=None, alias="DirectoryServerType")
    remote_access_server: Boolean = Field(default=False, alias="RemoteAccessServer")
    queue_manager_quota: Unsigned = Field(default=QUEUE_MANAGER_QUOTA_DEFAULT, alias="QueueManagerQuota")
    journal_quota: Unsigned = Field(default=QUOTA_UNLIMITED, alias="JournalQuota")
    foreign_system: Boolean = Field(default=False, alias="ForeignSystem")
    full_path: DnText | None = Field(default=None, alias="FullPath")
    site_identifier_list: Guids = Field(default=(), alias="SiteIdentifierList")
    connected_network_identifier_list: Guids = Field(default=(), alias="ConnectedNetworkIdentifierList")
    out_routing_server_identifier_list: Guids = Field(default=(), alias="OutRoutingServerIdentifierList")
    in_routing_server_identifier_list: Guids = Field(default=(), alias="InRoutingServerIdentifierList")
    routing_server: Boolean = Field(default=False, alias="RoutingServer")
    directory_server: Boolean = Field(default=False, alias="DirectoryServer")
    supporting_server: Boolean = Field(default=False, alias="SupportingServer")
    public_encryption_key_list: Blob = Field(default=b"", alias="PublicEncryptionKeyList")
    public_signing_key_list: CertificateBlob = Field(default=b"", alias="PublicSigningKeyList")
    security: Blob | None = Field(default=None, alias="Security")
    clustered: Boolean | None = Field(default=None, alias="Clustered")
    operating_system_version: Text = Field(default="", alias="OperatingSystemVersion")


class Queue(DirectoryObject):
    """A public queue: its mSMQQueue object.

    [MS-MQDSSM] 3.1.6.20.2, 3.1.6.11.2; [MS-MQDMPR] 3.1.1.2. Times are seconds since 1970 UTC, quotas
    kilobytes.
    """

    unsupported_names: ClassVar[frozenset[str]] = frozenset({"Scope"})

    label: Label = Field(default="", alias="Label")
    create_time: Seconds | None = Field(default=None, alias="CreateTime")
    modify_time: Seconds | None = Field(default=None, alias="ModifyTime")
    type: Guid = Field(default=GUID_NULL, alias="Type")
    pathname: Path | None = Field(default=None, alias="Pathname")
    qualified_pathname: QualifiedPath | None = Field(default=None, alias="QualifiedPathname")
    journaling: Boolean = Field(default=False, alias="Journaling")
    quota: Unsigned = Field(default=QUOTA_UNLIMITED, alias="Quota")
    journal_quota: Unsigned = Field(default=QUOTA_UNLIMITED, alias="JournalQuota")
    authentication: Boolean = Field(default=False, alias="Authentication")
    privacy_level: PrivacyLevelValue = Field(default=PrivacyLevel.OPTIONAL, alias="PrivacyLevel")
    transactional: Boolean = Field(default=False, alias="Transactional")
    multicast_address: MulticastAddress = Field(default="", alias="MulticastAddress")
    security: Blob | None = Field(default=None, alias="Security")
    base_priority: BasePriority = Field(default=0, alias="BasePriority")
    full_path: DnText | None = Field(default=None, alias="FullPath")
    directory_path: Text | None = Field(default=None, alias="DirectoryPath")


class Enterprise(DirectoryObject):
    """The enterprise: the mSMQEnterpriseSettings object ``CN=MsmqServices``.

    [MS-MQDSSM] 3.1.6.20.3, 3.1.6.11.3 with notes <13> and <14>; [MS-MQDMPR] 3.1.1.6.
    ``default_time_to_live`` is in seconds.
    """

    name: Text | None = Field(default=None, alias="Name")
    weakened_security: Boolean = Field(default=False, alias="WeakenedSecurity")
    non_ldap_capable_queue_manager_notification: Boolean = Field(
        default=True, alias="NonLDAPCapableQueueManagerNotification"
    )
    default_time_to_live: Unsigned = Field(default=TIME_TO_LIVE_DEFAULT_S, alias="DefaultTimeToLive")
    old_directory: Boolean = Field(default=True, alias="OldDirectory")
    security: Blob | None = Field(default=None, alias="Security")


class Site(DirectoryObject):
    """A site: its site object.

    [MS-MQDSSM] 3.1.6.20.4, 3.1.6.11.4 with note <15>; [MS-MQDMPR] 3.1.1.7. Intervals are in seconds.
    ``migrated_from_msmq10`` has the default False (M12).
    """

    # both spellings of the signing keys (M27)
    unsupported_names: ClassVar[frozenset[str]] = frozenset(
        {"PrimarySiteController", "PublicSigningKeyList", "PublicSigningKey"}
    )

    name: Name | None = Field(default=None, alias="Name")
    primary_site_controller: Text | None = Field(default=None, alias="PrimarySiteController")
    intra_site_replication_interval: Unsigned = Field(
        default=INTRA_SITE_INTERVAL_DEFAULT_S, alias="IntraSiteReplicationInterval"
    )
    inter_site_replication_interval: Unsigned = Field(
        default=INTER_SITE_INTERVAL_DEFAULT_S, alias="InterSiteReplicationInterval"
    )
    full_path: DnText | None = Field(default=None, alias="FullPath")
    foreign_site: Boolean = Field(default=False, alias="ForeignSite")
    public_signing_key_list: Blob = Field(default=b"", alias="PublicSigningKeyList")
    migrated_from_msmq10: Boolean = Field(default=False, alias="MigratedFromMsmq10")
    security: Blob | None = Field(default=None, alias="Security")


class RoutingLink(DirectoryObject):
    """A routing link between two sites: its mSMQSiteLink object.

    [MS-MQDSSM] 3.1.6.20.5, 3.1.6.11.5 with note <16>; [MS-MQDMPR] 3.1.1.8. The cost is 1 to 999999.
    """

    description: Description = Field(default="", alias="Description")
    full_path: DnText | None = Field(default=None, alias="FullPath")
    actual_cost: Cost | None = Field(default=None, alias="ActualCost")
    site1_identifier: Guid | None = Field(default=None, alias="Site1Identifier")
    site2_identifier: Guid | None = Field(default=None, alias="Site2Identifier")
    site_gate_identifier_list: Guids = Field(default=(), alias="SiteGateIdentifierList")


class User(DirectoryObject):
    """A user with the certificates he signs messages with: his user object.

    [MS-MQDSSM] 3.1.6.20.6, 3.1.1.4 (FullPath), 3.1.6.11.6 with note <17>; [MS-MQDMPR] 3.1.1.15.
    ``certificates`` is an MQUSERSIGNCERTS image, each digest the 16 bytes of an MD5 (M21).
    """

    security_identifier: SidText | None = Field(default=None, alias="SecurityIdentifier")
    certificate_digest_list: Digests = Field(default=(), alias="CertificateDigestList")
    certificates: CertificateBlob = Field(default=b"", alias="Certificates")
    full_path: DnText | None = Field(default=None, alias="FullPath")


class ConnectedNetwork(DirectoryObject):
    """A connected network, which every event of [MS-MQDSSM] answers with GenericError (M44).

    [MS-MQDMPR] 3.1.1.9.
    """

    name: Text | None = Field(default=None, alias="Name")
    security: Blob | None = Field(default=None, alias="Security")


ELEMENTS: Final = MappingProxyType(
    {
        element.element_name: element
        for element in (QueueManager, Queue, Enterprise, Site, RoutingLink, User, ConnectedNetwork)
    }
)
"""Every element by its name in the specification."""


def element_of(name: str) -> type[DirectoryObject]:
    """The class of an element by its name in the specification.

    Raises:
        ValueError: there is no such element.
    """
    try:
        return ELEMENTS[name]
    except KeyError:
        raise ValueError(f"there is no element {name!r}: one of {', '.join(ELEMENTS)} is expected") from None
