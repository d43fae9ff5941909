"""Attribute syntaxes of Active Directory and their LDAP equivalents.

The equivalents are those in an LDAP server's schema.
The pair (attributeSyntax, oMSyntax) names a syntax in [MS-ADTS] 3.1.1.2.2.2; the other columns name
the RFC 4517 syntax and matching rules for the same values on OpenLDAP.
"""

from dataclasses import dataclass
from typing import Final

_RFC4517: Final = "1.3.6.1.4.1.1466.115.121.1."
_MICROSOFT: Final = "1.2.840.113556.1.4"


@dataclass(frozen=True, slots=True)
class AdSyntax:
    """One attribute syntax ([MS-ADTS] 3.1.1.2.2.2).

    Attributes:
        name: the name Microsoft's schema gives it.
        attribute_syntax: the OID in attributeSyntax, as ``2.5.5.8``.
        om_syntax: the number in oMSyntax, which distinguishes syntaxes of the same OID.
        ldap_syntax: last number of the RFC 4517 syntax OID used on OpenLDAP.
        equality: EQUALITY matching rule on OpenLDAP.
        ordering: ORDERING matching rule, if the syntax has an order.
        substrings: SUBSTR matching rule, if parts can be matched.
        ad_oid: the OID that domain controllers publish in the subschema, where it is not `ldap_oid`.
    """

    name: str
    attribute_syntax: str
    om_syntax: int
    ldap_syntax: int
    equality: str
    ordering: str | None = None
    substrings: str | None = None
    ad_oid: str | None = None

    @property
    def ldap_oid(self) -> str:
        """The whole OID of the RFC 4517 syntax."""
        return f"{_RFC4517}{self.ldap_syntax}"


_IGNORE_CASE: Final = ("caseIgnoreMatch", "caseIgnoreOrderingMatch", "caseIgnoreSubstringsMatch")
_OCTETS: Final = ("octetStringMatch", "octetStringOrderingMatch")
_INTEGER: Final = ("integerMatch", "integerOrderingMatch")

DN: Final = AdSyntax("Object(DS-DN)", "2.5.5.1", 127, 12, "distinguishedNameMatch")
TELETEX: Final = AdSyntax("String(Teletex)", "2.5.5.4", 20, 15, *_IGNORE_CASE, ad_oid=f"{_MICROSOFT}.905")
PRINTABLE: Final = AdSyntax("String(Printable)", "2.5.5.5", 19, 44, *_IGNORE_CASE)
BOOLEAN: Final = AdSyntax("Boolean", "2.5.5.8", 1, 7, "booleanMatch")
INTEGER: Final = AdSyntax("Integer", "2.5.5.9", 2, 27, *_INTEGER)
ENUMERATION: Final = AdSyntax("Enumeration", "2.5.5.9", 10, 27, *_INTEGER)
OCTET_STRING: Final = AdSyntax("String(Octet)", "2.5.5.10", 4, 40, *_OCTETS)
GENERALIZED_TIME: Final = AdSyntax(
    "String(Generalized-Time)", "2.5.5.11", 24, 24, "generalizedTimeMatch", "generalizedTimeOrderingMatch"
)
UNICODE: Final = AdSyntax("String(Unicode)", "2.5.5.12", 64, 15, *_IGNORE_CASE)
SECURITY_DESCRIPTOR: Final = AdSyntax(
    "String(NT-Sec-Desc)", "2.5.5.15", 66, 40, *_OCTETS, ad_oid=f"{_MICROSOFT}.907"
)
LARGE_INTEGER: Final = AdSyntax("LargeInteger", "2.5.5.16", 65, 27, *_INTEGER, ad_oid=f"{_MICROSOFT}.906")
SID: Final = AdSyntax("String(Sid)", "2.5.5.17", 4, 40, *_OCTETS)
