"""Moves of queue managers to other computers, with their queues and GUIDs.

A move is an operation of a plan: LDAP's modifyDN with a new superior ([RFC4511] 4.9). Objects keep their
objectGUIDs, which no add can set on Active Directory. References by DN follow where the server does not do it
(`Profile.follows_renames`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self
from uuid import UUID

from mqdssm.directory.loading.existing_entries import guid_of
from mqdssm.directory.loading.items import Effect
from mqdssm.errors import (
    DirectoryError,
    DirectoryNotConnected,
    ObjectAlreadyExists,
    ObjectNotFound,
    OutcomeUnknown,
)
from mqdssm.model.dn import DN, domain_of
from mqdssm.pipeline.migrate.apply_journal import JournalLine
from mqdssm.pipeline.migrate.plan_file import PARENT_GUID, PLACE, EntryRole, PlanAction, PlanOperation
from mqdssm.tables import places
from mqdssm.tables.schema import MANAGER_CLASS
from mqdssm.tables.syntax import GUID

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

COMPUTER: Final = b"computer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Move of a queue manager.

    Attributes:
        guid: objectGUID of the queue manager.
        old: its DN.
        new: its DN afterwards.
        old_computer: objectGUID of the computer that has it; None: it has none.
        new_computer: objectGUID of the computer that gets it; None: it has none.
    """

    guid: UUID
    old: DN
    new: DN
    old_computer: UUID | None
    new_computer: UUID | None

    @classmethod
    def of(cls, operation: PlanOperation) -> Self:
        """Return the move of an operation.

        Raises:
            ValueError: the operation is no move of a queue manager.
        """
        if operation.action != PlanAction.MOVE or operation.guid is None:
            raise ValueError("no move of an object with a GUID")
        if set(operation.values) != {PLACE, PARENT_GUID} or set(operation.before) != {PLACE, PARENT_GUID}:
            raise ValueError(f"a move has {PLACE} and {PARENT_GUID} and nothing else")
        (new,), (old,) = operation.values[PLACE], operation.before[PLACE]
        move = cls(
            guid=operation.guid,
            old=DN.parse(old.decode()),
            new=DN.parse(new.decode()),
            old_computer=_load_guid(operation.before[PARENT_GUID]),
            new_computer=_load_guid(operation.values[PARENT_GUID]),
        )
        if move.old != DN.parse(operation.dn) or move.old == move.new or move.old.rdn != move.new.rdn:
            raise ValueError("a move goes from the DN of its operation below another computer")
        return move

    def make_operation(self, type_name: str, table: str, row: int) -> PlanOperation:
        """Return the operation of the move.

        Args:
            type_name: of the object, as on the command line.
            table: to which it is counted.
            row: its row there.
        """
        return PlanOperation(
            type=type_name,
            role=EntryRole.OBJECT,
            guid=self.guid,
            dn=str(self.old),
            action=PlanAction.MOVE,
            ldap_class=MANAGER_CLASS,
            values={PLACE: (str(self.new).encode(),), PARENT_GUID: _dump_guid(self.new_computer)},
            before={PLACE: (str(self.old).encode(),), PARENT_GUID: _dump_guid(self.old_computer)},
            table=table,
            source_row=row,
        )

    def move_dn(self, dn: DN) -> DN:
        """Return the DN that an object has after the move."""
        return _rebase_dn(dn, self.old, self.new)

    def restore_dn(self, dn: DN) -> DN:
        """Return the DN that an object had before the move."""
        return _rebase_dn(dn, self.new, self.old)


def _rebase_dn(dn: DN, old: DN, new: DN) -> DN:
    return DN(dn.rdns[: len(dn) - len(old)] + new.rdns) if dn.is_at_or_below(old) else dn


def _load_guid(raws: Sequence[bytes]) -> UUID | None:
    if not raws:
        return None
    (raw,) = raws
    return GUID.load(raw)


def _dump_guid(guid: UUID | None) -> tuple[bytes, ...]:
    return () if guid is None else (GUID.dump(guid),)


def move_values(moves: Iterable[Move], values: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return DNs of objects as they are after some moves; other values stay."""
    return tuple(_move_value(moves, value) for value in values)


def _move_value(moves: Iterable[Move], value: bytes) -> bytes:
    try:
        dn = DN.parse(value.decode())
    except ValueError:
        return value
    new = dn
    for move in moves:
        new = move.move_dn(new)
    return value if new == dn else str(new).encode()


def perform_move(session: "Session", operation: PlanOperation) -> JournalLine:
    """Move a queue manager, unless it is at its new place already.

    The queue manager is found by its GUID: a run that was interrupted after the move finds it done.

    Raises:
        DirectoryNotConnected: the server is gone.
        OutcomeUnknown: nobody knows; the next run finds out.
    """
    move, row = Move.of(operation), operation.row_id
    try:
        entry = session.get(move.guid, ["objectGUID"], only_own=True)
    except ObjectNotFound:
        return JournalLine(row, Effect.MISSING, text="there is no such object (any more)")
    if entry.name == move.new:
        return JournalLine(row, Effect.EQUAL)
    if entry.name != move.old:
        return JournalLine(row, Effect.CONFLICT, text=f"it was moved since this was planned: {entry.dn}")
    problem = _problem_of(session, move.old.parent, move.old_computer)
    problem = problem or _problem_of(session, move.new.parent, move.new_computer)
    if problem:
        return JournalLine(row, Effect.CONFLICT, text=problem)
    try:
        session.rename(entry, str(DN((move.new.rdns[0],))), move.new.parent)
    except (DirectoryNotConnected, OutcomeUnknown):
        raise
    except ObjectAlreadyExists as error:
        return JournalLine(row, Effect.CONFLICT, code=error.ldap_code, text=str(error))
    except DirectoryError as error:
        return JournalLine(row, Effect.REJECTED, code=error.ldap_code, text=str(error))
    return JournalLine(row, Effect.MOVED)


def _problem_of(session: "Session", dn: DN, guid: UUID | None) -> str:
    """Return why a computer is not the one of the plan; empty if it is."""
    try:
        entry = session.get(dn, ["objectGUID", "objectClass"])
    except ObjectNotFound:
        return f"there is no computer {dn} (any more)"
    if guid_of(entry.attributes) != guid:
        return f"{dn} is another object than when this was planned"
    if COMPUTER not in {name.lower() for name in entry.all("objectClass")}:
        return f"{dn} is no computer"
    return ""


def is_queue_manager_place(dn: DN) -> bool:
    """Return True if a DN is named CN=msmq and is below another entry."""
    return (
        len(dn) > len(domain_of(dn)) + 1
        and dn.rdn[0][0].lower() == "cn"
        and dn.name.lower() == places.QUEUE_MANAGER_NAME
    )
