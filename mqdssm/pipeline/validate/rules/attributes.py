"""Rules for the values of each attribute and for the server's schema.

The rules for values are generated from the mapping table.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from mqdssm.model import enums
from mqdssm.model.fieldtypes import (
    BASE_PRIORITY_MAX,
    BASE_PRIORITY_MIN,
    COST_MAX,
    COST_MIN,
    DIGEST_BYTES,
    UNSIGNED_MAX,
    spec_name,
)
from mqdssm.pipeline.frames.columns import TYPES
from mqdssm.pipeline.validate.rules.rule import DIRECTORY, Drift, Rule, Undecodable, Wrong
from mqdssm.pipeline.validate.rules.trees import quote_literal
from mqdssm.tables import TABLES, schema
from mqdssm.tables.row import Access, Computed, Missing, Row
from mqdssm.tables.syntax import DESCRIPTOR, OCTETS16, Kind

IDS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("queue", "Quota"): "queue-quota-range",
        ("queue", "BasePriority"): "queue-base-priority-range",
        ("queue", "PrivacyLevel"): "queue-privacy-level",
        ("queue", "Type"): "queue-type-form",
        ("queue-manager", "QueueManagerQuota"): "queue-manager-quota-range",
        ("queue-manager", "OperatingSystemType"): "queue-manager-os-type",
        ("queue-manager", "DirectoryServerType"): "queue-manager-roles",
        ("enterprise", "DefaultTimeToLive"): "enterprise-interval-range",
        ("enterprise", "OldDirectory"): "enterprise-version",
        ("enterprise", "WeakenedSecurity"): "enterprise-name-style",
        ("site", "IntraSiteReplicationInterval"): "site-intervals-range",
        ("site", "InterSiteReplicationInterval"): "site-intervals-range",
        ("site", "ForeignSite"): "site-foreign-consistent",
        ("routing-link", "ActualCost"): "link-cost-range",
    }
)
"""Rule ids that do not follow from type, attribute and check."""
LIMITS: Final[Mapping[tuple[str, str], tuple[int, int]]] = MappingProxyType(
    {
        ("queue", "BasePriority"): (BASE_PRIORITY_MIN, BASE_PRIORITY_MAX),
        ("routing-link", "ActualCost"): (COST_MIN, COST_MAX),
        # a time to live or an interval of 0: no message would arrive, replication would never pause
        ("enterprise", "DefaultTimeToLive"): (1, UNSIGNED_MAX),
        ("site", "IntraSiteReplicationInterval"): (1, UNSIGNED_MAX),
        ("site", "InterSiteReplicationInterval"): (1, UNSIGNED_MAX),
    }
)
"""Limits that are narrower than those of an unsigned 32-bit number."""
SECTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "queue-manager": "3.1.1.1",
        "queue": "3.1.1.2",
        "enterprise": "3.1.1.6",
        "site": "3.1.1.7",
        "routing-link": "3.1.1.8",
        "user": "3.1.1.15",
    }
)
"""Sections of [MS-MQDMPR] that describe the attributes of each type."""

# attributes with more specific rules: `identity`, `security`, `computer`, `user`, `link`
_REQUIRED_ELSEWHERE: Final = frozenset(
    {
        *("Identifier", "Name", "ComputerName", "Security", "SecurityIdentifier"),
        *("Site1Identifier", "Site2Identifier", "ActualCost"),
        *("QualifiedComputerName", "Clustered"),
    }
)
_FROM_DN: Final = frozenset({Computed.FULL_PATH, Computed.DIRECTORY_PATH})
_DECODED_ONLY: Final = frozenset({"Type", "DirectoryServerType", "OldDirectory", "ForeignSite"})
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_ENUMERATIONS: Final = MappingProxyType(
    {
        "PrivacyLevel": enums.PrivacyLevel,
        "OperatingSystemType": enums.OperatingSystemType,
        "DirectoryServerType": enums.DirectoryServerType,
    }
)


def section_of(name: str) -> str:
    """Return the section that describes the attributes of a type."""
    return f"[MS-MQDMPR] {SECTIONS[name]}"


def make_rules() -> Iterator[Rule]:
    """Make the rules of all attributes."""
    for name, element in TYPES.items():
        for row in TABLES[element].rows:
            if Access.READ in row.access:
                yield from _rules_of(name, row)


def _rules_of(name: str, row: Row) -> Iterator[Rule]:
    required = row.missing in {Missing.ERROR, Missing.ERROR_IF_ASKED}
    if required and row.adm not in _REQUIRED_ELSEWHERE and row.computed not in _FROM_DN:
        yield _make_rule(
            name,
            row,
            "required",
            requirement=f"{row.adm} is set",
            message=f"{row.adm} is missing",
            condition=f"{row.adm} is null",
        )
    if row.kind is Kind.INTEGER:
        yield _limit_range(name, row)
    elif row.kind is Kind.ENUMERATION:
        yield _limit_choices(name, row)
    elif row.kind is Kind.TEXT and row.computed is None:
        yield from _limit_length(name, row)
    elif row.syntax is OCTETS16:
        yield _require_digest_size(name, row)
    elif row.kind is Kind.BYTES and row.computed is None and row.syntax is not DESCRIPTOR:
        # security-parses finds descriptors that are too long for Active Directory's schema
        yield from _limit_octets(name, row)
    if row.adm in _DECODED_ONLY and row.kind is not Kind.ENUMERATION:
        yield Undecodable(
            id=IDS[name, row.adm],
            severity="warning" if row.adm == "ForeignSite" else "error",  # as for the whole rule
            types=(name,),
            attribute=row.adm,
            section=_name_section(name, row),
            requirement=f"{row.adm} holds a value that the specification knows",
        )


def _make_rule(name: str, row: Row, suffix: str, *, requirement: str, message: str, condition: str) -> Wrong:
    return Wrong(
        id=IDS.get((name, row.adm)) or f"{name}-{_WORD.sub('-', row.adm).lower()}-{suffix}",
        types=(name,),
        attribute=row.adm,
        section=_name_section(name, row),
        requirement=requirement,
        message=message,
        condition=condition,
        decodes=suffix not in {"required", "length"},
    )


def _name_section(name: str, row: Row) -> str:
    return f"{section_of(name)}, [MS-MQDSSM] {row.sections[0]}"


def _limit_range(name: str, row: Row) -> Wrong:
    low, high = LIMITS.get((name, row.adm), (0, UNSIGNED_MAX))
    unset = f"{row.adm} is null or " if row.missing is Missing.ERROR else ""
    return _make_rule(
        name,
        row,
        "range",
        requirement=f"{row.adm} is {low} to {high}",
        message=f"{row.adm} is {{{row.adm}}}, not {low} to {high}",
        condition=f"{unset}{row.adm} < {low} or {row.adm} > {high}",
    )


def _limit_choices(name: str, row: Row) -> Wrong:
    names = list(dict.fromkeys(map(spec_name, _ENUMERATIONS[row.adm])))
    return _make_rule(
        name,
        row,
        "value",
        requirement=f"{row.adm} is one of {', '.join(names)}",
        message=f"{row.adm} is {{{row.adm}}}, not one of {', '.join(names)}",
        condition=f"{row.adm} not in ({', '.join(map(quote_literal, names))})",
    )


def _limit_length(name: str, row: Row) -> Iterator[Rule]:
    """Limit a text in UTF-16 code units, as Active Directory does.

    A character has one or two.
    """
    upper = schema.attribute(row.ldap[0]).upper if row.ldap else None
    if upper is not None:
        yield _make_rule(
            name,
            row,
            "length",
            requirement=f"{row.adm} has at most {upper} characters",
            message=f"{row.adm} is longer than {upper} characters: {{{row.adm}}}",
            condition=(
                f"length({row.adm}) > {upper // 2} and length(encode({row.adm}, 'UTF-16BE')) > {2 * upper}"
            ),
        )


def _require_digest_size(name: str, row: Row) -> Rule:
    return _make_rule(
        name,
        row,
        "form",
        requirement=f"every value of {row.adm} has {DIGEST_BYTES} octets",
        message=f"a value of {row.adm} has not {DIGEST_BYTES} octets",
        condition=f"exists({row.adm}, x -> length(x) <> {DIGEST_BYTES})",
    )


def _limit_octets(name: str, row: Row) -> Iterator[Rule]:
    upper = schema.attribute(row.ldap[0]).upper
    if upper is not None:
        yield _make_rule(
            name,
            row,
            "length",
            requirement=f"{row.adm} has at most {upper} octets",
            message=f"{row.adm} has {{length({row.adm})}} octets, more than {upper}",
            condition=f"length({row.adm}) > {upper}",
        )


SCHEMA_DRIFT: Final = Drift(
    id="schema-drift",
    types=(DIRECTORY,),
    attribute="subschemaSubentry",
    section="[MS-MQDSSM] 2.2.2, 2.4",
    requirement="the server's schema has all that is read and written, as it has to be",
)
"""Rule about the schema, which `mqdssm.tables.schema_compare` checks."""
RULES: Final[tuple[Rule, ...]] = (*make_rules(), SCHEMA_DRIFT)
