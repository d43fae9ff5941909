"""Rules about security descriptors."""

from typing import Final

from mqdssm.pipeline.validate.rules.rule import Judged, Rule, Severity, Wrong
from mqdssm.pipeline.validate.rules.vocabulary import SECURED, STORED_SECURITY

_MASKS: Final = "[MS-MQMQ] 2.2.23, 2.2.24, 2.2.25, 2.2.26"


def _descriptor(name: str, severity: Severity, section: str, what: str, *, decodes: bool = False) -> Judged:
    return Judged(
        id=name,
        severity=severity,
        types=SECURED,
        attribute="Security",
        section=section,
        what=what,
        examiner="descriptor",
        looks_at=("Security",),
        where="length(Security) > 0",
        decodes=decodes,
    )


RULES: Final[tuple[Rule, ...]] = (
    Wrong(
        id="security-required",
        severity="error",
        types=SECURED,
        attribute="Security",
        section="[MS-MQDSSM] 3.1.6.1.1.8, 3.1.6.1.3.4, 3.1.6.11",
        what="an object that access is checked on has a security descriptor",
        message="Security is missing: who may use the object is not known",
        bad="Security is null or length(Security) = 0",
    ),
    _descriptor(
        "security-parses", "error", "[MS-DTYP] 2.4.6", "security descriptors can be decoded", decodes=True
    ),
    _descriptor("security-owner", "warning", "[MS-DTYP] 2.4.6", "a security descriptor has an owner"),
    _descriptor(
        "security-dacl",
        "error",
        "[MS-DTYP] 2.5.3.2",
        "a security descriptor has a DACL: without one everybody may do everything",
    ),
    _descriptor(
        "security-dacl-order",
        "info",
        "[MS-DTYP] 2.4.5",
        "entries stand in canonical order: own before inherited ones, refusals before grants",
    ),
    _descriptor("everyone-full-control", "error", _MASKS, "nobody unknown may do everything to an object"),
    _descriptor(
        "everyone-takes-ownership",
        "error",
        _MASKS,
        "nobody unknown may take an object over: become its owner or change its rights",
    ),
    _descriptor(
        "everyone-changes",
        "error",
        _MASKS,
        "nobody unknown may delete an object or set its properties",
    ),
    _descriptor(
        "everyone-owns",
        "error",
        "[MS-DTYP] 2.4.6",
        "no owner is a group that everybody is in: an owner may change who may do what",
    ),
    _descriptor(
        "everyone-receives",
        "warning",
        "[MS-MQMQ] 2.2.23, 2.2.24",
        "nobody unknown may receive or peek messages",
    ),
    Judged(
        id="security-masks-untranslated",
        severity="error",
        types=SECURED,
        attribute="Security",
        section=f"[MS-ADTS] 5.1.3.2, {_MASKS}",
        what="no mask of MSMQ stands in Active Directory as it is: there it lets readers write",
        examiner="stored-descriptor",
        looks_at=(STORED_SECURITY,),
        where=f"length({STORED_SECURITY}) > 0",
    ),
)
