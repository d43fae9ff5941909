"""Connections of the LDAP client to a simulated directory.

The client is the product's. There is no socket.
"""

from typing import Final

from mqdssm.directory.channel import Channel
from mqdssm.directory.connect import Attempt
from mqdssm.directory.observation import OperationObserver
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.requests import UNBIND_REQUEST
from mqdssm.directory.responses import split_messages
from mqdssm.directory.session import Session
from mqdssm.testing.ldap.directory import SimulatedDirectory
from mqdssm.testing.ldap.requests import decode_request

URL: Final = "ldapi://%2Fsimulated"
_FIRST_ID: Final = 1


class SimulatedConnection:
    """Replacement for a client's socket, which answers each request at once."""

    def __init__(self, directory: SimulatedDirectory) -> None:
        self._directory = directory
        self._answers = bytearray()

    def sendall(self, data: bytes, /) -> None:
        """Perform requests in their order, and keep the answers for `recv`."""
        messages, _ = split_messages(data)  # a client sends whole messages
        for message in messages:
            if message.tag != UNBIND_REQUEST:
                self._answers += self._directory.answer(decode_request(data, message))

    def recv(self, size: int, /) -> bytes:
        """Return the octets of answers.

        Raises:
            BlockingIOError: there are none before the next request.
        """
        if not self._answers:
            raise BlockingIOError
        data = bytes(self._answers[:size])
        del self._answers[:size]
        return data

    def settimeout(self, seconds: float | None, /) -> None:
        """Do nothing: no call waits."""

    def close(self) -> None:
        """Discard the answers that were not received."""
        self._answers.clear()


def open_session(directory: SimulatedDirectory) -> Session:
    """Return a connected session with a simulated directory, also a replicated one."""

    def opened(attempt: Attempt, observer: OperationObserver) -> Channel:
        return Channel(SimulatedConnection(directory), attempt.endpoint.url, _FIRST_ID, observer)

    session = Session(ConnectionOptions.of(URL, allow_replicated=True), opener=opened)
    session.connect()
    return session
