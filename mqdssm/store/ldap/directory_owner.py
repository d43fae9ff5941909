"""Whose directory it is: of one replicating server, and no other one may number objects in it.

Two servers on one directory would each find the other's state of the protocol and take it for their own: both
would own the same partitions, and give the same numbers to different objects.
"""

from dataclasses import dataclass
from typing import Final

from mqdssm.directory.entries import Entry
from mqdssm.directory.requests import new_entry
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
        machine_id: QueueManager.Identifier, by which it is known whatever its name.
        machine_name: its name now.
    """

    machine_id: Guid
    machine_name: str


def claim(session: Session, places: DirectoryPlaces, owner: Owner) -> None:
    """Note whose directory this is, if nobody has; take note of a new name.

    Raises:
        ConfigError: it is another server's.
        DirectoryError: it cannot be read or written.
    """
    found = _read(session, places)
    if found is None:
        values = {_ID: (bytes(owner.machine_id),), _NAME: (owner.machine_name.encode(),)}
        try:
            session.add(places.server, new_entry((_CLASS,), values))
        except ObjectAlreadyExists:  # another one was quicker
            found = _read(session, places)
        else:
            return
    if found is None or found.first(_ID) != bytes(owner.machine_id):
        name = "somebody" if found is None else (found.first(_NAME) or b"").decode(errors="replace")
        raise ConfigError(
            f"this directory is that of the replicating server {name}, not of {owner.machine_name}: "
            f"each server needs one of its own; if {name} will never come back, delete {places.server}"
        )
    if found.first(_NAME) != owner.machine_name.encode():
        session.modify(places.server, {_NAME: (owner.machine_name.encode(),)})


def read_owner(session: Session, places: DirectoryPlaces) -> Owner | None:
    """Return the server whose directory it is; None: nobody's.

    Raises:
        ConfigError: its entry is damaged.
        DirectoryError: it cannot be read.
    """
    found = _read(session, places)
    if found is None:
        return None
    raw = found.first(_ID) or b""
    if len(raw) != GUID_BYTES:
        raise ConfigError(f"{found.dn}: {_ID} is no GUID: {raw!r}")
    return Owner(machine_id=Guid(raw), machine_name=(found.first(_NAME) or b"").decode(errors="replace"))


def _read(session: Session, places: DirectoryPlaces) -> Entry | None:
    try:
        return session.get(places.server, [_ID, _NAME])
    except ObjectNotFound:
        return None
