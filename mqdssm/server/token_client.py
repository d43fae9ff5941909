"""Request of a new directory server to a server elsewhere, with a join token.

See decision T136. The new server has no queue manager of its own yet. For the request it runs one, at its own
address: the answer comes over a connection of the other server, which proves that both can reach each other.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Final

from mqdssm.drivers.authentication.private_key import PrivateKey, read_secret_file
from mqdssm.drivers.queue_manager.inbox import LocalInbox
from mqdssm.drivers.tcp.name_resolution import NameResolver
from mqdssm.drivers.tcp.network import TcpNetwork, TcpSettings
from mqdssm.engines.session.settings import SessionSettings
from mqdssm.errors import ConfigError, DirectoryNotConnected, OutcomeUnknown, TransportError
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.names import PrivateFormatName
from mqdssm.model.socket_addresses import parse_socket_address
from mqdssm.model.transport import Message
from mqdssm.server.control_client import error_of_refusal
from mqdssm.server.control_protocol import AdmissionReply, AdmissionRequest
from mqdssm.server.join_token import (
    TOKEN_BYTES_MAX,
    JoinReply,
    JoinRequest,
    JoinToken,
    Sealed,
    open_reply,
    seal_request,
)
from mqdssm.server.token_admission import ADMISSION, ANSWER

WAIT_S: Final = 60.0
"""Seconds that the new server waits for an answer."""
REPEAT_S: Final = 5.0
"""Seconds after which a request is sent again: the other server may have been restarted."""
_SESSIONS: Final = TcpSettings(
    flush_s=0.2, sessions=SessionSettings(identifier=NULL_GUID, retry_connect_max_s=5.0, ack_send_max_s=0.2)
)


def read_token(file: Path) -> JoinToken:
    """Read a token from a file that only its owner can read.

    Raises:
        ConfigError: the file cannot be read, others may read it, or it has no token.
    """
    data = read_secret_file(file, "join token", TOKEN_BYTES_MAX + 1)
    return JoinToken.parse(data.decode("ascii", errors="replace"))


class TokenClient:
    """Client of a server that admits with a token (`Admitter`).

    Args:
        token: the token.
        key_file: private key of the new server, which exists when `admit` is called.
        listen: where to listen for the answer; empty: at the address of the request.
        wait_s: seconds to wait for the answer.
        clock: seconds since 1970, for the expiry of the token.

    Raises:
        ConfigError: the token has expired.
    """

    def __init__(
        self,
        token: JoinToken,
        key_file: Path,
        *,
        listen: str = "",
        wait_s: float = WAIT_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if token.is_expired(clock()):
            raise ConfigError(
                f"the join token for {token.claims.machine_name} has expired: make another one at "
                f"{token.claims.server_name}"
            )
        self._token, self._key_file, self._listen, self._wait_s = token, key_file, listen, wait_s

    def admit(self, request: AdmissionRequest) -> AdmissionReply:
        """Have the objects of the new server made, as `ControlClient.admit`.

        Raises:
            TransportError: the address of the new server cannot be listened on.
        """
        claims = self._token.claims
        join = JoinRequest(nonce=token_hex(16), request=request)
        body = seal_request(self._token, PrivateKey.load(self._key_file), join)
        server_id = Guid.of(claims.server_id)
        resolver = NameResolver({server_id: parse_socket_address(claims.address)})
        with ExitStack() as closing:
            folder = Path(closing.enter_context(TemporaryDirectory(prefix="mqdssm-")))
            listen = parse_socket_address(self._listen or request.address)
            network = TcpNetwork(listen, folder / "numbers.json", resolver, settings=_SESSIONS)
            manager = network.add(request.machine_name, self._token.channel(join.nonce), queues=(ANSWER,))
            closing.callback(manager.close)
            inbox, until = manager.open(ANSWER), time.monotonic() + self._wait_s
            reply: JoinReply | None = None
            while reply is None and time.monotonic() < until:
                message = Message(body=body, time_to_reach_queue_s=int(self._wait_s) + 1)
                with suppress(TransportError):  # many wait: the other server is not reached
                    manager.send(message, PrivateFormatName(claims.server_id, ADMISSION.number))
                reply = self._receive(inbox, join.nonce, min(until, time.monotonic() + REPEAT_S))
            problems = [status.problem for status in network.sessions() if status.is_initiator]
            is_reached = network.counts.copy().get("session opened", 0) > 0
        if reply is not None:
            return self._check_reply(reply)
        where = f"{claims.server_name} at {claims.address}"
        if not is_reached:
            raise DirectoryNotConnected(f"{where} cannot be reached: {' '.join(problems) or 'no answer'}")
        raise OutcomeUnknown(
            f"{where} has not answered within {self._wait_s:g} s: it cannot connect to {request.address}, or "
            "does not know the token any more"
        )

    def _receive(self, inbox: LocalInbox, nonce: str, until: float) -> JoinReply | None:
        """Return the answer to the request; None if none comes in time.

        Answers of others, who do not have the token and the key, are dropped.
        """
        while (remaining := until - time.monotonic()) > 0:
            arrival = inbox.receive(remaining)
            sealed = None if arrival is None else Sealed.parse(arrival.message.body)
            reply = None if sealed is None else open_reply(self._token, sealed)
            if reply is not None and reply.nonce == nonce:
                return reply
        return None

    def _check_reply(self, reply: JoinReply) -> AdmissionReply:
        """Return the facts in a reply, with the address of the server.

        Raises:
            Exception: the refusal.
            ConfigError: the reply names another key for the server than it was signed with.
        """
        claims, facts = self._token.claims, reply.reply
        if not isinstance(facts, AdmissionReply):
            raise error_of_refusal(facts, claims.server_name)
        keys = {key.public_keys for key in facts.keys if key.machine_id == claims.server_id}
        if keys != {reply.public_keys}:
            raise ConfigError(f"{claims.server_name} names another key than its own: ask its operator")
        hosts = {claims.server_name.casefold(): claims.address} | facts.hosts
        return facts.model_copy(update={"hosts": hosts})
