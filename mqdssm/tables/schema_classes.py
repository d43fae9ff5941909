"""Object classes of the schema: [MS-MQDSSM] 2.2.1 and the classes of the tree around them.

MUST, MAY and possible superiors are those of Microsoft's schema ([MS-ADSC]), cut down to the attributes
of ``schema_attributes``. Attributes that Active Directory requires but fills in itself are in ``filled_in``;
they are optional on other servers.
"""

from dataclasses import dataclass
from typing import Final, Literal

from mqdssm.tables.schema_attributes import MICROSOFT_ARC, OWN_ARC

Kind = Literal["STRUCTURAL", "ABSTRACT", "AUXILIARY"]
TOP: Final = "msmqADTop"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectClass:
    """One object class of the schema.

    Attributes:
        name: the lDAPDisplayName, in Microsoft's spelling.
        oid: its governsID.
        superior: its superior class.
        ad_superior: its superior class in Active Directory.
        kind: structural, abstract, or auxiliary (beside a structural one).
        must: attributes that the creator must give.
        filled_in: attributes that Active Directory requires and fills in itself.
        may: optional attributes.
        parents: classes below which Active Directory allows it; slapd does not check.
        rdn: the attribute that names its objects.
        own: True if we defined it; Active Directory does not have it.
        description: text for people; Microsoft's classes have none.
    """

    name: str
    oid: str
    superior: str = TOP
    ad_superior: str = "top"
    kind: Kind = "STRUCTURAL"
    must: tuple[str, ...] = ("cn",)
    filled_in: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    rdn: str = "cn"
    own: bool = False
    description: str = ""


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_PRINCIPAL_FILLED_IN: Final = _split_names("objectSid sAMAccountName")
_CERTIFICATES: Final = _split_names("mSMQSignCertificates mSMQDigests mSMQSignCertificatesMig mSMQDigestsMig")

_TREE: Final = (
    ObjectClass(  # Active Directory's top has optional attributes, LDAP's has none
        name=TOP,
        oid=f"{OWN_ARC}.2.1",
        superior="top",
        kind="ABSTRACT",
        must=(),
        may=_split_names(
            "objectGUID whenCreated whenChanged nTSecurityDescriptor objectCategory instanceType systemFlags "
            "isDeleted lastKnownParent uSNCreated uSNChanged cn description displayName adminDescription "
            "showInAdvancedViewOnly managedBy"
        ),
        own=True,
    ),
    ObjectClass(
        name="domainDNS",
        oid=f"{MICROSOFT_ARC}.5.67",
        ad_superior="domain",
        must=("dc",),
        may=("objectSid",),
        parents=("domainDNS",),
        rdn="dc",
    ),
    ObjectClass(
        name="container",
        oid=f"{MICROSOFT_ARC}.3.23",
        parents=_split_names("container domainDNS configuration organizationalUnit server"),
    ),
    ObjectClass(name="configuration", oid=f"{MICROSOFT_ARC}.5.12", parents=("domainDNS",)),
    ObjectClass(name="sitesContainer", oid=f"{MICROSOFT_ARC}.5.107", parents=("configuration",)),
    ObjectClass(
        name="site",
        oid=f"{MICROSOFT_ARC}.5.31",
        may=_split_names("mSMQInterval1 mSMQInterval2 mSMQSiteForeign mSMQNt4Stub mSMQSiteID location"),
        parents=("sitesContainer",),
    ),
    ObjectClass(name="serversContainer", oid=f"{MICROSOFT_ARC}.5.7000.48", parents=("site",)),
    ObjectClass(
        name="server",
        oid=f"{MICROSOFT_ARC}.5.17",
        may=_split_names("dNSHostName serverReference serialNumber"),
        parents=("serversContainer",),
    ),
)

