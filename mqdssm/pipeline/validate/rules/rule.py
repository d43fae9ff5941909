"""What a rule and a finding are.

A rule is data. What is wrong is said by conditions in Spark SQL, which are three-valued as SQL is (NULL is no
defect), or by the name of a function where SQL cannot say it. Whatever runs a rule
(`mqdssm.pipeline.validate.scan`,
`mqdssm.spark.plans`), there is this one form of it:

=================== =========================================================================================
`Wrong`             one row shows the defect
`Undecodable`       the only defect is a value that could not be decoded
`Repeated`          a value that only one object may have
`MissingReference`  a reference to an object that is not there
`Unequal`           an object and the one that it refers to do not agree
`Judged`            a value that only a program understands, as a security descriptor; each distinct one once
`GraphRule`             what shows only when all objects of small types are seen together, as a graph
`Stated`            a defect that is known before objects are read
=================== =========================================================================================

Several rules may share one id, severity and purpose: parts of one rule that name other attributes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, NamedTuple, get_args

from mqdssm.pipeline.validate.rules.expressions import columns_in, columns_of_template
from mqdssm.pipeline.validate.rules.vocabulary import UNREADABLE

Severity = Literal["info", "warning", "error"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
"""From harmless to bad."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect of one object; both of two duplicates have one.

    Attributes:
        rule: id of the rule.
        severity: how bad it is.
        type: type of the object, as on the command line.
        dn: where the object is; None where its type has no FullPath.
        guid: Identifier of the object.
        attribute: the specification's name of the attribute that is wrong.
        message: what is wrong, with the value.
        section: where a specification says how it should be; empty if none does.
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
    """Where a rule can be applied.

    Attributes:
        types: the types that it can judge; none: it is skipped.
        reason: why it cannot judge the others; empty if it can judge all.
    """

    types: tuple[str, ...]
    reason: str


Present = Mapping[str, frozenset[str]]
"""Types that are there, and the names of their columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What all rules declare.

    Attributes:
        id: a short name that never changes, as ``guid-unique``.
        severity: how bad a finding is.
        types: types of objects that it looks at, as on the command line.
        attribute: the attribute that a finding names.
        section: where a specification demands it, as ``[MS-MQDMPR] 3.1.1.8``.
        what: one sentence for people: what must hold.
        message: what is wrong; between braces Spark SQL expressions over the row.
        decodes: a value of the attribute that cannot be decoded is a finding of this rule, too.
        instead_of: the rule is a second choice, for types that lack this column.
        kind: name of the form, for people.
    """

    kind: ClassVar[str] = "rule"

    id: str
    severity: Severity
    types: tuple[str, ...]
    attribute: str
    section: str
    what: str
    message: str
    decodes: bool = False
    instead_of: str = ""

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise ValueError(f"rule {self.id}: {self.severity!r} is no severity: {', '.join(SEVERITIES)}")

    def columns(self) -> frozenset[str]:
        """Columns without which the rule cannot judge a type."""
        return columns_of_template(self.message)

    def others(self) -> Present:
        """Further types and their columns that the rule needs."""
        return {}

    def applies(self, present: Present) -> Applies:
        """Tell which types the rule can judge, of those that are there."""
        for name, columns in self.others().items():
            missing = _missing(name, columns, present)
            if missing:
                return Applies((), missing)
        found: list[str] = []
        reasons: list[str] = []
        for name in self.types:
            missing = _missing(name, self.columns(), present)
            if not missing and self.instead_of in present[name]:
                continue  # the first choice is applied
            if missing:
                reasons.append(missing)
            else:
                found.append(name)
        return Applies(tuple(found), "; ".join(reasons))


