"""Networks whose computers a discovery server answers (decision S19)."""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, collapse_addresses
from typing import Final

ADDRESSES_KEPT: Final = 4096
"""Number of addresses whose result is cached."""


class SourceNetworks:
    """A set of IPv4 networks, quick to search.

    Args:
        networks: the networks; they may overlap.

    Attributes:
        networks: the same addresses in as few networks as possible, sorted.
    """

    def __init__(self, networks: Iterable[IPv4Network]) -> None:
        self.networks: Final = tuple(sorted(collapse_addresses(networks)))
        self._by_mask: Final[dict[int, set[int]]] = {}
        self._found: Final = lru_cache(ADDRESSES_KEPT)(self._find)
        for network in self.networks:
            mask = int(network.netmask)
            self._by_mask.setdefault(mask, set()).add(int(network.network_address))

    def __contains__(self, address: str) -> bool:
        """Return True if one of the networks has an IPv4 address, in dotted notation."""
        return self._found(address)

    def _find(self, address: str) -> bool:
        first, second, third, fourth = address.split(".")
        number = int(first) << 24 | int(second) << 16 | int(third) << 8 | int(fourth)
        return any(number & mask in networks for mask, networks in self._by_mask.items())

    def __str__(self) -> str:
        return ", ".join(map(str, self.networks)) or "no network"


EVERYWHERE: Final = SourceNetworks([IPv4Network("0.0.0.0/0")])
"""All IPv4 networks."""
LOOPBACK: Final = IPv4Network("127.0.0.0/8")
"""The loopback network."""
_ALL_NETWORKS: Final = frozenset(map(IPv4Address, (0, 0xFFFF_FFFF)))


def sources_of(
    listening: str, on_link: Iterable[IPv4Network], allowed: Iterable[IPv4Network] = ()
) -> SourceNetworks:
    """Return the networks whose computers are answered at an address.

    Args:
        listening: the server's address; 0.0.0.0 and 255.255.255.255 mean all networks.
        on_link: networks that the computer is connected to.
        allowed: more networks that are answered, although the computer is not connected to them.
    """
    address = IPv4Address(listening)
    here = (network for network in on_link if address in _ALL_NETWORKS or address in network)
    return SourceNetworks([*here, *allowed])
