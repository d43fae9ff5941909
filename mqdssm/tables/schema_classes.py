"""Object classes of the schema, [MS-MQDSSM] 2.2.1.

The classes of the tree around them are here, too.
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


def _define(
    number: str,
    name: str,
    parents: str,
    may: str = "",
    *,
    must: str = "cn",
    filled_in: str = "",
    superior: str = TOP,
    ad_superior: str = "top",
) -> ObjectClass:
    """Make one of Microsoft's classes.

    Names are separated by blanks, the first of `must` is the RDN's.
    """
    return ObjectClass(
        name=name,
        oid=f"{MICROSOFT_ARC}.{number}",
        superior=superior,
        ad_superior=ad_superior,
        must=_split_names(must),
        filled_in=_split_names(filled_in),
        may=_split_names(may),
        parents=_split_names(parents),
        rdn=must.partition(" ")[0],
    )


_CERTIFICATES: Final = "mSMQSignCertificates mSMQDigests mSMQSignCertificatesMig mSMQDigestsMig"
_ACCOUNT_PARENTS: Final = "container organizationalUnit domainDNS"

# fmt: off
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
    _define("5.67", "domainDNS", "domainDNS", "objectSid", must="dc", ad_superior="domain"),
    _define("3.23", "container", "container domainDNS configuration organizationalUnit server"),
    _define("5.12", "configuration", "domainDNS"),
    _define("5.107", "sitesContainer", "configuration"),
    _define("5.31", "site", "sitesContainer",
            "mSMQInterval1 mSMQInterval2 mSMQSiteForeign mSMQNt4Stub mSMQSiteID location"),
    _define("5.7000.48", "serversContainer", "site"),
    _define("5.17", "server", "serversContainer", "dNSHostName serverReference serialNumber"),
)
_PRINCIPALS: Final = (
    _define("5.9", "user", _ACCOUNT_PARENTS,  # not below core.schema's person, which requires sn
            f"{_CERTIFICATES} servicePrincipalName sAMAccountType userAccountControl primaryGroupID "
            "userPrincipalName pwdLastSet accountExpires userPassword uid sn givenName mail telephoneNumber "
            "seeAlso ou",
            filled_in="objectSid sAMAccountName", ad_superior="organizationalPerson"),
    _define("3.30", "computer", _ACCOUNT_PARENTS,
            "dNSHostName operatingSystem operatingSystemVersion operatingSystemServicePack location",
            superior="user", ad_superior="user"),
    _define("5.8", "group", _ACCOUNT_PARENTS, "member sAMAccountType mail",
            filled_in="objectSid sAMAccountName groupType"),
)
_MSMQ: Final = (
    _define("5.161", "mSMQQueue", "mSMQConfiguration",
            "mSMQLabelEx mSMQQueueType mSMQJournal mSMQQueueQuota mSMQQueueJournalQuota mSMQAuthenticate "
            "mSMQPrivacyLevel mSMQTransactional MSMQ-MulticastAddress mSMQBasePriority mSMQQueueNameExt "
            "mSMQOwnerID MSMQ-SecuredSource mSMQLabel"),
    _define("5.162", "mSMQConfiguration", "computer",
            "mSMQComputerTypeEx mSMQOSType mSMQServiceType mSMQQuota mSMQJournalQuota mSMQForeign "
            "mSMQSites mSMQOutRoutingServers mSMQInRoutingServers mSMQRoutingServices mSMQDsServices "
            "mSMQDependentClientServices mSMQEncryptKey mSMQSignKey mSMQOwnerID mSMQComputerType"),
    _define("5.163", "mSMQEnterpriseSettings", "container",
            "mSMQNameStyle mSMQCSPName mSMQLongLived mSMQVersion mSMQInterval1 mSMQInterval2"),
    # [MS-MQDSSM] 2.2.4 has mSMQPrevSiteGates in the schema; no class of Microsoft's allows it
    _define("5.164", "mSMQSiteLink", "mSMQEnterpriseSettings", "mSMQSiteGates mSMQSiteGatesMig",
            must="cn mSMQSite1 mSMQSite2 mSMQCost"),
    _define("5.165", "mSMQSettings", "server",
            "mSMQQMID mSMQServices mSMQRoutingService mSMQDsService mSMQDependentClientService "
            "mSMQMigrated mSMQNt4Flags mSMQOwnerID mSMQSiteName mSMQSiteNameEx"),
    _define("5.179", "mSMQMigratedUser", "organizationalUnit domainDNS",
            f"{_CERTIFICATES} mSMQUserSid objectSid"),
    _define("5.218", "msMQ-Custom-Recipient", "organizationalUnit domainDNS container",
            "msMQ-Recipient-FormatName"),
    _define("5.219", "msMQ-Group", "organizationalUnit", must="cn member"),
)
# fmt: on

ALL: Final[tuple[ObjectClass, ...]] = (*_TREE, *_PRINCIPALS, *_MSMQ)
