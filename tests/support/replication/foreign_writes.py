"""Another program that writes to a directory in memory, as with plain LDAP (decision R112)."""

from collections.abc import Iterable

from mqdssm.engines.replication.operations import ForeignObject
from mqdssm.model.guid import Guid
from mqdssm.model.messages import PropertyValue
from mqdssm.model.propids import Propid
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.testing.memory_store.store import MemoryStore, _updated
from mqdssm.testing.memory_store.tables import StoredObject


def write_foreign(
    store: MemoryStore, identifier: Guid, properties: Iterable[tuple[Propid, PropertyValue]] = ()
) -> None:
    """Change an object: its number stays.

    Raises:
        KeyError: no such object exists.
    """
    for found in store._kept.everywhere(identifier):
        made = _updated(found, found.seq_number, properties)
        store._kept.put(made)
        _note(store, made, made.seq_number)
        return
    raise KeyError(identifier)


def make_foreign(store: MemoryStore, made: StoredObject) -> None:
    """Create an object: it has no number, and operations do not see it."""
    _note(store, made, None)


def remove_foreign(store: MemoryStore, identifier: Guid) -> None:
    """Remove an object, without a tombstone."""
    for found in store._kept.everywhere(identifier):
        store._kept.remove(found)


def _note(store: MemoryStore, made: StoredObject, seq_number: SequenceNumber | None) -> None:
    """Record a change; an object without a number is not stored until it is created."""
    store._kept.foreign[made.identifier] = ForeignObject(
        object_type=made.object_type,
        identifier=made.identifier,
        partition_id=made.partition_id,
        seq_number=seq_number,
        name=made.path_name or str(made.identifier),
        version=f"{next(store._kept.versions):016d}",
        properties=() if seq_number is not None else tuple(made.properties.items()),
    )
