"""Classes of rules and findings.

A rule is data. It describes a defect by conditions in Spark SQL, or by the name of a function if SQL cannot
express it. Conditions are three-valued as in SQL: NULL is no defect. Every engine
(`mqdssm.pipeline.validate.scan`, `mqdssm.spark.plans`) applies this one form:

=================== =========================================================================================
`Wrong`             one row shows the defect
`Undecodable`       the only defect is a value that could not be decoded
`Repeated`          a value that only one object may have
`MissingReference`  a reference to an object that does not exist
`Unequal`           an object and the object to which it refers do not agree
`Judged`            a value that needs a program, as a security descriptor; each distinct one once
`GraphRule`         a defect found only by looking at all objects of small types together, as a graph
`Stated`            a defect that is known before objects are read
=================== =========================================================================================

Several rules may share one id, severity and purpose: parts of one rule for different attributes.

Types and columns that rules may use: those of the data source, for every kind of source.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, Literal, NamedTuple, get_args

from mqdssm.pipeline.frames import columns as frame_columns
from mqdssm.pipeline.frames.columns import FRAME_TYPES, NAME_EXTENSION, SERVICE_TYPE, Column
from mqdssm.pipeline.validate.rules.trees import columns_of_template, find_columns

UNREADABLE: Final = frame_columns.UNREADABLE.name
"""Column with ``Attribute: reason`` of each value that could not be decoded; NULL if there is none."""
EXTENSION: Final = NAME_EXTENSION.adm
"""Column with the stored second part of a long queue name."""
SERVICE: Final = SERVICE_TYPE.adm
"""Column with the stored roles of a queue manager."""
ORIGINAL: Final = frame_columns.ORIGINAL_IDENTIFIER.name
"""Column with the GUID of a migrated object in its old directory (decision M37)."""
STORED_SECURITY: Final = frame_columns.STORED_SECURITY.name
"""Column with the descriptor as Active Directory holds it, if Security is a translation (decision M31)."""

DIRECTORY: Final = "directory"
"""Type of findings about the server itself; no type of objects."""

FRAMES: Final[Mapping[str, tuple[Column, ...]]] = MappingProxyType(
    {name: frame.columns for name, frame in FRAME_TYPES.items() if frame.ldap_class is not None}
)
"""Columns that a rule may use, by the type's name on the command line; without raw entries."""


def _list_types_with(column: str) -> tuple[str, ...]:
    return tuple(
        name for name, frame in FRAMES.items() if any(frame_column.name == column for frame_column in frame)
    )


ALL: Final = tuple(FRAMES)
"""All types of objects."""
PLACED: Final = _list_types_with("FullPath")
"""Types whose objects have a DN."""
SECURED: Final = _list_types_with("Security")
"""Types whose objects have a security descriptor for access checks."""

