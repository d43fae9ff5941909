"""Entries and rows of planted objects, with the expected findings."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mqdssm.events.new_entry import NewEntry
from mqdssm.model.dn import DN
from mqdssm.model.elements import Enterprise, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.samples import elements
from mqdssm.samples.entries import SampleEntries
from mqdssm.samples.faults import Extra, FaultStage, Planted, Truth, value_of
from mqdssm.samples.mqis import MqisRow, SampleRows
from mqdssm.tables import places
from mqdssm.tables.mqis import MQIS_TABLES

_ORDER: Final = ("enterprise", "site", "user", "queue-manager", "queue", "routing-link")
"""Order of types, parents first."""
_TABLES: Final = {table.type_name: table for table in MQIS_TABLES.values() if table.type_name}


def _sort_extras(stage: FaultStage) -> list[Extra]:
    return sorted(stage.extras, key=lambda extra: _ORDER.index(extra.type))


# -- LDIF


def make_planted_entries(
    planted: Iterable[Planted], entries: SampleEntries
) -> Iterator[tuple[list[NewEntry], list[Truth]]]:
    """Yield the entries of each planted object with the expected findings."""
    for fault, stage in planted:
        _refer(stage, entries)
        for extra in _sort_extras(stage):
            by_type = _entries_of(stage, extra, entries)
            if not extra.faulty:
                yield list(by_type.values()), []
                continue
            if fault.ldif is not None:
                fault.ldif(stage, by_type)
            entry = by_type[fault.type]
            _override(entry, fault.ldap or {}, stage)
            guid = None if entry.guid is None else str(entry.guid)
            yield list(by_type.values()), [Truth(fault.rule, fault.type, guid, _text_of(entry.dn))]


def _text_of(dn: DN) -> str:
    """Return a DN in slapd's spelling: types in lower case, line feeds not escaped."""
    return str(DN.of(*((kind.lower(), value) for ((kind, value),) in dn.rdns))).replace(r"\0A", "\n")


def _refer(stage: FaultStage, entries: SampleEntries) -> None:
    """Add the DNs of planted sites and machines, so that references to them work."""
    root = stage.plan.root_dn
    for extra in stage.extras:
        if isinstance(extra.obj, Site):
            entries.refer(extra.guid, places.site_dn(root, stage.plan.name_site(extra.number).name))
        elif isinstance(extra.obj, QueueManager) and extra.roles:
            name = stage.plan.name_machine(extra.number, extra.roles.role, extra.site)
            entries.refer(extra.guid, places.queue_manager_dn(root, name))


def _entries_of(stage: FaultStage, extra: Extra, entries: SampleEntries) -> dict[str, NewEntry]:
    obj = extra.obj
    match obj:
        case Queue():
            return {"queue": entries.make_queue(obj)}
        case User():
            return {"user": entries.make_user(obj, elements.make_user_name(stage.plan, extra.number))}
        case Site():
            site, servers = entries.make_site(obj)
            return {"site": site, "servers": servers}
        case RoutingLink():
            return {"routing-link": entries.make_link(obj)}
        case Enterprise():
            return {"enterprise": entries.make_enterprise(obj)}
        case _:
            return _make_machine(stage, extra, entries)


def _make_machine(stage: FaultStage, extra: Extra, entries: SampleEntries) -> dict[str, NewEntry]:
    if extra.roles is None:
        raise ValueError(f"{extra.type} {extra.number} is no machine")
    computer, manager = entries.make_machine(extra.roles)
    by_type = {"computer": computer, "queue-manager": manager}
    if extra.settings:
        site = stage.plan.name_site(extra.site).name
        by_type["server"], by_type["settings"] = entries.make_settings(extra.roles, manager, site)
    return by_type


def _override(entry: NewEntry, wrong: Mapping[str, Any], stage: FaultStage) -> None:
    for attribute, value in wrong.items():
        new_value = value_of(value, stage)
        if new_value is None:
            entry.values.pop(attribute, None)
        else:
            entry.values[attribute] = (new_value,) if isinstance(new_value, bytes) else new_value


# -- tables


def make_planted_rows(
    planted: Iterable[Planted], rows: SampleRows
) -> Iterator[tuple[str, MqisRow, list[Truth]]]:
    """Yield the table, the row and the expected findings of each planted object."""
    for fault, stage in planted:
        for extra in _sort_extras(stage):
            table = _TABLES[extra.type]
            row = _row_of(extra, rows)
            if not extra.faulty:
                yield table.name, row, []
                continue
            row |= {name: value_of(value, stage) for name, value in fault.mqis.items()}
            yield table.name, row, [Truth(fault.rule, fault.type, row[table.key], None)]


def _row_of(extra: Extra, rows: SampleRows) -> MqisRow:
    obj = extra.obj
    match obj:
        case Queue():
            return rows.make_queue(obj, extra.number, extra.machine)
        case User():
            return rows.make_user(obj, extra.number)
        case Site():
            return rows.make_site(obj, extra.number, extra.gate)
        case RoutingLink():
            return rows.make_link(obj, extra.number, own_gates=True)
        case QueueManager():
            return rows.make_machine(obj, extra.number, extra.site)
        case Enterprise():
            return rows.make_enterprise(obj)
        case _:
            raise ValueError(f"there is no table for {extra.type}")
