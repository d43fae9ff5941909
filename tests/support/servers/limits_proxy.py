"""A proxy that makes of Samba (or slapd) as narrow a server as a domain controller of Windows is.

It ends TLS itself and speaks LDAPS (or plain LDAP) to the server. What it enforces is in `limits_rules`; it
keeps all requests and all it has refused. Simple binds only: what is signed or sealed cannot be read on
the way.
"""

import asyncio
import contextlib
import gc
import ssl
import threading
import warnings
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from mqdssm.directory.ber import boolean, integer, octet_string, sequence, tlv
from mqdssm.directory.entries import parse_entry
from mqdssm.directory.requests import ABANDON_REQUEST, ADD_REQUEST, EXTENDED_REQUEST, LdapControl
from mqdssm.directory.responses import (
    EXTENDED_RESPONSE,
    SEARCH_DONE,
    SEARCH_ENTRY,
    SEARCH_REFERENCE,
    MessageBounds,
    MessageSplitter,
    decode_controls,
    decode_result,
)
from mqdssm.testing.certificates import make_certificates
from mqdssm.testing.ldap.requests import ANSWERS, LdapRequest, decode_request
from support.servers.answers import encode_result
from support.servers.limits_forest import from_samba, is_in, to_samba
from support.servers.limits_rules import (
    REFERRAL,
    SIZE_LIMIT_EXCEEDED,
    UNAVAILABLE_CRITICAL_EXTENSION,
    Limits,
    Refusal,
    SearchState,
    cut_entry,
    judge,
    passed_on,
)

START_TLS_OID: Final = "1.3.6.1.4.1.1466.20037"
RELAX_OID: Final = "1.3.6.1.4.1.4203.666.5.12"
REFERRAL_TAG: Final = 0xA3
CLOSE_WAIT_S: Final = 5.0

T = TypeVar("T")


@dataclass
class Trap:
    """Where referrals lead: nobody may ever come here."""

    url: str = ""
    visits: list[bytes] = field(default_factory=list)


