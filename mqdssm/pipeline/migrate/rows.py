"""Rows of MQIS as elements of the abstract model.

An element comes with reasons for refusal and with values left out.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import fold_case
from mqdssm.model.elements import QueueManager, RoutingLink
from mqdssm.model.names import PathKind, PathName
from mqdssm.model.queuenames import rdn_of
from mqdssm.pipeline.mqis.folder import ROW
from mqdssm.tables import compute
from mqdssm.tables.mqis import MACHINE, MQIS_TABLES, ROUTING_LINK, SITE, MqisColumn, MqisTable
from mqdssm.tables.mqis_cells import CellError, convert_cell, value_of
from mqdssm.tables.row import Access

log = logging.getLogger(__name__)

SITE_GATES: Final = SITE.column("PROPID_S_GATES")
UNREAD_ROW: Final = "(row)"
"""Name used for the column if a whole row of a table that no directory keeps cannot be read."""
GATES: Final = "SiteGateIdentifierList"
SERVICE: Final = MACHINE.column("PROPID_QM_SERVICE")
NT4_PREFIX: Final = "\\\\"
"""Prefix that NT 4 wrote before names of computers: ``\\\\SERVER``."""
ENTERPRISE_KEY: Final = "enterprise"
CREATE_TIME: Final = "CreateTime"
_UUID_LETTERS: Final = 36
_STORED: Final = Access.CREATE | Access.WRITE | Access.NAME
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "Site": ("Identifier", "Name"),
        "RoutingLink": ("Identifier", "Site1Identifier", "Site2Identifier", "ActualCost"),
        "Machine": ("Identifier", "ComputerName"),
        "Queue": ("Identifier", "Pathname"),
        "User": ("Identifier", "SecurityIdentifier"),
    }
)
"""Attributes that are needed to make an object ([MS-MQDSSM] 3.1.6.1.x.1), or to find it."""
_FINDS: Final = frozenset({"Identifier", "SecurityIdentifier"})
"""Attributes that identify an object."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason for refusing a row, or one of its cells.

    Attributes:
        attribute: the column, or the specification's attribute; empty for the whole row.
        words: for people.
    """

    attribute: str
    words: str


@dataclass(slots=True)
class ReadRow:
    """Result of reading a row.

    Attributes:
        element: the element; None if the row is refused, or no directory keeps its table.
        reasons: why the row is refused; empty if it is not.
        lost: column -> cell that no directory keeps, without those of NULL.
    """

    element: DirectoryObject | None
    reasons: list[Reason] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowKey:
    """Key that distinguishes a row from others.

    Attributes:
        guid: of the object.
        name: key that no two objects of the table may share, in a form to compare.
        computer: computer of the queue or the machine, as written; of a site, its name.
    """

    guid: UUID | None = None
    name: str | None = None
    computer: str | None = None


def clean_computer_name(cell: str) -> str:
    r"""Return the plain name of a computer.

    NT 4 wrote ``\\SERVER``, and padded names with blanks.
    """
    return cell.strip().removeprefix(NT4_PREFIX)


def clean_path_name(cell: str) -> str:
    r"""Return the plain path name of a queue: NT 4 wrote ``\\SERVER\queue``."""
    return cell.removeprefix(NT4_PREFIX)


_CLEANED: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {"ComputerName": clean_computer_name, "Pathname": clean_path_name}
)


def read_row(
    table: MqisTable,
    cells: Mapping[str, str],
    problems: Mapping[str, str],
    *,
    keeps_create_time: bool,
    gates: Mapping[UUID, tuple[UUID, ...]] | None = None,
) -> ReadRow:
    """Read a row as an element.

    Args:
        table: which one.
        cells: PROPID -> text.
        problems: what could not be read at all, by PROPID.
        keeps_create_time: the target lets a client say when an object was made.
        gates: of each site, for links that name none themselves.
    """
    reasons = [Reason(name, words) for name, words in problems.items()]
    if table.element is None:
        unread = {name or UNREAD_ROW: f"cannot be read: {words}" for name, words in problems.items()}
        return ReadRow(None, reasons, {**cells, **unread})
    if ROW in problems:
        return ReadRow(None, reasons)
    values, lost = _convert_cells(table, cells, problems, reasons, keeps_create_time=keeps_create_time)
    if table.element is RoutingLink and gates is not None:
        _add_gates(values, gates)
    reasons += [
        Reason(table.list_holding(adm)[0].name, "it is missing")
        for adm in _NEEDED.get(table.name, ())
        if values.get(adm) in {None, ""}
        and not any(table.list_holding(adm)[0].name == reason.attribute for reason in reasons)
    ]
    element = None if reasons else _build_element(table, values, cells, reasons)
    return ReadRow(element, reasons, lost)


def _convert_cells(
    table: MqisTable,
    cells: Mapping[str, str],
    problems: Mapping[str, str],
    reasons: list[Reason],
    *,
    keeps_create_time: bool,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return attribute -> value, and the cells that no attribute holds."""
    values: dict[str, Any] = {}
    lost: dict[str, str] = {}
    service: int | None = None
    carried = _list_carried(table.name, keeps_create_time=keeps_create_time)
    for column in _ORDERED[table.name]:
        cell = cells.get(column.name)
        if cell is None or column.name in problems:
            continue
        if column.name not in carried:
            lost[column.name] = cell
            continue
        try:
            if column.bits:
                service = convert_cell(column, cell)
                continue
            value = _convert_cell(column, cell)
        except CellError as error:
            reasons.append(Reason(column.name, str(error)))
            continue
        adm = column.adm or ""
        if column is SITE_GATES:
            continue  # they go to the links of the site
        if adm in values:
            if not _matches_first(column, value, values[adm]):
                lost[column.name] = cell
            continue
        values[adm] = value
    if service is not None:
        _add_roles(values, service)
        if _service_of(values) != service:  # it contradicts other columns, or names several roles
            lost[SERVICE.name] = cells[SERVICE.name]
    return values, lost


