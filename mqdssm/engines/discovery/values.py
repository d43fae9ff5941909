"""Networks, results of a client, and knowledge of a server.

See [MS-MQSD] 3.1.1 and 3.2.1.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from mqdssm.model.discovery import IP_PORT, DirectoryServiceServer, TopologyServerReply
from mqdssm.model.guid import NULL_GUID, Guid

ANSWER_WAIT_S: Final = 15.0
"""Time a client waits for an answer: Wait For Response Timer ([MS-MQSD] 3.1.2.1)."""
PORT_MAX: Final = 65_535
"""The highest port of UDP."""


@dataclass(frozen=True, slots=True)
class Network:
    """Network that the client is connected to: an entry of NetworkAddressList.

    See [MS-MQSD] 3.1.1.2.

    Attributes:
        address: destination of requests, an IPv4 broadcast address or the address of one server.
        port: of UDP.
        remote_access: True for a network of a Remote Access Service (3.1.4.1).
        local: our own IPv4 address on it; empty to let the system choose.
    """

    address: str
    port: int = IP_PORT
    remote_access: bool = False
    local: str = ""

    def __post_init__(self) -> None:
        """Check the addresses and the port.

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
        servers: the directory servers; empty if a server of the client's own site answered, which means that
            the client's list is still valid.
        connected_networks: the server's connected networks.
        site: of the server that answered.
        is_own_site: True if that is the client's own site.
        network: the network from which the answer came.
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
        """Return the result that a reply gives; a nil GUID is no network (decision S6)."""
        return cls(
            servers=reply.directory_service_servers or (),
            connected_networks=tuple(guid for guid in reply.connected_networks if guid != NULL_GUID),
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
        servers: LocalQueueManager.DirectoryServerList with protocols, the most preferred first.
        networks: LocalQueueManager.ConnectedNetworkIdentifierList, the most preferred first.
    """

    site: Guid
    servers: tuple[DirectoryServiceServer, ...] = ()
    networks: tuple[Guid, ...] = ()
