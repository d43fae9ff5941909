"""List of orphans: what was found, and what a plan can do about it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mqdssm.pipeline.orphans.rules import ORPHAN_RULES, TYPE_NAMES, OrphanRule


@dataclass(frozen=True, slots=True)
class Orphan:
    """An object that is an orphan, or may be one.

    Attributes:
        rule: the rule that it falls under.
        ldap_class: its class.
        dn: its DN.
        guid: its objectGUID; None if it has none.
        reason: what is wrong with this object, in words.
        obstacle: why a plan leaves it alone; empty: a plan can remove it.
        dependents: DNs of objects that belong to it or refer to it.
    """

    rule: OrphanRule
    ldap_class: str
    dn: str
    guid: UUID | None
    reason: str
    obstacle: str = ""
    dependents: tuple[str, ...] = ()

    @property
    def type_name(self) -> str:
        """Type of the object, as on the command line."""
        return TYPE_NAMES[self.ldap_class]

    @property
    def is_removable(self) -> bool:
        """True if a plan can remove the object."""
        return not self.obstacle

    def record(self) -> dict[str, Any]:
        """Return the orphan as a JSON object."""
        return {
            "rule": self.rule.id,
            "type": self.type_name,
            "dn": self.dn,
            "guid": None if self.guid is None else str(self.guid),
            "reason": self.reason,
            "section": self.rule.section,
            "removable": self.is_removable,
            "obstacle": self.obstacle or None,
            "dependents": list(self.dependents),
        }


@dataclass(frozen=True, slots=True)
class OrphanList:
    """Orphans of a directory.

    Attributes:
        orphans: in the order of the rules, then by DN.
        notes: what else people should know.
    """

    orphans: tuple[Orphan, ...]
    notes: tuple[str, ...] = ()

    @property
    def removable(self) -> tuple[Orphan, ...]:
        """Orphans that a plan can remove."""
        return tuple(orphan for orphan in self.orphans if orphan.is_removable)

    @property
    def undecided(self) -> tuple[Orphan, ...]:
        """Objects that a plan would remove if an obstacle were not."""
        return tuple(orphan for orphan in self.orphans if orphan.rule.removes and orphan.obstacle)

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of objects by rule, in the order of the rules."""
        numbers = Counter(orphan.rule.id for orphan in self.orphans)
        return {rule.id: numbers[rule.id] for rule in ORPHAN_RULES if numbers[rule.id]}
