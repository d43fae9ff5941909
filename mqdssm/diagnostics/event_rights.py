"""Rights of a user for events on Active Directory.

There is one finding for each element, with all its events.
Nothing is tried: domain controllers compute what a user may do (allowedChildClassesEffective,
allowedAttributesEffective, sDRightsEffective; [MS-ADTS] 3.1.1.4.5). What they do not compute, reading,
deleting and extended rights, is found out from the access control lists.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from uuid import UUID

from mqdssm.diagnostics.findings import CheckedDirectory, CheckFinding, make_ok, make_warning
from mqdssm.diagnostics.sample_objects import Samples
from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import Equal, any_of
from mqdssm.directory.session import Session
from mqdssm.errors import DecodeError, ObjectNotFound
from mqdssm.model.dn import DN
from mqdssm.tables import TABLES, rights
from mqdssm.tables.access import is_granted
from mqdssm.tables.dependent_objects import COPIED, SETTINGS_CLASS
from mqdssm.tables.rights import Event, Need
from mqdssm.tables.row import Access, Holder
from mqdssm.tables.schema_compare import list_needed_attributes
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.sid import Sid

NAME: Final = "event rights"
ADVICE: Final = "let an administrator of the domain grant it (docs/tables/rights.md)"
CHILDREN: Final = "allowedChildClassesEffective"
ATTRIBUTES: Final = "allowedAttributesEffective"
PARTS: Final = "sDRightsEffective"
_DESCRIPTOR: Final = "nTSecurityDescriptor"
_DACL: Final = 4  # of sDRightsEffective
_WIDELY_KNOWN: Final = ("S-1-1-0", "S-1-5-11")  # everyone, authenticated users: in every token
_SELF: Final = "S-1-5-10"
_NAMES_SHOWN_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result for one right, or for several of which one is enough.

    Attributes:
        needs: the rows of the table.
        missing: what would have to be granted, empty if nothing; None: it cannot be told.
        looked_at: the objects it was looked up on.
        unseen: classes of which no object is to be seen, though the right is needed on one.
    """

    needs: tuple[Need, ...]
    missing: str | None
    looked_at: tuple[DN, ...] = ()
    unseen: tuple[str, ...] = ()

    @property
    def event_text(self) -> str:
        """Event that needs the right, as ``write if Security is given``."""
        need = self.needs[0]
        return f"{need.event.value} if {need.condition}" if need.condition else need.event.value