def _convert_cell(column: MqisColumn, cell: str) -> Any:
    clean = _CLEANED.get(column.adm or "")
    return value_of(column, cell if clean is None else clean(cell))


_ORDERED: Final = {
    name: tuple(
        sorted(
            table.columns,
            key=lambda column: column.row is None or (column.propid != column.row.propid and not column.bits),
        )
    )
    for name, table in MQIS_TABLES.items()
}
"""Columns of each table; of several with one attribute, the one with its own PROPID first."""


def _matches_first(column: MqisColumn, value: Any, first_value: Any) -> bool:
    """Return True if a second column for an attribute adds nothing to the first one."""
    return set(value) <= set(first_value) if column.first else bool(value == first_value)


def is_carried(column: MqisColumn, *, keeps_create_time: bool = True) -> bool:
    """Return True if a directory keeps the values of a column.

    Args:
        column: which one.
        keeps_create_time: the target lets a client say when an object was made.
    """
    if column.row is None:
        return column is SITE_GATES or column.bits
    if column.row.adm == CREATE_TIME:
        return keeps_create_time
    return bool(column.row.access & _STORED) or column.row.adm in _FINDS


@cache
def _list_carried(name: str, *, keeps_create_time: bool) -> frozenset[str]:
    columns = MQIS_TABLES[name].columns
    return frozenset(
        column.name for column in columns if is_carried(column, keeps_create_time=keeps_create_time)
    )


def _add_roles(values: dict[str, Any], service: int) -> None:
    """Set roles that have no own property, by the bits of PROPID_QM_SERVICE.

    See [MS-MQDS] 3.1.4.21.8.
    """
    for name in ("RoutingServer", "RemoteAccessServer", "DirectoryServer"):
        values.setdefault(name, bool(service & compute.SERVICE_BITS[name]))
    server_type = compute.compute_directory_server_type(
        directory_server=values["DirectoryServer"], service=service
    )
    if server_type is not None:
        values["DirectoryServerType"] = server_type


def _service_of(values: Mapping[str, Any]) -> int:
    """Return PROPID_QM_SERVICE as the directory will have it."""
    return compute.compute_service_type(
        routing_server=values.get("RoutingServer"),
        remote_access_server=values.get("RemoteAccessServer"),
        directory_server=values.get("DirectoryServer"),
        directory_server_type=values.get("DirectoryServerType"),
    )


def _add_gates(values: dict[str, Any], gates: Mapping[UUID, tuple[UUID, ...]]) -> None:
    """Give a link without gates the gates of its two sites.

    MSMQ 1.0 keeps them in the sites.
    """
    if values.get(GATES):  # an empty list names none
        return
    ends = [values.get(name) for name in ("Site1Identifier", "Site2Identifier")]
    both = [gate for end in ends if end is not None for gate in gates.get(end, ())]
    values[GATES] = tuple(dict.fromkeys(both))


def _build_element(
    table: MqisTable, values: Mapping[str, Any], cells: Mapping[str, str], reasons: list[Reason]
) -> DirectoryObject | None:
    assert table.element is not None  # noqa: S101  the caller has looked
    try:
        return table.element.model_validate(dict(values))
    except ValueError as error:
        listed = getattr(error, "errors", None)
        if listed is None:
            reasons.append(Reason("", str(error)))
        else:
            for problem in listed(include_url=False, include_input=False):
                adm = str(next(iter(problem["loc"]), ""))
                words = str(problem["msg"]).removeprefix(f"{adm} ")
                reasons.append(Reason(_find_column(table, adm, cells), words))
        return None


