"""Topology packets as bytes, little-endian ([MS-MQSD] 2.2).

Only complete packets are decoded.

:func:`encode` and :func:`decode` convert datagrams. A datagram without a valid packet is a DecodeError, which
the caller counts and drops: a wrong packet is never answered (decision S4).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mqdssm.errors import DecodeError
from mqdssm.model import discovery
from mqdssm.wire.codecs import GUID_PACKET, U8, U16, U32, Text16Z, enum_of
from mqdssm.wire.fields import Const, Count, Flag, Group, Ignored, Items, Value, group, when, when_left
from mqdssm.wire.layout import Layout, encode_one
from mqdssm.wire.show import Shown, show, show_header

PACKET_BYTES_MAX: Final = 65_507
"""Longest packet: the most that a UDP datagram over IPv4 carries (decision S7)."""
IP_REQUEST_BYTES: Final = 52
"""Size of a request without IPX networks ([MS-MQSD] 2.2.2)."""
IPX_REQUEST_BYTES_MIN: Final = 60
"""Size of a request with one IPX network; a shorter request has none ([MS-MQSD] 3.2.5.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyPacketHeader:
    """First fields of every packet ([MS-MQSD] 2.2.1), with its kind in `packet_type`."""

    packet_type: discovery.PacketType


@dataclass(frozen=True, slots=True)
class ServerList:
    """The codec of DirectoryServiceServerArray.

    Entries have commas between them, and a NUL at the end.

    Attributes:
        units_max: largest number of UTF-16 units without the NUL.
    """

    units_max: int

    @property
    def least(self) -> int:
        """Size of the shortest list in bytes.

        The shortest list has one entry of two flags and one character, and the NUL.
        """
        return 8

    def read(
        self, data: bytes, offset: int, end: int, section: str, field: str
    ) -> tuple[tuple[discovery.DirectoryServiceServer, ...], int]:
        """Decode up to the first NUL.

        Raises:
            DecodeError: no NUL, or an invalid entry.
        """
        text, behind = Text16Z(self.units_max).read(data, offset, end, section, field)
        try:
            return tuple(map(discovery.DirectoryServiceServer, text.split(","))), behind
        except ValueError as error:
            raise DecodeError(section, field, offset, str(error)) from None

    def write(self, value: tuple[discovery.DirectoryServiceServer, ...]) -> bytes:
        """Encode the entries.

        Raises:
            ValueError: no entry, an invalid entry, or too many.
        """
        if not value:
            raise ValueError("has no entry")
        return Text16Z(self.units_max).write(",".join(map(discovery.DirectoryServiceServer, value)))


SERVER_LIST: Final = ServerList((PACKET_BYTES_MAX - 64) // 2 - 1)  # behind the fields and one network


def _list_bytes(reply: discovery.TopologyServerReply) -> int:
    """Return DirectoryServiceServerSize of a reply with servers ([MS-MQSD] 2.2.3)."""
    return len(SERVER_LIST.write(reply.directory_service_servers or ()))


TOPOLOGY_PACKET_HEADER: Final = Layout(
    TopologyPacketHeader,
    "[MS-MQSD] 2.2.1",
    Ignored("Version", U8),
    Value("packet_type", enum_of(U8, discovery.PacketType), "Type"),
    Ignored("Reserved", U16),
)


def _make_header(packet: type[discovery.TopologyPacket]) -> Group:
    """Make the TopologyPacketHeader of a kind of packets ([MS-MQSD] 2.2.1)."""
    return group(
        "TopologyPacketHeader",
        Ignored("Version", U8),
        Const("Type", enum_of(U8, discovery.PacketType), packet.packet_type),
        Ignored("Reserved", U16),
    )


CLIENT_REQUEST: Final = Layout(
    discovery.TopologyClientRequest,
    "[MS-MQSD] 2.2.2",
    _make_header(discovery.TopologyClientRequest),
    Value("enterprise_id", GUID_PACKET, "EnterpriseID"),
    Value("request_id", GUID_PACKET, "RequestID"),
    Value("site_id", GUID_PACKET, "SiteID"),
    when_left(
        "ipx_networks",
        Count("ipx_networks", U32, "IPXNetworkCount", low=1, high=discovery.NETWORKS_MAX),
        Items("ipx_networks", U32, "IPXNetworkNumberArray"),
    ),
)

SERVER_REPLY: Final = Layout(
    discovery.TopologyServerReply,
    "[MS-MQSD] 2.2.3",
    _make_header(discovery.TopologyServerReply),
    Value("correlation_id", GUID_PACKET, "CorrelationID"),
    Count("connected_networks", U32, "ConnectedNetworkCount", low=1, high=discovery.NETWORKS_MAX),
    Value("connected_network_mask", U32, "ConnectedNetworkMask"),
    Flag("directory_service_servers", U32, "DirectoryServiceServerSize", yes=_list_bytes),
    Items("connected_networks", GUID_PACKET, "ConnectedNetworkArray"),
    when(
        "directory_service_servers",
        Value("responding_site_id", GUID_PACKET, "RespondingSiteID"),
        Value("directory_service_servers", SERVER_LIST, "DirectoryServiceServerArray"),
    ),
)

LAYOUTS: Final[Mapping[int, Layout[Any]]] = {
    int(layout.cls.packet_type): layout for layout in (CLIENT_REQUEST, SERVER_REPLY)
}
"""Layout of each packet by its Type."""
_OF_CLASS: Final[Mapping[type, Layout[Any]]] = {layout.cls: layout for layout in LAYOUTS.values()}


def _make_packet_layout(data: bytes) -> tuple[Layout[Any], bytes]:
    """Return the layout of a packet by its header, and its bytes that count.

    Raises:
        DecodeError: an unknown type, an incomplete header, or too long a packet.
    """
    if len(data) > PACKET_BYTES_MAX:
        raise DecodeError("[MS-MQSD] 2.2", "packet", 0, f"has more than {PACKET_BYTES_MAX} bytes")
    header, _ = TOPOLOGY_PACKET_HEADER.read(data, 0, len(data))
    if header.packet_type is discovery.PacketType.CLIENT_REQUEST and len(data) < IPX_REQUEST_BYTES_MIN:
        # too short for one IPX network: neither a network nor a count is there ([MS-MQSD] 3.2.5.1)
        data = data[:IP_REQUEST_BYTES]
    return LAYOUTS[header.packet_type], data


def decode(data: bytes) -> discovery.TopologyPacket:
    """Decode a datagram ([MS-MQSD] 2.2.2, 2.2.3).

    Raises:
        DecodeError: with section, field, offset and problem.
    """
    layout, counts = _make_packet_layout(bytes(data))
    packet: discovery.TopologyPacket = layout.decode(counts)
    return packet


def encode(packet: discovery.TopologyPacket) -> bytes:
    """Encode a packet as a datagram.

    Raises:
        ValueError: naming the field that cannot be encoded, or for a packet longer than `PACKET_BYTES_MAX`.
        TypeError: not a packet.
    """
    return encode_one(_OF_CLASS, packet, called="topology packet", bytes_max=PACKET_BYTES_MAX)


def show_message(data: bytes) -> Shown:
    """Read a datagram field by field, as far as it can be read ([MS-MQSD] 2.2)."""
    data = bytes(data)
    try:
        layout, counts = _make_packet_layout(data)
    except DecodeError as error:
        return show_header(TOPOLOGY_PACKET_HEADER, data, error, name="TopologyPacketHeader")
    return show(layout, counts)
