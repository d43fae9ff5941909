"""Conversion of rows into changes of a directory.

Entries follow the adapter's rules, and are compared with stored ones.
An object is its own entry and, for queue managers, further objects (mSMQSettings, the keys of the computer),
which are written after the entry itself is correct.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pydantic import ValidationError

from mqdssm.directory.loading.items import Action, Effect, Item, Values
from mqdssm.directory.requests import make_entry
from mqdssm.errors import MqdssmError, ObjectNotFound
from mqdssm.events.entry_builder import EntryTarget
from mqdssm.events.object_names import check_new_name
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue, QueueManager, Site, User
from mqdssm.model.fieldtypes import describe_problems
from mqdssm.pipeline.frames.columns import ATTRIBUTES, DN_COLUMN, OBJECT_CLASS, FrameType, element_of
from mqdssm.pipeline.migrate.candidates import Candidate, Candidates, reason_of
from mqdssm.pipeline.migrate.shared_lookups import Computer, SharedLookups
from mqdssm.pipeline.migrate.target import TargetView, find_computers, read_sites
from mqdssm.spark.options import OnConflict
from mqdssm.spark.writing.outcomes import SettledRow
from mqdssm.tables import TABLES
from mqdssm.tables.equality import find_differences
from mqdssm.tables.references import REFERENCES
from mqdssm.tables.schema import MANAGER_CLASS

if TYPE_CHECKING:
    from mqdssm.directory.entries import Entry
    from mqdssm.directory.session import Session

DESCRIPTOR: Final = "nTSecurityDescriptor"


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row to be written.

    Attributes:
        item: its own entry.
        guid: GUID of its object in the row.
        beside: changes that follow after it is done.
        references: references to objects that do not exist yet: LDAP attribute -> GUIDs.
    """

    item: Item
    guid: str | None = None
    beside: tuple[Item, ...] = ()
    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Made = SettledRow | RowChange


