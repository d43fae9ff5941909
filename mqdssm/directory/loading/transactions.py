"""Groups of adds in one transaction ([RFC5805]): all or none, with one commit.

slapd only queues the requests, and performs them at the end. Versions up to 2.6 can be crashed by an end
request right behind the last answer (docs/loading.md): every answer is waited for, then `PAUSE_S`.
"""

import logging
import time
from typing import TYPE_CHECKING, Final

from mqdssm.directory.ber import octet_string, sequence
from mqdssm.directory.channel import Channel
from mqdssm.directory.requests import LdapControl, encode_extended
from mqdssm.directory.responses import ADD_RESPONSE, EXTENDED_RESPONSE

if TYPE_CHECKING:
    from mqdssm.directory.loading.tasks import ChangeTask
    from mqdssm.directory.session import Session

START_OID: Final = "1.3.6.1.1.21.1"
END_OID: Final = "1.3.6.1.1.21.3"
SPECIFICATION: Final = LdapControl("1.3.6.1.1.21.2", critical=True, value=b"")
"""Control that puts a change into the transaction of the connection; slapd's identifier is empty."""
COMMIT: Final = sequence(octet_string(b""))
PAUSE_S: Final = 0.003
"""Pause between the last answer and the end request, so that slapd has queued the last change."""
FAILURES_MAX: Final = 2
"""Failed transactions in a row after which no more are tried: most objects then exist already."""

log = logging.getLogger(__name__)


class Transactions:
    """Adds objects in transactions.

    Attributes:
        size: most adds of one group; 0: there are no (more) transactions.
    """

    def __init__(self, session: "Session", size: int, window: int) -> None:
        """Check whether the server supports transactions."""
        offered = START_OID.encode() in session.root_dse.all("supportedExtension")
        if size and not offered:
            log.info("%s has no transactions: objects are added one by one", session.server_url)
        self.size = size if offered else 0
        self._profile = session.profile
        self._window = window
        self._failures = 0

    def commit(self, channel: Channel, tasks: "dict[int, ChangeTask]", limit_s: float) -> "set[int] | None":
        """Add objects in one transaction.

        Args:
            channel: with no request under way.
            tasks: the adds, by message ids of the channel.
            limit_s: for each step.

        Returns:
            The ids of those that were not taken into the transaction, and nothing became of; None: the
            transaction failed, and nothing became of any.

        Raises:
            ConnectionBroken: nobody knows.
            ValueError: one cannot be encoded; nothing was sent.
        """
        requests = {
            number: task.encode(number, self._profile, (SPECIFICATION,)) for number, task in tasks.items()
        }
        if not self._request_extended(channel, START_OID, None, limit_s):
            self.size = 0
            return None
        odd = self._send(channel, requests, limit_s)
        if len(odd) == len(tasks):
            self._request_extended(channel, END_OID, sequence(b"\x01\x01\x00", octet_string(b"")), limit_s)
            return None
        time.sleep(PAUSE_S)
        if self._request_extended(channel, END_OID, COMMIT, limit_s):
            self._failures = 0
            return odd
        self._failures += 1
        if self._failures >= FAILURES_MAX:
            log.info("%s transactions failed: objects are added one by one from here", self._failures)
            self.size = 0
        return None

    def _send(self, channel: Channel, requests: dict[int, bytes], limit_s: float) -> set[int]:
        """Send the requests in windows; return the ids of those refused.

        The server did not take these into the transaction.
        """
        odd = set()
        numbers = list(requests)
        for first in range(0, len(numbers), self._window):
            some = numbers[first : first + self._window]
            deadline = time.monotonic() + limit_s
            channel.send(b"".join([requests[number] for number in some]), deadline)
            waiting = dict.fromkeys(some, ADD_RESPONSE)
            while waiting:
                for number, result in channel.answers(waiting, deadline):
                    del waiting[number]
                    if result.code != 0:
                        odd.add(number)
        return odd

    @staticmethod
    def _request_extended(channel: Channel, oid: str, value: bytes | None, limit_s: float) -> bool:
        number = channel.choose_id()
        request = encode_extended(number, oid, value)
        return channel.request(number, request, EXTENDED_RESPONSE, time.monotonic() + limit_s).code == 0
