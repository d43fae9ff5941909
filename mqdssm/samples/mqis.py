"""Sample enterprise as rows of the MQIS tables.

The rows have the columns of MSMQ 1.0, and those of later versions.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, Final
from uuid import UUID

from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import GUID_NULL, Enterprise, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.model.propids import PREFIX, Variant
from mqdssm.samples import elements, security
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.samples.queues import Queues
from mqdssm.tables import compute, mqis
from mqdssm.tables.mqis import MQIS_TABLES, MqisColumn, MqisTable
from mqdssm.tables.syntax import SID, Kind
from mqdssm.wire.dtyp import EVERYONE, allow
from mqdssm.wire.masks import ConnectedNetworkAccess

MqisRow = dict[str, Any]

ENTERPRISE_SCOPE: Final = 1
IP: Final = 1
IPX: Final = 3
FOREIGN: Final = 5
TA_FOREIGN: Final = b"\x10\x00\x05\x00"  # of sixteen bytes: the GUID of the connected network
TA_IP: Final = b"\x04\x00\x01\x00"  # TA_ADDRESS of four bytes, type IP ([MS-MQMQ] 2.2.4)
DELETED_IN: Final = 50  # one tombstone for each 50 queues


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "Enterprise": _split_words(
        "E_ID E_NAME E_NAMESTYLE E_CSP_NAME E_PECNAME E_LONG_LIVE E_VERSION E_PARTITIONID E_SEQNUM E_SECURITY"
    ),
    "Site": _split_words(
        "S_SITEID S_PATHNAME S_GATES S_PSC S_INTERVAL1 S_INTERVAL2 S_FOREIGN S_NT4_STUB S_PARTITIONID "
        "S_SEQNUM S_SECURITY"
    ),
    "RoutingLink": _split_words(
        "L_ID L_NEIGHBOR1 L_NEIGHBOR2 L_COST L_DESCRIPTION L_GATES L_PARTITIONID L_SEQNUM"
    ),
    "ConnectedNetwork": _split_words("CN_GUID CN_NAME CN_PROTOCOLID CN_PARTITIONID CN_SEQNUM CN_SECURITY"),
    "Machine": _split_words(
        "QM_MACHINE_ID QM_PATHNAME QM_SITE_ID QM_SITE_IDS QM_CNS QM_ADDRESS QM_OUTFRS QM_INFRS "
        "QM_SERVICE QM_SERVICE_ROUTING QM_SERVICE_DSSERVER QM_SERVICE_DEPCLIENTS QM_QUOTA "
        "QM_JOURNAL_QUOTA QM_MACHINE_TYPE QM_OS QM_FOREIGN QM_CREATE_TIME QM_MODIFY_TIME "
        "QM_ENCRYPT_PKS QM_SIGN_PKS QM_PARTITIONID QM_SEQNUM QM_SECURITY"
    ),
    "Queue": _split_words(
        "Q_INSTANCE Q_PATHNAME Q_TYPE Q_LABEL Q_JOURNAL Q_QUOTA Q_JOURNAL_QUOTA Q_BASEPRIORITY "
        "Q_AUTHENTICATE Q_PRIV_LEVEL Q_TRANSACTION Q_MULTICAST_ADDRESS Q_CREATE_TIME Q_MODIFY_TIME "
        "Q_SCOPE Q_QMID Q_PARTITIONID Q_SEQNUM Q_SECURITY"
    ),
    "User": _split_words("U_ID U_SID U_SIGN_CERT U_DIGEST U_PARTITIONID U_SEQNUM"),
    "Deleted": _split_words("D_IDENTIFIER D_OBJTYPE D_SCOPE D_PARTITIONID D_SEQNUM"),
}
"""The written columns, without their common prefix."""


def columns_of(table: MqisTable) -> tuple[MqisColumn, ...]:
    """Return the written columns of a table."""
    return tuple(table.column(PREFIX + name) for name in COLUMNS[table.name])


class SampleRowMaker:
    """Maker of the rows of one table from elements.

    Args:
        table: the table.
    """

    def __init__(self, table: MqisTable) -> None:
        self.table = table
        self._columns = [
            (column.name, column.row.field, _choose_encoder(column))
            for column in columns_of(table)
            if column.row is not None and not column.bits
        ]
        self._names = [column.name for column in columns_of(table)]

    def make_row(self, obj: DirectoryObject | None, **more: Any) -> MqisRow:
        """Make one row.

        Args:
            obj: the element; None: only `more`.
            **more: columns without an attribute of the element, by their names without prefix.
        """
        row: MqisRow = dict.fromkeys(self._names)
        if obj is not None:
            values, present = obj.__dict__, obj.model_fields_set
            for name, field, encode in self._columns:
                value = values[field] if field in present else None
                row[name] = None if value is None else encode(value)
        for short, value in more.items():
            row[PREFIX + short] = value
        return row


def _choose_encoder(column: MqisColumn) -> Callable[[Any], Any]:
    """Make the converter of a value for a column.

    The format is that which `mqdssm.pipeline.validate.mqis_sets` reads.
    """
    kind = None if column.row is None else column.row.kind
    if kind is Kind.BOOLEAN and column.codes is not None:
        codes = {value: code for code, value in reversed(list(column.codes.items()))}
        return codes.__getitem__
    if kind is Kind.ENUMERATION:
        return int
    if column.first:
        return lambda value: str(value[0]) if value else None
    if kind is Kind.SID:
        return SID.dump
    if column.variant is Variant.CLSIDS:
        if kind is Kind.BYTES:
            return lambda value: [str(UUID(bytes_le=raw)) for raw in value]
        return lambda value: [str(item) for item in value]
    return str if column.variant is Variant.CLSID else lambda value: value


def make_sequence(kind: int, number: int) -> bytes:
    """Return the sequence number of a change: 8 bytes, big-endian.

    See [MC-MQDSRP] 2.2.2.
    """
    return (kind << 40 | number + 1).to_bytes(8, "big")


def convert_service(manager: QueueManager) -> int:
    """Return PROPID_QM_SERVICE of a queue manager ([MS-MQMQ] 2.3.2.9)."""
    return compute.compute_service_type(
        routing_server=manager.routing_server,
        remote_access_server=manager.remote_access_server,
        directory_server=manager.directory_server,
        directory_server_type=manager.directory_server_type,
    )


class SampleRows:
    """Maker of the rows of all tables.

    Args:
        plan: the enterprise.
    """

    def __init__(self, plan: EnterprisePlan) -> None:
        self._plan = plan
        self._makers = {name: SampleRowMaker(table) for name, table in MQIS_TABLES.items()}
        self._nobody = str(GUID_NULL)
        self._has_nt = lru_cache(maxsize=64)(partial(elements.has_windows_nt, plan))

    def make_enterprise(self, obj: Enterprise) -> MqisRow:
        """Make a row of Enterprise."""
        return self._makers["Enterprise"].make_row(
            obj,
            E_CSP_NAME="Microsoft Base Cryptographic Provider v1.0",
            E_PECNAME=self._plan.name_machine(0),
            E_PARTITIONID=self._nobody,
            E_SEQNUM=make_sequence(6, 0),
        )

    def make_site(self, obj: Site, number: int, gate: QueueManager | None) -> MqisRow:
        """Make a row of Site; the gate is its routing server, if it has one."""
        return self._makers["Site"].make_row(
            obj,
            S_GATES=[] if gate is None else [str(gate.identifier)],
            S_PSC=gate.computer_name if gate is not None and gate.directory_server else "",
            S_PARTITIONID=self._nobody,
            S_SEQNUM=make_sequence(3, number),
        )

    def make_link(self, obj: RoutingLink, number: int, *, own_gates: bool = False) -> MqisRow:
        """Make a row of RoutingLink.

        The gates of the link are those of its sites, or its own with `own_gates`.
        """
        gates = [str(gate) for gate in obj.site_gate_identifier_list] if own_gates else None
        return self._makers["RoutingLink"].make_row(
            obj, L_GATES=gates, L_PARTITIONID=self._nobody, L_SEQNUM=make_sequence(8, number)
        )

    def make_network(self, number: int) -> MqisRow:
        """Make a row of ConnectedNetwork: the network of a site.

        A foreign network has its own protocol.
        """
        aces = [allow(EVERYONE, ConnectedNetworkAccess.GENERIC_READ)]
        admins = self._plan.make_sid(security.DOMAIN_ADMINS_RID)
        protocol, name = (IPX, "IPX") if number % 10 == 9 else (IP, "IP")
        if self._plan.is_foreign(number):
            protocol, name = FOREIGN, "foreign"
        return self._makers["ConnectedNetwork"].make_row(
            None,
            CN_GUID=str(self._plan.compute_guid("network", number)),
            CN_NAME=f"{self._plan.name_site(number).name} {name}",
            CN_PROTOCOLID=protocol,
            CN_PARTITIONID=self._nobody,
            CN_SEQNUM=make_sequence(5, number),
            CN_SECURITY=security.make_descriptor(admins, aces),
        )

    def make_machine(self, obj: QueueManager, number: int, site: int) -> MqisRow:
        """Make a row of Machine."""
        networks = [
            self._plan.compute_guid("network", network) for network in self._list_networks(number, site)
        ]
        address = TA_IP + bytes((10, site % 256, number // 254 % 256, number % 254 + 1))
        if obj.foreign_system:
            address = TA_FOREIGN + networks[0].bytes_le
        return self._makers["Machine"].make_row(
            obj,
            QM_SERVICE=convert_service(obj),
            QM_CNS=[str(network) for network in networks],
            QM_ADDRESS=address,
            QM_PARTITIONID=str(self._plan.compute_guid("site", site)),
            QM_SEQNUM=make_sequence(2, number),
        )

    def _list_networks(self, number: int, site: int) -> tuple[int, ...]:
        """Return the sites whose networks a machine is connected to."""
        return self._plan.sites_of(number) if number < self._plan.machines else (site,)

    def make_queue(self, obj: Queue, ordinal: int, machine: int) -> MqisRow:
        """Make a row of Queue."""
        more = {}
        if obj.pathname is not None and "pathname" in obj.model_fields_set and self._has_nt(machine):
            computer, slash, name = obj.pathname.partition("\\")
            more["Q_PATHNAME"] = computer.upper() + slash + name
        return self._makers["Queue"].make_row(
            obj,
            **more,
            Q_SCOPE=ENTERPRISE_SCOPE,
            Q_QMID=str(self._plan.compute_guid("machine", machine)),
            Q_PARTITIONID=str(self._plan.compute_guid("site", self._plan.site_of(machine))),
            Q_SEQNUM=make_sequence(1, ordinal),
        )

    def make_user(self, obj: User, number: int) -> MqisRow:
        """Make a row of User."""
        return self._makers["User"].make_row(
            obj, U_PARTITIONID=self._nobody, U_SEQNUM=make_sequence(7, number)
        )

    def make_deleted(self, number: int) -> MqisRow:
        """Make a row of Deleted: a deleted queue."""
        site = self._plan.make_rng("deleted", number).draw_below(self._plan.sites)
        return self._makers["Deleted"].make_row(
            None,
            D_IDENTIFIER=str(self._plan.compute_guid("deleted", number)),
            D_OBJTYPE=mqis.QUEUE.object_type,
            D_SCOPE=ENTERPRISE_SCOPE,
            D_PARTITIONID=str(self._plan.compute_guid("site", site)),
            D_SEQNUM=make_sequence(4, number),
        )

    # -- all of a table, one after the other

    def all_of(self, table: str) -> Iterator[MqisRow]:
        """Make all rows of a table, each one on demand."""
        return _ALL[table](self)

    def make_enterprises(self) -> Iterator[MqisRow]:
        """Make all rows of Enterprise."""
        yield self.make_enterprise(elements.make_enterprise(self._plan))

    def make_sites(self) -> Iterator[MqisRow]:
        """Make all rows of Site."""
        plan = self._plan
        for number in range(plan.sites):
            gate = elements.make_machine(plan, plan.find_gate(number)).manager
            yield self.make_site(elements.make_site(plan, number), number, gate)

    def make_links(self) -> Iterator[MqisRow]:
        """Make all rows of RoutingLink."""
        for number, ends in enumerate(self._plan.list_links()):
            yield self.make_link(elements.make_link(self._plan, *ends), number)

    def make_networks(self) -> Iterator[MqisRow]:
        """Make all rows of ConnectedNetwork."""
        return map(self.make_network, range(self._plan.sites))

    def make_machines(self) -> Iterator[MqisRow]:
        """Make all rows of Machine."""
        for number in range(self._plan.machines):
            manager = elements.make_machine(self._plan, number).manager
            yield self.make_machine(manager, number, self._plan.site_of(number))

    def make_queues(self) -> Iterator[MqisRow]:
        """Make all rows of Queue."""
        for number in range(self._plan.machines):
            first = self._plan.count_queues_before(number)
            for index, queue in enumerate(Queues(self._plan, number)):
                yield self.make_queue(queue, first + index, number)

    def make_users(self) -> Iterator[MqisRow]:
        """Make all rows of User."""
        for number in range(self._plan.users):
            yield self.make_user(elements.make_user(self._plan, number), number)

    def make_tombstones(self) -> Iterator[MqisRow]:
        """Make all rows of Deleted."""
        return map(self.make_deleted, range(-(-self._plan.queues // DELETED_IN)))


_ALL: Final[Mapping[str, Callable[[SampleRows], Iterator[MqisRow]]]] = {
    "Enterprise": SampleRows.make_enterprises,
    "Site": SampleRows.make_sites,
    "RoutingLink": SampleRows.make_links,
    "ConnectedNetwork": SampleRows.make_networks,
    "Machine": SampleRows.make_machines,
    "Queue": SampleRows.make_queues,
    "User": SampleRows.make_users,
    "Deleted": SampleRows.make_tombstones,
}
