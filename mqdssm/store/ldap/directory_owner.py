"""Owner of a directory: the only replicating server that may number its objects.

Two servers on one directory would each take the other's persisted state for their own: both would own the
same partitions, and give the same numbers to different objects.
"""

from dataclasses import dataclass
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.requests import make_entry
from mqdssm.directory.session import Session
from mqdssm.errors import ConfigError, ObjectAlreadyExists, ObjectNotFound
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.store.ldap.places import DirectoryPlaces

_CLASS: Final = "mqisServer"
_ID: Final = "mqisMachineID"
_NAME: Final = "mqisMachineName"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A replicating server.

    Attributes:
        machine_id: QueueManager.Identifier, which identifies it under any name.
        machine_name: its current name.
    """

    machine_id: Guid
    machine_name: str


def claim(session: Session, places: DirectoryPlaces, owner: Owner) -> None:
    """Record the owner of a directory that has none, or a new name of the owner.

    Raises:
        ConfigError: another server owns the directory.
        DirectoryError: the directory cannot be read or written.
    """
    entry = _read(session, places)
    if entry is None:
        values = {_ID: (bytes(owner.machine_id),), _NAME: (owner.machine_name.encode(),)}
        try:
            session.add(places.server, make_entry((_CLASS,), values))
        except ObjectAlreadyExists:  # another server was faster
            entry = _read(session, places)
        else:
            return
    if entry is None or entry.first(_ID) != bytes(owner.machine_id):
        name = "somebody" if entry is None else (entry.first(_NAME) or b"").decode(errors="replace")
        raise ConfigError(
            f"this directory is that of the replicating server {name}, not of {owner.machine_name}: "
            f"each server needs one of its own; if {name} will never come back, delete {places.server}"
        )
    if entry.first(_NAME) != owner.machine_name.encode():
        session.modify(places.server, {_NAME: (owner.machine_name.encode(),)})


def read_owner(session: Session, places: DirectoryPlaces) -> Owner | None:
    """Return the owner of the directory; None if it has none.

    Raises:
        ConfigError: the owner's entry is damaged.
        DirectoryError: the directory cannot be read.
    """
    entry = _read(session, places)
    if entry is None:
        return None
    raw = entry.first(_ID) or b""
    if len(raw) != GUID_BYTES:
        raise ConfigError(f"{entry.dn}: {_ID} is no GUID: {raw!r}")
    return Owner(machine_id=Guid(raw), machine_name=(entry.first(_NAME) or b"").decode(errors="replace"))


def _read(session: Session, places: DirectoryPlaces) -> Entry | None:
    try:
        return session.get(places.server, [_ID, _NAME])
    except ObjectNotFound:
        return None
