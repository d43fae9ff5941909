"""Checks of ``mqdssm doctor`` on Active Directory: which events will work for the user who is logged in.

Nothing is tried: domain controllers compute what a user may do (allowedChildClassesEffective,
allowedAttributesEffective, sDRightsEffective; [MS-ADTS] 3.1.1.4.5). What they do not compute, deleting and
extended rights, is found out from the access control lists.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mqdssm.cli.checks import Finding, Patient, ok, warning
from mqdssm.errors import DecodeError, ObjectNotFound

if TYPE_CHECKING:
    from mqdssm.directory.entries import Entry
    from mqdssm.directory.session import Session
    from mqdssm.model.dn import DN
    from mqdssm.wire.dtyp import SecurityDescriptor
    from mqdssm.wire.sid import Sid

NAME: Final = "event rights"
ADVICE: Final = "let an administrator of the domain grant it: docs/tables/rights.md has the whole table"
_CHILDREN, _ATTRIBUTES, _PARTS = (
    "allowedChildClassesEffective",
    "allowedAttributesEffective",
    "sDRightsEffective",
)
_DESCRIPTOR: Final = "nTSecurityDescriptor"
_DACL: Final = 4  # of sDRightsEffective
_KEYS: Final = ("mSMQSignCertificates", "mSMQDigests")
_WIDELY_KNOWN: Final = ("S-1-1-0", "S-1-5-11")  # everyone, authenticated users: in every token


@dataclass(frozen=True, slots=True)
class _Place:
    """An object that is looked at.

    Attributes:
        title: what it stands for.
        dn: where it is.
        children: class -> what creating such a child is.
        attributes: what writing means -> the attributes that it needs.
        secured: whether Security can be written.
        deleted: what deleting it is; empty if no event does.
    """

    title: str
    dn: "DN"
    children: Mapping[str, str]
    attributes: Mapping[str, tuple[str, ...]]
    secured: bool = True
    deleted: str = ""


def events(patient: Patient) -> Iterator[Finding]:
    """Which events will work, object by object, and which right is missing for the others."""
    from mqdssm.tables import rights

    session = patient.session
    token = _token(session)
    places, unseen = _places(session)
    for place in places:
        try:
            entry = session.get(place.dn, [_CHILDREN, _ATTRIBUTES, _PARTS, _DESCRIPTOR])
        except ObjectNotFound:
            yield warning(NAME, f"{place.dn} is not shown to this user", f"grant {rights.READ.name} on it")
            continue
        yield _judged(session, place, entry, token)
    for title in unseen:
        yield ok(NAME, f"no {title} to be seen yet: which rights there are on it cannot be told")
    yield from _identifiers(session, token)


def _judged(session: "Session", place: _Place, entry: "Entry", token: "frozenset[Sid]") -> Finding:
    judged = _by_what_is_computed(place, entry)
    if place.deleted:
        judged[place.deleted] = _missing_to_delete(session, place.dn, entry, token)
    may = [event for event, right in judged.items() if not right]
    missing = [f"{event}: {right}" for event, right in judged.items() if right]
    said = f"may {', '.join(may)}" if may else "may change nothing"
    where = f"{said} (by the rights on {place.dn})"
    if not missing:
        return ok(NAME, where)
    return warning(NAME, f"{where}; missing to {'; to '.join(missing)}", ADVICE)


def _by_what_is_computed(place: _Place, entry: "Entry") -> dict[str, str]:
    """Each event, and the right that is missing for it, if one is."""
    from mqdssm.tables import rights

    judged: dict[str, str] = {}
    classes = {value.decode().lower() for value in entry.all(_CHILDREN)}
    for ldap_class, event in place.children.items():
        there = ldap_class.lower() in classes
        judged[event] = "" if there else f"{rights.CREATE_CHILD.name} for {ldap_class}"
    attributes = {value.decode().lower() for value in entry.all(_ATTRIBUTES)}
    for event, needed in place.attributes.items():
        absent = [name for name in needed if name.lower() not in attributes]
        judged[event] = f"{rights.WRITE.name} (not for {', '.join(absent)})" if absent else ""
    if place.secured:
        there = bool(int(entry.first(_PARTS) or b"0") & _DACL)
        judged[f"write Security of {place.title}"] = "" if there else rights.WRITE_DAC.name
    return judged


def _missing_to_delete(session: "Session", dn: "DN", entry: "Entry", token: "frozenset[Sid]") -> str:
    from mqdssm.tables import rights
    from mqdssm.tables.access_check import grants

    own, above = _descriptor(entry), _descriptor_of(session, dn.parent)
    kind = rights.CLASS_GUIDS[rights.class_at(str(dn))]
    if own is not None and grants(own, token, rights.DELETE.mask):
        return ""
    if above is not None and grants(above, token, rights.DELETE_CHILD.mask, kind):
        return ""
    if own is None or above is None:
        return "not known, the descriptors are not shown to this user"
    return f"{rights.DELETE.name}, or {rights.DELETE_CHILD.name} on {dn.parent}"


def _places(session: "Session") -> tuple[list[_Place], list[str]]:
    """What is looked at, and what there is none of."""
    from mqdssm.cli.checks_directory import first_of
    from mqdssm.model.dn import DN
    from mqdssm.tables import places

    forest = session.naming.forest
    found = [
        _Place(
            "the enterprise",
            places.enterprise_dn(forest, session.naming.configuration),
            {"mSMQSiteLink": "create routing links"},
            {"write the enterprise": ("mSMQLongLived",)},
        ),
        _Place("the sites", places.sites_dn(forest), {"site": "create sites"}, {}, secured=False),
    ]
    unseen = []
    queue, manager = first_of(session, "mSMQQueue", "cn"), first_of(session, "mSMQConfiguration", "cn")
    machine = _computer(session) if manager is None else DN.parse(manager[0]).parent
    if machine is not None:
        keys = {"write signing keys of queue managers": _KEYS}
        children = {"mSMQConfiguration": "create queue managers"}
        found.append(_Place("computers", machine, children, keys, secured=False))
    if manager is not None:
        children, written = {"mSMQQueue": "create queues"}, {"write queue managers": ("mSMQQuota",)}
        title, deleted = "queue managers", "delete queue managers"
        found.append(_Place(title, DN.parse(manager[0]), children, written, deleted=deleted))
    else:
        unseen.append("queue manager")
    if queue is not None:
        written = {"write queues": ("mSMQLabelEx",)}
        found.append(_Place("queues", DN.parse(queue[0]), {}, written, deleted="delete queues"))
    else:
        unseen.append("queue")
    return found, unseen


def _computer(session: "Session") -> "DN | None":
    from mqdssm.model.dn import DN

    wanted = session.profile.class_filter("computer")
    found = session.find(session.naming.root, wanted, ["cn"], page_size=1)
    try:
        entry = next(found, None)
    finally:
        getattr(found, "close", lambda: None)()
    return None if entry is None else DN.parse(entry.dn)


def _token(session: "Session") -> "frozenset[Sid]":
    """The SIDs of the user and of all groups."""
    from mqdssm.wire.sid import Sid

    values: Sequence[bytes] = session.get("", ["tokenGroups"]).all("tokenGroups")
    return frozenset((*map(Sid.from_bytes, values), *map(Sid.parse, _WIDELY_KNOWN)))


def _descriptor(entry: "Entry") -> "SecurityDescriptor | None":
    from mqdssm.wire.dtyp import SecurityDescriptor

    image = entry.first(_DESCRIPTOR)
    try:
        return None if image is None else SecurityDescriptor.from_bytes(image)
    except DecodeError:
        return None


def _descriptor_of(session: "Session", dn: "DN") -> "SecurityDescriptor | None":
    try:
        return _descriptor(session.get(dn, [_DESCRIPTOR]))
    except ObjectNotFound:
        return None


def _identifiers(session: "Session", token: "frozenset[Sid]") -> Iterator[Finding]:
    """Whether new objects may bring their GUID along ([MS-ADTS] 3.1.1.5.2.2, decision M37)."""
    from mqdssm.tables import rights
    from mqdssm.tables.access_check import grants

    name, missing = "identifiers", []
    if not session.profile.keeps_guids(session):
        missing.append("fSpecifyGUIDOnAdd is not set (the 11th character of dSHeuristics is not 1)")
    for dn in dict.fromkeys((session.naming.root, session.naming.configuration)):
        descriptor = _descriptor_of(session, dn)
        if descriptor is None:
            missing.append(f"the descriptor of {dn} is not shown, so the right Add-GUID is not known")
        elif not grants(descriptor, token, rights.CONTROL.mask, rights.ADD_GUID):
            missing.append(f"the right Add-GUID ({rights.ADD_GUID}) on {dn}")
    if not missing:
        yield ok(name, "new objects may bring their GUID along, if this is a domain controller of Windows")
        return
    words = (
        f"new objects get a GUID of the domain controller's; missing to bring one along: {'; '.join(missing)}"
    )
    yield ok(name, f"{words}; queues and queue managers remember theirs in mSMQOwnerID")
