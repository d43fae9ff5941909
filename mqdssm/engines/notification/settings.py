"""Identity and limits of a receiver and a sender of change notifications."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from mqdssm.model.guid import Guid
from mqdssm.model.notification import UPDATES_MAX, NotificationVersion
from mqdssm.model.transport import AuthenticationLevel, HashAlgorithm

INTERVAL_S: Final = 900.0
"""Shortest time between two batches of notifications ([MS-MQCN] notes <3> and <14>)."""
SETTLE_S: Final = 60.0
"""Time for which the first notification after a quiet time waits for others (notes <3> and <14>)."""
MESSAGES_MAX: Final = 100
"""With this many messages none is processed: everything is read from the directory (notes <3> and <14>)."""
WAITING_BYTES_MAX: Final = 4 << 20
"""Limit of the octets of waiting messages: the longest message; more are too many (decision C16)."""
RETRY_S: Final = 60.0
"""Time after which a failed read is repeated (Check Directory Online, [MS-MQDMPR] 3.1.7.1.25)."""
MESSAGE_BYTES_MAX: Final = 1 << 20
"""Limit of the octets of a version-1 message with several updates."""
TIME_TO_REACH_QUEUE_S: Final = 300
"""Time-to-reach-queue of a notification in seconds ([MS-MQCN] 3.3.5.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverSettings:
    """Settings of a queue manager that receives notifications.

    Windows NT 4.0 and 2000 process every notification at once (note <3>): `settle_s` and `interval_s` are 0.

    Attributes:
        identifier: QueueManager.Identifier.
        computer_name: QueueManager.ComputerName.
        servers: names of the directory servers that version-2 messages may name for reads; other servers are
            not contacted (decision C2).
        directory_servers_only: accept version 1 only from BSCs, PSCs and the PEC (decision C18).
        interval_s: `INTERVAL_S`.
        settle_s: `SETTLE_S`.
        messages_max: `MESSAGES_MAX`.
        waiting_bytes_max: `WAITING_BYTES_MAX`.
        retry_s: `RETRY_S`.
    """

    identifier: UUID
    computer_name: str
    servers: Collection[str] = ()
    directory_servers_only: bool = True
    interval_s: float = INTERVAL_S
    settle_s: float = SETTLE_S
    messages_max: int = MESSAGES_MAX
    waiting_bytes_max: int = WAITING_BYTES_MAX
    retry_s: float = RETRY_S
    _allowed: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.servers, str):
            raise TypeError(f"servers={self.servers!r}: give a collection of names, not one text")
        if self.messages_max < 1 or self.retry_s <= 0 or min(self.interval_s, self.settle_s) < 0:
            raise ValueError(
                "messages_max and retry_s are at least 1 and above 0, the other times not below 0"
            )
        object.__setattr__(self, "_allowed", frozenset(server.casefold() for server in self.servers))

    def is_allowed(self, server: str) -> bool:
        """Return True if a directory server may be read (decision C2).

        A message names the server.
        """
        return server.casefold() in self._allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderSettings:
    """Settings of a sender of change notifications.

    Attributes:
        identifier: QueueManager.Identifier of the sender: SenderIdentifier (decision C9) and, in version 1,
            GuidMasterId.
        version: BODY for a queue manager, UPDATES for a directory service (notes <1> and <9>).
        hash_algorithm: MD5 for MSMQ 1.0 to 3.0, SHA1 for later ones (note <12>).
        authentication_level: SIG20, or SIG10 for MSMQ 1.0 (note <13>); NONE for a queue manager without a
            key, in version 2 only (decision C21).
        message_bytes_max: `MESSAGE_BYTES_MAX`.
        updates_max: updates of a version-1 message, at most 255.

    Raises:
        ValueError: version 1 without a signature, or more updates than a message can hold.
    """

    identifier: Guid
    version: NotificationVersion = NotificationVersion.BODY
    hash_algorithm: HashAlgorithm = HashAlgorithm.SHA1
    authentication_level: AuthenticationLevel = AuthenticationLevel.SIG20
    message_bytes_max: int = MESSAGE_BYTES_MAX
    updates_max: int = UPDATES_MAX

    def __post_init__(self) -> None:
        unsigned = self.authentication_level is AuthenticationLevel.NONE
        if unsigned and self.version is NotificationVersion.UPDATES:
            raise ValueError("nobody takes a version-1 notification without a signature ([MS-MQCN] 3.2.5.1)")
        if not 1 <= self.updates_max <= UPDATES_MAX:
            raise ValueError(f"updates_max {self.updates_max}: a message holds 1 to {UPDATES_MAX}")