def _missing(name: str, columns: frozenset[str], present: Present) -> str:
    if name not in present:
        return f"type {name} is not in the source"
    absent = sorted(columns - present[name])
    return f"{name} has no column {', '.join(absent)}" if absent else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong(Rule):
    """A defect that one row shows.

    Attributes:
        bad: Spark SQL condition over the columns of the type, true for a defect.
    """

    kind: ClassVar[str] = "row"

    bad: str

    def columns(self) -> frozenset[str]:
        """Columns without which the rule cannot judge a type."""
        return columns_in(self.bad) | columns_of_template(self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecodable(Rule):
    """An attribute that holds what is no value of it."""

    kind: ClassVar[str] = "row"

    message: str = ""
    decodes: bool = True

    def columns(self) -> frozenset[str]:
        """Columns without which the rule cannot judge a type."""
        return frozenset({UNREADABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated(Rule):
    """A value that only one object may have, over all the types of the rule.

    The message may use ``value`` and ``count``, the number of objects that have it.

    Attributes:
        key: Spark SQL expression over the row: the value, or an array of them; texts or octets. NULL is none.
        unless_all: a value that only objects of this type share is the business of another rule.
    """

    kind: ClassVar[str] = "unique"

    key: str
    unless_all: str = ""

    def columns(self) -> frozenset[str]:
        """Columns without which the rule cannot judge a type."""
        return columns_in(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingReference(Rule):
    """A reference to an object that is not there.

    The message may use ``value``, the one reference that is broken.

    Attributes:
        value: Spark SQL expression over the row: the reference, or an array of them. NULL refers to nothing.
        target: type of the object that must exist.
        key: Spark SQL expression over the target's row that the reference must equal.
        where: Spark SQL condition: only rows for which it is true are looked at.
    """

    kind: ClassVar[str] = "reference"

    value: str
    target: str
    key: str
    where: str = "true"

    def columns(self) -> frozenset[str]:
        """Columns without which the rule cannot judge a type."""
        own = columns_of_template(self.message) - {"value"}
        return columns_in(self.value) | columns_in(self.where) | own

    def others(self) -> Present:
        """The target: without it every reference would be a finding."""
        return {self.target: columns_in(self.key)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unequal(MissingReference):
    """An object that does not agree with the one it refers to; a reference to nothing is no finding.

    Attributes:
        bad: Spark SQL condition over the row and the other one's columns, as ``other.RoutingServer``.
    """

    bad: str

    def columns(self) -> frozenset[str]:
        """Columns without which the rule cannot judge a type."""
        own = MissingReference.columns(self) | columns_in(self.bad)
        return frozenset(name for name in own if not name.startswith("other."))

    def other_columns(self) -> frozenset[str]:
        """Columns of the other object that the condition and the message use."""
        both = columns_in(self.bad) | columns_of_template(self.message)
        return frozenset(name.removeprefix("other.") for name in both if name.startswith("other."))

    def others(self) -> Present:
        """The target, with what is compared."""
        return {self.target: columns_in(self.key) | self.other_columns()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Rule):
    """A value that a program has to understand; `mqdssm.pipeline.validate.rules.examiners` holds these.

    Attributes:
        examiner: name of the function that judges; it serves all rules that name it.
        looks_at: columns whose values it is given.
        where: Spark SQL condition: only rows for which it is true are looked at.
    """

    kind: ClassVar[str] = "python"

    examiner: str
    message: str = ""
    looks_at: tuple[str, ...] = ("Security",)
    where: str = "true"

    def columns(self) -> frozenset[str]:
        """Columns without which the rule cannot judge a type."""
        return frozenset(self.looks_at) | columns_in(self.where)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRule(Rule):
    """What shows only when all objects of small types are seen together; see `graphs`.

    Attributes:
        drawing: name of the function that looks.
        reads: types and the columns of theirs that it is given.
    """

    kind: ClassVar[str] = "graph"

    drawing: str
    message: str = ""
    reads: Mapping[str, tuple[str, ...]]

    def columns(self) -> frozenset[str]:
        """None: `others` has them."""
        return frozenset()

    def others(self) -> Present:
        """All that is read."""
        return {name: frozenset(columns) for name, columns in self.reads.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated(Rule):
    """A defect that is known before objects are read, as one of the file of rules.

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
    """What a file of rules says.

    Attributes:
        rules: of ours, as the file changes them.
        own: those that the file adds.
        off: ids of those of ours that it switches off.
    """

    rules: tuple[Rule, ...]
    own: tuple[Rule, ...]
    off: tuple[str, ...] = ()
