"""The properties of an entry whose values are all valid."""

from collections.abc import Iterable

from mqdssm.errors import MappingError
from mqdssm.model.messages import PropertyValue
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.tables.properties import readable_of
from mqdssm.tables.property_rows import Entry


def properties_of(
    object_type: ObjectType, entry: Entry, wanted: Iterable[Propid] | None = None
) -> dict[Propid, PropertyValue]:
    """Return the properties of an entry; raise MappingError for the first invalid value."""
    found, problems = readable_of(object_type, entry, wanted)
    if problems:
        raise MappingError(problems[0])
    return found
