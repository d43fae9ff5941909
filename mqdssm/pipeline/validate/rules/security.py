"""Rules about security descriptors.

Rules about users and certificates.
"""

from typing import Final

from mqdssm.pipeline.validate.rules.rule import (
    SECURED,
    STORED_SECURITY,
    Judged,
    Repeated,
    Rule,
    Severity,
    Wrong,
)

_MASKS: Final = "[MS-MQMQ] 2.2.23, 2.2.24, 2.2.25, 2.2.26"


def _make_descriptor_rule(
    name: str, severity: Severity, section: str, description: str, *, decodes: bool = False
) -> Judged:
    return Judged(
        id=name,
        severity=severity,
        types=SECURED,
        attribute="Security",
        section=section,
        requirement=description,
        examiner="descriptor",
        looks_at=("Security",),
        where="length(Security) > 0",
        decodes=decodes,
    )


RULES: Final[tuple[Rule, ...]] = (
    Wrong(
        id="security-required",
        types=SECURED,
        attribute="Security",
        section="[MS-MQDSSM] 3.1.6.1.1.8, 3.1.6.1.3.4, 3.1.6.11",
        requirement="an object that access is checked on has a security descriptor",
        message="Security is missing: who may use the object is not known",
        condition="Security is null or length(Security) = 0",
    ),
    _make_descriptor_rule(
        "security-parses", "error", "[MS-DTYP] 2.4.6", "security descriptors can be decoded", decodes=True
    ),
    _make_descriptor_rule(
        "security-owner", "warning", "[MS-DTYP] 2.4.6", "a security descriptor has an owner"
    ),
    _make_descriptor_rule(
        "security-dacl",
        "error",
        "[MS-DTYP] 2.5.3.2",
        "a security descriptor has a DACL: without one everybody may do everything",
    ),
    _make_descriptor_rule(
        "security-dacl-order",
        "info",
        "[MS-DTYP] 2.4.5",
        "entries stand in canonical order: own before inherited ones, refusals before grants",
    ),
    _make_descriptor_rule(
        "everyone-full-control", "error", _MASKS, "nobody unknown may do everything to an object"
    ),
    _make_descriptor_rule(
        "everyone-takes-ownership",
        "error",
        _MASKS,
        "nobody unknown may take an object over: become its owner or change its rights",
    ),
    _make_descriptor_rule(
        "everyone-changes",
        "error",
        _MASKS,
        "nobody unknown may delete an object or set its properties",
    ),
    _make_descriptor_rule(
        "everyone-owns",
        "error",
        "[MS-DTYP] 2.4.6",
        "no owner is a group that everybody is in: an owner may change who may do what",
    ),
    _make_descriptor_rule(
        "everyone-receives",
        "warning",
        "[MS-MQMQ] 2.2.23, 2.2.24",
        "nobody unknown may receive or peek messages",
    ),
    Judged(
        id="security-masks-untranslated",
        types=SECURED,
        attribute="Security",
        section=f"[MS-ADTS] 5.1.3.2, {_MASKS}",
        requirement="no mask of MSMQ stands in Active Directory as it is: there it lets readers write",
        examiner="stored-descriptor",
        looks_at=(STORED_SECURITY,),
        where=f"length({STORED_SECURITY}) > 0",
    ),
    Judged(
        id="everyone-inherits-control",
        types=SECURED,
        attribute="Security",
        section=f"[MS-ADTS] 5.1.3.2, {_MASKS}",
        requirement="nobody unknown may do everything to an object by rights that Active Directory inherits",
        examiner="stored-descriptor",
        looks_at=(STORED_SECURITY,),
        where=f"length({STORED_SECURITY}) > 0",
    ),
)

_USER: Final = ("user",)
_HOLDERS: Final = ("user", "computer")
"""Types whose entries hold certificates."""
_ADM: Final = "[MS-MQDMPR] 3.1.1.15"
_SID: Final = r"^S-1-(?:0|[1-9][0-9]{0,14}|0x[0-9A-Fa-f]{12})(?:-(?:0|[1-9][0-9]{0,9})){0,15}\z"


def _make_certificate_rule(
    name: str, severity: Severity, description: str, *, decodes: bool = False
) -> Judged:
    return Judged(
        id=name,
        severity=severity,
        types=_USER,
        attribute="Certificates",
        section="[MS-MQMQ] 2.2.21, 2.2.22",
        requirement=description,
        examiner="certificates",
        looks_at=("Certificates",),
        where="length(Certificates) > 0",
        decodes=decodes,
    )


USER_RULES: Final[tuple[Rule, ...]] = (
    Wrong(
        id="user-sid-form",
        types=_USER,
        attribute="SecurityIdentifier",
        section=f"{_ADM}, [MS-DTYP] 2.4.2.1",
        requirement="a user has a security identifier",
        message="SecurityIdentifier is {SecurityIdentifier}",
        condition=f"SecurityIdentifier is null or not (SecurityIdentifier rlike r'{_SID}')",
        decodes=True,
    ),
    Repeated(
        id="user-sid-unique",
        types=_USER,
        attribute="SecurityIdentifier",
        section=_ADM,
        requirement="a security identifier belongs to one user",
        message="SecurityIdentifier {value} belongs to {count} users",
        key="SecurityIdentifier",
    ),
    Repeated(
        id="digest-unique",
        severity="warning",
        types=_USER,
        attribute="CertificateDigestList",
        section=_ADM,
        requirement=(
            "a certificate is registered for one user: a message names its sender by the digest alone"
        ),
        message="digest {value} belongs to {count} users",
        key="CertificateDigestList",
    ),
    Judged(
        id="digests-match",
        types=_HOLDERS,
        attribute="CertificateDigestList",
        section=f"{_ADM}, [MS-MQMQ] 2.2.22, [MS-MQDSSM] 3.1.6.1.1.9, 3.1.6.7.1.8, 3.1.6.7.6.4",
        requirement="the digests are the MD5 of the certificates, no more and no fewer",
        examiner="digests",
        looks_at=("Certificates", "CertificateDigestList"),
        where="length(Certificates) > 0 or size(CertificateDigestList) > 0",
    ),
    _make_certificate_rule("certificate-parses", "error", "certificates can be decoded", decodes=True),
    _make_certificate_rule("certificate-expired", "warning", "no certificate has expired"),
    _make_certificate_rule("certificate-not-yet-valid", "info", "every certificate is valid already"),
)
