"""Admission of directory servers on other hosts (decision T136).

New servers ask with a join token. Requests come as messages to a private queue of this server's queue
manager, over the same port as those of replication. The queue exists while there are tokens. A sender without
a token gets no answer.
"""

import logging
from base64 import b64decode
from collections.abc import Callable
from threading import Event
from typing import Final, Self
from uuid import UUID

from mqdssm.drivers.authentication.private_key import PrivateKey
from mqdssm.drivers.queue_manager.inbox import LocalInbox
from mqdssm.drivers.threads import EventCounts, WarningLimit, WorkerThread
from mqdssm.drivers.transport import LocalQueue
from mqdssm.errors import MqdssmError, TransportError
from mqdssm.model.names import PrivateFormatName
from mqdssm.model.socket_addresses import SocketAddress, parse_socket_address
from mqdssm.model.transport import Message
from mqdssm.server.admission import Admission
from mqdssm.server.config import encode_keys
from mqdssm.server.control_protocol import (
    AdmissionReply,
    AdmissionRequest,
    RefusedReply,
    TokenReply,
    TokenRequest,
    reply_of,
)
from mqdssm.server.join_token import (
    DOCUMENT_BYTES_MAX,
    JoinReply,
    JoinToken,
    Sealed,
    fingerprint_of,
    open_request,
    seal_reply,
)
from mqdssm.server.join_tokens import JoinTokens

log: Final = logging.getLogger(__name__)

ADMISSION: Final = LocalQueue(name="mqdssm_admission$", number=6, messages_max=64, bytes_max=4 << 20)
"""Queue of a server that admits; anybody can send to it."""
ANSWER: Final = LocalQueue(name="mqdssm_admission_answer$", number=6, messages_max=64)
"""Queue of a new server, to which the answer comes."""
REACH_S: Final = 60
"""Seconds in which an answer has to reach the new server."""
POLL_S: Final = 1.0
"""Seconds between two looks for new or expired tokens."""