def _find_column(table: MqisTable, adm: str, cells: Mapping[str, str]) -> str:
    """Return the column of a row that holds an attribute."""
    names = [column.name for column in table.list_holding(adm)]
    return next((name for name in names if name in cells), names[0] if names else adm)


# -- keys of rows


def key_of(table: MqisTable, cells: Mapping[str, str]) -> RowKey:
    """Return the key of a row, without unreadable parts.

    The row will be refused for these.
    """
    guid = _try(table.column(table.key), cells)
    maker = _NAMES.get(table.name)
    name, computer = (None, None) if maker is None else maker(cells)
    return RowKey(guid, name, computer)


def gates_of(cells: Mapping[str, str]) -> tuple[UUID, ...]:
    """Return the gates of a row of Site; none if they cannot be read."""
    return _try(SITE_GATES, cells) or ()


def list_sites_served(cells: Mapping[str, str], gates: Mapping[UUID, Iterable[UUID]]) -> Iterator[UUID]:
    """Yield the sites whose gates a row of RoutingLink gets, or names itself.

    Args:
        cells: of the row.
        gates: of each site.
    """
    own_gates = {gate for column in ROUTING_LINK.list_holding(GATES) for gate in _try(column, cells) or ()}
    for end in link_ends(_name_link(cells)[0] or ""):
        if not own_gates or own_gates.issuperset(gates.get(end, ())):
            yield end


def link_ends(key: str) -> tuple[UUID, ...]:
    """Return the two sites in the name that `key_of` gives a row of RoutingLink."""
    return (UUID(key[:_UUID_LETTERS]), UUID(key[_UUID_LETTERS + 1 :])) if key else ()


def link_key(ends: Iterable[UUID]) -> str:
    """Return the name that `key_of` gives a row of RoutingLink, from its two sites."""
    return "-".join(sorted(map(str, ends)))


def _try(column: MqisColumn, cells: Mapping[str, str]) -> Any:
    cell = cells.get(column.name)
    if cell is None:
        return None
    try:
        return convert_cell(column, cell)
    except CellError:
        return None


Named = tuple[str | None, str | None]


def _name_machine(cells: Mapping[str, str]) -> Named:
    cell = cells.get("PROPID_QM_PATHNAME")
    if not cell:
        return None, None
    name = clean_computer_name(cell)
    return fold_case(name), name


def _name_queue(cells: Mapping[str, str]) -> Named:
    cell = cells.get("PROPID_Q_PATHNAME")
    try:
        path = None if cell is None else PathName.parse_stored(clean_path_name(cell))
        if path is None or path.kind is not PathKind.PUBLIC:
            return None, None
        return make_queue_key(path.computer, rdn_of(path.queue)[0]), path.computer
    except ValueError:
        return None, None


def make_queue_key(computer: str, cn: str) -> str:
    """Return the name that `key_of` gives a row of Queue.

    The name is made from the computer of the row and the cn of its entry.
    """
    return f"{fold_case(computer)}\\{fold_case(cn)}"


def _name_site(cells: Mapping[str, str]) -> Named:
    name = cells.get("PROPID_S_PATHNAME")
    return (fold_case(name) if name else None), name


def _name_link(cells: Mapping[str, str]) -> Named:
    ends = [_try(ROUTING_LINK.column(name), cells) for name in ("PROPID_L_NEIGHBOR1", "PROPID_L_NEIGHBOR2")]
    if None in ends:
        return None, None
    return link_key(ends), None


def _name_user(cells: Mapping[str, str]) -> Named:
    table = MQIS_TABLES["User"]
    try:
        cell = cells.get("PROPID_U_SID")
        return (None if cell is None else str(value_of(table.column("PROPID_U_SID"), cell))), None
    except CellError:
        return None, None


_NAMES: Final[Mapping[str, Callable[[Mapping[str, str]], Named]]] = MappingProxyType(
    {
        "Enterprise": lambda _: (ENTERPRISE_KEY, None),
        "Site": _name_site,
        "RoutingLink": _name_link,
        "Machine": _name_machine,
        "Queue": _name_queue,
        "User": _name_user,
    }
)


def list_sites(element: DirectoryObject) -> tuple[UUID, ...]:
    """Return the sites that a queue manager names; none for another element."""
    return element.site_identifier_list if isinstance(element, QueueManager) else ()
