"""Checks of the computers before the replacement of a server."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from mqdssm.directory.entries import Entry
from mqdssm.directory.loading.existing_entries import guid_of
from mqdssm.directory.requests import SearchScope
from mqdssm.errors import ConfigError, ObjectNotFound
from mqdssm.model.dn import DN, domain_of
from mqdssm.pipeline.migrate.shared_lookups import Computer
from mqdssm.pipeline.migrate.target import EVERYTHING, find_computers
from mqdssm.tables import compute, places
from mqdssm.tables.compute import ServiceBits
from mqdssm.tables.schema import MANAGER_CLASS, QUEUE_CLASS
from mqdssm.tables.syntax import BOOLEAN, UINT32

if TYPE_CHECKING:
    from mqdssm.directory.session import Session

_QUEUE_ATTRIBUTES: Final = ("objectGUID", "mSMQQueueNameExt", "nTSecurityDescriptor")
_WITHOUT_DOMAIN: Final = "give its name as in srv01, without domain and without $"
_JOIN_FIRST: Final = (
    "a new computer has to join this domain first; LDAP cannot move a queue manager to another domain"
)
_CONTROLLERS: Final = (
    ServiceBits.BACKUP_SITE_CONTROLLER
    | ServiceBits.PRIMARY_SITE_CONTROLLER
    | ServiceBits.PRIMARY_ENTERPRISE_CONTROLLER
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedServers:
    """Computers of a replacement that passed all checks.

    Attributes:
        old: computer that has the queue manager.
        new: computer that gets it; the same one if it keeps its name.
        manager: entry of the queue manager, with all attributes.
        guid: its objectGUID.
        queues: entries of its queues.
        existing: entry of a queue manager without queues that the new computer has; it is to be deleted.
        is_directory_server: the queue manager is marked as directory server, without a partition.
    """

    old: Computer
    new: Computer
    manager: Entry
    guid: UUID
    queues: tuple[Entry, ...]
    existing: Entry | None = None
    is_directory_server: bool = False

    @property
    def is_same(self) -> bool:
        """True if the computer keeps its name."""
        return self.old.dn == self.new.dn


def check_servers(session: "Session", old: str, new: str, *, delete_empty: bool) -> CheckedServers:
    """Check that the queue manager of a computer can be moved to another computer.

    Args:
        session: to the directory.
        old: name of the computer that has the queue manager.
        new: name of the computer that gets it.
        delete_empty: a queue manager without queues that the new computer has may be deleted.

    Raises:
        ConfigError: it cannot be moved, and why.
        DirectoryError: the directory cannot be asked.
    """
    old_computer, new_computer = _find_computers(session, old, new)
    manager = _manager_of(session, old_computer)
    if manager is None:
        raise ConfigError(f"the computer {old_computer.name} has no queue manager: nothing is to be moved")
    roles, is_same = _read_roles(manager), old_computer.dn == new_computer.dn
    if not is_same:
        _refuse_directory_server(old_computer, roles)
        _refuse_other_domain(old_computer, new_computer)
    existing = None if is_same else _find_existing(session, new_computer, delete_empty=delete_empty)
    return CheckedServers(
        old=old_computer,
        new=new_computer,
        manager=manager,
        guid=read_guid(manager),
        queues=tuple(_queues_of(session, manager.name)),
        existing=existing,
        is_directory_server=roles.is_directory_server,
    )


def read_guid(entry: Entry) -> UUID:
    """Return the objectGUID of an entry.

    Raises:
        ConfigError: it has none, or this user may not read it.
    """
    guid = guid_of(entry.attributes)
    if guid is None:
        raise ConfigError(f"{entry.dn} has no objectGUID, or this user may not read it")
    return guid


class _Roles(NamedTuple):
    """Roles of a queue manager that matter for its replacement."""

    is_controller: bool
    is_directory_server: bool


def _read_roles(manager: Entry) -> _Roles:
    raw_service, raw_server = manager.first("mSMQServiceType"), manager.first("mSMQDsServices")
    service = 0 if raw_service is None else UINT32.load(raw_service)
    is_server = raw_server is not None and BOOLEAN.load(raw_server)
    return _Roles(bool(service & _CONTROLLERS), is_server)


def _find_computers(session: "Session", old: str, new: str) -> tuple[Computer, Computer]:
    key = session.profile.name_key
    computers = find_computers(session, {key(name): name for name in (old, new)})
    for name, advice in ((old, _WITHOUT_DOMAIN), (new, _JOIN_FIRST)):
        computer = computers.get(key(name))
        if computer is None:
            is_qualified = "." in name or name.endswith("$")
            words = f"there is no computer {name} below {session.naming.root}"
            raise ConfigError(f"{words}: {_WITHOUT_DOMAIN if is_qualified else advice}")
        if computer.problem is not None:
            raise ConfigError(computer.problem)
    return computers[key(old)], computers[key(new)]


def _manager_of(session: "Session", computer: Computer) -> Entry | None:
    dn = places.queue_manager_of(DN.parse(computer.dn))
    of_class = session.profile.build_class_filter(MANAGER_CLASS)
    try:
        return session.get(dn, EVERYTHING, object_filter=of_class)
    except ObjectNotFound:
        return None


def _queues_of(session: "Session", manager: DN) -> Iterator[Entry]:
    of_class = session.profile.build_class_filter(QUEUE_CLASS)
    return session.find(manager, of_class, _QUEUE_ATTRIBUTES, SearchScope.ONE_LEVEL)


def _refuse_directory_server(computer: Computer, roles: _Roles) -> None:
    if roles.is_controller:
        raise ConfigError(
            f"{computer.name} is a directory server that owns or copies partitions (PEC, PSC or BSC): use "
            "'mqdssm enterprise' (hand-over, demote, rename), not this command"
        )


def _refuse_other_domain(old: Computer, new: Computer) -> None:
    domains = [domain_of(DN.parse(computer.dn)) for computer in (old, new)]
    if domains[0] != domains[1]:
        raise ConfigError(
            f"{old.name} is in {domains[0]}, {new.name} in {domains[1]}: LDAP cannot move a queue manager to "
            "another domain"
        )


def _find_existing(session: "Session", new: Computer, *, delete_empty: bool) -> Entry | None:
    """Return the queue manager of the new computer, which is to be deleted."""
    existing = _manager_of(session, new)
    if existing is None:
        return None
    _refuse_directory_server(new, _read_roles(existing))
    for queue in _queues_of(session, existing.name):
        raise ConfigError(
            f"{new.name} has a queue manager with queues, as {compute.read_queue_place(queue.dn).cn}: delete "
            "or move them first"
        )
    if not delete_empty:
        raise ConfigError(
            f"{new.name} has a queue manager without queues: --delete-empty deletes it before the move"
        )
    return existing
