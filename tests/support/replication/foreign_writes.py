"""Another program that writes to a directory in memory, as with plain LDAP (decision R112)."""

from collections.abc import Iterable

from mqdssm.model.guid import Guid
from mqdssm.model.messages import PropertyValue
from mqdssm.model.propids import Propid
from mqdssm.testing.memory_store.store import MemoryStore
from mqdssm.testing.memory_store.tables import StoredObject


def write_foreign(
    store: MemoryStore, identifier: Guid, properties: Iterable[tuple[Propid, PropertyValue]] = ()
) -> None:
    """Change an object: its number stays.

    Raises:
        KeyError: no such object exists.
    """
    store.write_foreign(identifier, properties)


def make_foreign(store: MemoryStore, made: StoredObject) -> None:
    """Create an object: it has no number, and operations do not see it."""
    store._kept.note_foreign(made, None)


def remove_foreign(store: MemoryStore, identifier: Guid) -> None:
    """Remove an object, without a tombstone."""
    for found in store._kept.find_objects(identifier):
        store._kept.remove(found)
