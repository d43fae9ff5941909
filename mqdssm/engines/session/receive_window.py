"""Received messages of a session, until they are acknowledged.

See [MS-MQQB] 3.1.5.8 and 3.1.6.4.
"""

from typing import Final

from mqdssm.engines.session.send_window import NUMBER_BITS, SendWindow
from mqdssm.engines.session.settings import ACK_FLAGS
from mqdssm.model.packets import SessionHeader


class ReceiveWindow:
    """Counts of the messages that arrived, and of those that are stored.

    Recoverable messages are acknowledged in their order: a peer may take RecoverableMsgAckSeqNumber for the
    end of all stored messages ([MS-MQQB] 3.1.5.5.3, decision T22).

    Attributes:
        count: MessageReceivedCount.
        recoverable_count: RecoverableMessageReceivedCount.
        unacknowledged: UnackedReceivedMsgCount.
    """

    def __init__(self) -> None:
        self.count = 0
        self.recoverable_count = 0
        self.unacknowledged = 0
        self._stored = 0  # all recoverable messages up to this number are stored
        self._reported = 0  # LastAckedRecoverableMsgSeqNumber
        self._waiting: Final[dict[int, int]] = {}  # token -> recoverable number, until it is stored
        self._stored_early: Final[set[int]] = set()  # after a gap

    @property
    def stored(self) -> int:
        """Number of stored messages that were not reported as acknowledged.

        The next acknowledgement covers them, or a further one.
        """
        return self._stored - self._reported

    @property
    def unstored(self) -> int:
        """Number of recoverable messages that are not stored, or were stored after a gap."""
        return self.recoverable_count - self._stored

    def add(self, token: int, *, is_recoverable: bool) -> None:
        """Count a message that arrived ([MS-MQQB] 3.1.5.8.2)."""
        self.count += 1
        self.unacknowledged += 1
        if is_recoverable:
            self.recoverable_count += 1
            self._waiting[token] = self.recoverable_count

    def add_express(self, messages: int) -> None:
        """Count express messages that arrived ([MS-MQQB] 3.1.5.8.2)."""
        self.count += messages
        self.unacknowledged += messages

    def store(self, token: int) -> bool:
        """Mark a message as stored.

        Returns True if there is more to acknowledge than before.
        """
        number = self._waiting.pop(token, None)
        if number is None:
            return False
        self._stored_early.add(number)
        before = self._stored
        while self._stored + 1 in self._stored_early:
            self._stored += 1
            self._stored_early.remove(self._stored)
        return self._stored > before

    def acknowledge(self, sent: SendWindow, window_size: int) -> SessionHeader:
        """Return the next acknowledgement ([MS-MQQB] 3.1.6.4).

        The messages count as acknowledged.
        """
        stored = min(self.stored, ACK_FLAGS)
        header = SessionHeader(
            ack_sequence_number=self.count & NUMBER_BITS,
            recoverable_ack_sequence_number=self._reported + 1 & NUMBER_BITS if stored else 0,
            recoverable_ack_flags=(1 << stored) - 1,
            user_message_sequence_number=sent.count & NUMBER_BITS,
            recoverable_message_sequence_number=sent.recoverable_count & NUMBER_BITS,
            window_size=window_size,
        )
        self.unacknowledged = 0
        self._reported += stored
        return header

    def is_count_of(self, header: SessionHeader) -> bool:
        """Return True if the peer has sent as many messages as arrived.

        See [MS-MQQB] 3.1.5.5.5.
        """
        return (
            header.user_message_sequence_number == self.count & NUMBER_BITS
            and header.recoverable_message_sequence_number == self.recoverable_count & NUMBER_BITS
        )
