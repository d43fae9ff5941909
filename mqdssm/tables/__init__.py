"""Mapping of the abstract model to the directory, as rows of one table.

Everything else is derived from the table.
``table_of(Queue).row("Label")`` describes the storage of Queue.Label; ``schema`` holds the classes and
attributes of the directory; ``compute`` and ``places`` hold the pure parts of [MS-MQDSSM] 2.2.1 and 3.1.6.
"""

from collections.abc import Mapping
from typing import Final

from mqdssm.model.base import DirectoryObject
from mqdssm.tables import enterprise, queue, queue_manager, routing_link, site, user
from mqdssm.tables.element_table import ElementTable

_MODULES: Final = (queue_manager, queue, enterprise, site, routing_link, user)

TABLES: Final[Mapping[type[DirectoryObject], ElementTable]] = {
    module.TABLE.element: module.TABLE for module in _MODULES
}
"""Table of each element that the directory can hold, in the order of [MS-MQDSSM] 3.1.6.20."""

_BY_NAME: Final = {table.name: table for table in TABLES.values()}


def table_of(element: type[DirectoryObject] | str) -> ElementTable:
    """Return the table of an element, by its class or by the specification's name.

    Raises:
        ValueError: an element that the directory cannot hold, as ConnectedNetwork (decision M44).
    """
    name = element if isinstance(element, str) else element.element_name
    table = _BY_NAME.get(name)
    if table is None:
        raise ValueError(f"{name} is not kept in the directory; {', '.join(_BY_NAME)} are")
    return table
