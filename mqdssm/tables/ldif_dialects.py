"""Dialects of LDIF: attributes that a kind of server does not accept, and their spelling.

Active Directory refuses an add with attributes that only the system may set ([MS-ADTS] 3.1.1.5.2.2:
systemOnly, constructed and back-link attributes, and those that SAM maintains).
"""

from typing import Final

from mqdssm.tables import adsyntax, schema_attributes, schema_classes


def _words(text: str) -> frozenset[str]:
    return frozenset(text.lower().split())


AD_SETS_ITSELF: Final = _words(
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

BINARY_TRANSFER: Final = _words(
    "userCertificate cACertificate authorityRevocationList certificateRevocationList "
    "deltaRevocationList crossCertificatePair"
)
"""Attributes, in lower case, that LDAP transfers only with the option ``;binary`` (RFC 4523 section 2).

Active Directory does without the option."""

REFERENCES: Final = frozenset(
    one.name.lower() for one in schema_attributes.ALL if one.syntax.ldap_oid == adsyntax.DN.ldap_oid
) - _words("distinguishedName objectCategory lastKnownParent mSMQSite1 mSMQSite2")
"""Attributes, in lower case, that refer to other objects, and that an object can lack for a while.

Active Directory requires that the objects exist, so these attributes are set when all objects exist."""

OWN_CLASSES: Final = frozenset(one.name.lower() for one in schema_classes.ALL if one.own)
"""Classes, in lower case, that only our schema for OpenLDAP has."""