class RightsChecker:
    """Checks rights; each object is read once."""

    def __init__(self, session: Session, samples: Samples) -> None:
        self._session = session
        self._samples = samples
        self._entries: dict[DN, Entry | None] = {}

    def judge_event(self, element: str, event: Event) -> Iterator[Verdict]:
        """Yield the result for each right that an event needs, in the order of the table."""
        needs = rights.needs_of(element, event)
        seen: set[str] = set()
        for need in needs:
            if not need.either:
                yield self._judge_needs((need,))
            elif need.either not in seen:
                seen.add(need.either)
                yield self._judge_needs(tuple(other for other in needs if other.either == need.either))

    def _judge_needs(self, needs: tuple[Need, ...]) -> Verdict:
        words, looked_at, unseen, unknown = [], [], [], False
        for need in needs:
            dn = self._samples.of_class(need.holder)
            if dn is None:
                unseen.append(need.holder)
                continue
            looked_at.append(dn)
            missing = self._find_missing(need, dn)
            if missing == "":
                return Verdict(needs, "", (dn,))
            unknown |= missing is None
            words.append(f"{missing} on {dn}")
        if unseen or unknown:
            return Verdict(needs, None, tuple(looked_at), tuple(unseen))
        return Verdict(needs, ", or ".join(words), tuple(looked_at))

    def _find_missing(self, need: Need, dn: DN) -> str | None:
        """Return the right of a row if it is missing on an object.

        Returns an empty text if it is granted, None if that is unknown.
        """
        entry = self._read_entry(dn)
        if entry is None:  # hidden
            return rights.READ.name
        if need.right == rights.CREATE_CHILD:
            is_allowed = need.object_class.lower() in _decode_words(entry, CHILDREN)
            return "" if is_allowed else f"{need.right.name} for {need.object_class}"
        if need.right == rights.WRITE_DAC:
            return "" if int(entry.first(PARTS) or b"0") & _DACL else need.right.name
        if need.right == rights.WRITE:
            allowed = _decode_words(entry, ATTRIBUTES)
            return _describe_incomplete(need, [a for a in list_written(need) if a.lower() not in allowed])
        descriptor = descriptor_of(entry)
        if need.right == rights.READ:
            return self._find_missing_to_read(need, entry, descriptor)
        if descriptor is None:
            return None
        kinds = {need.object_type} if need.object_type else set[UUID]()
        granted = self._is_right_granted(entry, descriptor, need.right.decides, kinds)
        for_class = f" for {need.object_class}" if need.object_class else ""
        return "" if granted else f"{need.right.name}{for_class}"

    def _find_missing_to_read(
        self, need: Need, entry: Entry, descriptor: SecurityDescriptor | None
    ) -> str | None:
        if descriptor is None:
            return f"{need.right.name} (its descriptor is not shown)"
        absent = [
            name
            for name in read_by(need)
            if not self._is_right_granted(
                entry, descriptor, need.right.decides, self._property_guids.get(name.lower(), ())
            )
        ]
        return _describe_incomplete(need, absent)

    def _is_right_granted(
        self, entry: Entry, descriptor: SecurityDescriptor, right: int, kinds: Collection[UUID]
    ) -> bool:

        raw_sid = entry.first("objectSid")
        is_self = raw_sid is not None and str(Sid.from_bytes(raw_sid)) == self._session.bound_sid()
        return is_granted(
            descriptor, self.token | {Sid.parse(_SELF)} if is_self else self.token, right, kinds
        )

    # -- the directory

    @cached_property
    def token(self) -> frozenset[Sid]:
        """SIDs of the user and of all groups."""
        return token_of(self._session.get("", ["tokenGroups"]).all("tokenGroups"))

    def read_descriptor(self, dn: DN) -> SecurityDescriptor | None:
        """Return the descriptor of an object; None if it is not readable."""
        entry = self._read_entry(dn)
        return None if entry is None else descriptor_of(entry)

    def _read_entry(self, dn: DN) -> Entry | None:
        if dn not in self._entries:
            attributes = [CHILDREN, ATTRIBUTES, PARTS, _DESCRIPTOR, "objectSid"]
            try:
                self._entries[dn] = self._session.get(dn, attributes)
            except ObjectNotFound:
                self._entries[dn] = None
        return self._entries[dn]

    @cached_property
    def _property_guids(self) -> Mapping[str, frozenset[UUID]]:
        """Map of lower-case attributes to their GUIDs in ACEs.

        The GUIDs are those of the attribute and of its property set.
        """
        names = sorted({name for need in rights.NEEDS for name in read_by(need)})
        search_filter = any_of(*(Equal("lDAPDisplayName", name.encode()) for name in names))
        columns = ["lDAPDisplayName", "schemaIDGUID", "attributeSecurityGUID"]
        by_name: dict[str, frozenset[UUID]] = {}
        try:
            for entry in self._session.find(self._session.naming.schema, search_filter, columns):
                guids = (entry.first(column) for column in columns[1:])
                name = (entry.first(columns[0]) or b"").decode().lower()
                by_name[name] = frozenset(UUID(bytes_le=guid) for guid in guids if guid)
        except ObjectNotFound:
            return {}  # hidden: only rights on all attributes count
        return by_name


def token_of(groups: Iterable[bytes]) -> frozenset[Sid]:
    """Return a user's token.

    Args:
        groups: tokenGroups of the root DSE, which may leave out what is in every token.
    """
    return frozenset((*map(Sid.from_bytes, groups), *map(Sid.parse, _WIDELY_KNOWN)))


def descriptor_of(entry: Entry) -> SecurityDescriptor | None:
    """Return the descriptor of an entry; None if it is not readable or damaged."""
    image = entry.first(_DESCRIPTOR)
    try:
        return None if image is None else SecurityDescriptor.from_bytes(image)
    except DecodeError:
        return None


def read_by(need: Need) -> tuple[str, ...]:
    """Return the attributes that events read of a class, without the descriptor."""
    names = list_needed_attributes().get(need.holder, frozenset())
    return tuple(sorted(name for name in names if name != _DESCRIPTOR))


def list_written(need: Need) -> tuple[str, ...]:
    """Return all attributes that a row's event can write to objects of its class."""
    if need.holder == SETTINGS_CLASS:
        return tuple(copied.settings for copied in COPIED if copied.configuration != "objectGUID")
    event = Access.CREATE if need.event is Event.CREATE else Access.WRITE
    table = next(table for table in TABLES.values() if table.name == need.element)
    holder = Holder.OWN if need.holder == table.ldap_class else Holder.COMPUTER
    rows = (row for row in table.rows if event in row.access and row.holder is holder)
    names = dict.fromkeys(name for row in rows for name in row.written or row.ldap)
    return tuple(name for name in names if name != _DESCRIPTOR)


