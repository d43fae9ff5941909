"""Attribute types of the schema, [MS-MQDSSM] 2.2.2, 2.2.4 and 2.4.

Other attributes of their classes are here, too.
OIDs, syntaxes and ranges are those of Microsoft's schema ([MS-ADA1] to [MS-ADA3]); the attributes of the
root DSE have no published OID and get our own ones (decision M3's canonical names need them there).
"""

from dataclasses import dataclass
from typing import Final

from mqdssm.tables import adsyntax as ad
from mqdssm.tables.adsyntax import AdSyntax

MICROSOFT_ARC: Final = "1.2.840.113556.1"
OWN_UUID: Final = "dd464d3c-b668-45e7-9ed6-bbf5e9f1ea24"
OWN_ARC: Final = "2.25.294124414404245408068876859758368385572"
"""Arc of our own definitions: OWN_UUID as a decimal number below 2.25 (ITU-T X.667); it never changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeType:
    """One attribute of the schema.

    Attributes:
        name: the lDAPDisplayName, in Microsoft's spelling.
        oid: its object identifier.
        syntax: the syntax of its values.
        single: True for at most one value.
        lower: least length (UTF-16 units of text, bytes of octets) or least number; None if there is none.
        upper: greatest length or number; None if there is none.
        indexed: Active Directory keeps an index, and OpenLDAP should.
        catalog: Active Directory's global catalogs hold it.
        builtin: slapd itself or core.schema defines it, maybe with more values allowed.
        description: text for people; Microsoft's attributes have none.
    """

    name: str
    oid: str
    syntax: AdSyntax
    single: bool = True
    lower: int | None = None
    upper: int | None = None
    indexed: bool = False
    catalog: bool = False
    builtin: bool = False
    description: str = ""

    def check_length(self, length: int) -> None:
        """Refuse a length of a value that Active Directory would refuse (decision M28).

        Args:
            length: UTF-16 code units of text, bytes of octets.

        Raises:
            ValueError: the length is out of range; the text names attribute, limit and length.
        """
        unit = "bytes" if self.syntax.ldap_syntax == ad.OCTET_STRING.ldap_syntax else "UTF-16 units"
        if self.upper is not None and length > self.upper:
            raise ValueError(f"{self.name} takes at most {self.upper} {unit}, not {length}")
        if self.lower is not None and length < self.lower:
            raise ValueError(f"{self.name} takes at least {self.lower} {unit}, not {length}")


def _define(
    number: str,
    name: str,
    syntax: AdSyntax,
    flags: str = "",
    bounds: tuple[int | None, int | None] = (None, None),
) -> AttributeType:
    """Make one attribute type.

    Flags are words: ``multi`` many values, ``index`` indexed, ``gc`` in global catalogs, ``builtin`` defined
    by the server, ``own`` a number of our arc instead of Microsoft's.
    """
    words = flags.split()
    if "own" in words:
        oid = f"{OWN_ARC}.{number}"
    elif number.startswith(("4.", "2.")) and "builtin" not in words:
        oid = f"{MICROSOFT_ARC}.{number}"
    else:
        oid = number
    return AttributeType(
        name=name,
        oid=oid,
        syntax=syntax,
        single="multi" not in words,
        lower=bounds[0],
        upper=bounds[1],
        indexed="index" in words,
        catalog="gc" in words,
        builtin="builtin" in words,
    )


# fmt: off
_QUEUE: Final = (  # [MS-MQDSSM] 2.2.2 mSMQQueue
    #       1.2.840.113556.1.   name          syntax           flags       length or number
    _define("4.1415", "mSMQLabelEx",           ad.UNICODE,      "index gc", (0, 124)),
    _define("4.917",  "mSMQQueueType",         ad.OCTET_STRING, "index gc", (16, 16)),
    _define("4.918",  "mSMQJournal",           ad.BOOLEAN,      "gc"),
    _define("4.962",  "mSMQQueueQuota",        ad.INTEGER,      "gc"),
    _define("4.963",  "mSMQQueueJournalQuota", ad.INTEGER,      "gc"),
    _define("4.923",  "mSMQAuthenticate",      ad.BOOLEAN,      "gc"),
    _define("4.924",  "mSMQPrivacyLevel",      ad.ENUMERATION,  "gc", (0, 2)),
    _define("4.926",  "mSMQTransactional",     ad.BOOLEAN,      "gc"),
    _define("4.1714", "MSMQ-MulticastAddress", ad.UNICODE,      "gc", (9, None)),
    _define("4.920",  "mSMQBasePriority",      ad.INTEGER,      "gc"),
    _define("4.1243", "mSMQQueueNameExt",      ad.UNICODE,      "gc", (0, 92)),
)
_CONFIGURATION: Final = (  # [MS-MQDSSM] 2.2.2 mSMQConfiguration
    _define("4.1417", "mSMQComputerTypeEx",          ad.UNICODE),
    _define("4.935",  "mSMQOSType",                  ad.INTEGER,      "gc"),
    _define("4.930",  "mSMQServiceType",             ad.INTEGER,      "gc"),
    _define("4.919",  "mSMQQuota",                   ad.INTEGER),
    _define("4.921",  "mSMQJournalQuota",            ad.INTEGER),
    _define("4.934",  "mSMQForeign",                 ad.BOOLEAN,      "gc"),
    _define("4.927",  "mSMQSites",                   ad.OCTET_STRING, "multi gc", (16, 16)),
    _define("4.928",  "mSMQOutRoutingServers",       ad.DN,           "multi gc"),
    _define("4.929",  "mSMQInRoutingServers",        ad.DN,           "multi gc"),
    _define("4.1227", "mSMQRoutingServices",         ad.BOOLEAN,      "gc"),
    _define("4.1228", "mSMQDsServices",              ad.BOOLEAN,      "gc"),
    _define("4.1226", "mSMQDependentClientServices", ad.BOOLEAN,      "gc"),
    _define("4.936",  "mSMQEncryptKey",              ad.OCTET_STRING, "gc"),
    _define("4.937",  "mSMQSignKey",                 ad.OCTET_STRING, "gc"),
)
_PRINCIPALS: Final = (  # [MS-MQDSSM] 2.2.2 computer, user
    _define("4.947", "mSMQSignCertificates",    ad.OCTET_STRING, "gc", (None, 1_048_576)),
    _define("4.948", "mSMQDigests",             ad.OCTET_STRING, "multi index gc", (16, 16)),
    _define("4.967", "mSMQSignCertificatesMig", ad.OCTET_STRING, "gc", (None, 1_048_576)),
    _define("4.966", "mSMQDigestsMig",          ad.OCTET_STRING, "multi gc"),
    _define("4.771", "servicePrincipalName",    ad.UNICODE,      "multi index gc"),
    _define("4.146", "objectSid",               ad.SID,          "index gc", (0, 28)),
    _define("4.619", "dNSHostName",             ad.UNICODE,      "gc", (0, 2048)),
    _define("4.364", "operatingSystemVersion",  ad.UNICODE),
)
_SITE: Final = (  # [MS-MQDSSM] 2.2.2 site; the last two are multi-valued in Microsoft's schema (M10)
    _define("4.1308", "mSMQInterval1",   ad.INTEGER),
    _define("4.1309", "mSMQInterval2",   ad.INTEGER),
    _define("4.961",  "mSMQSiteForeign", ad.BOOLEAN, "multi"),
    _define("4.960",  "mSMQNt4Stub",     ad.INTEGER, "multi"),
)
_ENTERPRISE: Final = (  # [MS-MQDSSM] 2.2.2 mSMQEnterpriseSettings
    _define("4.939", "mSMQNameStyle", ad.BOOLEAN),
    _define("4.940", "mSMQCSPName",   ad.TELETEX),
    _define("4.941", "mSMQLongLived", ad.INTEGER),
    _define("4.942", "mSMQVersion",   ad.INTEGER),
)
_SITE_LINK: Final = (  # [MS-MQDSSM] 2.2.2 mSMQSiteLink
    _define("4.946",  "mSMQCost",         ad.INTEGER),
    _define("4.943",  "mSMQSite1",        ad.DN),
    _define("4.944",  "mSMQSite2",        ad.DN),
    _define("4.945",  "mSMQSiteGates",    ad.DN, "multi"),
    _define("4.1310", "mSMQSiteGatesMig", ad.DN, "multi"),
)
_SETTINGS: Final = (  # [MS-MQDSSM] 2.2.2 mSMQSettings
    _define("4.951",  "mSMQQMID",                   ad.OCTET_STRING, "index", (16, 16)),
    _define("4.950",  "mSMQServices",               ad.INTEGER),
    _define("4.1237", "mSMQRoutingService",         ad.BOOLEAN),
    _define("4.1238", "mSMQDsService",              ad.BOOLEAN),
    _define("4.1239", "mSMQDependentClientService", ad.BOOLEAN),
    _define("4.952",  "mSMQMigrated",               ad.BOOLEAN),
    _define("4.964",  "mSMQNt4Flags",               ad.INTEGER),
)
_ALIAS: Final = (  # [MS-MQDSSM] 2.2.2 mSMQ-Custom-Recipient
    _define("4.1695", "msMQ-Recipient-FormatName", ad.UNICODE, "", (1, 255)),
)
_UNUSED: Final = (  # [MS-MQDSSM] 2.2.4
    _define("4.925",  "mSMQOwnerID",        ad.OCTET_STRING, "index gc", (16, 16)),
    _define("4.953",  "mSMQSiteID",         ad.OCTET_STRING),
    _define("4.1225", "mSMQPrevSiteGates",  ad.DN,           "multi"),
    _define("4.1713", "MSMQ-SecuredSource", ad.BOOLEAN,      "gc"),
    _define("4.933",  "mSMQComputerType",   ad.TELETEX),
    _define("4.922",  "mSMQLabel",          ad.TELETEX,      "gc", (0, 124)),
    _define("4.965",  "mSMQSiteName",       ad.TELETEX),
    _define("4.1416", "mSMQSiteNameEx",     ad.UNICODE),
    _define("4.1337", "mSMQUserSid",        ad.OCTET_STRING, "gc", (0, 128)),
)
_COMMON: Final = (  # of every object in Active Directory
    _define("4.2",   "objectGUID",             ad.OCTET_STRING,        "index gc", (16, 16)),
    _define("2.2",   "whenCreated",            ad.GENERALIZED_TIME,    "gc"),
    _define("2.3",   "whenChanged",            ad.GENERALIZED_TIME,    "gc"),
    _define("2.281", "nTSecurityDescriptor",   ad.SECURITY_DESCRIPTOR, "gc", (0, 132_096)),
    _define("4.782", "objectCategory",         ad.DN,                  "index gc"),
    _define("2.1",   "instanceType",           ad.INTEGER,             "gc"),
    _define("4.375", "systemFlags",            ad.INTEGER),
    _define("2.48",  "isDeleted",              ad.BOOLEAN,             "gc"),
    _define("4.781", "lastKnownParent",        ad.DN),
    _define("2.19",  "uSNCreated",             ad.LARGE_INTEGER,       "gc"),
    _define("2.120", "uSNChanged",             ad.LARGE_INTEGER,       "gc"),
    _define("2.13",  "displayName",            ad.UNICODE,             "gc", (0, 256)),
    _define("2.226", "adminDescription",       ad.UNICODE,             "", (0, 1024)),
    _define("2.169", "showInAdvancedViewOnly", ad.BOOLEAN),
    _define("4.653", "managedBy",              ad.DN),
)
_ACCOUNTS: Final = (  # of computers, users, groups, servers
    _define("4.221", "sAMAccountName",             ad.UNICODE, "index gc", (0, 256)),
    _define("4.302", "sAMAccountType",             ad.INTEGER, "gc"),
    _define("4.8",   "userAccountControl",         ad.INTEGER, "gc"),
    _define("4.98",  "primaryGroupID",             ad.INTEGER, "gc"),
    _define("4.656", "userPrincipalName",          ad.UNICODE, "index gc", (None, 1024)),
    _define("4.96",  "pwdLastSet",                 ad.LARGE_INTEGER),
    _define("4.159", "accountExpires",             ad.LARGE_INTEGER),
    _define("4.750", "groupType",                  ad.INTEGER, "gc"),
    _define("4.363", "operatingSystem",            ad.UNICODE),
    _define("4.365", "operatingSystemServicePack", ad.UNICODE),
    _define("4.222", "location",                   ad.UNICODE, "gc", (0, 1024)),
    _define("4.515", "serverReference",            ad.DN),
)
_BUILTIN: Final = (  # defined by slapd or core.schema; single or multi as in Microsoft's schema
    _define("2.5.4.3",                    "cn",                ad.UNICODE, "builtin index gc", (1, 64)),
    _define("2.5.4.13",                   "description",       ad.UNICODE, "builtin multi gc", (0, 1024)),
    _define("2.5.4.49",                   "distinguishedName", ad.DN,      "builtin gc"),
    _define("2.5.4.31",                   "member",            ad.DN,      "builtin multi gc"),
    _define("0.9.2342.19200300.100.1.25", "dc",                ad.UNICODE, "builtin gc", (1, 255)),
    _define("2.5.4.11",                   "ou",                ad.UNICODE, "builtin multi gc", (1, 64)),
    _define("2.5.4.4",                    "sn",                ad.UNICODE, "builtin gc", (1, 64)),
    _define("2.5.4.42",                   "givenName",         ad.UNICODE, "builtin gc", (1, 64)),
    _define("0.9.2342.19200300.100.1.1",  "uid",               ad.UNICODE, "builtin multi", (0, 256)),
    _define("0.9.2342.19200300.100.1.3",  "mail",              ad.UNICODE, "builtin gc", (0, 256)),
    _define("2.5.4.20",                   "telephoneNumber",   ad.UNICODE, "builtin gc", (1, 64)),
    _define("2.5.4.35",                   "userPassword",      ad.OCTET_STRING, "builtin multi", (1, 128)),
    _define("2.5.4.34",                   "seeAlso",           ad.DN,      "builtin multi"),
    _define("2.5.4.5",                    "serialNumber",      ad.PRINTABLE, "builtin multi", (1, 64)),
)
ROOT_DSE: Final = (  # [MS-ADTS] 3.1.1.3.2 gives them no OID
    _define("1.1", "rootDomainNamingContext",    ad.DN, "own"),
    _define("1.2", "defaultNamingContext",       ad.DN, "own"),
    _define("1.3", "configurationNamingContext", ad.DN, "own"),
    _define("1.4", "schemaNamingContext",        ad.DN, "own"),
)
# fmt: on

ALL: Final[tuple[AttributeType, ...]] = (
    *_COMMON,
    *_ACCOUNTS,
    *_QUEUE,
    *_CONFIGURATION,
    *_PRINCIPALS,
    *_SITE,
    *_ENTERPRISE,
    *_SITE_LINK,
    *_SETTINGS,
    *_ALIAS,
    *_UNUSED,
    *ROOT_DSE,
    *_BUILTIN,
)
