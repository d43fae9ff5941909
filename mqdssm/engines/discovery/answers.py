"""Answers of a directory server to datagrams ([MS-MQSD] 3.2.5.1).

Only requests are answered. Replies and malformed datagrams never are (decision S4), so that two servers
cannot be made to talk to each other. Replies are limited in size, for each source and for all of them
(decision S5). Beyond these limits no more bytes are sent than were received.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from mqdssm.engines.discovery.rates import (
    BYTES_AT_ONCE,
    BYTES_PER_S,
    OVER_RATE_PER_S,
    CommonRate,
    SourceRates,
)
from mqdssm.engines.discovery.values import Knowledge
from mqdssm.errors import DecodeError
from mqdssm.model.discovery import (
    NETWORKS_MAX,
    DirectoryServiceServer,
    PacketType,
    TopologyServerReply,
    make_ipx_mask,
)
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.wire.mqsd import CLIENT_REQUEST, IP_REQUEST_BYTES, IPX_REQUEST_BYTES_MIN, encode

REQUEST_BYTES_MAX: Final = IP_REQUEST_BYTES + 4 + 4 * NETWORKS_MAX
"""Length of the longest request, with 32 IPX networks ([MS-MQSD] 2.2.2)."""
REPLY_BYTES_MAX: Final = 1472
"""Payload of one Ethernet frame: a reply in fragments would often be lost (decision S13)."""
BRIEF_ONE_IN: Final = 3
"""A source over its rate gets one brief reply for this many requests (decision S5)."""
CREDIT_BYTES_MAX: Final = 16_384
"""Limit of the received bytes that pay for later replies."""
_TYPE_AT: Final = 1
_REQUEST_ID_AT: Final = slice(20, 36)
_SITE_AT: Final = slice(36, 52)
_ID_AT: Final = slice(4, 20)  # CorrelationID
_Form = tuple[bool, bool]  # for the client's own site, IPX
_Parts = tuple[bytes, bytes]  # bytes of a reply before and behind CorrelationID


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason why a datagram is not answered.

    Attributes:
        reason: a few constant words, for counting.
    """

    reason: str


class BriefAnswer(bytes):
    """A reply over the limits, with the first network and the first server only."""

    __slots__ = ()


NO_REQUEST: Final = Refusal("no request")
TOO_MANY: Final = Refusal("too many requests of one source")
TOO_MUCH: Final = Refusal("too many bytes for all sources")
FLOOD: Final = Refusal("flood of one source")
NOTHING_KNOWN: Final = Refusal("nothing is known yet")
NO_SERVERS: Final = Refusal("no directory server to tell of")