def _decode_words(entry: Entry, attribute: str) -> set[str]:
    return {value.decode().lower() for value in entry.all(attribute)}


def _describe_incomplete(need: Need, absent: list[str]) -> str:
    if not absent:
        return ""
    examples = ", ".join(absent[:_NAMES_SHOWN_MAX])
    more = f" and {len(absent) - _NAMES_SHOWN_MAX} more" if len(absent) > _NAMES_SHOWN_MAX else ""
    return f"{need.right.name} (for {examples}{more})"


def check_events(checked: CheckedDirectory) -> Iterator[CheckFinding]:
    """Report the events that will work, and the rights missing for the others.

    There is one finding for each element.
    """
    session = checked.session
    judge = RightsChecker(session, Samples(session, checked.at))
    for element in dict.fromkeys(need.element for need in rights.NEEDS):
        judged = {event: list(judge.judge_event(element, event)) for event in rights.Event}
        for event, verdicts in judged.items():
            lacking = [verdict for verdict in verdicts if verdict.missing]
            if lacking:
                yield make_warning(NAME, f"{element}: {_describe_lacking(event, verdicts, lacking)}", ADVICE)
        fine = {event: verdicts for event, verdicts in judged.items() if not _is_lacking(verdicts)}
        if any(fine.values()):
            yield make_ok(NAME, f"{element}: {'; '.join(_describe_events(fine))}")
    yield _check_identifiers(session, judge)


def _is_lacking(verdicts: list[Verdict]) -> bool:
    return any(verdict.missing for verdict in verdicts)


def _describe_lacking(event: rights.Event, verdicts: list[Verdict], lacking: list[Verdict]) -> str:
    """Describe one event for which rights are missing."""
    conditions = dict.fromkeys(verdict.needs[0].condition for verdict in lacking)
    parts = []
    for condition in conditions:
        words = ", ".join(
            str(verdict.missing) for verdict in lacking if verdict.needs[0].condition == condition
        )
        parts.append(f"if {condition}: {words}" if condition else words)
    start = "may not" if "" in conditions else "may" if _is_allowed(verdicts) else "perhaps may"
    return f"{start} {event.value}; missing: {'; '.join(parts)}"


def _is_allowed(verdicts: list[Verdict]) -> bool:
    """Return True if the event works.

    Conditions of the table that need more rights are not considered.
    """
    return all(verdict.missing == "" for verdict in verdicts if not verdict.needs[0].condition)


def _describe_events(judged: Mapping[rights.Event, list[Verdict]]) -> Iterator[str]:
    """Describe the allowed events, and those that no object could be found for.

    The checked objects are named.
    """
    may = [event.value for event, verdicts in judged.items() if verdicts and _is_allowed(verdicts)]
    every = [verdict for verdicts in judged.values() for verdict in verdicts]
    where = dict.fromkeys(str(dn) for verdict in every if verdict.missing == "" for dn in verdict.looked_at)
    if may:
        yield f"may {', '.join(may)} (by the rights on {'; '.join(where)})"
    untold = [verdict for verdict in every if verdict.missing is None]
    for unseen in dict.fromkeys(verdict.unseen for verdict in untold):
        subjects = dict.fromkeys(verdict.event_text for verdict in untold if verdict.unseen == unseen)
        why = f"no {' or '.join(unseen)}" if unseen else "no descriptor"
        yield f"{why} to be seen: cannot tell of {', '.join(subjects)}"


def _check_identifiers(session: Session, judge: RightsChecker) -> CheckFinding:
    """Check that new objects can be added with their GUID.

    See [MS-ADTS] 3.1.1.5.2.2 and decision M37.
    """
    name, missing = "identifiers", []
    if not session.profile.keeps_guids(session):
        missing.append("fSpecifyGUIDOnAdd is not set (the 11th character of dSHeuristics is not 1)")
    for dn in dict.fromkeys((session.naming.root, session.naming.configuration)):
        descriptor = judge.read_descriptor(dn)
        if descriptor is None:
            missing.append(f"the descriptor of {dn} is not shown, so the right Add-GUID is not known")
        elif not is_granted(descriptor, judge.token, rights.CONTROL.decides, {rights.ADD_GUID}):
            missing.append(f"the right Add-GUID ({rights.ADD_GUID}) on {dn}")
    if not missing:
        return make_ok(
            name, "new objects may bring their GUID along, if this is a domain controller of Windows"
        )
    words = "new objects get a GUID of the domain controller's; missing to bring one along"
    return make_ok(
        name, f"{words}: {'; '.join(missing)}; queues and queue managers remember theirs in mSMQOwnerID"
    )
