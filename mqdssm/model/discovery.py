"""Topology packets of clients and directory servers over UDP or IPX.

See [MS-MQSD] 2.2.
Fields have the specification's names in Python's spelling; counts and sizes are computed from the fields.
The binary layout is in `mqdssm.wire.mqsd`.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, Self, TypeAlias

from mqdssm.model.guid import Guid

IP_PORT: Final = 1801
"""UDP port of directory servers (decision S1) ([MS-MQSD] 1.9, 2.1)."""
NETWORKS_MAX: Final = 32
"""Most connected networks of a reply, and most IPX networks of a request ([MS-MQSD] 2.2.2, 2.2.3)."""
SERVER_NAME_CHARS_MAX: Final = 256
"""Longest name of a directory server; the document gives no limit (decision S7)."""
NETBIOS_CHARS_MAX: Final = 15
"""Longest NetBIOS name of a computer."""
_NETBIOS_FORBIDDEN: Final = frozenset('\\/:*?"<>|,\0')
_FLAGS: Final = frozenset("01")
_FLAG_CHARS: Final = 2


class PacketType(IntEnum):
    """Type of a packet, TopologyPacketHeader.Type ([MS-MQSD] 2.2.1)."""

    CLIENT_REQUEST = 0x01
    SERVER_REPLY = 0x02


class DirectoryServiceServer(str):
    """Entry of DirectoryServiceServerArray: two flags and a name.

    An example is ``10nt4pec`` ([MS-MQSD] 2.2.3).
    An entry is a `str`: it compares, sorts and prints as its text.

    Raises:
        ValueError: no flags, no name, one longer than 256 characters, or with a comma or a NUL.
    """

    __slots__ = ()

    def __new__(cls, entry: str) -> Self:
        """Check an entry of the array."""
        flags, name = entry[:_FLAG_CHARS], entry[_FLAG_CHARS:]
        if len(flags) != _FLAG_CHARS or not _FLAGS.issuperset(flags):
            raise ValueError(f"{entry!r} does not begin with two flags, each 0 or 1")
        if not 1 <= len(name) <= SERVER_NAME_CHARS_MAX:
            raise ValueError(
                f"the name of a server has {len(name)} characters: 1 to {SERVER_NAME_CHARS_MAX} are allowed"
            )
        if "," in name or "\0" in name:
            raise ValueError(f"the name of a server, {name!r}, holds a comma or a NUL")
        return str.__new__(cls, entry)

    @classmethod
    def of(cls, name: str, *, ip: bool = True, ipx: bool = False) -> Self:
        """Make an entry from a name and the protocols that the server supports.

        Raises:
            ValueError: a name that cannot stand in the array.
        """
        return cls(f"{ip:d}{ipx:d}{name}")

    @property
    def name(self) -> str:
        """The server's name."""
        return self[_FLAG_CHARS:]

    @property
    def ip(self) -> bool:
        """True if the server supports IP."""
        return self[0] == "1"

    @property
    def ipx(self) -> bool:
        """True if the server supports IPX."""
        return self[1] == "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyClientRequest:
    """Request for the directory servers of an enterprise ([MS-MQSD] 2.2.2).

    Attributes:
        enterprise_id: the client's enterprise.
        request_id: GUID of this request; replies have it as `correlation_id`.
        site_id: the client's site.
        ipx_networks: IPXNetworkNumberArray, the client's IPX networks, at most 32; none: IP is used.
    """

    packet_type: ClassVar[PacketType] = PacketType.CLIENT_REQUEST

    enterprise_id: Guid
    request_id: Guid
    site_id: Guid
    ipx_networks: tuple[int, ...] = ()

    @property
    def is_ipx(self) -> bool:
        """True if the request has the IPX form."""
        return bool(self.ipx_networks)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyServerReply:
    """Networks of a directory server, in reply to a client ([MS-MQSD] 2.2.3).

    Clients of other sites get the directory servers, too.

    Attributes:
        correlation_id: `request_id` of the request.
        connected_networks: ConnectedNetworkArray, 1 to 32; one nil GUID if no network is known (decision S6).
        connected_network_mask: 0 over IP; over IPX as many bits as `connected_networks` has elements.
        responding_site_id: the server's site; None where that is the client's own.
        directory_service_servers: DirectoryServiceServerArray, at least one; None where the server is of the
            client's own site (DirectoryServiceServerSize is 0).

    Raises:
        ValueError: a mask that does not fit the networks, a site without servers or servers without one.
    """

    packet_type: ClassVar[PacketType] = PacketType.SERVER_REPLY

    correlation_id: Guid
    connected_networks: tuple[Guid, ...]
    connected_network_mask: int = 0
    responding_site_id: Guid | None = None
    directory_service_servers: tuple[DirectoryServiceServer, ...] | None = None

    def __post_init__(self) -> None:
        networks, bits = len(self.connected_networks), self.connected_network_mask.bit_count()
        if not 1 <= networks <= NETWORKS_MAX:
            raise ValueError(f"{networks} connected networks: 1 to {NETWORKS_MAX} are allowed")
        if bits not in {0, networks}:
            raise ValueError(
                f"ConnectedNetworkMask has {bits} bits set: none, or {networks}, one for each network"
            )
        if (self.responding_site_id is None) is not (self.directory_service_servers is None):
            raise ValueError(
                "RespondingSiteID and DirectoryServiceServerArray are there together or not at all"
            )
        if self.directory_service_servers == ():
            raise ValueError("DirectoryServiceServerArray has at least one entry where it is there")

    @property
    def is_own_site(self) -> bool:
        """True if the server is of the client's own site.

        DirectoryServiceServerSize is 0 then.
        """
        return self.directory_service_servers is None

    @property
    def is_ipx(self) -> bool:
        """True if the reply was made for IPX."""
        return self.connected_network_mask != 0


TopologyPacket: TypeAlias = TopologyClientRequest | TopologyServerReply
"""A packet of either kind."""


def make_ipx_mask(networks: int) -> int:
    """Return the ConnectedNetworkMask for a number of networks over IPX.

    The mask has the lowest bits set ([MS-MQSD] 3.2.5.1).

    Raises:
        ValueError: not 1 to 32.
    """
    if not 1 <= networks <= NETWORKS_MAX:
        raise ValueError(f"{networks} connected networks: 1 to {NETWORKS_MAX} are allowed")
    return (1 << networks) - 1


def check_netbios_name(name: str) -> str:
    """Return the NetBIOS name of a computer, as lists of servers have it.

    See [MS-MQSD] 3.1.7.1.

    Raises:
        ValueError: it cannot be one.
    """
    if not 1 <= len(name) <= NETBIOS_CHARS_MAX:
        raise ValueError(f"{name!r} is no NetBIOS name: it has {len(name)} characters, not 1 to 15")
    if forbidden := _NETBIOS_FORBIDDEN.intersection(name):
        raise ValueError(f"{name!r} is no NetBIOS name: it has {''.join(sorted(forbidden))!r}")
    return name