class TokenAdmission:
    """Admits directory servers that ask with a token, in a thread of its own.

    The class is a context manager that stops the thread.

    Args:
        admission: makes the objects of a new server.
        tokens: tokens that this server has made.
        key: private key of this server.
        listen: where this server listens.
        on_report: called with what an operator should know: admissions, and tokens that were misused.

    Attributes:
        counts: requests by outcome.
    """

    def __init__(
        self,
        admission: Admission,
        tokens: JoinTokens,
        key: PrivateKey,
        *,
        listen: SocketAddress,
        on_report: Callable[[str], object] = lambda _text: None,
    ) -> None:
        self._admission, self._tokens, self._key = admission, tokens, key
        self._queue_manager: Final = admission.server.queue_manager
        self._listen, self._on_report = listen, on_report
        self._public_keys: Final = key.public_keys()
        self._changed, self._stopping = Event(), Event()
        self._warnings: Final = WarningLimit()
        self._reported: Final[set[UUID]] = set()  # tokens whose misuse was reported
        self.counts: Final = EventCounts()
        self._thread: Final = WorkerThread(self._run, "admission by tokens")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._changed.set()
        self._thread.join()

    def check(self, request: TokenRequest) -> SocketAddress:
        """Check that a token can be made; return the address of this server in it.

        Raises:
            ValueError: as `make`.
            MqdssmError: as `make`.
        """
        address = parse_socket_address(request.address) if request.address else self._listen
        if address.is_anywhere:
            raise ValueError(
                f"give the address by which the new server reaches this one, which is not {address}"
            )
        self._admission.check(request.role, request.site, request.machine_name)
        self._tokens.check_room(request.machine_name)
        return address

    def has(self, machine_name: str) -> bool:
        """Return True if there is a token for a machine."""
        return self._tokens.has(machine_name)

    def make(self, request: TokenRequest) -> TokenReply:
        """Make a token for a new server.

        Raises:
            ValueError: another server admits it, or nobody can connect to the address.
            GenericDirectoryError: its site or its machine exists already.
            ConfigError: there are too many tokens, or they cannot be written.
            DirectoryError: the directory cannot be read.
        """
        address = self.check(request)
        token = JoinToken.new(
            expires=self._tokens.now() + request.valid_s,
            role=request.role,
            site=request.site,
            machine_name=request.machine_name,
            server_name=self._queue_manager.machine_name,
            server_id=self._queue_manager.identifier.uuid,
            address=str(address),
            fingerprint=fingerprint_of(bytes(self._public_keys)),
        )
        self._tokens.add(token)
        self._changed.set()
        claims = token.claims
        return TokenReply(token=token.reveal(), expires=claims.expires, fingerprint=claims.fingerprint)

    def withdraw(self, machine_name: str) -> bool:
        """Withdraw the token for a machine; return False if there is none.

        Raises:
            ConfigError: the tokens cannot be written.
        """
        return self._tokens.withdraw(machine_name)

    def _run(self) -> None:
        inbox: LocalInbox | None = None
        while not self._stopping.is_set():
            if not self._tokens.has_any():
                if inbox is not None:
                    self._queue_manager.delete(ADMISSION)
                    inbox = None
                self._changed.wait(POLL_S)
                self._changed.clear()
                continue
            try:
                inbox = inbox or self._queue_manager.open(ADMISSION)
                arrival = inbox.receive(POLL_S)
            except TransportError as error:  # it is closed, or its disk is full
                self._warnings.log(log, "no request with a join token can be received: %s", error)
                self._stopping.wait(POLL_S)
                continue
            if arrival is not None:
                self._handle(arrival.message)
            elif inbox.is_closed:
                self._stopping.wait(POLL_S)

    def _handle(self, message: Message) -> None:
        """Answer a request; a stranger's is dropped."""
        sealed = Sealed.parse(message.body) if len(message.body) <= DOCUMENT_BYTES_MAX else None
        token = None if sealed is None else self._tokens.find(sealed.token_id)
        if sealed is None or token is None:
            self._drop("request without a token that is known")
            return
        try:
            self._answer(sealed, token)
        except MqdssmError as error:
            self._warnings.log(log, "a request with a join token is dropped: %s", error)
            self.counts.add("dropped: request that could not be handled")
        except Exception:
            log.exception("a request with a join token is dropped by a defect")
            self.counts.add("defect")

    def _answer(self, sealed: Sealed, token: JoinToken) -> None:
        """Answer a request for a token that exists.

        Raises:
            MqdssmError: the tokens cannot be written, or the answer cannot be sent.
        """
        machine_name = token.claims.machine_name
        try:
            opened = open_request(token, sealed)
        except ValueError as error:  # of somebody who has the token
            self._drop(f"request with the token for {machine_name}: {error}")
            return
        if opened is None:
            self._drop(f"request with the token for {machine_name}, and a wrong code")
            if self._tokens.count_wrong(token.claims.token_id):
                self._report(token, "is withdrawn after many requests with a wrong code: make another one")
            return
        request, unknown = opened
        address = parse_socket_address(request.request.address)
        if address.is_anywhere:
            self._drop(f"request with the token for {machine_name}, which cannot be answered at {address}")
        elif not self._tokens.count_request(token.claims.token_id):
            self._drop(f"request with the token for {machine_name}: there were too many")
        elif unknown:
            self.counts.add("refused")
            self._send(token, request.nonce, address, RefusedReply(problem=unknown, kind="usage"))
        else:
            self._send(token, request.nonce, address, self._reply(token, request.request))

    def _reply(self, token: JoinToken, request: AdmissionRequest) -> AdmissionReply | RefusedReply:
        """Admit a server that has a token, or refuse it.

        Raises:
            ConfigError: the tokens cannot be written.
        """
        claims, own = token.claims, (request.role, request.site, request.machine_name)
        if token.is_expired(self._tokens.now()):
            return self._refuse_token(token, "has expired: make another one")
        if own != (claims.role, claims.site, claims.machine_name):
            return self._refuse_token(
                token, f"is for the {claims.role} {claims.machine_name} of {claims.site}"
            )
        fingerprint = fingerprint_of(b64decode(request.public_keys))
        record = self._tokens.use(claims.token_id, f"{request.machine_id} {fingerprint}")
        if record is None:
            self._report(
                token,
                f"was used before, and somebody at {request.address} uses it again with another key: look if "
                "the server that was admitted is yours, and make another token",
            )
            return self._refuse_token(token, "was used already: make another one")
        reply = reply_of(lambda: self._admission.admit(request, is_repeated=record.is_admitted))
        if isinstance(reply, AdmissionReply):
            self._record_admission(token, request, fingerprint, is_repeated=record.is_admitted)
            return reply
        refusal = reply if isinstance(reply, RefusedReply) else self._refuse_token(token, "cannot be used")
        self.counts.add("refused")
        if refusal.kind != "unknown":
            self._tokens.record_outcome(claims.token_id, is_admitted=False)
        return refusal

    def _record_admission(
        self, token: JoinToken, request: AdmissionRequest, fingerprint: str, *, is_repeated: bool
    ) -> None:
        """Record an admission, and report it unless it is repeated.

        Raises:
            ConfigError: the tokens cannot be written.
        """
        self._tokens.record_outcome(token.claims.token_id, is_admitted=True)
        self.counts.add("admitted")
        if not is_repeated:
            self._on_report(
                f"{request.machine_name}, {request.role} of {request.site}, is admitted with a join token. "
                f"It is at {request.address}, and its key is {fingerprint}"
            )

    def _refuse_token(self, token: JoinToken, problem: str) -> RefusedReply:
        self.counts.add("refused")
        text = f"the join token for {token.claims.machine_name} {problem}"
        return RefusedReply(problem=text, kind="usage")

    def _report(self, token: JoinToken, problem: str) -> None:
        """Report a problem of a token to the operator, once."""
        if token.claims.token_id not in self._reported:
            self._reported.add(token.claims.token_id)
            self._on_report(f"the join token for {token.claims.machine_name} {problem}")

    def _send(
        self, token: JoinToken, nonce: str, address: SocketAddress, reply: AdmissionReply | RefusedReply
    ) -> None:
        """Send a reply to the address in a request, whose sender has the token.

        Raises:
            TransportError: too many messages wait.
        """
        channel = token.channel(nonce)
        self._admission.hosts.resolver.add_host(channel, address)
        content = JoinReply(nonce=nonce, public_keys=encode_keys(self._public_keys), reply=reply)
        message = Message(body=seal_reply(token, self._key, content), time_to_reach_queue_s=REACH_S)
        self._queue_manager.send(message, PrivateFormatName(channel.uuid, ANSWER.number))

    def _drop(self, problem: str) -> None:
        self.counts.add("dropped: request of a stranger")
        self._warnings.log(log, "dropped: %s", problem)
