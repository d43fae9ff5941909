"""Values of discovery: networks, results of a client, knowledge of a server ([MS-MQSD] 3.1.1, 3.2.1)."""

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from mqdssm.model.discovery import IP_PORT, DirectoryServiceServer, TopologyServerReply
from mqdssm.model.guid import NULL_GUID, Guid

ANSWER_WAIT_S: Final = 15.0
"""How long a client waits for an answer: Wait For Response Timer ([MS-MQSD] 3.1.2.1)."""
PORT_MAX: Final = 65_535
"""The highest port of UDP."""


@dataclass(frozen=True, slots=True)
class Network:
    """A network that the client is connected to: an entry of NetworkAddressList ([MS-MQSD] 3.1.1.2).

    Attributes:
        address: where requests are sent, an IPv4 broadcast address or one server's own.
        port: of UDP.
        remote_access: whether it is one of a Remote Access Service (3.1.4.1).
        local: our own IPv4 address on it; empty: the system chooses.
    """

    address: str
    port: int = IP_PORT
    remote_access: bool = False
    local: str = ""

    def __post_init__(self) -> None:
        """Check what no socket could take.

        Raises:
            ValueError: no IPv4 address, or no port.
        """
        IPv4Address(self.address)
        if self.local:
            IPv4Address(self.local)
        if not 1 <= self.port <= PORT_MAX:
            raise ValueError(f"{self.port} is no port, 1 to {PORT_MAX}")

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryResult:
    """Result of a discovery ([MS-MQSD] 3.1.7).

    Attributes:
        servers: the directory servers; none where one of the client's own site answered, which means that
            the list the client has is still right.
        connected_networks: the server's connected networks.
        site: of the server that answered.
        is_own_site: whether that is the client's own.
        network: where the answer came from.
        answered_by: the server's address.
        own_site_server: address of the first server of the client's own site that answered; empty: none did.
    """

    servers: tuple[DirectoryServiceServer, ...]
    connected_networks: tuple[Guid, ...]
    site: Guid
    is_own_site: bool
    network: Network
    answered_by: str
    own_site_server: str = ""

    @classmethod
    def of(
        cls, reply: TopologyServerReply, *, own_site: Guid, network: Network, answered_by: str
    ) -> "DiscoveryResult":
        """What a reply says; a nil GUID is no network (decision S6)."""
        return cls(
            servers=reply.directory_service_servers or (),
            connected_networks=tuple(one for one in reply.connected_networks if one != NULL_GUID),
            site=reply.responding_site_id or own_site,
            is_own_site=reply.is_own_site,
            network=network,
            answered_by=answered_by,
            own_site_server=answered_by if reply.is_own_site else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """Knowledge of a server, from which it answers ([MS-MQSD] 3.2.1.1).

    Attributes:
        site: Site.Identifier.
        servers: LocalQueueManager.DirectoryServerList with protocols, the most wanted first.
        networks: LocalQueueManager.ConnectedNetworkIdentifierList, the most wanted first.
    """

    site: Guid
    servers: tuple[DirectoryServiceServer, ...] = ()
    networks: tuple[Guid, ...] = ()
