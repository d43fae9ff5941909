"""What a directory server answers to a datagram, from what it knows ([MS-MQSD] 3.2.5.1).

Only requests are answered: what is malformed, or is a reply, never is (decision S4), so that two servers
cannot be made to talk to each other. Replies are bounded in size and in number (decision S5).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mqdssm.engines.discovery.rates import SourceRates
from mqdssm.engines.discovery.values import Knowledge
from mqdssm.errors import DecodeError
from mqdssm.model.discovery import (
    NETWORKS_MAX,
    DirectoryServiceServer,
    PacketType,
    TopologyServerReply,
    ipx_mask,
)
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.wire.mqsd import CLIENT_REQUEST, IP_REQUEST_BYTES, IPX_REQUEST_BYTES_MIN, encode

REQUEST_BYTES_MAX: Final = IP_REQUEST_BYTES + 4 + 4 * NETWORKS_MAX
"""The longest request, with 32 IPX networks ([MS-MQSD] 2.2.2)."""
REPLY_BYTES_MAX: Final = 1472
"""What one Ethernet frame carries: a reply in fragments would often be lost (decision S13)."""
_TYPE_AT: Final = 1
_ID_AT: Final = slice(4, 20)  # CorrelationID
_Form = tuple[bool, bool]  # of the client's own site, IPX


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a datagram is not answered.

    Attributes:
        what: in a few constant words, to be counted by.
    """

    what: str


NO_REQUEST: Final = Refusal("no request")
TOO_MANY: Final = Refusal("too many requests of one source")
FLOOD: Final = Refusal("flood of one source")
NOTHING_KNOWN: Final = Refusal("nothing is known yet")
NO_SERVERS: Final = Refusal("no directory server to tell of")


class Answers:
    """The answers of one server, whatever sockets it has.

    Args:
        rates: how many replies a source may have.
        reply_bytes_max: the longest reply; servers that do not fit are left out.

    Attributes:
        left_out: how many servers do not fit into the reply to other sites.
    """

    def __init__(self, rates: SourceRates | None = None, *, reply_bytes_max: int = REPLY_BYTES_MAX) -> None:
        self.left_out = 0
        self._rates = SourceRates() if rates is None else rates
        self._reply_bytes_max = reply_bytes_max
        self._site: Guid | None = None
        self._forms: dict[_Form, tuple[bytes, bytes]] = {}  # what stands before and behind CorrelationID

    def learn(self, knowledge: Knowledge) -> None:
        """Answer from now on with this."""
        networks = knowledge.networks[:NETWORKS_MAX] or (NULL_GUID,)  # decision S6
        servers = tuple(self._fitting(knowledge.servers, networks))
        self.left_out = len(knowledge.servers) - len(servers)
        self._site = knowledge.site
        self._forms = {}
        for is_ipx in (False, True):
            own = TopologyServerReply(
                correlation_id=NULL_GUID,
                connected_networks=networks,
                connected_network_mask=ipx_mask(len(networks)) if is_ipx else 0,
            )
            self._forms[True, is_ipx] = _around_id(own)
            if servers:  # else it would read as one of the client's own site (decision S14)
                other = TopologyServerReply(
                    correlation_id=NULL_GUID,
                    connected_networks=networks,
                    connected_network_mask=own.connected_network_mask,
                    responding_site_id=knowledge.site,
                    directory_service_servers=servers,
                )
                self._forms[False, is_ipx] = _around_id(other)

    def answer(self, data: bytes, source: str, now: float) -> bytes | Refusal:
        """The reply to a datagram, or why there is none.

        Args:
            data: the datagram; of one that is too long more than `REQUEST_BYTES_MAX` bytes suffice.
            source: the sender's address, without port: one machine has many.
            now: monotonic seconds.
        """
        # what is cheap first: whoever floods us must pay more than we do
        if not IP_REQUEST_BYTES <= len(data) <= REQUEST_BYTES_MAX:
            return NO_REQUEST
        if data[_TYPE_AT] != PacketType.CLIENT_REQUEST:
            return NO_REQUEST
        if self._site is None:
            return NOTHING_KNOWN
        if not self._rates.may(source, now):
            return FLOOD if self._rates.is_a_flood(source) else TOO_MANY
        if len(data) < IPX_REQUEST_BYTES_MIN:  # IPXNetworkCount and its array are not there (3.2.5.1)
            data = data[:IP_REQUEST_BYTES]
        try:
            request = CLIENT_REQUEST.decode(data)
        except DecodeError:
            return NO_REQUEST
        form = self._forms.get((request.site_id == self._site, request.is_ipx))
        if form is None:
            return NO_SERVERS
        self._rates.count(source, now)
        before, behind = form
        return before + request.request_id + behind

    def _fitting(
        self, servers: tuple[DirectoryServiceServer, ...], networks: tuple[Guid, ...]
    ) -> Iterator[DirectoryServiceServer]:
        """As many servers as a reply has room for, the first ones."""
        # fixed fields, networks, RespondingSiteID
        room = self._reply_bytes_max - 32 - 16 * len(networks) - 16
        for server in servers:
            room -= len(f"{server},".encode("utf-16-le", "surrogatepass"))  # the last comma is the NUL
            if room < 0:
                return
            yield server


def _around_id(reply: TopologyServerReply) -> tuple[bytes, bytes]:
    """A reply's bytes before and behind CorrelationID, the one field that differs from client to client."""
    data = encode(reply)
    return data[: _ID_AT.start], data[_ID_AT.stop :]
