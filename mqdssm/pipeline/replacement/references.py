"""Objects that refer to a queue manager, its queues or its computer by name.

References by GUID stay valid when a queue manager is moved. References by name are found here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import And, Equal, LdapFilter, Present, any_of
from mqdssm.errors import DecodeError
from mqdssm.events.encode import DESCRIPTOR
from mqdssm.events.references import BATCH_TERMS, split_into_batches
from mqdssm.model.dn import DN, normalize
from mqdssm.model.elements import Queue, QueueManager
from mqdssm.model.names import DirectFormatName, DirectProtocol, parse_format_name
from mqdssm.pipeline.migrate.replacement_check import is_host_of
from mqdssm.pipeline.migrate.shared_lookups import Computer
from mqdssm.pipeline.migrate.target import find_of_class
from mqdssm.tables import TABLES
from mqdssm.tables.references import REFERENCES, ReferenceForm
from mqdssm.tables.schema import ALIAS_CLASS, ALIAS_FORMAT_NAME, GROUP_CLASS, GROUP_MEMBER, MANAGER_CLASS
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.sid import Sid

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

_BY_HOST: Final = frozenset({DirectProtocol.OS, DirectProtocol.HTTP, DirectProtocol.HTTPS})


@dataclass(frozen=True, slots=True)
class FoundReference:
    """An object that refers to something by name.

    Attributes:
        entry: the object, with the attributes that refer.
        ldap_class: its class.
        attributes: names of the attributes that refer.
    """

    entry: Entry
    ldap_class: str
    attributes: tuple[str, ...]


def find_by_name(session: "Session", manager: str, queues: Sequence[str]) -> Iterator[FoundReference]:
    """Yield the objects that refer to a queue manager or its queues by DN.

    Args:
        session: to the directory.
        manager: DN of the queue manager.
        queues: DNs of its queues.
    """
    for ldap_class, references in REFERENCES.items():
        names = tuple(
            reference.attribute
            for reference in references.values()
            if reference.form is ReferenceForm.DN and reference.ldap_class == MANAGER_CLASS
        )
        if names:
            refers = any_of(*(Equal(name, manager.encode()) for name in names))
            for entry in find_of_class(session, ldap_class, names, refers):
                attributes = tuple(name for name in names if entry.all(name))
                yield FoundReference(entry, ldap_class, attributes)
    seen: set[str] = set()
    for batch in split_into_batches(queues, BATCH_TERMS):
        has_member = any_of(*(Equal(GROUP_MEMBER, dn.encode()) for dn in batch))
        for entry in _find_in_domain(session, GROUP_CLASS, [GROUP_MEMBER], has_member):
            if normalize(entry.dn) not in seen:
                seen.add(normalize(entry.dn))
                yield FoundReference(entry, GROUP_CLASS, (GROUP_MEMBER,))


def find_aliases(session: "Session") -> Iterator[Entry]:
    """Yield the queue aliases of the domain that have a format name."""
    return _find_in_domain(session, ALIAS_CLASS, [ALIAS_FORMAT_NAME], Present(ALIAS_FORMAT_NAME))


def hosts_of(session: "Session", old: Computer, new: Computer) -> dict[str, str]:
    """Return the names of a computer in addresses: lower-case old name -> new name.

    A DNS host name that does not begin with the computer's name is left out.

    Args:
        session: to the directory.
        old: the computer.
        new: the computer that takes its place.
    """
    old_name, new_name = (DN.parse(computer.dn).name for computer in (old, new))
    old_host, new_host = (
        _read_dns_host(session, computer.dn) or name for computer, name in ((old, old_name), (new, new_name))
    )
    return {old_host.lower(): new_host, old_name.lower(): new_name}


def _read_dns_host(session: "Session", computer: str) -> str | None:
    """Return the DNS host name of a computer.

    None if it has none that begins with its name.
    """
    entry = session.get(computer, ["dNSHostName"])
    host = (entry.first("dNSHostName") or b"").decode(errors="replace")
    return host if is_host_of(host, entry.name.name) else None


def is_by_address(format_name: str) -> bool:
    """Return True if a format name addresses a computer by its IP address."""
    return format_name.upper().startswith("DIRECT=TCP:")


def rename_host(format_name: str, hosts: Mapping[str, str]) -> str | None:
    """Return a direct format name with the new name of its host.

    Args:
        format_name: as an alias has it.
        hosts: lower-case old name -> new name.

    Returns:
        None if it names none of these hosts.
    """
    try:
        name = parse_format_name(format_name)
    except ValueError:
        return None
    if not isinstance(name, DirectFormatName) or name.protocol not in _BY_HOST:
        return None
    host, colon, port = name.address.partition(":")
    new = hosts.get(host.lower())
    return None if new is None else str(replace(name, address=f"{new}{colon}{port}"))


def groups_of(session: "Session", computer: str) -> dict[str, str]:
    """Return the groups that a computer is a direct member of, by normalised DN."""
    is_member = Equal(GROUP_MEMBER, computer.encode())
    return {normalize(entry.dn): entry.dn for entry in _find_in_domain(session, GROUP_CLASS, [], is_member)}


def find_objects_with_rights(session: "Session", sid: Sid, except_below: DN) -> Iterator[str]:
    """Yield the DNs of queues and queue managers with rights for an account.

    Args:
        session: to the directory.
        sid: of the account.
        except_below: objects at or below this DN are left out.
    """
    for element in (QueueManager, Queue):
        for entry in find_of_class(session, TABLES[element].ldap_class, [DESCRIPTOR]):
            image = entry.first(DESCRIPTOR)
            is_other = not entry.name.is_at_or_below(except_below)
            if is_other and image is not None and bytes(sid) in image and sid in _list_own_sids(image):
                yield entry.dn


def _list_own_sids(image: bytes) -> set[Sid]:
    try:
        descriptor = SecurityDescriptor.from_bytes(image)
    except DecodeError:
        return set()
    aces = () if descriptor.dacl is None else descriptor.dacl.aces
    return {ace.sid for ace in aces if ace.sid is not None and not ace.inherited}


def _find_in_domain(
    session: "Session", ldap_class: str, attributes: Iterable[str], condition: LdapFilter
) -> Iterator[Entry]:
    search_filter = And((session.profile.build_class_filter(ldap_class), condition))
    for base in session.naming.list_bases(configuration=False):
        yield from session.find(base, search_filter, list(attributes) or ["1.1"])
