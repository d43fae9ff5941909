"""Checks of messages between servers ([MC-MQDSRP] 2.2.6).

Each message is compared with stores and ledger.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from mqdssm.engines.replication.actions import Send
from mqdssm.model import messages as msg
from mqdssm.model.guid import Guid
from mqdssm.model.seqnum import MAX
from mqdssm.testing.simulation.ledger import Ledger, PartitionLedger
from mqdssm.testing.simulation.servers import SimulatedServer
from mqdssm.testing.simulation.step_checks import compare
from mqdssm.testing.simulation.trace import Violation

SHORT_S: Final = 10
LONG_S: Final = 20 * 60
"""Times to reach the queue ([MC-MQDSRP] 3.3.7.1, 3.3.7.2)."""


class MessageChecks:
    """Checks of every message that is sent.

    Args:
        ledger: what authorities did.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._rules: dict[type[msg.ReplicationMessage], Callable[[SimulatedServer, Any], None]] = {
            msg.ChangePropagationMessage: self._check_propagation,
            msg.SyncReplyMessage: self._sync_reply,
            msg.SyncRequestMessage: self._sync_request,
            msg.PSCAckMessage: self._check_psc_ack,
            msg.AlreadyPurgedMessage: self._check_already_purged,
            msg.ChangeRequestMessage: self._change_request,
            msg.ChangeReplyMessage: self._change_reply,
            msg.BSCAckMessage: self._check_bsc_ack,
        }

    def sent(self, server: SimulatedServer, action: Send) -> None:
        """Check a message.

        Raises:
            Violation: it is wrong.
        """
        if not action.destination or action.timeout_s not in (SHORT_S, LONG_S):
            raise Violation(f"{server.name}: a message to nobody, or for a strange time: {action}")
        forwarded = isinstance(action.message, msg.ChangeRequestMessage)
        if action.message.site_id != server.settings.site_id and not forwarded:
            raise Violation(f"{server.name}: another one's SiteID: {action.message}")
        resent = action.timeout_s == SHORT_S and not isinstance(
            action.message, msg.ChangeRequestMessage | msg.ChangeReplyMessage
        )
        if not resent:  # a copy of a checked message, sent after a bad signature ([MC-MQDSRP] 3.3.7.9)
            self._rules[type(action.message)](server, action.message)

    def _find_strict(self, partition_id: Guid) -> PartitionLedger | None:
        partition = self._ledger.partitions.get(partition_id)
        if partition is None:
            raise Violation(f"a message about a partition that nobody made: {partition_id}")
        return partition if partition.is_strict else None

    def _check_propagation(self, server: SimulatedServer, message: msg.ChangePropagationMessage) -> None:
        self._count(server, message.directory_changes)
        for change in message.directory_changes:
            self._change(server, change)
        header = message.seq_number_header
        for numbers in header.partition_seq_numbers:
            partition = self._find_strict(numbers.partition_id)
            if partition is None:
                continue
            if numbers.last_seq_number > partition.highest:
                raise Violation(f"{server.name} says {numbers}: the authority has given {partition.highest}")
            if numbers.purged_seq_number > partition.purged:
                raise Violation(f"{server.name} says {numbers}: purged what is not")
        if header.partition_seq_numbers and header.machine_name != server.name:
            raise Violation(f"{server.name} says it is {header.machine_name}")

    def _sync_reply(self, server: SimulatedServer, message: msg.SyncReplyMessage) -> None:
        partition = self._find_strict(message.partition_id)
        self._count(server, message.directory_changes)
        previous = int(message.from_seq_number)
        is_foul = self._ledger.partitions[message.partition_id].foul
        for change in message.directory_changes:
            self._change(server, change)
            if is_foul:
                continue  # its hostile authority may give two objects one number
            if change.previous_seq_number != previous or change.seq_number <= previous:
                raise Violation(f"{server.name}: {change} follows {previous}")
            previous = int(change.seq_number)
        if previous > message.to_seq_number:
            raise Violation(f"{server.name}: {previous} lies behind the end, {message.to_seq_number}")
        if partition is not None and message.to_seq_number > max(
            partition.highest, int(message.from_seq_number)
        ):
            raise Violation(f"{server.name}: ToSeqNumber {message.to_seq_number} behind {partition.highest}")

    def _change(self, server: SimulatedServer, change: msg.DirectoryChange) -> None:
        partition = self._find_strict(change.partition_id)
        if partition is None:
            return
        entry = partition.entries.get(int(change.seq_number))
        if entry is None:
            raise Violation(f"{server.name}: nobody gave {change.seq_number} to {change}")
        if change.previous_seq_number >= change.seq_number:
            raise Violation(f"{server.name}: PreviousSeqNumber is not before: {change}")
        if change.guid_identifier is not None and change.guid_identifier != entry.identifier:
            raise Violation(f"{server.name}: {change} is about another object than {entry}")
        if (change.command is msg.Command.DELETE) is not (entry.content is None):
            raise Violation(f"{server.name}: {change} is not {entry}")
        if entry.content is not None and entry.number not in partition.foreign:
            difference = compare(entry, change.properties)
            if difference and change.command is not msg.Command.UPDATE:
                raise Violation(f"{server.name}: {change.seq_number} {entry}: {difference}")

    def _count(self, server: SimulatedServer, changes: Sequence[msg.DirectoryChange]) -> None:
        numbers = {change.seq_number for change in changes}  # of a hostile authority, objects may share one
        if len(numbers) > server.settings.message_changes_max:
            raise Violation(f"{server.name}: {len(changes)} changes in one message")

    def _sync_request(self, server: SimulatedServer, message: msg.SyncRequestMessage) -> None:
        partition = self._find_strict(message.partition_id)
        if message.requester_name != server.name or message.to_seq_number != MAX:
            raise Violation(f"{server.name}: {message}")
        saved = server.persisted.get(message.partition_id)
        if partition is None or saved is None:
            return
        if message.from_seq_number > saved.last:
            raise Violation(f"{server.name} asks from {message.from_seq_number}, but has {saved.last}")

    def _check_psc_ack(self, server: SimulatedServer, message: msg.PSCAckMessage) -> None:
        saved = server.persisted.get(message.acked_partition_id)
        partition = self._find_strict(message.acked_partition_id)
        if partition is None:
            return
        if saved is None or message.acked_seq_number > saved.last or message.psc_name != server.name:
            raise Violation(f"{server.name} acknowledges {message.acked_seq_number}, but has {saved}")

    def _check_already_purged(self, server: SimulatedServer, message: msg.AlreadyPurgedMessage) -> None:
        saved = server.persisted.get(message.partition_id)
        if saved is None or message.purged_seq_number > saved.purged:
            raise Violation(f"{server.name} says that {message.purged_seq_number} is purged: {saved}")

    def _change_request(self, server: SimulatedServer, message: msg.ChangeRequestMessage) -> None:
        if message.partition_id != message.directory_change.partition_id:
            raise Violation(f"{server.name}: two partitions in {message}")
        if not message.requester_name:
            raise Violation(f"{server.name}: nobody asks: {message}")

    def _change_reply(self, server: SimulatedServer, message: msg.ChangeReplyMessage) -> None:
        if not message.requester_name:
            raise Violation(f"{server.name}: nobody is answered: {message}")

    def _check_bsc_ack(self, server: SimulatedServer, message: msg.BSCAckMessage) -> None:
        if message.bsc_name != server.name or message.bsc_machine_id != server.settings.machine_id:
            raise Violation(f"{server.name}: another one's acknowledgement: {message}")


def is_header(message: msg.ReplicationMessage) -> bool:
    """Return True if a message announces sequence numbers ([MC-MQDSRP] 2.2.6)."""
    return isinstance(message, msg.ChangePropagationMessage) and bool(
        message.seq_number_header.partition_seq_numbers
    )
