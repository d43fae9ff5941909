"""Objects of a plan that the target lacks: operations that depend on them are refused."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self
from uuid import UUID

from mqdssm.directory.loading.existing_entries import GUID, guid_of
from mqdssm.directory.loading.items import Effect
from mqdssm.model.dn import DN, normalize
from mqdssm.pipeline.migrate.apply_journal import JournalLine
from mqdssm.pipeline.migrate.operations import ADD, CONTAINER, DELETE, OBJECT, PlanOperation
from mqdssm.tables.references import references_in


class Absent(NamedTuple):
    """An object that should have been made, but is not in the target.

    Attributes:
        dn: its name in the plan; another object may have it.
        guid: the one that it had in the source; None for companions.
        row: table and row that it is the object of; None for companions.
    """

    dn: str
    guid: UUID | None
    row: tuple[str, int] | None

    @classmethod
    def of(cls, operation: PlanOperation, recorded: JournalLine) -> Self | None:
        """Return the object of a refused operation; None if the target holds it nevertheless."""
        if operation.action == DELETE or _is_there(operation, recorded):
            return None
        is_object = operation.role == OBJECT
        row = (operation.table, operation.source_row) if is_object else None
        return cls(operation.dn, operation.guid, row)


def _is_there(operation: PlanOperation, recorded: JournalLine) -> bool:
    """Return True if the refusal concerns values of the object, and no other object has its place."""
    if operation.action != ADD:
        return recorded.effect is not Effect.MISSING
    if recorded.effect is not Effect.CONFLICT:
        return False
    differs = {name.lower() for name in recorded.attributes}
    is_same = bool(differs) and guid_of(operation.values) is not None and GUID.lower() not in differs
    return operation.role == CONTAINER or is_same


@dataclass(frozen=True, slots=True)
class Absences:
    """Index of the absent objects of a plan, by GUID, DN and row.

    Attributes:
        by_guid: GUID in the source -> DN.
        by_dn: normalised DN -> DN.
        by_row: table and row -> DN.
    """

    by_guid: Mapping[UUID, str] = field(default_factory=dict)
    by_dn: Mapping[str, str] = field(default_factory=dict)
    by_row: Mapping[tuple[str, int], str] = field(default_factory=dict)

    @classmethod
    def of(cls, some: Iterable[Absent]) -> Self:
        """Index absent objects."""
        absent = list(some)
        return cls(
            by_guid={one.guid: one.dn for one in absent if one.guid is not None},
            by_dn={normalize(one.dn): one.dn for one in absent},
            by_row={one.row: one.dn for one in absent if one.row is not None},
        )

    def reason(self, operation: PlanOperation) -> str:
        """Return why an operation is refused; empty if it depends on nothing that is absent."""
        if not self.by_dn or operation.action == DELETE:
            return ""
        dn = self._of_row(operation) or self._referred(operation) or self._above(operation)
        return f"it depends on {dn}, which was refused" if dn else ""

    def _of_row(self, operation: PlanOperation) -> str | None:
        """Return the DN of the absent object whose companion an operation makes."""
        is_object = operation.role == OBJECT
        return None if is_object else self.by_row.get((operation.table, operation.source_row))

    def _referred(self, operation: PlanOperation) -> str | None:
        for _, target in references_in(operation.ldap_class, operation.values):
            dn = self.by_guid.get(target) if isinstance(target, UUID) else self.by_dn.get(normalize(target))
            if dn is not None:
                return dn
        return None

    def _above(self, operation: PlanOperation) -> str | None:
        above = DN.parse(operation.dn).parent
        while above:
            if (dn := self.by_dn.get(above.normalized)) is not None:
                return dn
            above = above.parent
        return None
