"""Messages sent on a session, until the peer acknowledges them.

See [MS-MQQB] 3.1.1.4 and 3.1.5.5.

Counts are kept whole here; on the wire they have 16 bits, and the number after 0xFFFF is 0 (decision T21).
"""

from typing import Final

from mqdssm.engines.session.actions import CloseReason, NumberedMessage
from mqdssm.engines.session.settings import ACK_FLAGS, WINDOW_SIZE_MAX
from mqdssm.model.packets import SessionHeader

NUMBER_BITS: Final = 0xFFFF
"""Mask of a sequence number: 16 bits."""


class SendWindow:
    """OutgoingMessageTable of one session, without messages that were not sent yet.

    Attributes:
        count: MessageSentCount.
        recoverable_count: RecoverableMessageSentCount.
    """

    def __init__(self) -> None:
        self.count = 0
        self.recoverable_count = 0
        self._acknowledged = 0  # AckSequenceNumber of the peer
        self._unacknowledged: Final[dict[int, NumberedMessage]] = {}  # by SequenceNumber
        self._recoverable: Final[dict[int, int]] = {}  # RecoverableSequenceNumber -> SequenceNumber

    def __len__(self) -> int:
        """UnAckedMessageCount, with messages not yet stored.

        The peer has received some recoverable messages, and not yet stored them.
        """
        return len(self._unacknowledged)

    def add(self, message: NumberedMessage) -> None:
        """Count a message that is sent now ([MS-MQQB] 3.1.7.1.3)."""
        self.count += 1
        self._unacknowledged[self.count] = message
        if message.is_recoverable:
            self.recoverable_count += 1
            self._recoverable[self.recoverable_count] = self.count

    def list_numbers(self) -> tuple[int, ...]:
        """Return the driver's numbers of the unacknowledged messages, as sent."""
        return tuple(message.number for message in self._unacknowledged.values())

    def acknowledge(self, header: SessionHeader) -> tuple[int, ...] | CloseReason:
        """Remove the messages that a header acknowledges.

        See [MS-MQQB] 3.1.5.5.1 to 3.1.5.5.3.

        Express messages are acknowledged up to AckSequenceNumber, recoverable ones by their flags alone
        (decision T22).

        Returns:
            The driver's numbers, in the order of sending; NEVER_SENT if the header names a message that was
            not sent (decision T23), and then nothing is removed.
        """
        received = self._acknowledged + (header.ack_sequence_number - self._acknowledged & NUMBER_BITS)
        stored = self._list_stored(header)
        if received > self.count or stored is None:
            return CloseReason.NEVER_SENT
        sequence_numbers = [self._recoverable.pop(number) for number in stored if number in self._recoverable]
        for number in range(self._acknowledged + 1, received + 1):
            message = self._unacknowledged.get(number)  # None: stored before, by a header that counted less
            if message is not None and not message.is_recoverable:
                sequence_numbers.append(number)
        self._acknowledged = received
        return tuple(self._unacknowledged.pop(number).number for number in sorted(sequence_numbers))

    def _list_stored(self, header: SessionHeader) -> list[int] | None:
        """Return the recoverable numbers that a header names as stored.

        None if one was never sent.
        """
        first, flags = header.recoverable_ack_sequence_number, header.recoverable_ack_flags
        if not first and not flags:
            return []
        distance = self.recoverable_count - first & NUMBER_BITS
        start, last = self.recoverable_count - distance, max(flags.bit_length() - 1, 0)
        if start < 1 or distance > WINDOW_SIZE_MAX or last > distance:
            return None
        return [start + bit for bit in range(ACK_FLAGS) if flags >> bit & 1]