class Answers:
    """The answers of one server, shared by all its sockets.

    Args:
        rates: how many replies a source may have.
        byte_rate: how many bytes all replies together may have.

    Attributes:
        left_out: how many servers do not fit into the reply to other sites.
    """

    def __init__(
        self,
        rates: SourceRates | None = None,
        *,
        byte_rate: CommonRate | None = None,
    ) -> None:
        self.left_out = 0
        self._rates = SourceRates() if rates is None else rates
        self._byte_rate = byte_rate or CommonRate(per_s=BYTES_PER_S, at_once=BYTES_AT_ONCE)
        self._over_rate = CommonRate(per_s=OVER_RATE_PER_S, at_once=OVER_RATE_PER_S)
        self._site: Guid | None = None
        self._whole: dict[_Form, _Parts] = {}
        self._brief: dict[_Form, _Parts] = {}
        self._whole_bytes: dict[_Form, int] = {}
        self._brief_bytes: dict[_Form, int] = {}
        self._credit = 0  # bytes that were received beyond the limits, and not sent yet
        self._over_rate_requests = 0

    def learn(self, knowledge: Knowledge) -> None:
        """Answer with this knowledge from now on."""
        networks = knowledge.networks[:NETWORKS_MAX] or (NULL_GUID,)  # decision S6
        servers = tuple(self._select_fitting(knowledge.servers, networks))
        self.left_out = len(knowledge.servers) - len(servers)
        self._site = knowledge.site
        self._whole = _build_forms(knowledge.site, networks, servers)
        self._brief = _build_forms(knowledge.site, networks[:1], servers[:1])
        self._whole_bytes, self._brief_bytes = map(_measure_forms, (self._whole, self._brief))

    def answer(self, data: bytes, source: str, now: float) -> bytes | Refusal:
        """Return the reply to a datagram, or the reason why there is none.

        Args:
            data: the datagram; of a longer one the first `REQUEST_BYTES_MAX` + 1 bytes suffice.
            source: the sender's address, without port: one machine has many.
            now: monotonic seconds.

        Returns:
            The reply; a `BriefAnswer` if a limit of whole replies is reached.
        """
        # the cheapest checks first: a flood must cost the sender more than this server
        if not IP_REQUEST_BYTES <= len(data) <= REQUEST_BYTES_MAX:
            return NO_REQUEST
        if data[_TYPE_AT] != PacketType.CLIENT_REQUEST:
            return NO_REQUEST
        if self._site is None:
            return NOTHING_KNOWN
        # a shorter datagram has no IPXNetworkCount and no array (3.2.5.1): any bytes are a request
        is_ipx = len(data) >= IPX_REQUEST_BYTES_MIN
        if is_ipx and not _is_request(data):
            return NO_REQUEST
        form = (data[_SITE_AT] == self._site, is_ipx)
        if form not in self._whole:
            return NO_SERVERS
        if not self._rates.may(source, now):
            if self._rates.is_a_flood(source):
                return FLOOD
            return self._answer_over_rate(form, data, now)
        answer = self._limit_answer(form, data, now)
        if not isinstance(answer, Refusal):
            self._rates.count(source, now)
        return answer

    def _limit_answer(self, form: _Form, data: bytes, now: float) -> bytes | Refusal:
        """Return the whole reply within the byte rate, else a brief one or a refusal.

        The brief reply is returned if received bytes pay for it.
        """
        whole = _with_id(self._whole[form], data[_REQUEST_ID_AT])
        if len(whole) <= len(data) or self._byte_rate.take(len(whole), now):
            return whole
        brief = BriefAnswer(_with_id(self._brief[form], data[_REQUEST_ID_AT]))
        if len(brief) > len(data):
            self._credit = min(self._credit + len(data), CREDIT_BYTES_MAX)
            if len(brief) > self._credit:
                return TOO_MUCH
            self._credit -= len(brief)
        return brief

    def _answer_over_rate(self, form: _Form, data: bytes, now: float) -> bytes | Refusal:
        """Return a short reply to a request over the rate.

        The reply is no longer than the request, or a brief one to one in `BRIEF_ONE_IN` requests.

        Forged requests then do not keep a computer from its answer, and most received bytes are left to pay
        for replies to others. All sources over their rate share one rate, so that a flood from many sources
        does not keep the server busy with replies. The cheap checks come first for the same reason.
        """
        received, whole, brief = len(data), self._whole_bytes[form], self._brief_bytes[form]
        if brief > received:
            self._credit = min(self._credit + received, CREDIT_BYTES_MAX)
            self._over_rate_requests += 1
            if brief > self._credit or self._over_rate_requests % BRIEF_ONE_IN:
                return TOO_MANY
        if not self._over_rate.take(1, now):
            return TOO_MANY
        if whole <= received:
            return _with_id(self._whole[form], data[_REQUEST_ID_AT])
        if brief > received:
            self._credit -= brief
        return BriefAnswer(_with_id(self._brief[form], data[_REQUEST_ID_AT]))

    def _select_fitting(
        self, servers: tuple[DirectoryServiceServer, ...], networks: tuple[Guid, ...]
    ) -> Iterator[DirectoryServiceServer]:
        """Return the first servers, as many as fit into a reply."""
        # fixed fields, networks, RespondingSiteID
        room = REPLY_BYTES_MAX - 32 - 16 * len(networks) - 16
        for server in servers:
            room -= len(f"{server},".encode("utf-16-le", "surrogatepass"))  # the last comma is the NUL
            if room < 0:
                return
            yield server


def _is_request(data: bytes) -> bool:
    try:
        CLIENT_REQUEST.decode(data)
    except DecodeError:
        return False
    return True


def _build_forms(
    site: Guid, networks: tuple[Guid, ...], servers: tuple[DirectoryServiceServer, ...]
) -> dict[_Form, _Parts]:
    """Return the reply to each form of request (decision S14).

    Without servers there is no reply for other sites.
    """
    forms = {}
    for is_ipx in (False, True):
        reply = TopologyServerReply(
            correlation_id=NULL_GUID,
            connected_networks=networks,
            connected_network_mask=make_ipx_mask(len(networks)) if is_ipx else 0,
        )
        forms[True, is_ipx] = _split_at_id(reply)
        if servers:
            other = replace(reply, responding_site_id=site, directory_service_servers=servers)
            forms[False, is_ipx] = _split_at_id(other)
    return forms


def _measure_forms(forms: dict[_Form, _Parts]) -> dict[_Form, int]:
    return {form: len(_with_id(parts, NULL_GUID)) for form, parts in forms.items()}


def _split_at_id(reply: TopologyServerReply) -> _Parts:
    """Return a reply's bytes around CorrelationID, which alone differs by client."""
    data = encode(reply)
    return data[: _ID_AT.start], data[_ID_AT.stop :]


def _with_id(parts: _Parts, request_id: bytes) -> bytes:
    before, behind = parts
    return before + request_id + behind
