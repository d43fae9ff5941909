"""Checks and defaults of events' attribute lists ([MS-MQDSSM] 3.1.6.20)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from mqdssm.errors import GenericDirectoryError
from mqdssm.events.encode import KEYS_NAME
from mqdssm.model.base import DirectoryObject
from mqdssm.tables import TABLES
from mqdssm.tables.element_table import ElementTable
from mqdssm.tables.row import Access

_WITH_FULL_PATH: Final = (
    "QualifiedComputerName",
    KEYS_NAME,
    "OperatingSystemVersion",
    "Clustered",
)

KEYS: Final[Mapping[str, frozenset[str]]] = {
    "QueueManager": frozenset({"Identifier", "FullPath", "ComputerName"}),
    "Queue": frozenset({"Identifier", "FullPath", "DirectoryPath", "Pathname"}),
    "Enterprise": frozenset({"Identifier"}),
    "Site": frozenset({"Identifier", "FullPath", "Name"}),
    "RoutingLink": frozenset({"Identifier", "FullPath"}),
    "User": frozenset({"Identifier", "FullPath", "SecurityIdentifier"}),
}
"""Attributes by which delete and write find the object ([MS-MQDSSM] 3.1.6.2.x.1, 3.1.6.7.x.1)."""


NO_ATTRIBUTES: Final = ("1.1",)
"""Attribute selection for an entry without attributes ([RFC4511] 4.5.1.8)."""


def look_up_table(kind: object, verb: str) -> ElementTable:
    """Return the table of an element.

    Args:
        kind: its class.
        verb: name of the operation, as ``"read"``.

    Raises:
        GenericDirectoryError: no directory keeps such objects, as ConnectedNetwork; or it is no class.
    """
    if isinstance(kind, DirectoryObject):
        name = kind.element_name
        raise GenericDirectoryError(f"objects are {verb} by their class: give {name}, not an object of it")
    table = TABLES.get(kind) if isinstance(kind, type) else None
    if table is None:
        name = getattr(kind, "__name__", repr(kind))
        raise GenericDirectoryError(f"{name} objects cannot be {verb}: {names_of(TABLES)} can")
    return table


def table_of_object(obj: object, kinds: Collection[type[DirectoryObject]], verb: str) -> ElementTable:
    """Return the table of an object's element.

    Args:
        obj: the object.
        kinds: classes of the elements with which this can be done.
        verb: name of the operation, as ``"written"``.

    Raises:
        GenericDirectoryError: it is of another class, or a class itself.
    """
    if isinstance(obj, type):
        name = obj.__name__
        raise GenericDirectoryError(f"the class {name} cannot be {verb}: give an object of it, {name}(…)")
    if not isinstance(obj, DirectoryObject) or type(obj) not in kinds:
        raise GenericDirectoryError(f"{type(obj).__name__} objects cannot be {verb}: {names_of(kinds)} can")
    return TABLES[type(obj)]


def names_of(kinds: Iterable[type[DirectoryObject]]) -> str:
    """Return the names of elements in one text."""
    return ", ".join(kind.element_name for kind in kinds)


def read_with(table: ElementTable, name: str) -> tuple[str, ...]:
    """Return the attributes that are read together with another one.

    See [MS-MQDSSM] 3.1.6.3.2.2 steps 2-3.
    """
    if table.name != "QueueManager":
        return ()
    if name in _WITH_FULL_PATH:
        return ("FullPath",)
    return ("DirectoryServer",) if name == "DirectoryServerType" else ()


def check_names(table: ElementTable, names: Iterable[str]) -> None:
    """Raise GenericDirectoryError for names that an element does not have.

    Names that a directory does not have are refused as well (3.1.6.20).

    Raises:
        GenericDirectoryError: naming the attribute.
    """
    for name in names:
        if name in table.unsupported:
            raise GenericDirectoryError(
                f"{table.name}.{name} is not kept in an LDAP directory: it cannot be asked for or written"
            )
        try:
            table.row(name)
        except ValueError as error:
            raise GenericDirectoryError(str(error)) from None


def select_names_to_read(table: ElementTable, attributes: Sequence[str] | None) -> tuple[str, ...]:
    """Return the attributes that a read returns.

    See [MS-MQDSSM] 3.1.6.3.2.2 steps 1-3, and the sections of other elements.

    Raises:
        GenericDirectoryError: a name that cannot be read.
    """
    if attributes is None:
        return table.names(Access.READ)
    check_names(table, attributes)
    names = dict.fromkeys(attributes)
    for name in attributes:
        names.update(dict.fromkeys(read_with(table, name)))
    return tuple(names)


def select_names_to_create(
    table: ElementTable, obj: DirectoryObject, attributes: Sequence[str] | None
) -> frozenset[str]:
    """Return the populated attributes that a create stores.

    See [MS-MQDSSM] 3.1.6.1.x.2 steps 1-2.

    Names that a create does not know (Identifier, CreateTime, ...) are ignored, as the text says.

    Raises:
        GenericDirectoryError: a name that no directory keeps, or that the element does not have.
    """
    if attributes is None:
        check_names(table, obj.populated)
        return obj.populated
    check_names(table, attributes)
    return obj.populated & frozenset(attributes)


def select_names_to_write(
    table: ElementTable, obj: DirectoryObject, attributes: Sequence[str] | None
) -> frozenset[str]:
    """Return the attributes that a write sends (decision M45).

    Without a list: what was assigned or unset since the object was read; of an object that was never read
    what is populated, apart from the attributes that say which object is meant. What was unset is removed;
    of attributes that cannot be written it is only forgotten.

    Raises:
        GenericDirectoryError: naming the attributes that cannot be written.
    """
    if attributes is None:
        names = obj.assigned
        if not obj.was_read:
            names -= KEYS[table.name]
        names -= _find_unset_only(table, obj)
    else:
        check_names(table, attributes)
        names = frozenset(attributes)
    check_names(table, names)
    refused = sorted(name for name in names if not table.row(name).access & Access.WRITE)
    if refused:
        raise GenericDirectoryError(f"{table.name}.{', '.join(refused)} cannot be written to the directory")
    return names & (obj.populated | obj.assigned)


def _find_unset_only(table: ElementTable, obj: DirectoryObject) -> frozenset[str]:
    """Return unset attributes that cannot be written.

    The directory cannot remove their values either.
    """
    return (obj.assigned - obj.populated).difference(table.names(Access.WRITE))


def list_server_made_names(table: ElementTable) -> frozenset[str]:
    """Return the attributes that no create stores.

    Servers make or compute them.
    """
    return frozenset(row.adm for row in table.rows if not row.access & (Access.CREATE | Access.NAME))


def list_left_by_create(table: ElementTable, obj: DirectoryObject, created: frozenset[str]) -> frozenset[str]:
    """Return the attributes that a create did not store (decision M62).

    A write without a list sends them.
    """
    stored = frozenset(row.adm for row in table.rows if row.access & Access.CREATE)
    return (obj.populated & stored) - created


def list_left_by_write(table: ElementTable, obj: DirectoryObject, written: frozenset[str]) -> frozenset[str]:
    """Return the assigned attributes not written yet (decision M62).

    A write without a list sends them.
    """
    unwritten = obj.assigned - written - _find_unset_only(table, obj)
    return unwritten if obj.was_read else unwritten - KEYS[table.name]
