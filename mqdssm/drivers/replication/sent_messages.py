"""Sent messages that may be answered by a negative acknowledgement.

See [MC-MQDSRP] 3.1.5.1.

Acknowledgements are not signed. One is accepted only if it names a recently sent message and contains its
body. The reaction uses the remembered message, not the received one: otherwise anybody could have any message
signed, by 3.3.7.9 (decision R58).
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Final

from mqdssm.model.messages import ReplicationMessage
from mqdssm.model.transport import Message, MessageId

OUTSTANDING_MAX: Final = 1000
"""Maximum number of remembered messages: several for each neighbour of the largest enterprise."""
GRACE_S: Final = 60.0
"""Seconds after a message's time-to-reach-queue in which its acknowledgement is still accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """Sent message.

    Attributes:
        message: what its body says.
        destination: machine name.
    """

    message: ReplicationMessage
    destination: str


class SentMessages:
    """Sent messages that ask for acknowledgements; from any thread."""

    def __init__(self) -> None:
        self._sent: Final[OrderedDict[MessageId, tuple[float, bytes, SentMessage]]] = OrderedDict()
        self._lock: Final = Lock()

    def send(self, send: Callable[[], MessageId], body: bytes, sent: SentMessage, until: float) -> None:
        """Send a message and remember it until a time.

        If there are too many, the oldest are forgotten.

        Its acknowledgement may be here before `send` has told the identifier: `take` waits for that.

        Raises:
            Exception: what `send` raises; nothing is remembered then.
        """
        with self._lock:
            self._sent[send()] = until + GRACE_S, _digest_of(body), sent
            while len(self._sent) > OUTSTANDING_MAX:
                self._sent.popitem(last=False)

    def take(self, acknowledgement: Message, now: float) -> SentMessage | None:
        """Return the sent message of an acknowledgement, once.

        None if it is unknown or too late.
        """
        key = acknowledgement.correlation
        with self._lock:
            until, digest, sent = self._sent.get(key, (0.0, b"", None))
            if sent is None or digest != _digest_of(acknowledgement.body):
                return None
            del self._sent[key]
        return sent if now <= until else None


def _digest_of(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
