"""Plan that moves the queue manager of a computer to another computer.

The plan has the form of a migration (`mqdssm.pipeline.migrate.plan_file`): row 1 of Machine is the queue
manager, further rows are objects that refer to it by name; rows of Queue are its queues.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import Equal, Present
from mqdssm.directory.loading.existing_entries import guid_of
from mqdssm.directory.requests import SearchScope
from mqdssm.errors import ConfigError
from mqdssm.events.encode import DESCRIPTOR
from mqdssm.events.entry_builder import EntryBuilder, EntryTarget
from mqdssm.events.new_entry import NewEntry
from mqdssm.events.settings import MADE_BY_US
from mqdssm.model.dn import DN
from mqdssm.model.elements import RoutingLink
from mqdssm.pipeline.migrate.moves import Move, move_values
from mqdssm.pipeline.migrate.outcome import OutcomeWriter, PlanSummary
from mqdssm.pipeline.migrate.plan_file import (
    CHILDREN,
    PARENTS,
    EntryRole,
    MigrationPlan,
    PlanAction,
    PlanKind,
    PlanOperation,
    PlanOptions,
    TableCounts,
    Values,
    plan_deletion,
)
from mqdssm.pipeline.migrate.planning import target_of
from mqdssm.pipeline.migrate.replacement_check import OF_INSTALLATION
from mqdssm.pipeline.migrate.shared_lookups import Computer
from mqdssm.pipeline.migrate.sids import SidMap, SidRewriter
from mqdssm.pipeline.migrate.target import EVERYTHING, TargetView, find_of_class
from mqdssm.pipeline.replacement import references
from mqdssm.pipeline.replacement.checks import CheckedServers, read_guid
from mqdssm.tables import TABLES
from mqdssm.tables.dependent_objects import SERVER_CLASS, SETTINGS_CLASS, SETTINGS_OWNER
from mqdssm.tables.schema import ALIAS_CLASS, ALIAS_FORMAT_NAME, GROUP_CLASS, MANAGER_CLASS, QUEUE_CLASS
from mqdssm.tables.syntax import GUID
from mqdssm.wire.sid import Sid

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

MACHINE_TABLE: Final = "Machine"
QUEUE_TABLE: Final = "Queue"
MANAGER_TYPE: Final = "queue-manager"
_BEFORE_MOVE, _MOVE, _AFTER_MOVE, _SETTINGS = 1, 2, 3, 4
"""Levels of the operations."""
_KEYS: Final = "mSMQEncryptKey"
_TYPES: Final = {
    MANAGER_CLASS: MANAGER_TYPE,
    QUEUE_CLASS: "queue",
    TABLES[RoutingLink].ldap_class: "routing-link",
    GROUP_CLASS: "group",
    ALIAS_CLASS: "alias",
}
"""Object class -> type of the object in messages."""


@dataclass
class ReplacementPlanner:
    """Writes the plan that moves a queue manager.

    Attributes:
        session: to the directory.
        servers: the computers, checked.
        folder: of the plan, prepared.
        notes: facts that people should know.
        by_address: DNs of queue aliases that address a computer by IP address, which stay as they are.
    """

    session: "Session"
    servers: CheckedServers
    folder: Path
    notes: list[str] = field(default_factory=list)
    by_address: list[str] = field(default_factory=list)
    _view: TargetView = field(init=False)
    _machines: OutcomeWriter = field(init=False)
    _queues: OutcomeWriter = field(init=False)
    _move: Move = field(init=False)
    _rows: int = field(init=False, default=1)

    def run(self) -> MigrationPlan:
        """Write the plan.

        Raises:
            ConfigError: a settings object of another queue manager is in the way.
            DirectoryError: the directory cannot be asked.
            OSError: the plan cannot be written.
        """
        self._view = TargetView(self.session)
        self._machines = OutcomeWriter(self.folder, MACHINE_TABLE, 0)
        self._queues = OutcomeWriter(self.folder, QUEUE_TABLE, 1)
        try:
            if not self.servers.is_same:
                self._plan_operations()
        except BaseException:
            self._machines.abandon()
            self._queues.abandon()
            raise
        summary = PlanSummary()
        summary.add([self._machines.close(), self._queues.close()])
        deletes = int(self.servers.existing is not None)
        plan = MigrationPlan(
            kind=PlanKind.REPLACEMENT,
            made=datetime.now(UTC).replace(microsecond=0),
            source=f"replacement of {self.servers.old.name} by {self.servers.new.name}",
            target=target_of(self.session),
            options=PlanOptions(on_conflict="update", allow_deletes=deletes),
            tables=self._count_tables(),
            operations=summary.operations,
            deletes={MACHINE_TABLE: deletes} if deletes else {},
            levels=summary.levels,
            equal=summary.equal,
            notes=tuple(self.notes),
            engine="local",
        )
        plan.write(self.folder)
        return plan

    def _count_tables(self) -> dict[str, TableCounts]:
        if self.servers.is_same:
            return {}
        counts = self._queues.done.counts
        changed, equal = counts[PlanAction.MODIFY], counts[PlanAction.EQUAL]
        return {
            MACHINE_TABLE: TableCounts(type=MANAGER_TYPE, read=self._rows, modify=self._rows),
            QUEUE_TABLE: TableCounts(type="queue", read=changed + equal, modify=changed, equal=equal),
        }

    def _plan_operations(self) -> None:
        old, existing = self.servers.manager.name, self.servers.existing
        computer = DN.parse(self.servers.new.dn)
        self._move = Move(
            guid=self.servers.guid,
            old=old,
            new=DN((old.rdns[0], *computer.rdns)),
            old_computer=guid_of(self.session.get(old.parent, ["objectGUID"]).attributes),
            new_computer=guid_of(self.session.get(computer, ["objectGUID"]).attributes),
        )
        if existing is not None:
            deleted = plan_deletion(MANAGER_TYPE, existing, MANAGER_CLASS, EntryRole.OBJECT)
            self._write(_BEFORE_MOVE, deleted, row=0)
        self._write(_MOVE, self._move.make_operation(MANAGER_TYPE, MACHINE_TABLE, 1), row=1)
        sids = self._make_sid_rewriter(self.servers.old, self.servers.new)
        self._plan_manager(sids)
        self._plan_queues(sids)
        self._plan_settings(self.servers.existing)
        self._plan_references()
        self._plan_aliases(self.servers.old, self.servers.new)

    # -- the queue manager and its queues

    def _make_sid_rewriter(self, old: Computer, new: Computer) -> SidRewriter:
        """Return a rewriter that gives the new account the rights of the old one."""
        if old.sid is None or new.sid is None:
            self.notes.append("a computer has no SID: rights of computer accounts stay as they are")
            return SidRewriter(SidMap())
        return SidRewriter(SidMap(sids={Sid(old.sid).text: Sid(new.sid).text}))

    def _plan_manager(self, sids: SidRewriter) -> None:
        manager, existing = self.servers.manager, self.servers.existing
        new_values = self._rewrite_descriptor(manager, sids)
        if existing is not None:
            new_values |= {name: tuple(existing.all(name)) for name in OF_INSTALLATION}
        elif manager.all(_KEYS):
            new_values[_KEYS] = ()
            self.notes.append(
                f"the public keys of {self.servers.old.name} are removed, since {self.servers.new.name} "
                f"lacks the private keys: messages can be encrypted for it when it has written its own"
            )
        self._write(_AFTER_MOVE, self._modify(manager, MANAGER_CLASS, new_values), row=1)

    def _plan_queues(self, sids: SidRewriter) -> None:
        for row, queue in enumerate(self.servers.queues, 1):
            operation = self._modify(queue, QUEUE_CLASS, self._rewrite_descriptor(queue, sids))
            operation = replace(operation, table=QUEUE_TABLE, source_row=row)
            self._queues.write_operation(_AFTER_MOVE, operation)
            self._queues.done.counts[operation.action] += 1

    def _rewrite_descriptor(self, entry: Entry, sids: SidRewriter) -> dict[str, tuple[bytes, ...]]:
        image = entry.first(DESCRIPTOR)
        if image is None:
            return {}
        new_image = sids.rewrite_descriptor(image, entry.dn)
        return {} if new_image == image else {DESCRIPTOR: (new_image,)}

    # -- settings objects: Active Directory refuses to move them, and nothing names their GUIDs

    def _plan_settings(self, existing: Entry | None) -> None:
        builder = EntryBuilder(EntryTarget.of(self.session), lambda _guids, _class: {})
        computer = self._move.new.parent.name
        kept_dns: set[DN] = set()
        for settings in self._settings_of(self._move.guid):
            site = settings.name.parent.parent.parent.name
            new_settings = builder.settings_for(self.servers.manager, self._move.guid, site, computer)
            kept_dns.add(new_settings.dn)
            self._put_settings(new_settings, builder.server(site, computer), existing)
            self._delete_settings(settings)
        for settings in [] if existing is None else self._settings_of(read_guid(existing)):
            if settings.name not in kept_dns:
                self._delete_settings(settings)

    def _settings_of(self, owner: UUID) -> list[Entry]:
        owned = Equal(SETTINGS_OWNER, owner.bytes_le)
        entries = find_of_class(self.session, SETTINGS_CLASS, EVERYTHING, owned)
        return sorted(entries, key=lambda entry: entry.dn)

    def _put_settings(self, settings: NewEntry, server: NewEntry, existing: Entry | None) -> None:
        """Add or change the settings object of the new computer in a site."""
        present = self._view.find_at(settings.dn, EVERYTHING)
        if present is None:
            if self._view.find_at(server.dn, ["1.1"]) is None:
                operation = _make_companion(server, EntryRole.CONTAINER, SERVER_CLASS, server.values)
                self._write(_AFTER_MOVE, operation, row=1)
            operation = _make_companion(settings, EntryRole.SETTINGS, SETTINGS_CLASS, settings.values)
            self._write(_SETTINGS, operation, row=1)
            return
        owner = present.first(SETTINGS_OWNER)
        if owner is not None and (existing is None or owner != read_guid(existing).bytes_le):
            raise ConfigError(f"{settings.dn} belongs to another queue manager: delete it first")
        values = {name: raws for name, raws in settings.values.items() if name.lower().startswith("msmq")}
        operation = _make_companion(settings, EntryRole.SETTINGS, SETTINGS_CLASS, values)
        before = {name: tuple(present.all(name)) for name in values}
        self._write(_SETTINGS, replace(operation, action=PlanAction.MODIFY, before=before), row=1)

    def _delete_settings(self, settings: Entry) -> None:
        """Delete a settings object.

        A server object that was made for it, and has nothing else, is deleted, too.
        """
        deleted = plan_deletion(MANAGER_TYPE, settings, SETTINGS_CLASS, EntryRole.SETTINGS)
        self._write(CHILDREN, deleted, row=0)
        server = self._view.find_at(settings.name.parent, EVERYTHING)
        if server is None or MADE_BY_US.encode() not in server.all("description"):
            return
        below = self.session.find(server.name, Present("objectClass"), ["1.1"], SearchScope.ONE_LEVEL)
        if all(entry.name == settings.name for entry in below):
            deleted = plan_deletion(MANAGER_TYPE, server, SERVER_CLASS, EntryRole.CONTAINER)
            self._write(PARENTS, deleted, row=0)

    # -- references by name

    def _plan_references(self) -> None:
        """Plan the references by DN, where the server does not let them follow."""
        if self.session.profile.follows_renames:
            return
        queues = [entry.dn for entry in self.servers.queues]
        for reference in references.find_by_name(self.session, str(self._move.old), queues):
            entry = reference.entry
            values = {name: move_values([self._move], entry.all(name)) for name in reference.attributes}
            self._write(_AFTER_MOVE, self._modify(entry, reference.ldap_class, values))

    def _plan_aliases(self, old: Computer, new: Computer) -> None:
        """Plan the queue aliases with direct format names of the old computer."""
        hosts = references.hosts_of(self.session, old, new)
        for alias in references.find_aliases(self.session):
            text = (alias.first(ALIAS_FORMAT_NAME) or b"").decode(errors="replace")
            renamed = references.rename_host(text, hosts)
            if renamed is not None:
                values = {ALIAS_FORMAT_NAME: (renamed.encode(),)}
                self._write(_AFTER_MOVE, self._modify(alias, ALIAS_CLASS, values))
            elif references.is_by_address(text):
                self.by_address.append(alias.dn)

    # -- operations

    def _write(self, level: int, operation: PlanOperation, *, row: int | None = None) -> None:
        """Write an operation; it is the next row of Machine if none is given."""
        if row is None:
            row = self._rows = self._rows + 1
        self._machines.write_operation(level, replace(operation, table=MACHINE_TABLE, source_row=row))

    def _modify(
        self, entry: Entry, ldap_class: str, new_values: Mapping[str, Sequence[bytes]]
    ) -> PlanOperation:
        """Return the change of an entry, at its DN after the move.

        If nothing is to be changed, the entry is only read back.
        """
        guid = guid_of(entry.attributes)
        old_values: Values = {name: tuple(entry.all(name)) for name in new_values}
        changed = {name: tuple(raws) for name, raws in new_values.items() if tuple(raws) != old_values[name]}
        return PlanOperation(
            type=_TYPES[ldap_class],
            role=EntryRole.OBJECT,
            guid=guid,
            dn=str(self._move.move_dn(entry.name)),
            action=PlanAction.MODIFY if changed else PlanAction.EQUAL,
            ldap_class=ldap_class,
            values=changed,
            before={name: old_values[name] for name in changed},
            same={} if guid is None else {"objectGUID": (GUID.dump(guid),)},
        )


def _make_companion(new_entry: NewEntry, role: EntryRole, ldap_class: str, values: Values) -> PlanOperation:
    """Return the operation that adds an entry that a queue manager needs."""
    return PlanOperation(
        type=MANAGER_TYPE,
        role=role,
        guid=None,
        dn=str(new_entry.dn),
        action=PlanAction.ADD,
        ldap_class=ldap_class,
        values=values,
    )
