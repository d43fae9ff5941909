"""Recoverable messages of a queue manager in a SQLite database.

A message that is sent stays here until the peer has stored it, one that has arrived until a program receives
it. Identifiers of arrived messages stay longer: peers send a message again whose acknowledgement was lost
([MS-MQQB] 3.1.5.8.1, 3.1.5.8.7; decisions T48 to T50).
"""

import json
import os
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

from mqdssm.drivers.authentication.keyring import TrustedSender
from mqdssm.drivers.queue_manager.message_schema import prepare_database
from mqdssm.drivers.transport import Arrival
from mqdssm.errors import ConfigError, DecodeError, TransportError
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.names import PrivateFormatName
from mqdssm.model.packet_messages import message_of, packet_of
from mqdssm.model.packets import UserPacket
from mqdssm.model.replication import Service
from mqdssm.model.transport import BODY_BYTES_MAX, AuthenticationLevel, DeliveryGuarantee, Message, MessageId
from mqdssm.wire.keys import PublicKeys
from mqdssm.wire.mqqb import decode_packet, encode_packet

KNOWN_MAX: Final = 1_000_000
"""Identifiers of recoverable messages by which second copies are known: some 100 MB (decision T50)."""
SURE_BYTES: Final = BODY_BYTES_MAX - (64 << 10)
"""Octets of a body that fits into a packet with any headers."""
_PRUNE_EVERY: Final = 1_000  # messages
_BUSY_S: Final = 5.0


def is_recoverable(message: Message) -> bool:
    """Return True if a message has to survive a restart."""
    return message.delivery is DeliveryGuarantee.RECOVERABLE


class MessageStore:
    """Recoverable messages in a file; thread-safe.

    Each method that changes something returns when the change is on the disk, except `forget` and within
    `transaction`. Only one queue manager may use the file: `MessageNumbers` locks their folder.

    Args:
        file: database; it is made with mode 0600.
        known_max: identifiers by which second copies are known; the oldest are dropped.

    Attributes:
        problem: why the last change failed; empty if it was made.

    Raises:
        ConfigError: the file cannot be used, or a newer mqdssm has used it.
    """

    def __init__(self, file: Path, *, known_max: int = KNOWN_MAX) -> None:
        self._file, self._known_max = file, known_max
        self._lock: Final = RLock()
        self._depth = 0
        self._is_closed = False
        self.problem = ""
        self._added = 0
        self._forgotten: Final[deque[int]] = deque()
        try:
            os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
            self._database = sqlite3.connect(
                file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            try:
                self._database.execute("PRAGMA synchronous = FULL")
                prepare_database(self._database, name=str(file))
                self._database.execute("PRAGMA journal_mode = WAL")
            except BaseException:
                self._database.close()
                raise
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"{file} cannot be used for messages: {error}: name another folder, or remove the file, with "
                "the messages in it"
            ) from error

    def close(self) -> None:
        """Close the file, after what was forgotten is removed."""
        with suppress(TransportError):
            self.flush()
        with self._lock:
            self._is_closed = True
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def begin_transaction(self) -> Iterator[None]:
        """Make all changes of the block, or none of them.

        At the end of the block the changes are on the disk.

        Raises:
            TransportError: the disk is full or fails, or the file is closed; nothing is changed.
        """
        with self._lock:
            if self._is_closed:
                raise TransportError(f"{self._file}: messages cannot be stored: the queue manager is closed")
            if self._depth:
                yield
                return
            self._depth = 1
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield
                self._database.execute("COMMIT")
                self.problem = ""
            except sqlite3.Error as error:
                if isinstance(error, sqlite3.OperationalError):  # not a message that is stored already
                    self.problem = f"{self._file}: {error}"
                raise TransportError(f"{self._file}: messages cannot be stored: {error}") from error
            finally:
                self._depth = 0
                if self._database.in_transaction:
                    with suppress(sqlite3.Error):
                        self._database.execute("ROLLBACK")

    def _read_rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._database.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise TransportError(f"{self._file}: messages cannot be read: {error}") from error

    def _change(self, statement: str, *values: Any) -> None:
        with self.begin_transaction():
            self._database.execute(statement, values)

    # --- identity and queues

    def identifier(self) -> Guid:
        """Return the QueueManager.Identifier that belongs to the file.

        The first call makes one.

        Raises:
            TransportError: the file cannot be read or written.
        """
        with self.begin_transaction():
            if not self._read_rows("SELECT identifier FROM identity"):
                self._change("INSERT INTO identity VALUES (?)", bytes(Guid.of(uuid4())))
            return Guid(self._read_rows("SELECT identifier FROM identity")[0][0])

    def queues(self) -> dict[str, int]:
        """Return the numbers of all private queues, by name in small letters."""
        return dict(self._read_rows("SELECT name, number FROM queue"))

    def add_queue(self, name: str, first_number: int) -> int:
        """Return the number of a private queue.

        A new queue gets the next number, at least `first_number`, and never that of a queue that was removed:
        messages for the old queue may still arrive.
        """
        with self.begin_transaction():
            key = name.casefold()
            if key not in self.queues():
                ((highest,),) = self._read_rows("SELECT max(seq) FROM sqlite_sequence WHERE name = 'queue'")
                number = max(first_number, (highest or 0) + 1)
                self._change("INSERT INTO queue VALUES (?, ?)", number, key)
            return self.queues()[key]

    def remove_queue(self, name: str) -> None:
        """Remove a private queue, and the messages that are stored for it."""
        with self.begin_transaction():
            for table in ("arrived", "known"):
                self._change(
                    f"DELETE FROM {table} WHERE queue IN (SELECT number FROM queue WHERE name = ?)",  # noqa: S608
                    name.casefold(),
                )
            self._change("DELETE FROM queue WHERE name = ?", name.casefold())

    # --- messages that are sent

    def add_sent(self, message: Message) -> None:
        """Store a message until `forget` names it.

        Raises:
            ValueError: the message does not fit into a packet.
            TransportError: the disk is full or fails.
        """
        self._change(
            "INSERT INTO sent (number, packet) VALUES (?, ?)",
            message.identifier.number,
            encode_message(message),
        )

    def read_sent(self) -> list[Message]:
        """Return the messages that have not been forgotten, in the order of storing."""
        self.flush()
        return [
            self._message(packet) for (packet,) in self._read_rows("SELECT packet FROM sent ORDER BY place")
        ]

    def forget(self, identifier: MessageId) -> None:
        """Remove a sent message at the next `flush`; does not wait."""
        self._forgotten.append(identifier.number)

    def flush(self) -> None:
        """Remove the messages that `forget` named."""
        if not self._forgotten:
            return
        with self._lock:
            with self.begin_transaction():
                numbers = [(number,) for number in tuple(self._forgotten)]
                self._database.executemany("DELETE FROM sent WHERE number = ?", numbers)
            for _ in numbers:  # not before the end of the transaction, which may fail
                self._forgotten.popleft()

    # --- messages that have arrived

    def has_had(self, queue: int, identifier: MessageId) -> bool:
        """Return True if a message with this identifier was stored for a queue."""
        query = "SELECT 1 FROM known WHERE queue = ? AND source = ? AND number = ?"
        return bool(self._read_rows(query, queue, *_key_of(identifier)))

    def add_arrived(self, queue: int, arrival: Arrival) -> None:
        """Store a message until `remove_arrived`.

        Raises:
            ValueError: the message does not fit into a packet.
            TransportError: the disk is full or fails.
        """
        message = arrival.message
        key = (queue, *_key_of(message.identifier))
        with self.begin_transaction():
            self._change(
                "INSERT OR IGNORE INTO arrived (queue, source, number, packet, level, sender) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                *(
                    *key,
                    encode_message(message),
                    int(message.authentication_level),
                    _encode_sender(arrival.sender),
                ),
            )
            self._change("INSERT OR IGNORE INTO known (queue, source, number) VALUES (?, ?, ?)", *key)
            self._added += 1
            if self._added % _PRUNE_EVERY == 1:
                self._change(
                    "DELETE FROM known WHERE place <= (SELECT max(place) FROM known) - ?", self._known_max
                )

    def read_arrived(self, queue: int) -> list[Arrival]:
        """Return the stored messages of a queue, in the order of their arrival."""
        rows = self._read_rows(
            "SELECT packet, level, sender FROM arrived WHERE queue = ? ORDER BY place", queue
        )
        return [
            Arrival(message=self._message(packet, level), sender=_decode_sender(sender))
            for packet, level, sender in rows
        ]

    def remove_arrived(self, queue: int, identifier: MessageId) -> None:
        """Remove a message; its identifier stays known."""
        self._change(
            "DELETE FROM arrived WHERE queue = ? AND source = ? AND number = ?", queue, *_key_of(identifier)
        )

    def _message(self, data: bytes, level: int = AuthenticationLevel.NONE) -> Message:
        """Return a stored message.

        Raises:
            TransportError: it is damaged.
        """
        try:
            packet = decode_packet(data)
            if isinstance(packet, UserPacket):
                return replace(message_of(packet), authentication_level=AuthenticationLevel(level))
        except (DecodeError, ValueError) as error:
            raise TransportError(f"{self._file}: a stored message is damaged: {error}") from error
        raise TransportError(f"{self._file}: a stored message is damaged: it is no user message")