_PRINCIPALS: Final = (
    ObjectClass(  # not below core.schema's person, which requires sn
        name="user",
        oid=f"{MICROSOFT_ARC}.5.9",
        ad_superior="organizationalPerson",
        filled_in=_PRINCIPAL_FILLED_IN,
        may=(
            *_CERTIFICATES,
            *_split_names(
                "servicePrincipalName sAMAccountType userAccountControl primaryGroupID userPrincipalName "
                "pwdLastSet accountExpires userPassword uid sn givenName mail telephoneNumber seeAlso ou"
            ),
        ),
        parents=_split_names("container organizationalUnit domainDNS"),
    ),
    ObjectClass(
        name="computer",
        oid=f"{MICROSOFT_ARC}.3.30",
        superior="user",
        ad_superior="user",
        may=_split_names(
            "dNSHostName operatingSystem operatingSystemVersion operatingSystemServicePack location"
        ),
        parents=_split_names("container organizationalUnit domainDNS"),
    ),
    ObjectClass(
        name="group",
        oid=f"{MICROSOFT_ARC}.5.8",
        filled_in=(*_PRINCIPAL_FILLED_IN, "groupType"),
        may=_split_names("member sAMAccountType mail"),
        parents=_split_names("container organizationalUnit domainDNS"),
    ),
)

_MSMQ: Final = (
    ObjectClass(
        name="mSMQQueue",
        oid=f"{MICROSOFT_ARC}.5.161",
        may=_split_names(
            "mSMQLabelEx mSMQQueueType mSMQJournal mSMQQueueQuota mSMQQueueJournalQuota mSMQAuthenticate "
            "mSMQPrivacyLevel mSMQTransactional MSMQ-MulticastAddress mSMQBasePriority mSMQQueueNameExt "
            "mSMQOwnerID MSMQ-SecuredSource mSMQLabel"
        ),
        parents=("mSMQConfiguration",),
    ),
    ObjectClass(
        name="mSMQConfiguration",
        oid=f"{MICROSOFT_ARC}.5.162",
        may=_split_names(
            "mSMQComputerTypeEx mSMQOSType mSMQServiceType mSMQQuota mSMQJournalQuota mSMQForeign mSMQSites "
            "mSMQOutRoutingServers mSMQInRoutingServers mSMQRoutingServices mSMQDsServices "
            "mSMQDependentClientServices mSMQEncryptKey mSMQSignKey mSMQOwnerID mSMQComputerType"
        ),
        parents=("computer",),
    ),
    ObjectClass(
        name="mSMQEnterpriseSettings",
        oid=f"{MICROSOFT_ARC}.5.163",
        may=_split_names("mSMQNameStyle mSMQCSPName mSMQLongLived mSMQVersion mSMQInterval1 mSMQInterval2"),
        parents=("container",),
    ),
    ObjectClass(
        name="mSMQSiteLink",
        oid=f"{MICROSOFT_ARC}.5.164",
        must=_split_names("cn mSMQSite1 mSMQSite2 mSMQCost"),
        # [MS-MQDSSM] 2.2.4 has mSMQPrevSiteGates in the schema; no class of Microsoft's allows it
        may=_split_names("mSMQSiteGates mSMQSiteGatesMig"),
        parents=("mSMQEnterpriseSettings",),
    ),
    ObjectClass(
        name="mSMQSettings",
        oid=f"{MICROSOFT_ARC}.5.165",
        may=_split_names(
            "mSMQQMID mSMQServices mSMQRoutingService mSMQDsService mSMQDependentClientService mSMQMigrated "
            "mSMQNt4Flags mSMQOwnerID mSMQSiteName mSMQSiteNameEx"
        ),
        parents=("server",),
    ),
    ObjectClass(
        name="mSMQMigratedUser",
        oid=f"{MICROSOFT_ARC}.5.179",
        may=(*_CERTIFICATES, "mSMQUserSid", "objectSid"),
        parents=_split_names("organizationalUnit domainDNS"),
    ),
    ObjectClass(
        name="msMQ-Custom-Recipient",
        oid=f"{MICROSOFT_ARC}.5.218",
        may=("msMQ-Recipient-FormatName",),
        parents=_split_names("organizationalUnit domainDNS container"),
    ),
    ObjectClass(
        name="msMQ-Group",
        oid=f"{MICROSOFT_ARC}.5.219",
        must=_split_names("cn member"),
        parents=("organizationalUnit",),
    ),
)

ALL: Final[tuple[ObjectClass, ...]] = (*_TREE, *_PRINCIPALS, *_MSMQ)
