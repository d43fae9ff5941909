"""LDIF of a plan's operations, for ``slapadd`` or ``ldifde``.

The operations are in the order of loading.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, Final

from mqdssm.directory.profiles import PROFILES
from mqdssm.errors import ConfigError, convert_folder_errors
from mqdssm.events.new_entry import NewEntry
from mqdssm.model.dn import DN
from mqdssm.pipeline.ldif import (
    REFERENCES_SERIES,
    as_stored,
    make_modrdn,
    make_replacement,
    to_ad,
    to_openldap,
)
from mqdssm.pipeline.migrate.places import ObjectPlace, ReferencedPlaces, find_referred_to
from mqdssm.pipeline.migrate.plan_file import (
    EntryRole,
    MigrationPlan,
    PlanAction,
    PlanOperation,
    Values,
    read_operations,
)
from mqdssm.tables.ldif import fold
from mqdssm.tables.references import REFERENCES, ReferenceForm

REFERENCES_FILE: Final = "7-references.ldif"
CHANGES_FILE: Final = "8-changes.ldif"
DELETES_FILE: Final = "9-deletes.ldif"
ALL_FILE: Final = "changes.ldif"
"""All operations of a plan with a move: it is neither an add nor the last change."""
WAITING_FILE: Final = "waiting.jsonl"
"""References that cannot be written yet, as those by GUIDs that only the server will make."""


def write_ldif(plan: MigrationPlan, folder: Path, to: Path) -> dict[str, int]:
    """Write the operations of a plan as LDIF for the tools of its target.

    Each level of adds has its own file: ``slapadd -q`` takes only these. Changes and deletions are for
    ``ldapmodify`` of a running server; ``ldifde`` takes all files. A plan with a move has one file for all.

    Args:
        plan: the plan.
        folder: of the plan.
        to: a new or empty folder.

    Returns:
        File -> how many records it has, in the order of loading.

    Raises:
        ConfigError: the folder is not empty, or cannot be written.
    """
    if plan.refused is not None:
        raise ConfigError(f"the plan cannot be applied: {plan.refused}")
    with convert_folder_errors(f"{to} cannot be written"):
        to.mkdir(parents=True, exist_ok=True)
        if any(to.iterdir()):
            raise ConfigError(f"{to} is not empty: name a new or an empty folder")
        with ExitStack() as stack:
            writer = _Writer(plan, to, stack, _read_planned_places(plan, folder))
            for level in plan.levels:
                for file in level.files:
                    for operation in read_operations(folder / file.path):
                        writer.write(f"{level.name}.ldif", operation)
        return dict(sorted(writer.counts.items()))


def _read_planned_places(plan: MigrationPlan, folder: Path) -> ReferencedPlaces:
    """Return the sites and queue managers of the plan, to which references may refer."""
    planned = find_referred_to(folder, [file.path for file in plan.files])
    return ReferencedPlaces({guid: ObjectPlace(dn, guid) for guid, dn in planned.items()})


class _Writer:
    """Writes each operation to the file for its level or action."""

    def __init__(self, plan: MigrationPlan, to: Path, stack: ExitStack, places: ReferencedPlaces) -> None:
        self._is_ad = not PROFILES[plan.target.profile].makes_guid
        self._to = to
        self._stack = stack
        self._places = places
        self._has_moves = bool(plan.operations.get(f"{EntryRole.OBJECT} {PlanAction.MOVE}"))
        self._files: dict[str, IO[bytes]] = {}
        self.counts: dict[str, int] = {}

    def write(self, level: str, operation: PlanOperation) -> None:
        """Write one operation."""
        later, waiting = self._select_waiting_values(operation)
        for attribute, guids in waiting.items():
            record = {"dn": operation.dn, "attribute": attribute, "guids": list(guids)}
            self._put(WAITING_FILE, json.dumps(record, ensure_ascii=False).encode() + b"\n")
        match operation.action:
            case PlanAction.ADD:
                self._add(level, operation, later)
            case PlanAction.MODIFY:
                changes = [*operation.values.items(), *later.items()]
                if changes:
                    self._put(CHANGES_FILE, make_replacement(operation.dn, changes))
            case PlanAction.MOVE:
                self._put(CHANGES_FILE, make_modrdn(DN.parse(operation.dn), DN.parse(operation.dn_after)))
            case _:
                lines = [*fold("dn", operation.dn), "changetype: delete", "", ""]
                self._put(DELETES_FILE, "\n".join(lines).encode("ascii"))

    def _add(self, level: str, operation: PlanOperation, later: Values) -> None:
        attributes = {name: tuple(raws) for name, raws in operation.values.items()}
        new_entry = NewEntry(operation.type, DN.parse(operation.dn), operation.ldap_class, attributes)
        values = [*new_entry.complete().items(), *later.items()]
        if self._is_ad:
            for record in to_ad(operation.dn, values, as_stored):
                file = REFERENCES_FILE if record.series == REFERENCES_SERIES else level
                self._put(file, record.data)
            return
        for record in to_openldap(operation.dn, values, as_stored):
            self._put(level, record.data)

    def _select_waiting_values(self, operation: PlanOperation) -> tuple[Values, Mapping[str, Sequence[str]]]:
        """Return the values of waiting references that can be written.

        GUIDs of those that cannot be written yet are returned, too.
        """
        references = REFERENCES.get(operation.ldap_class, {})
        unknown = {
            name: guids
            for name, guids in operation.later.items()
            if references[name].form is ReferenceForm.GUID
        }
        named = {name: guids for name, guids in operation.later.items() if name not in unknown}
        values, elsewhere = self._places.look_up_values(
            operation.ldap_class, named
        )  # elsewhere: only the target has it
        return {name: raws for name, raws in values.items() if raws}, unknown | elsewhere

    def _put(self, name: str, data: bytes) -> None:
        name = ALL_FILE if self._has_moves and name != WAITING_FILE else name
        file = self._files.get(name)
        if file is None:
            opened = open(self._to / name, "xb", opener=partial(os.open, mode=0o600))  # noqa: SIM115  closed by the stack
            file = self._files[name] = self._stack.enter_context(opened)
        file.write(data)
        self.counts[name] = self.counts.get(name, 0) + 1
