"""Comparison of a declaration with a directory, and the resulting plan.

The plan has the form of a migration (`mqdssm.pipeline.migrate.plan_file`): rows are the declared objects,
in the order of the declaration.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from mqdssm.directory.entries import Entry
from mqdssm.directory.requests import SearchScope
from mqdssm.errors import DecodeError, MappingError, ObjectNotFound
from mqdssm.events.encode import DESCRIPTOR, Values, values_of
from mqdssm.events.entry_builder import EntryBuilder, EntryTarget
from mqdssm.events.new_entry import NewEntry
from mqdssm.events.object_names import check_new_name
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue, QueueManager, Site
from mqdssm.model.queuenames import list_rdn_candidates, rdn_of
from mqdssm.pipeline.diff.fields import ObjectDifference, ObjectDifferenceKind
from mqdssm.pipeline.migrate.candidates import reason_of
from mqdssm.pipeline.migrate.outcome import OutcomeWriter, PlanSummary
from mqdssm.pipeline.migrate.plan_file import (
    CHILDREN,
    EntryRole,
    MigrationPlan,
    PlanAction,
    PlanOperation,
    PlanOptions,
    TableCounts,
    plan_deletion,
)
from mqdssm.pipeline.migrate.planning import target_of
from mqdssm.pipeline.migrate.shared_lookups import Computer
from mqdssm.pipeline.migrate.target import (
    EVERYTHING,
    TargetView,
    find_accounts,
    find_computers,
    read_domain_sid,
)
from mqdssm.pipeline.sync.declaration import (
    SECURITY,
    Declaration,
    DeclaredMachine,
    DeclaredObject,
    DeclaredQueue,
)
from mqdssm.pipeline.sync.rights import RightsForm
from mqdssm.tables import TABLES, compute, places
from mqdssm.tables.equality import find_differences
from mqdssm.tables.row import Access
from mqdssm.wire.sid import Sid

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

QUEUE_CLASS: Final = TABLES[Queue].ldap_class
TABLE_NAMES: Final[Mapping[type[DirectoryObject], str]] = {
    Site: "Site",
    QueueManager: "Machine",
    Queue: "Queue",
}
TYPE_NAMES: Final[Mapping[type[DirectoryObject], str]] = {
    Site: "site",
    QueueManager: "queue-manager",
    Queue: "queue",
}
_LEVELS: Final[Mapping[type[DirectoryObject], int]] = {Site: 1, QueueManager: 2, Queue: 3}
_STORED: Final = Access.CREATE | Access.WRITE
PROBLEMS_TOLD: Final = 10


@dataclass(slots=True)
class Compared:
    """Result of a comparison.

    Attributes:
        differences: between the declaration (A) and the directory (B).
        problems: what the directory lacks for the declaration, or cannot do.
        plan: the plan; written to its folder.
    """

    differences: tuple[ObjectDifference, ...]
    problems: tuple[str, ...]
    plan: MigrationPlan


@dataclass(frozen=True, slots=True)
class _PlacedObject:
    """Declared object at its place.

    Attributes:
        declared: the object.
        element: the object as an element of the model.
        dn: where it is, or will be.
        computer: its computer; None for a site.
    """

    declared: DeclaredObject
    element: DirectoryObject
    dn: DN
    computer: Computer | None = None

    @property
    def name(self) -> str:
        """Name of the object for people."""
        return str(self.element.pathname) if isinstance(self.element, Queue) else self.declared.name


@dataclass
class SyncPlanner:
    """Compares a declaration with a directory, and writes the plan.

    Attributes:
        session: to the directory.
        declaration: the declaration.
        folder: of the plan, prepared.
        prune: delete queues that are not declared, of machines with declared queues.
        allow_deletes: how many objects may be deleted.
    """

    session: "Session"
    declaration: Declaration
    folder: Path
    prune: bool = False
    allow_deletes: int = 0
    _view: TargetView = field(init=False)
    _builder: EntryBuilder = field(init=False)
    _sids: dict[str, Sid] = field(init=False, default_factory=dict)
    _domain: Sid | None = field(init=False, default=None)
    _differences: list[ObjectDifference] = field(init=False, default_factory=list)
    _problems: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._view = TargetView(self.session)
        self._builder = EntryBuilder(EntryTarget.of(self.session), lambda _guids, _class: {})

    def run(self) -> Compared:
        """Compare, and write the plan.

        Raises:
            DirectoryError: the directory cannot be asked.
            OSError: the plan cannot be written.
        """
        self._resolve_accounts()
        summary = PlanSummary()
        sites = [
            _PlacedObject(site, site.make_element(), self._build_site_dn(site.name))
            for site in self.declaration.sites
        ]
        machines = list(self._place_machines())
        queues = self._as_stored([queue for machine in machines for queue in self._place_queues(machine)])
        objects: Mapping[type[DirectoryObject], list[_PlacedObject]]
        objects = {Site: sites, QueueManager: machines, Queue: queues}
        tables: dict[str, TableCounts] = {}
        for number, element in enumerate(objects):
            writer = OutcomeWriter(self.folder, TABLE_NAMES[element], number)
            self._compare(element, objects[element], writer)
            if element is Queue and self.prune:
                self._delete_others(machines, queues, writer)
            done = writer.close()
            summary.add([done])
            if objects[element] or done.counts["deleted"]:
                tables[done.table] = _make_counts(element, done.counts)
        deletes = [difference.kind for difference in self._differences].count(ObjectDifferenceKind.EXTRA)
        plan = self._plan(summary, tables, deletes)
        plan.write(self.folder)
        return Compared(tuple(self._differences), tuple(self._problems), plan)

    def _plan(self, summary: PlanSummary, tables: Mapping[str, TableCounts], deletes: int) -> MigrationPlan:
        refused = None
        if deletes > self.allow_deletes:
            refused = (
                f"{deletes} objects would be deleted, {self.allow_deletes} are allowed (--allow-deletes)"
            )
        if self._problems:
            more = len(self._problems) - PROBLEMS_TOLD
            refused = "; ".join(self._problems[:PROBLEMS_TOLD] + ([f"and {more} more"] if more > 0 else []))
        return MigrationPlan(
            made=datetime.now(UTC).replace(microsecond=0),
            source=self.declaration.source or "declaration",
            target=target_of(self.session),
            options=PlanOptions(on_conflict="update", allow_deletes=self.allow_deletes),
            tables=tables,
            operations=summary.operations,
            deletes={TABLE_NAMES[Queue]: deletes} if deletes else {},
            levels=summary.levels,
            equal=summary.equal,
            refused=refused,
            engine="local",
        )

    # -- places

    def _resolve_accounts(self) -> None:
        rights = [
            declared.rights for declared in self.declaration.list_objects() if declared.rights is not None
        ]
        names = {name for some in rights for name in some.list_accounts()}
        if names:
            self._sids = {name: Sid(sid) for name, sid in find_accounts(self.session, names).items()}
        if any(some.sddl is not None for some in rights):
            self._domain = read_domain_sid(self.session)

    def _build_site_dn(self, name: str) -> DN:
        return places.site_dn(self._view.forest_root, name)

    def _place_machines(self) -> Iterator[_PlacedObject]:
        key = self.session.profile.name_key
        names = {key(machine.name): machine.name for machine in self.declaration.machines}
        computers = find_computers(self.session, names) if names else {}
        for machine in self.declaration.machines:
            computer = computers.get(key(machine.name))
            if computer is None:
                self._note_problem(machine, f"there is no computer {machine.name}")
            elif computer.problem is not None:
                self._note_problem(machine, computer.problem)
            else:
                dn = places.queue_manager_of(DN.parse(computer.dn))
                yield _PlacedObject(machine, machine.make_element(), dn, computer)

    def _place_queues(self, machine: _PlacedObject) -> Iterator[_PlacedObject]:
        declared = machine.declared
        if not isinstance(declared, DeclaredMachine):
            return
        for queue in declared.queues or ():
            dn = machine.dn.child("CN", rdn_of(queue.name)[0])
            yield _PlacedObject(queue, queue.make_element(declared.name), dn, machine.computer)

    def _as_stored(self, queues: Sequence[_PlacedObject]) -> list[_PlacedObject]:
        """Return the queues at the DNs where they are stored.

        A long name may be stored in the raw form (decision M7).
        """
        others = {
            queue.dn: queue.dn.parent.child("CN", raw.cn)
            for queue in queues
            for raw in list_rdn_candidates(queue.declared.name)[1:]
        }
        names = [str(dn) for pair in others.items() for dn in pair]
        entries = self._view.by_dn(names, QUEUE_CLASS, ()) if names else {}
        moved = {
            usual: raw
            for usual, raw in others.items()
            if usual.normalized not in entries and raw.normalized in entries
        }
        return [replace(queue, dn=moved.get(queue.dn, queue.dn)) for queue in queues]

    def _note_problem(self, declared: DeclaredObject, words: str) -> None:
        self._problems.append(f"line {declared.line}: {words}" if declared.line else words)

    # -- comparison

    def _compare(
        self, element: type[DirectoryObject], objects: Sequence[_PlacedObject], writer: OutcomeWriter
    ) -> None:
        """Write the operations of the declared objects of a type."""
        table = TABLES[element]
        names = sorted(
            {name for row in table.rows if row.access & _STORED for name in (*row.ldap, *row.written)}
        )
        attributes = [name for name in names if name != "distinguishedName"]
        entries = (
            self._view.by_dn([str(placed.dn) for placed in objects], table.ldap_class, attributes)
            if objects
            else {}
        )
        for number, placed in enumerate(objects, 1):
            writer.done.counts["read"] += 1
            try:
                operation = self._make_operation(placed, entries.get(placed.dn.normalized))
            except ValueError as error:
                self._note_problem(placed.declared, f"{placed.name}: {reason_of(error)}")
                continue
            if operation is None:
                continue
            writer.done.counts[operation.action] += 1
            table_name = TABLE_NAMES[element]
            writer.write_operation(_LEVELS[element], replace(operation, table=table_name, source_row=number))

    def _make_operation(self, placed: _PlacedObject, entry: Entry | None) -> PlanOperation | None:
        """Return the operation for a declared object; None if the plan is impossible.

        Raises:
            ValueError: the object cannot be made or changed as it is declared.
        """
        if entry is not None:
            return self._make_change(placed, entry)
        if isinstance(placed.declared, DeclaredMachine):
            name = placed.declared.name
            words = f"the computer {name} has no queue manager: the installation of MSMQ makes it"
            self._note_problem(placed.declared, words)
            return None
        return self._make_addition(placed)

    def _make_addition(self, placed: _PlacedObject) -> PlanOperation:
        element, declared = placed.element.model_copy(), placed.declared
        check_new_name(element)
        if self.session.keeps_guids:
            element.identifier = uuid4()
        new_entry = self._make_entry(element, placed)
        form = RightsForm(self.session.profile, new_entry.ldap_class)
        document = self._make_document(placed.element)
        if declared.rights is not None:
            wished = declared.rights.build_descriptor(declared.access, self._sids, self._domain)
            default = next(iter(new_entry.values.get(DESCRIPTOR, ())), None)
            image = form.build_stored(wished, default)
            new_entry.values[DESCRIPTOR] = (image,)
            document |= self._make_document(_with_security(type(element), form.build_shown(image)))
        self._differences.append(
            ObjectDifference(
                TYPE_NAMES[type(element)],
                ObjectDifferenceKind.MISSING,
                str(placed.dn),
                placed.name,
                (),
                document,
                None,
            )
        )
        return PlanOperation(
            type=TYPE_NAMES[type(element)],
            role=EntryRole.OBJECT,
            guid=new_entry.guid,
            dn=str(new_entry.dn),
            action=PlanAction.ADD,
            ldap_class=new_entry.ldap_class,
            values=new_entry.values,
        )

    def _make_entry(self, element: DirectoryObject, placed: _PlacedObject) -> NewEntry:
        if isinstance(element, Site):
            return self._builder.site(element)
        if not isinstance(element, Queue) or placed.computer is None:
            raise TypeError(f"{element.element_name} objects are not made")
        sid = None if placed.computer.sid is None else Sid(placed.computer.sid)
        return self._builder.queue(element, placed.dn.parent.parent, sid)

    def _make_change(self, placed: _PlacedObject, entry: Entry) -> PlanOperation:
        element, declared = placed.element, placed.declared
        table = TABLES[type(element)]
        values: Values = values_of(table, element, declared.names, _STORED, lambda _guids, _class: {})
        form = RightsForm(self.session.profile, table.ldap_class)
        if declared.rights is not None:
            wished = declared.rights.build_descriptor(declared.access, self._sids, self._domain)
            values[DESCRIPTOR] = (form.build_stored(wished, entry.first(DESCRIPTOR)),)
        hides = self.session.profile.hides_sacls
        differs = find_differences(values, entry.attributes, table.ldap_class, hides_sacls=hides)
        rows = {name: row for row in table.rows for name in row.ldap[:1]}
        fixed = [rows[name].adm for name in differs if not rows[name].access & Access.WRITE]
        if fixed:
            raise MappingError(f"{', '.join(fixed)} cannot be changed: delete the object and make it again")
        if differs:
            self._differences.append(self._make_difference(placed, entry, differs, values, form))
        return PlanOperation(
            type=TYPE_NAMES[type(element)],
            role=EntryRole.OBJECT,
            guid=None,
            dn=entry.dn,
            action=PlanAction.MODIFY if differs else PlanAction.EQUAL,
            ldap_class=table.ldap_class,
            values={name: values[name] for name in differs},
            before={name: tuple(entry.all(name)) for name in differs},
            same={name: raws for name, raws in values.items() if name not in differs},
        )

    def _make_difference(
        self, placed: _PlacedObject, entry: Entry, differs: Sequence[str], values: Values, form: RightsForm
    ) -> ObjectDifference:
        element = type(placed.element)
        rows = {row.ldap[0]: row for row in TABLES[element].rows}
        attributes = tuple(rows[name].adm for name in differs)
        declared = self._make_document(placed.element)
        if DESCRIPTOR in differs:
            declared |= self._make_document(_with_security(element, form.build_shown(values[DESCRIPTOR][0])))
        present = self._make_document(self._read_present(element, entry, differs, form))
        return ObjectDifference(
            TYPE_NAMES[element],
            ObjectDifferenceKind.DIFFERENT,
            entry.dn,
            placed.name,
            attributes,
            {name: declared[name] for name in attributes},
            {name: present.get(name) for name in attributes},
        )

    def _read_present(
        self, element: type[DirectoryObject], entry: Entry, names: Iterable[str], form: RightsForm
    ) -> DirectoryObject:
        """Return present values as an element; a damaged value is left out."""
        rows = {row.ldap[0]: row for row in TABLES[element].rows}
        values = {}
        for name in names:
            raws, row = entry.all(name), rows[name]
            try:
                if raws and row.adm == SECURITY:
                    values[row.field] = form.build_shown(raws[0])
                elif raws:
                    values[row.field] = row.decode(raws)
                elif row.has_default:
                    values[row.field] = row.default
            except (MappingError, DecodeError):
                continue
        return element.from_directory(values)

    @staticmethod
    def _make_document(element: DirectoryObject) -> dict[str, object]:
        document: dict[str, object] = json.loads(element.to_json(memory=False))
        return document

    # -- objects that are not declared

    def _delete_others(
        self, machines: Iterable[_PlacedObject], queues: Iterable[_PlacedObject], writer: OutcomeWriter
    ) -> None:
        """Write the deletions of the other queues of machines with declared queues."""
        declared = {queue.dn.normalized for queue in queues}
        for machine in machines:
            if not isinstance(machine.declared, DeclaredMachine) or machine.declared.queues is None:
                continue
            for entry in self._find_queues_below(machine.dn):
                if entry.name.normalized not in declared:
                    operation = plan_deletion(TYPE_NAMES[Queue], entry, QUEUE_CLASS, EntryRole.OBJECT)
                    writer.write_operation(CHILDREN, replace(operation, table=TABLE_NAMES[Queue]))
                    writer.done.counts["deleted"] += 1
                    self._differences.append(self._make_extra(entry))

    def _find_queues_below(self, manager: DN) -> Iterator[Entry]:
        """Yield the queues of a queue manager; none if it does not exist."""
        of_class = self.session.profile.build_class_filter(QUEUE_CLASS)
        try:
            yield from self.session.find(manager, of_class, EVERYTHING, SearchScope.ONE_LEVEL)
        except ObjectNotFound:
            return

    def _make_extra(self, entry: Entry) -> ObjectDifference:
        """Return the difference for a queue that is not declared."""
        place = compute.read_queue_place(entry.dn)
        extension = entry.first("mSMQQueueNameExt")
        text = None if extension is None else extension.decode(errors="replace")
        name = compute.build_pathname(place.computer, place.cn, text)
        form = RightsForm(self.session.profile, QUEUE_CLASS)
        stored = [row.ldap[0] for row in TABLES[Queue].rows if row.adm in DeclaredQueue.allowed]
        present_names = [attribute for attribute in stored if entry.all(attribute)]
        present = {
            "Pathname": name,
            **self._make_document(self._read_present(Queue, entry, present_names, form)),
        }
        return ObjectDifference(
            TYPE_NAMES[Queue], ObjectDifferenceKind.EXTRA, entry.dn, name, (), None, present
        )


def _with_security(element: type[DirectoryObject], image: bytes) -> DirectoryObject:
    """Return an element with nothing but a descriptor, for its JSON form."""
    return element.from_directory({"security": image})


def _make_counts(element: type[DirectoryObject], counts: Mapping[str, int]) -> TableCounts:
    return TableCounts(
        type=TYPE_NAMES[element],
        read=counts.get("read", 0),
        add=counts.get(PlanAction.ADD, 0),
        modify=counts.get(PlanAction.MODIFY, 0),
        equal=counts.get(PlanAction.EQUAL, 0),
    )