class ChangeMaker:
    """Maker of changes from rows.

    Args:
        session: to the directory.
        frame: type of the rows.
        on_conflict: what to do with objects that exist and differ.
    """

    def __init__(self, session: "Session", frame: FrameType, on_conflict: OnConflict) -> None:
        self._session = session
        self._frame = frame
        self._update = on_conflict == "update"
        self._view = TargetView(session)
        self._target = EntryTarget.of(session)

    def make(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[Made]:
        """Make the changes for some rows.

        Args:
            rows: number and values of each; some hundreds, which are looked up together.

        Raises:
            DirectoryError: a look-up failed.
        """
        if self._frame.ldap_class is None:
            yield from (self._make_raw_change(number, row) for number, row in rows)
            return
        elements: list[tuple[int, DirectoryObject]] = []
        for number, row in rows:
            try:
                elements.append((number, element_of(self._frame, row)))
            except (MqdssmError, ValueError) as error:
                yield SettledRow(
                    number, Effect.REJECTED, guid=row.get("Identifier"), text=_format_error(error)
                )
        yield from self._make_all(elements)

    @staticmethod
    def _make_raw_change(number: int, row: Mapping[str, Any]) -> Made:
        dn, classes = row.get(DN_COLUMN.name), row.get(OBJECT_CLASS.name)
        if not dn or not classes:
            return SettledRow(number, Effect.REJECTED, dn=dn or "", text="it has no dn, or no objectClass")
        attributes = {name: tuple(raws) for name, raws in row.get(ATTRIBUTES.name) or () if raws}
        attributes = make_entry(classes, attributes)
        return RowChange(Item(row=number, action=Action.ADD, dn=dn, attributes=attributes))

    # -- elements

    def _make_all(self, elements: Sequence[tuple[int, DirectoryObject]]) -> Iterator[Made]:
        makers = Candidates(
            self._view,
            self._target,
            self._look_up_shared([element for _, element in elements]),
            create_computers=False,
            domain="",
        )
        makers.learn_users(
            [
                element.security_identifier
                for _, element in elements
                if isinstance(element, User) and element.security_identifier
            ]
        )
        makers.learn_managers([name for _, element in elements if (name := _find_computer_name(element))])
        makers.learn_managers_there(element for _, element in elements)
        candidates: list[tuple[int, DirectoryObject, list[Candidate]]] = []
        for number, element in elements:
            try:
                candidates.append((number, element, makers.of(element)))
            except (MqdssmError, ValueError) as error:
                yield SettledRow(
                    number,
                    Effect.REJECTED,
                    guid=_read_guid(element),
                    text=self._explain_error(element, error),
                )
        existing_entries = self._read_existing([group[0] for _, _, group in candidates])
        for number, element, row_candidates in candidates:
            entry = existing_entries.get(row_candidates[0].new_entry.dn.normalized)
            try:
                if entry is None:
                    check_new_name(element)
            except (MqdssmError, ValueError) as error:
                yield SettledRow(number, Effect.REJECTED, guid=_read_guid(element), text=reason_of(error))
                continue
            yield self._make_one(number, element, row_candidates, entry)

    def _look_up_shared(self, elements: Sequence[DirectoryObject]) -> SharedLookups:
        """Look up the sites, computers and queue managers that these elements need."""
        key = self._target.profile.name_key
        names = {key(name): name for element in elements if (name := _find_computer_name(element))}
        sites = {}
        if any(isinstance(element, QueueManager) for element in elements):
            sites = {site.guid: site for site in read_sites(self._session).values() if site.guid is not None}
        computers = find_computers(self._session, names) if names else {}
        machines = {}
        # by the present GUID, or an earlier one
        existing_entries = self._view.by_guid(_list_managers(elements), MANAGER_CLASS, ())
        for guid, entries in existing_entries.items():
            dn = DN.parse(entries[0].dn).parent
            machines[guid] = name = key(dn.name)
            computers.setdefault(name, Computer(dn.name, str(dn), None, exists=True))
        return SharedLookups(sites=sites, machines=machines, computers=computers)

    def _explain_error(self, element: DirectoryObject, error: Exception) -> str:
        name = _find_computer_name(element)
        if (
            name
            and not isinstance(error, ObjectNotFound)
            and f"no computer named {name}" in str(error).lower()
        ):
            return f"there is no computer named {name}: make its account first"
        return reason_of(error)

    def _read_existing(self, candidates: Sequence[Candidate]) -> "dict[str, Entry]":
        """Return the stored entries of objects that may exist, by DN."""
        entries: dict[str, Entry] = {}
        by_class: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            by_class.setdefault(candidate.new_entry.ldap_class, []).append(candidate)
        for ldap_class, some in by_class.items():
            names = sorted({name for item in some for name in item.new_entry.values})
            entries |= self._view.by_dn([str(item.new_entry.dn) for item in some], ldap_class, names)
        return entries

    def _make_one(
        self,
        number: int,
        element: DirectoryObject,
        candidates: Sequence[Candidate],
        existing_entry: "Entry | None",
    ) -> Made:
        candidate, *other_candidates = candidates
        values = dict(candidate.new_entry.values)
        if existing_entry is not None and not element.is_populated(
            "Security" if DESCRIPTOR in values else "Identifier"
        ):
            values.pop(DESCRIPTOR, None)  # a generated descriptor: the stored one stays
        # a site alone needs no container for servers: the first settings object creates it
        needed = () if isinstance(element, Site) else other_candidates
        beside = tuple(_make_side_change(number, other) for other in needed)
        references = {
            name: tuple(str(guid) for guid in candidate.new_entry.refers[name])
            for name in candidate.new_entry.missing
        } | {name: tuple(guids) for name, guids in candidate.later.items()}
        for name in references:
            values.pop(name, None)
        guid = _read_guid(element)
        if candidate.is_there:
            return self._make_change(number, candidate, values, existing_entry, guid)
        attributes = make_entry((candidate.new_entry.ldap_class,), values)
        return RowChange(_make_item(number, Action.ADD, candidate, attributes), guid, beside, references)

    def _make_change(
        self,
        number: int,
        candidate: Candidate,
        values: Mapping[str, tuple[bytes, ...]],
        existing_entry: "Entry | None",
        guid: str | None,
    ) -> Made:
        """Make the change of an object that is never created, only modified.

        The object is an account or the enterprise.
        """
        dn = str(candidate.new_entry.dn)
        if existing_entry is None:
            return SettledRow(number, Effect.MISSING, dn, guid, "there is no such object")
        new_values = {name: raws for name, raws in values.items() if name != "objectGUID"}
        hides_sacls = self._session.profile.hides_sacls
        differs = find_differences(
            new_values, existing_entry.attributes, candidate.new_entry.ldap_class, hides_sacls=hides_sacls
        )
        against = tuple(name for name in differs if existing_entry.all(name))
        if not differs:
            return SettledRow(number, Effect.EQUAL, dn, guid)
        if against and not self._update:
            text = f"it exists and differs in {', '.join(against)}"
            return SettledRow(number, Effect.CONFLICT, dn, guid, text, against)
        item = _make_item(
            number,
            Action.MODIFY,
            candidate,
            {name: new_values[name] for name in differs},
            before={name: tuple(existing_entry.all(name)) for name in differs},
        )
        return RowChange(item, guid)


def _make_item(
    number: int, action: Action, candidate: Candidate, attributes: Values, *, before: Values | None = None
) -> Item:
    """Return a change of the entry of a candidate."""
    entry = candidate.new_entry
    return Item(
        row=number,
        action=action,
        dn=str(entry.dn),
        attributes=attributes,
        before=before,
        ldap_class=entry.ldap_class,
    )


def _make_side_change(number: int, candidate: Candidate) -> Item:
    """Make the change of an object beside the entry.

    Existing containers may have any form.
    """
    if candidate.is_there:
        return _make_item(number, Action.MODIFY, candidate, candidate.new_entry.values)
    return _make_item(number, Action.ADD, candidate, candidate.new_entry.attributes())


def _find_computer_name(element: DirectoryObject) -> str:
    """Return the name of an element's computer in lower case.

    The name is empty for other elements.
    """
    if isinstance(element, Queue):
        return (element.pathname or "").partition("\\")[0].lower()
    if isinstance(element, QueueManager):
        return (element.computer_name or "").lower()
    return ""


def _list_managers(elements: Sequence[DirectoryObject]) -> list[UUID]:
    """Return the GUIDs of the queue managers to which some elements refer."""
    guids: dict[UUID, None] = {}
    for element in elements:
        for reference in REFERENCES.get(TABLES[type(element)].ldap_class, {}).values():
            if reference.ldap_class == MANAGER_CLASS and element.is_populated(reference.adm):
                guids.update(dict.fromkeys(getattr(element, element.field_name(reference.adm))))
    return list(guids)


def _read_guid(element: DirectoryObject) -> str | None:
    identifier: UUID | None = element.identifier
    return None if identifier is None else str(identifier)


def _format_error(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return describe_problems(error)
    return " ".join(line.strip() for line in str(error).splitlines() if line.strip())
