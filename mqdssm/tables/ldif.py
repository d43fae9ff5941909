"""The schema as text, for OpenLDAP, with the root DSE and a base tree.

OpenLDAP has the forms ``.schema`` and ``cn=config``.
The functions return text; the caller writes the files. The server needs only core.schema before. Debian's
msuser.schema defines the same names without matching rules and cannot be loaded beside it.

Active Directory refuses an add with attributes that only the system may set ([MS-ADTS] 3.1.1.5.2.2:
systemOnly, constructed and back-link attributes, and those that SAM maintains).
"""

import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid5

from mqdssm.errors import MappingError
from mqdssm.model.dn import DN
from mqdssm.model.safe_text import make_visible
from mqdssm.tables import adsyntax, places, schema, schema_attributes, schema_classes, schema_mqis
from mqdssm.tables.schema_attributes import AttributeType
from mqdssm.tables.schema_classes import ObjectClass
from mqdssm.wire.dtyp import EVERYONE, SecurityDescriptor, allow
from mqdssm.wire.masks import EnterpriseAccess
from mqdssm.wire.sid import BUILTIN_ADMINISTRATORS

LDIF_LINE_BYTES_MAX: Final = 76  # RFC 2849 sets no limit; other programs fold here
ENTERPRISE_VERSION: Final = "200"  # MSMQ 3.0 and later
SAMPLE_ROOT: Final = "DC=example,DC=com"

# SAFE-STRING of RFC 2849, without a trailing blank, which editors remove, and without control characters:
# OpenLDAP's reader takes a leading form feed for a blank
_SAFE: Final = re.compile(rb"(?:[\x21-\x39\x3b\x3d-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?")

_DESCRIPTION: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)*)(?:;[A-Za-z0-9=-]+)*")
"""Name or OID, and options; also options of Active Directory, as ``range=0-1499``."""
_WORD: Final = re.compile(r"'[^']*'|[^\s']+")
_MADE_BY: Final = "made by `make schema` (python .ci/generate.py); do not edit"


def format_attribute_definition(attribute: AttributeType) -> str:
    """Return the definition of an attribute type (RFC 4512 4.1.2).

    Length bounds are left out: slapd does not enforce them, and the mapping checks lengths itself (M28).
    """
    syntax = attribute.syntax
    parts = [_write_head(attribute), f"EQUALITY {syntax.equality}"]
    if syntax.ordering:
        parts.append(f"ORDERING {syntax.ordering}")
    if syntax.substrings:
        parts.append(f"SUBSTR {syntax.substrings}")
    parts.append(f"SYNTAX {syntax.ldap_oid}")
    if attribute.single:
        parts.append("SINGLE-VALUE")
    return " ".join([*parts, ")"])


def _write_head(definition: AttributeType | ObjectClass) -> str:
    description = f" DESC '{definition.description}'" if definition.description else ""
    return f"( {definition.oid} NAME '{definition.name}'{description}"


def format_class_definition(cls: ObjectClass) -> str:
    """Return the definition of an object class (RFC 4512 4.1.1).

    Attributes that AD fills in are MAY.
    """
    parts = [f"{_write_head(cls)} SUP {cls.superior} {cls.kind}"]
    for word, names in (("MUST", cls.must), ("MAY", (*cls.filled_in, *cls.may))):
        if names:
            parts.append(f"{word} ( {' $ '.join(names)} )")
    return " ".join([*parts, ")"])


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPart:
    """One schema file.

    Attributes:
        name: name of the file, and of its entry below ``cn=schema,cn=config``.
        about: contents and prerequisites, as comment lines.
        attributes: the attributes that it defines.
        classes: the classes that it defines.
    """

    name: str
    about: tuple[str, ...]
    attributes: tuple[AttributeType, ...]
    classes: tuple[ObjectClass, ...]


MSMQ: Final = SchemaPart(
    name="msmq",
    about=(
        "MSMQ classes and attributes of [MS-MQDSSM] 2.2.1, 2.2.2, 2.2.4 and 2.4 with Microsoft's OIDs,",
        "and what the tree around them needs. Prerequisite: core.schema. Not together with msuser.schema.",
    ),
    attributes=tuple(a for a in schema_attributes.ALL if not a.builtin),
    classes=schema_classes.ALL,
)
REPLICATION: Final = SchemaPart(
    name="mqis",
    about=(
        "What [MC-MQDSRP] needs to keep of objects and of its own state. Prerequisite: msmq.schema.",
        f"OIDs below {schema_attributes.OWN_ARC} are ours (UUID {schema_attributes.OWN_UUID}).",
    ),
    attributes=schema_mqis.ATTRIBUTES,
    classes=schema_mqis.CLASSES,
)


