"""Settings of sessions: identity, window and times.

The times are those of [MS-MQQB] 3.1.2 with their defaults.
"""

import math
from dataclasses import dataclass
from typing import Final

from mqdssm.model.guid import Guid

WINDOW_SIZE: Final = 64
"""Unacknowledged messages, default ([MS-MQQB] 3.1.3.2 <50>)."""
WINDOW_SIZE_MAX: Final = 0x7FFF
"""Largest window that we use: half of all sequence numbers, so that no number is ambiguous (decision T21)."""
ACK_FLAGS: Final = 32
"""Recoverable messages that one acknowledgement covers ([MS-MQMQ] 2.2.20.4, RecoverableMsgAckFlags)."""
PING_RESPONSE_S: Final = 1.0
"""Ping Response Timer ([MS-MQQB] 3.1.2.9)."""
PING_COOKIE_BITS: Final = 0xFFFF_FFFF
"""Mask of a ping request's number ([MS-MQQB] 2.2.7, Cookie)."""
INITIALIZATION_S: Final = 60.0
"""Session Initialization Timer ([MS-MQQB] 3.1.2.1 <43>)."""
CLEANUP_S: Final = 300.0
"""Session Cleanup Timer ([MS-MQQB] 3.1.2.2 <44>); Windows' routing servers have 120 seconds."""
RETRY_CONNECT_S: Final = 5.0
"""Session Retry Connect Timer ([MS-MQQB] 3.1.2.3 <45>)."""
RETRY_CONNECT_MAX_S: Final = 60.0
"""The longest time between two attempts, without jitter (decision T20)."""
RETRY_JITTER: Final = 0.25
"""Largest share by which a time between two attempts is longer (decision T20)."""
ACK_WAIT_S: Final = 20.0
"""AckWaitTimeout ([MS-MQQB] 3.1.3.2 <51>)."""
ACK_WAIT_RANGE_MS: Final = range(0x4E20, 0x1D4C0 + 1)
"""Valid AckTimeout of ConnectionParameters ([MS-MQQB] 2.2.2.1)."""
DIRECT_ACK_WAIT_FACTOR: Final = 2
"""Multiple of AckWaitTimeout in the Session Ack Wait Timer of a direct format name (3.1.2.4 <46>)."""
RECOVERABLE_ACK_RANGE_MS: Final = range(0x1F4, 0x1D4C0 + 1)
"""Valid RecoverableAckTimeout of ConnectionParameters ([MS-MQQB] 2.2.2.1)."""
ROUND_TRIPS: Final = 8
"""RecoverableAckSendTimeout in round trips ([MS-MQQB] 3.1.5.3.2)."""
PIGGYBACK_SHARE: Final = 0.75
"""Elapsed share of the Session Ack Send Timer after which messages carry acknowledgements (3.1.7.11)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Settings of the sessions of one queue manager. Times are in seconds.

    Attributes:
        identifier: QueueManager.Identifier.
        is_server_class: True for a server-class operating system, reported to peers ([MS-MQQB] 2.2.3.1).
        window_size: WindowSize: how many messages may be unacknowledged.
        initialization_s: Session Initialization Timer.
        cleanup_s: Session Cleanup Timer.
        retry_connect_s: Session Retry Connect Timer, after the first failure.
        retry_connect_max_s: its limit after more failures.
        ack_wait_s: AckWaitTimeout of sessions that we initiate.
        ack_send_max_s: limit of the Session Ack Send Timer, beside half of AckWaitTimeout (decision T47).
        unstored_max: recoverable messages that arrived and are not stored; one more closes the session.
    """

    identifier: Guid
    is_server_class: bool = True
    window_size: int = WINDOW_SIZE
    initialization_s: float = INITIALIZATION_S
    cleanup_s: float = CLEANUP_S
    retry_connect_s: float = RETRY_CONNECT_S
    retry_connect_max_s: float = RETRY_CONNECT_MAX_S
    ack_wait_s: float = ACK_WAIT_S
    ack_send_max_s: float = math.inf
    unstored_max: int = 1024

    def __post_init__(self) -> None:
        """Check the limits.

        Raises:
            ValueError: naming the setting.
        """
        for name, highest in (("window_size", WINDOW_SIZE_MAX), ("unstored_max", WINDOW_SIZE_MAX)):
            if not 1 <= getattr(self, name) <= highest:
                raise ValueError(f"{name} is {getattr(self, name)}: 1 to {highest} are allowed")
        if self.ack_wait_ms not in ACK_WAIT_RANGE_MS:
            raise ValueError(f"ack_wait_s is {self.ack_wait_s}: 20 to 120 are allowed")
        for name in ("initialization_s", "cleanup_s", "retry_connect_s", "ack_send_max_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it has to be positive")
        if self.retry_connect_max_s < self.retry_connect_s:
            raise ValueError(f"retry_connect_max_s {self.retry_connect_max_s} is below retry_connect_s")

    @property
    def ack_wait_ms(self) -> int:
        """AckWaitTimeout in milliseconds."""
        return round(self.ack_wait_s * 1000)