def encode_message(message: Message) -> bytes:
    """Return a message as a packet; `Message.authentication_level` is not in it.

    Raises:
        ValueError: the message does not fit into a packet, or has no destination.
    """
    destination = message.destination
    host = Guid.of(destination.guid) if isinstance(destination, PrivateFormatName) else NULL_GUID
    return encode_packet(packet_of(message, queue_manager_address=host))


def check_size(message: Message) -> None:
    """Check that a message fits into a packet.

    Raises:
        ValueError: it does not.
    """
    if len(message.body) > SURE_BYTES:
        try:
            encode_message(message)
        except ValueError as error:
            raise ValueError(
                f"a body of {len(message.body)} octets is too long for a message: {error}"
            ) from error


def _key_of(identifier: MessageId) -> tuple[bytes, int]:
    return bytes(identifier.source), identifier.number


def _encode_sender(sender: TrustedSender | None) -> str | None:
    """Return a sender as JSON.

    Signatures are left out: after a restart they cannot be verified again.
    """
    if sender is None:
        return None
    return json.dumps(
        {
            "machine_name": sender.machine_name,
            "service": int(sender.service),
            "keys": bytes(PublicKeys(sender.keys)).hex(),
            "machine_id": None if sender.machine_id is None else str(sender.machine_id),
            "site_id": None if sender.site_id is None else str(sender.site_id),
        }
    )


def _decode_sender(text: str | None) -> TrustedSender | None:
    if text is None:
        return None
    fields: dict[str, Any] = json.loads(text)
    return TrustedSender(
        machine_name=fields["machine_name"],
        service=Service(fields["service"]),
        keys=PublicKeys.from_bytes(bytes.fromhex(fields["keys"])).keys,
        machine_id=None if fields["machine_id"] is None else Guid.parse(fields["machine_id"]),
        site_id=None if fields["site_id"] is None else Guid.parse(fields["site_id"]),
    )
