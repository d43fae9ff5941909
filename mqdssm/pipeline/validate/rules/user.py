"""Rules about users and certificates."""

from typing import Final

from mqdssm.pipeline.validate.rules.rule import Judged, Repeated, Rule, Severity, Wrong

_USER: Final = ("user",)
_HOLDERS: Final = ("user", "computer")
"""Types whose entries hold certificates."""
_ADM: Final = "[MS-MQDMPR] 3.1.1.15"
_SID: Final = r"^S-1-(?:0|[1-9][0-9]{0,14}|0x[0-9A-Fa-f]{12})(?:-(?:0|[1-9][0-9]{0,9})){0,15}\z"


def _certificate(name: str, severity: Severity, what: str, *, decodes: bool = False) -> Judged:
    return Judged(
        id=name,
        severity=severity,
        types=_USER,
        attribute="Certificates",
        section="[MS-MQMQ] 2.2.21, 2.2.22",
        what=what,
        examiner="certificates",
        looks_at=("Certificates",),
        where="length(Certificates) > 0",
        decodes=decodes,
    )


RULES: Final[tuple[Rule, ...]] = (
    Wrong(
        id="user-sid-form",
        severity="error",
        types=_USER,
        attribute="SecurityIdentifier",
        section=f"{_ADM}, [MS-DTYP] 2.4.2.1",
        what="a user has a security identifier",
        message="SecurityIdentifier is {SecurityIdentifier}",
        bad=f"SecurityIdentifier is null or not (SecurityIdentifier rlike r'{_SID}')",
        decodes=True,
    ),
    Repeated(
        id="user-sid-unique",
        severity="error",
        types=_USER,
        attribute="SecurityIdentifier",
        section=_ADM,
        what="a security identifier belongs to one user",
        message="SecurityIdentifier {value} belongs to {count} users",
        key="SecurityIdentifier",
    ),
    Repeated(
        id="digest-unique",
        severity="warning",
        types=_USER,
        attribute="CertificateDigestList",
        section=_ADM,
        what="a certificate is registered for one user: a message names its sender by the digest alone",
        message="digest {value} belongs to {count} users",
        key="CertificateDigestList",
    ),
    Judged(
        id="digests-match",
        severity="error",
        types=_HOLDERS,
        attribute="CertificateDigestList",
        section=f"{_ADM}, [MS-MQMQ] 2.2.22, [MS-MQDSSM] 3.1.6.1.1.9, 3.1.6.7.1.8, 3.1.6.7.6.4",
        what="the digests are the MD5 of the certificates, no more and no fewer",
        examiner="digests",
        looks_at=("Certificates", "CertificateDigestList"),
        where="length(Certificates) > 0 or size(CertificateDigestList) > 0",
    ),
    _certificate("certificate-parses", "error", "certificates can be decoded", decodes=True),
    _certificate("certificate-expired", "warning", "no certificate has expired"),
    _certificate("certificate-not-yet-valid", "info", "every certificate is valid already"),
)
