"""What a rule and a finding are.

Three forms of rule, each one plan of Spark's: `Wrong` looks at one row (all of a type share one scan),
`Repeated` groups, `MissingReference` is an anti join. Conditions are three-valued as SQL is: NULL is
no defect.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Final, Literal, get_args

from mqdssm.spark.columns import TYPES, columns_of

Severity = Literal["info", "warning", "error"]


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

    def as_dict(self) -> dict[str, str | None]:
        """Give the finding as a line of JSON Lines holds it."""
        return asdict(self)


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
        message: Spark SQL string expression over the row: what is wrong with it.
    """

    id: str
    severity: Severity
    types: tuple[str, ...]
    attribute: str
    section: str
    what: str
    message: str

    def __post_init__(self) -> None:
        if self.severity not in get_args(Severity):
            raise ValueError(f"rule {self.id}: {self.severity!r} is no severity")
        for name in self.types:
            columns_of(TYPES[name], [self.attribute])

    def applies_to(self, present: Collection[str]) -> tuple[str, ...]:
        """Name the types that the rule can judge, of those that were exported; none: it is skipped."""
        return tuple(name for name in self.types if name in present)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong(Rule):
    """A defect that one row shows.

    Attributes:
        bad: Spark SQL condition over the columns of the type, true for a defect.
    """

    bad: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated(Rule):
    """A value that only one object may have, over all the types that are there.

    The message may use ``value`` and ``count``, the number of objects that have it (both are strings).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingReference(Rule):
    """A reference to an object that is not there.

    The message may use ``value``, the one reference that is broken.

    Attributes:
        value: Spark SQL expression over the row: the reference, or an array of them. NULL refers to nothing.
        target: type of the object that must exist.
        key: Spark SQL expression over the target's row that the reference must equal.
    """

    value: str
    target: str
    key: str

    def applies_to(self, present: Collection[str]) -> tuple[str, ...]:
        """Name the types, if the targets are there too: without them every reference would be a finding."""
        return Rule.applies_to(self, present) if self.target in present else ()


# the parent of a DN: what follows its first unescaped comma
PARENT_DN: Final = r"regexp_replace({dn}, r'^(?:[^,\\]|\\.)*,', '')"