def format_openldap_schema(part: SchemaPart = MSMQ) -> str:
    """Return a part of the schema in the form of slapd.conf.

    ``include …/msmq.schema`` in slapd.conf uses this text.
    """
    lines = [f"# {_MADE_BY}", *(f"# {line}" for line in part.about)]
    for keyword, definitions in (
        ("attributetype", map(format_attribute_definition, part.attributes)),
        ("objectclass", map(format_class_definition, part.classes)),
    ):
        lines.append("")
        for definition in definitions:
            lines += _wrap(f"{keyword} {definition}")
    return "\n".join(lines) + "\n"


def format_openldap_config(part: SchemaPart = MSMQ) -> str:
    """Return a part of the schema as an entry of ``cn=schema,cn=config``.

    ``ldapadd`` and ``slapadd -n0`` load the entry.
    """
    dn = f"cn={part.name},cn=schema,cn=config"
    pairs = [("dn", dn), ("objectClass", "olcSchemaConfig"), ("cn", part.name)]
    pairs += [("olcAttributeTypes", format_attribute_definition(a)) for a in part.attributes]
    pairs += [("olcObjectClasses", format_class_definition(c)) for c in part.classes]
    head = [f"# {_MADE_BY}", f"# Load: ldapadd -Y EXTERNAL -H ldapi:/// -f {part.name}.ldif"]
    return "\n".join([*head, *(line for pair in pairs for line in fold(*pair))]) + "\n"


def format_root_dse(root: str) -> str:
    """Return LDIF for ``rootDSE FILE`` (olcRootDSE).

    The LDIF adds the naming contexts to the server's root DSE.

    Args:
        root: the DN of the root domain, as ``DC=example,DC=com``.
    """
    values = {
        "rootDomainNamingContext": root,
        "defaultNamingContext": root,
        "configurationNamingContext": f"CN=Configuration,{root}",
        "schemaNamingContext": f"CN=Schema,CN=Configuration,{root}",
    }
    return "\n".join(["dn:", *(line for pair in values.items() for line in fold(*pair))]) + "\n"


def format_base_tree(root: str = SAMPLE_ROOT) -> str:
    """Return the entries of `list_base_tree_entries` as LDIF."""
    return "\n".join(map(format_entry, list_base_tree_entries(root)))


def format_entry(pairs: Iterable[tuple[str, str | bytes]]) -> str:
    """Return one entry as LDIF lines, its DN first.

    Args:
        pairs: attributes and values, first ``dn``.
    """
    return "\n".join(line for name, value in pairs for line in fold(name, value)) + "\n"


def list_base_tree_entries(root: str) -> list[list[tuple[str, str | bytes]]]:
    """Return the entries that all events require, as pairs, parents first.

    See [MS-MQDSSM] 2.2.1 and decision M44.
    CN=MsmqServices is the last. It has the version of MSMQ 3.0 and a security descriptor, as on Windows
    (decision M41).

    Args:
        root: the DN of the root domain; its first RDN is a ``DC``.

    Raises:
        ValueError: the root is no DN, or does not begin with a DC.
    """
    top = DN.parse(root)
    if not top.name or [kind.upper() for kind, _ in top.rdn] != ["DC"]:
        raise ValueError(f"the root of the tree has to begin with DC=, not {root!r}")
    entries = [
        _make_entry(dn, cls, top)
        for dn, cls in (
            (top, "domainDNS"),
            (places.computers_dn(top), "container"),
            (places.users_dn(top), "container"),
            (places.configuration_dn(top), "configuration"),
            (places.sites_dn(top), "sitesContainer"),
            (places.services_dn(top), "container"),
            (places.enterprise_dn(top), "mSMQEnterpriseSettings"),
        )
    ]
    entries[-1] += [
        ("mSMQVersion", ENTERPRISE_VERSION),
        ("nTSecurityDescriptor", _make_enterprise_descriptor()),
    ]
    return entries


def _make_enterprise_descriptor() -> bytes:
    """Make the descriptor of CN=MsmqServices.

    Everyone may read, administrators have all rights.
    """
    admins = BUILTIN_ADMINISTRATORS
    aces = [allow(EVERYONE, EnterpriseAccess.GENERIC_READ), allow(admins, EnterpriseAccess.GENERIC_ALL)]
    return bytes(SecurityDescriptor.build(owner=admins, group=admins, dacl=aces))


def format_base_tree_sample() -> str:
    """Return the base tree of ``ldif/base-tree.ldif``, for DC=example,DC=com."""
    return f"# {_MADE_BY}\n# Load: slapadd -b {SAMPLE_ROOT} -l base-tree.ldif\n{format_base_tree()}"


def _make_entry(dn: DN, cls: str, root: DN) -> list[tuple[str, str | bytes]]:
    """Make an entry with its first RDN and an objectGUID.

    The objectGUID is the same in every run.
    """
    return [
        ("dn", str(dn)),
        ("objectClass", "top"),
        ("objectClass", cls),
        (schema.find_object_class(cls).rdn, dn.name),
        ("objectGUID", _derive_guid(str(dn), str(root)).bytes_le),
    ]