class LimitsProxy:
    """Listens on loopback with TLS, with StartTLS, and with a trap for referrals.

    Attributes:
        limits: what is enforced.
        requests: all requests, in order.
        refused: the requests that the server never saw, and what they were told.
        cut: the searches that did not get all entries.
        trap: where referrals lead.
        errors: what went wrong in the proxy itself; `close` fails then.
        url: ``ldap://`` with StartTLS.
        ldaps_url: ``ldaps://``.
        ca_file: authority of the proxy's own certificate.
    """

    def __init__(
        self,
        host: str,
        port: int,
        folder: Path,
        *,
        ca_file: str | None = None,
        limits: Limits | None = None,
        system_socket: Path | None = None,
    ) -> None:
        """Start to listen.

        Args:
            host: of the server.
            port: of the server.
            folder: for the proxy's certificate.
            ca_file: of the server's certificate; None: the server is spoken to without TLS.
            limits: what is enforced.
            system_socket: the controller's privileged socket, for `Limits.guid_on_add`.
        """
        self.limits = limits or Limits()
        self.requests: list[LdapRequest] = []
        self.refused: list[tuple[LdapRequest, Refusal]] = []
        self.cut: list[LdapRequest] = []
        self.trap = Trap()
        self.errors: list[BaseException] = []
        self._server = (host, port)
        self._system_socket = system_socket
        self._server_tls = None if ca_file is None else ssl.create_default_context(cafile=ca_file)
        folder.mkdir(parents=True, exist_ok=True)
        make_certificates(folder)
        self.ca_file = str(folder / "ca.pem")
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self._refer_next: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._listeners: list[asyncio.Server] = self._call(self._listen())
        ports = [listener.sockets[0].getsockname()[1] for listener in self._listeners]
        self.url, self.ldaps_url = f"ldap://127.0.0.1:{ports[0]}", f"ldaps://127.0.0.1:{ports[1]}"
        self.trap.url = f"ldap://127.0.0.1:{ports[2]}"

    def refer_next(self, operation: str) -> None:
        """Answer the next operation of that name (``"modify"``, …) with a referral to the trap."""
        self._refer_next.add(operation)

    def operations(self, *names: str) -> list[LdapRequest]:
        """The requests of these kinds that came."""
        return [one for one in self.requests if one.operation in names]

    def close(self) -> None:
        """End all connections."""
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_WAIT_S)
        self._loop.close()
        with (
            warnings.catch_warnings()
        ):  # a handshake that the end has cut leaves its transport to the collector
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        assert self.errors == [], "the proxy itself failed"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> list[asyncio.Server]:
        async def clear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(reader, writer, secured=False)

        async def secured(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(reader, writer, secured=True)

        return [
            await asyncio.start_server(clear, "127.0.0.1", 0),
            await asyncio.start_server(secured, "127.0.0.1", 0, ssl=self.tls),
            await asyncio.start_server(self._catch, "127.0.0.1", 0),
        ]

    async def _end(self) -> None:
        for listener in self._listeners:
            listener.close()
        tasks = [task for task in self._tasks if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # transports tell their end in the next round of the loop

    async def _catch(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.trap.visits.append(await reader.read(4096))
        await _closed(writer)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, secured: bool
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        host, port = self._server
        ends = [writer]
        try:
            server_reader, server_writer = await asyncio.open_connection(host, port, ssl=self._server_tls)
            ends.append(server_writer)
            talk = Conversation(self, writer, server_writer, secured=secured)
            pumps = {
                asyncio.create_task(talk.pump_requests(reader)),
                asyncio.create_task(talk.pump_answers(server_reader)),
            }
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                ends_of_pumps = await asyncio.gather(*pumps, return_exceptions=True)
                self.errors += [end for end in ends_of_pumps if end is not None and _is_our_fault(end)]
        except (OSError, asyncio.CancelledError):
            pass  # the client sees a closed connection
        finally:
            for end in ends:
                await _closed(end)
            self._tasks.discard(task)

    def verdict(self, request: LdapRequest, *, secured: bool) -> Refusal | None:
        """Keep the request, and say why it is refused, if it is."""
        self.requests.append(request)
        if request.operation in self._refer_next:
            self._refer_next.discard(request.operation)
            refusal: Refusal | None = Refusal(
                REFERRAL, "0000202B: RefErr: DSID-03100835, data 0, 1 access points"
            )
        else:
            refusal = judge(request, self.limits, secured=secured)
        if refusal is not None:
            self.refused.append((request, refusal))
        return refusal

    async def ask_system(self, message: bytes) -> bytes:
        """Send one request as the controller itself, and give its answer."""
        assert self._system_socket is not None, "guid_on_add needs system_socket"
        reader, writer = await asyncio.open_unix_connection(str(self._system_socket))
        try:
            writer.write(message)
            splitter = MessageSplitter()
            while data := await reader.read(65536):
                buffer, messages = splitter.feed(data)
                if messages:
                    return buffer[: messages[0].stop]
        finally:
            await _closed(writer)
        raise ConnectionResetError("the controller closed its privileged socket")


class Conversation:
    """One client's connection and the one to the server that belongs to it."""

    def __init__(
        self, proxy: LimitsProxy, client: asyncio.StreamWriter, server: asyncio.StreamWriter, *, secured: bool
    ) -> None:
        self._proxy = proxy
        self._client, self._server = client, server
        self._secured = secured
        self._searches: dict[int, tuple[LdapRequest, SearchState]] = {}

    async def pump_requests(self, reader: asyncio.StreamReader) -> None:
        splitter = MessageSplitter()
        while data := await reader.read(65536):
            buffer, messages = splitter.feed(data)
            for message in messages:
                await self._request(buffer, message)
            await self._server.drain()

    async def pump_answers(self, reader: asyncio.StreamReader) -> None:
        splitter = MessageSplitter()
        while data := await reader.read(262144):
            buffer, messages = splitter.feed(data)
            buffer = from_samba(buffer, self._proxy.limits.other_domain)
            for message in messages:
                self._answer(buffer, message)
            await self._client.drain()

    async def _request(self, buffer: bytes, message: MessageBounds) -> None:
        request = decode_request(buffer, message)
        buffer = to_samba(buffer, self._proxy.limits.other_domain)
        refusal = self._proxy.verdict(request, secured=self._secured)
        if refusal is not None:
            more = self._to_the_trap() if refusal.code == REFERRAL else b""
            tag = ANSWERS[request.tag]
            self._client.write(encode_result(request.id, tag, refusal.code, text=refusal.text, more=more))
            return
        if request.tag == EXTENDED_REQUEST and request.dn == START_TLS_OID and not self._secured:
            await self._start_tls(request)
            return
        if request.tag == ABANDON_REQUEST:
            self._searches.pop(request.abandoned, None)
        if (
            request.tag == ADD_REQUEST
            and "objectguid" in request.attributes
            and self._proxy.limits.guid_on_add
        ):
            self._client.write(await self._proxy.ask_system(_with_control(buffer, message, RELAX_OID)))
            return
        passed = _whole(buffer, message)
        if request.search is not None:
            asked = decode_request(buffer, message)
            assert asked.search is not None
            passed, state = passed_on(asked, asked.search, self._proxy.limits)
            self._searches[request.id] = (request, state)
        self._server.write(passed)

    async def _start_tls(self, request: LdapRequest) -> None:
        name = octet_string(START_TLS_OID, 0x8A)
        self._client.write(encode_result(request.id, EXTENDED_RESPONSE, more=name))
        await self._client.start_tls(self._proxy.tls)
        self._secured = True

    def _answer(self, buffer: bytes, message: MessageBounds) -> None:
        found = self._searches.get(message.id)
        if found is None:
            self._client.write(_whole(buffer, message))
            return
        request, state = found
        if message.tag == SEARCH_ENTRY:
            self._entry(buffer, message, state)
        elif message.tag == SEARCH_REFERENCE:
            self._client.write(self._reference(message.id))  # whatever it said, the trap is meant
        elif message.tag == SEARCH_DONE:
            del self._searches[message.id]
            self._done(buffer, message, request, state)
        else:
            self._client.write(_whole(buffer, message))

    def _entry(self, buffer: bytes, message: MessageBounds, state: SearchState) -> None:
        limits = self._proxy.limits
        name = parse_entry(buffer, message.start, message.end)[0].decode()
        if not limits.catalog and is_in(name, limits.other_domain):
            return  # another controller's
        state.entries += 1
        if state.entries > state.entries_max:
            state.cut = True
            return
        entry = cut_entry(buffer, message, state, self._proxy.limits)
        if state.held is None:
            self._client.write(entry)
        elif len(state.held) <= self._proxy.limits.sort_entries:
            state.held.append(entry)

    def _done(self, buffer: bytes, message: MessageBounds, request: LdapRequest, state: SearchState) -> None:
        done = _whole(buffer, message)
        if state.held is not None and len(state.held) > self._proxy.limits.sort_entries:
            text = "00000057: LdapErr: DSID-0C090A2E, comment: too many entries to sort"
            state.held, state.cut = [], True
            done = encode_result(message.id, SEARCH_DONE, UNAVAILABLE_CRITICAL_EXTENSION, text=text)
        elif state.cut and decode_result(buffer, message).code == 0:
            done = encode_result(message.id, SEARCH_DONE, SIZE_LIMIT_EXCEEDED)
        for entry in state.held or ():
            self._client.write(entry)
        if state.cut:
            self._proxy.cut.append(request)
        if state.refer:
            self._client.write(self._reference(message.id))
        self._client.write(done)

    def _reference(self, number: int) -> bytes:
        uri = octet_string(f"{self._proxy.trap.url}/CN=Configuration,DC=elsewhere")
        return sequence(integer(number), tlv(SEARCH_REFERENCE, uri))

    def _to_the_trap(self) -> bytes:
        return tlv(REFERRAL_TAG, octet_string(f"{self._proxy.trap.url}/DC=elsewhere"))


def _whole(buffer: bytes, message: MessageBounds) -> bytes:
    """The message by itself; the octets of its own length are not kept by the splitter."""
    operation = tlv(message.tag, buffer[message.start : message.end])
    return sequence(integer(message.id), operation, buffer[message.end : message.stop])


def _with_control(buffer: bytes, message: MessageBounds, oid: str) -> bytes:
    """The message with one more control, a critical one without a value."""
    listed = [*decode_controls(buffer, message.end, message.stop), LdapControl(oid, critical=True)]
    encoded = b""
    for control in listed:
        parts = [octet_string(control.oid), boolean(control.critical)]
        if control.value is not None:
            parts.append(octet_string(control.value))
        encoded += sequence(*parts)
    operation = tlv(message.tag, buffer[message.start : message.end])
    return sequence(integer(message.id), operation, tlv(0xA0, encoded))


def _is_our_fault(end: BaseException) -> bool:
    return not isinstance(end, (OSError, asyncio.CancelledError))


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, asyncio.TimeoutError, asyncio.CancelledError):
        await asyncio.wait_for(writer.wait_closed(), CLOSE_WAIT_S)