Severity = Literal["info", "warning", "error"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
"""All severities, from harmless to bad."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect of one object; each of two duplicates has one.

    Attributes:
        rule: id of the rule.
        severity: how bad it is.
        type: type of the object, as on the command line.
        dn: DN of the object; None if its type has no FullPath.
        guid: Identifier of the object.
        attribute: the specification's name of the attribute that is wrong.
        message: the defect, with the value.
        section: section of a specification that demands it; empty if there is none.
    """

    rule: str
    severity: Severity
    type: str
    dn: str | None
    guid: str | None
    attribute: str
    message: str
    section: str


class Applies(NamedTuple):
    """Types to which a rule can be applied.

    Attributes:
        types: the types that it can judge; none: it is skipped.
        reason: why it cannot judge the others; empty if it can judge all.
    """

    types: tuple[str, ...]
    reason: str


Present = Mapping[str, frozenset[str]]
"""Types of the source, and the names of their columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Declaration of a rule: the attributes of all kinds.

    Attributes:
        id: a short name that never changes, as ``guid-unique``.
        severity: how bad a finding is.
        types: types of objects that it looks at, as on the command line.
        attribute: the attribute that a finding names.
        section: section of a specification that demands it, as ``[MS-MQDMPR] 3.1.1.8``.
        requirement: the requirement, as one sentence for people.
        message: the defect; Spark SQL expressions over the row stand between braces.
        decodes: a value of the attribute that cannot be decoded is a finding of this rule, too.
        instead_of: column whose absence makes the rule apply: with it, another rule is applied.
        kind: name of the form, for people.
    """

    kind: ClassVar[str] = "rule"

    id: str
    severity: Severity = "error"
    types: tuple[str, ...]
    attribute: str
    section: str
    requirement: str
    message: str
    decodes: bool = False
    instead_of: str = ""

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise ValueError(f"rule {self.id}: {self.severity!r} is no severity: {', '.join(SEVERITIES)}")

    def finding(
        self, type_name: str, message: str, *, dn: str | None = None, guid: str | None = None
    ) -> Finding:
        """Return a finding of the rule about an object of a type."""
        return Finding(self.id, self.severity, type_name, dn, guid, self.attribute, message, self.section)

    def columns(self) -> frozenset[str]:
        """Return the columns without which the rule cannot judge a type."""
        return columns_of_template(self.message)

    def others(self) -> Present:
        """Return further types and their columns that the rule needs."""
        return {}

    def applies(self, present: Present) -> Applies:
        """Return the types that the rule can judge, of those in the source."""
        for name, columns in self.others().items():
            missing = _describe_missing(name, columns, present)
            if missing:
                return Applies((), missing)
        type_names: list[str] = []
        reasons: list[str] = []
        for name in self.types:
            missing = _describe_missing(name, self.columns(), present)
            if not missing and self.instead_of in present[name]:
                continue  # the first choice is applied
            if missing:
                reasons.append(missing)
            else:
                type_names.append(name)
        return Applies(tuple(type_names), "; ".join(reasons))


def _describe_missing(name: str, columns: frozenset[str], present: Present) -> str:
    if name not in present:
        return f"type {name} is not in the source"
    absent = sorted(columns - present[name])
    return f"{name} has no column {', '.join(absent)}" if absent else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong(Rule):
    """A defect that one row shows.

    Attributes:
        condition: Spark SQL condition over the columns of the type, true for a defect.
    """

    kind: ClassVar[str] = "row"

    condition: str

    def columns(self) -> frozenset[str]:
        """Return the columns without which the rule cannot judge a type."""
        return find_columns(self.condition) | columns_of_template(self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecodable(Rule):
    """An attribute whose value could not be decoded."""

    kind: ClassVar[str] = "row"

    message: str = ""
    decodes: bool = True

    def columns(self) -> frozenset[str]:
        """Return the columns without which the rule cannot judge a type."""
        return frozenset({UNREADABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated(Rule):
    """A value that only one object may have, over all the types of the rule.

    The message may use ``value`` and ``count``, the number of objects that have it.

    Attributes:
        key: Spark SQL expression over the row: a text or octets, or an array of them; NULL is no value.
        unless_all: type of which another rule reports values that only its objects share.
    """

    kind: ClassVar[str] = "unique"

    key: str
    unless_all: str = ""

    def columns(self) -> frozenset[str]:
        """Return the columns without which the rule cannot judge a type."""
        return find_columns(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingReference(Rule):
    """A reference to an object that does not exist.

    The message may use ``value``, the broken reference.

    Attributes:
        value: Spark SQL expression over the row: the reference, or an array of them. NULL refers to nothing.
        target: type of the object that must exist.
        key: Spark SQL expression over the target's row that the reference must equal.
        where: Spark SQL condition: only rows for which it is true are checked.
    """

    kind: ClassVar[str] = "reference"

    value: str
    target: str
    key: str = "Identifier"
    where: str = "true"

    def columns(self) -> frozenset[str]:
        """Return the columns without which the rule cannot judge a type."""
        message_columns = columns_of_template(self.message) - {"value"}
        return find_columns(self.value) | find_columns(self.where) | message_columns

    def others(self) -> Present:
        """Return the target: without it every reference would be a finding."""
        return {self.target: find_columns(self.key)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unequal(MissingReference):
    """Rule: an object must agree with the object to which it refers.

    A missing target is no finding.

    Attributes:
        condition: Spark SQL condition over the row and the target's columns, as ``other.RoutingServer``.
    """

    condition: str

    def columns(self) -> frozenset[str]:
        """Return the columns without which the rule cannot judge a type."""
        columns = MissingReference.columns(self) | find_columns(self.condition)
        return frozenset(name for name in columns if not name.startswith("other."))

    def list_other_columns(self) -> frozenset[str]:
        """Return the columns of the other object that the condition and the message use."""
        both = find_columns(self.condition) | columns_of_template(self.message)
        return frozenset(name.removeprefix("other.") for name in both if name.startswith("other."))

    def others(self) -> Present:
        """Return the target, with the columns that are compared."""
        return {self.target: find_columns(self.key) | self.list_other_columns()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Rule):
    """Rule about a value that needs a program.

    The functions are in `mqdssm.pipeline.validate.rules.examiners`.

    Attributes:
        examiner: name of the function; it serves all rules that name it.
        looks_at: columns whose values the function gets.
        where: Spark SQL condition: only rows for which it is true are examined.
    """

    kind: ClassVar[str] = "python"

    examiner: str
    message: str = ""
    looks_at: tuple[str, ...] = ("Security",)
    where: str = "true"

    def columns(self) -> frozenset[str]:
        """Return the columns without which the rule cannot judge a type."""
        return frozenset(self.looks_at) | find_columns(self.where)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRule(Rule):
    """Rule about a defect that shows only in all objects of small types.

    See `graphs`.

    Attributes:
        drawing: name of the function that checks them.
        reads: types, with the columns that the function gets.
    """

    kind: ClassVar[str] = "graph"

    drawing: str
    message: str = ""
    reads: Mapping[str, tuple[str, ...]]

    def columns(self) -> frozenset[str]:
        """Return no columns: `others` has them."""
        return frozenset()

    def others(self) -> Present:
        """Return all types and columns that are read."""
        return {name: frozenset(columns) for name, columns in self.reads.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated(Rule):
    """A defect that is known before objects are read, as one in the file of rules.

    Attributes:
        findings: the defects.
    """

    kind: ClassVar[str] = "stated"

    message: str = ""
    findings: tuple[Finding, ...] = ()

    def applies(self, present: Present) -> Applies:
        """Return all types: the rule looks at no object."""
        del present
        return Applies(self.types, "")


class RuleFile(NamedTuple):
    """Content of a file of rules.

    Attributes:
        rules: the built-in rules, as the file changes them.
        own: the rules that the file adds.
        off: ids of built-in rules that it switches off.
    """

    rules: tuple[Rule, ...]
    own: tuple[Rule, ...]
    off: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift(Rule):
    """Rule about differences between the server's schema and the required one.

    The rule applies only to a directory.
    """

    kind: ClassVar[str] = "directory"

    message: str = ""

    def applies(self, present: Present) -> Applies:
        """Return the rule's types if the source is a directory."""
        if DIRECTORY in present:
            return Applies(self.types, "")
        return Applies((), "the source is no directory")