def _derive_guid(dn: str, root: str) -> UUID:
    return uuid5(uuid5(NAMESPACE_URL, f"ldap:///{root.lower()}"), dn.lower())


def format_comment(text: str) -> str:
    """Return a text as one comment line of LDIF, without its line end."""
    return f"# {make_visible(text)}".encode("ascii", "backslashreplace").decode("ascii")


@lru_cache(maxsize=1024)
def check_description(name: str) -> str:
    """Return the description of an attribute if it is valid.

    LDIF holds it without escapes.

    Raises:
        MappingError: it is invalid (RFC 4512 2.5), and could inject lines of LDIF.
    """
    if not _DESCRIPTION.fullmatch(name):
        raise MappingError(f"{name!r} is no description of an attribute")
    return name


def fold(name: str, value: str | bytes) -> list[str]:
    """Return one attribute value as LDIF lines, in base64 where RFC 2849 requires it.

    Raises:
        MappingError: an invalid attribute description.
    """
    raw = value.encode() if isinstance(value, str) else value
    text = f": {raw.decode('ascii')}" if _SAFE.fullmatch(raw) else f":: {b64encode(raw).decode('ascii')}"
    line = check_description(name) + text
    if len(line) <= LDIF_LINE_BYTES_MAX:
        return [line]
    first, rest = line[:LDIF_LINE_BYTES_MAX], line[LDIF_LINE_BYTES_MAX:]
    step = LDIF_LINE_BYTES_MAX - 1
    return [first, *(f" {rest[i : i + step]}" for i in range(0, len(rest), step))]


def _wrap(text: str) -> Iterable[str]:
    """Break a definition at blanks outside quotes.

    Continuation lines begin with blanks.
    """
    line = ""
    for word in _WORD.findall(text):
        if line and len(line) + 1 + len(word) > LDIF_LINE_BYTES_MAX:
            yield line
            line = f"    {word}"
        else:
            line = f"{line} {word}" if line else word
    yield line


def _split_names(text: str) -> frozenset[str]:
    return frozenset(text.lower().split())


AD_SETS_ITSELF: Final = _split_names(
    # identity and place
    "objectGUID objectSid distinguishedName name canonicalName parentGUID instanceType objectCategory "
    "objectVersion sDRightsEffective structuralObjectClass subSchemaSubEntry nCName systemFlags "
    "isCriticalSystemObject "
    # times and counters
    "whenCreated whenChanged createTimeStamp modifyTimeStamp uSNCreated uSNChanged uSNLastObjRem uSNSource "
    "uSNDSALastObjRemoved creationTime dSCorePropagationData replPropertyMetaData replUpToDateVector "
    "repsFrom repsTo msDS-NcType "
    # deleted objects
    "isDeleted isRecycled lastKnownParent msDS-LastKnownRDN "
    # accounts: values that SAM counts and derives, and secrets, which LDAP never shows
    "sAMAccountType primaryGroupID badPwdCount badPasswordTime lastLogon lastLogoff lastLogonTimestamp "
    "logonCount pwdLastSet lockoutTime adminCount sIDHistory userPassword unicodePwd dBCSPwd ntPwdHistory "
    "lmPwdHistory supplementalCredentials rIDSetReferences "
    # back links and constructed attributes
    "memberOf directReports managedObjects masteredBy msDS-MasteredBy serverReferenceBL siteObjectBL "
    "bridgeheadServerListBL netbootSCPBL isPrivilegeHolder nonSecurityMemberBL possibleInferiors "
    "allowedAttributes allowedAttributesEffective allowedChildClasses allowedChildClassesEffective "
    "msDS-MembersForAzRoleBL tokenGroups tokenGroupsGlobalAndUniversal tokenGroupsNoGCAcceptable "
    "msDS-User-Account-Control-Computed msDS-KeyVersionNumber msDS-SupportedEncryptionTypes"
)
"""Attributes, in lower case, that an add must not contain on Active Directory."""

BINARY_TRANSFER: Final = _split_names(
    "userCertificate cACertificate authorityRevocationList certificateRevocationList "
    "deltaRevocationList crossCertificatePair"
)
"""Attributes, in lower case, that LDAP transfers only with the option ``;binary`` (RFC 4523 section 2).

Active Directory does without the option."""

REFERENCES: Final = frozenset(
    attribute.name.lower()
    for attribute in schema_attributes.ALL
    if attribute.syntax.ldap_oid == adsyntax.DN.ldap_oid
) - _split_names("distinguishedName objectCategory lastKnownParent mSMQSite1 mSMQSite2")
"""Attributes, in lower case, that refer to other objects, and that an object can lack for a while.

Active Directory requires that the objects exist, so these attributes are set when all objects exist."""

OWN_CLASSES: Final = frozenset(
    object_class.name.lower() for object_class in schema_classes.ALL if object_class.own
)
"""Classes, in lower case, that only our schema for OpenLDAP has."""
