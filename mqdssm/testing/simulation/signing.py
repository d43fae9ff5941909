"""Real keys, and messages of an intruder (decision R147).

The intruder changes, forges or replays messages.

The driver's own code signs and verifies. `WatchedVerifier` checks each accepted message: the run fails if a
server accepts a message that was changed or forged, or accepts one message twice in one life.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Final, TypeAlias

from mqdssm.drivers.authentication.keyring import TrustedSender
from mqdssm.drivers.authentication.private_key import KEY_BITS_MIN, PrivateKey
from mqdssm.drivers.authentication.signatures import (
    AS_SPECIFIED,
    Distrust,
    SignaturePolicy,
    Signer,
    Verified,
    Verifier,
)
from mqdssm.engines.replication.settings import Role
from mqdssm.model.guid import Guid
from mqdssm.model.replication import Service
from mqdssm.model.transport import Message, MessageId
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.trace import Violation
from mqdssm.wire.keys import PublicKey

POLICY: Final[SignaturePolicy] = AS_SPECIFIED
_INTRUDER: Final = -1
_RECORDED_MAX: Final = 50
_FORGED: Final = 1 << 30
_REPEATED: Final = 1 << 29
"""Added to the numbers of messages, so that their identifiers are new."""
_SERVICES: Final = {Role.BSC: Service.BSC, Role.PSC: Service.PSC, Role.PEC: Service.PEC}


Content: TypeAlias = tuple[bytes, bytes]
"""Body and signature of a message: what an intruder has to change."""


def content_of(message: Message) -> Content:
    """Return the signed body and the signature of a message."""
    return message.body, message.signature


@cache
def key_of(index: int) -> PrivateKey:
    """Return the private key of a server, equal in all runs of a process.

    Generating keys is slow.
    """
    del index
    return PrivateKey.generate(KEY_BITS_MIN)


@cache
def public_keys_of(index: int) -> tuple[PublicKey, ...]:
    """Return the public keys of a server."""
    return key_of(index).public_keys().keys


def signer_of(index: int, machine_id: Guid) -> Signer:
    """Return the signer of a server's messages."""
    return Signer(machine_id, key_of(index))


class LiveKeys:
    """Key ring with all servers under their current names.

    Args:
        find: a server's number, machine name and role by its identifier; None: there is none.
    """

    def __init__(self, find: Callable[[Guid], tuple[int, str, Role] | None]) -> None:
        self._find = find

    def find_senders(self, queue_manager: Guid) -> Iterator[TrustedSender]:
        """Yield the server with an identifier, if any (see `KeyRing`)."""
        sender = self._find(queue_manager)
        if sender is not None:
            index, name, role = sender
            yield TrustedSender(
                machine_name=name,
                service=_SERVICES[role],
                keys=public_keys_of(index),
                machine_id=queue_manager,
            )


class WatchedVerifier(Verifier):
    """Verifier of one life of a server that checks each accepted message.

    Args:
        keys: who may sign.
        clock: seconds since 1970 that never go backwards.
        bad: what was changed or forged.
    """

    def __init__(self, keys: LiveKeys, clock: Callable[[], float], bad: set[Content]) -> None:
        self._started_at = clock()
        super().__init__(keys, self._started_at, POLICY, monotonic=clock)
        self._bad = bad
        self._believed: set[bytes] = set()

    def verify(self, message: Message, now: float) -> Verified | Distrust:
        """Verify a message; raise `Violation` if it is accepted wrongly."""
        verdict = super().verify(message, now)
        if isinstance(verdict, Verified):
            if content_of(message) in self._bad:
                raise Violation(f"a message is believed that was changed or forged: {message}")
            if message.signature in self._believed:
                raise Violation(f"a message is believed twice: {message}")
            if message.application_tag < int(self._started_at):
                raise Violation(f"a message of an earlier life is believed: {message}")
            self._believed.add(message.signature)
        return verdict


class MessageForger:
    """Attacker that changes, forges and replays messages; no server knows its key.

    Args:
        rng: chance.

    Attributes:
        bad: what was changed or forged.
        counts: what it did.
    """

    def __init__(self, rng: SeededRandom) -> None:
        self._rng = rng
        self._recorded: list[tuple[str, Message]] = []
        self.bad: set[Content] = set()
        self.counts: dict[str, int] = {}

    def record(self, target: str, message: Message) -> None:
        """Record a message and its destination for a later replay."""
        self._recorded.append((target, message))
        del self._recorded[:-_RECORDED_MAX]

    def changed(self, message: Message) -> Message:
        """Return a copy of a signed message with one bit changed.

        The bit is in its body or signature.
        """
        self._count("changed messages")
        if self._rng.draw_one_in(2):
            new_message = replace(message, body=self._flip_bit(message.body))
        else:
            new_message = replace(message, signature=self._flip_bit(message.signature))
        self.bad.add(content_of(new_message))
        return new_message

    def _flip_bit(self, data: bytes) -> bytes:
        at = self._rng.draw_below(len(data))
        return data[:at] + bytes((data[at] ^ (1 << self._rng.draw_below(8)),)) + data[at + 1 :]

    def forged(self, message: Message) -> Message:
        """Return a copy of a message in its sender's name, with the intruder's signature."""
        self._count("forged messages")
        identifier = MessageId(message.identifier.source, message.identifier.number + _FORGED)
        bare = replace(message, identifier=identifier, signature=b"")
        new_message = Signer(Guid(message.sender), key_of(_INTRUDER)).sign(bare)
        self.bad.add(content_of(new_message))
        return new_message

    def replayed(self) -> tuple[str, Message] | None:
        """Return a recorded message and its destination.

        The message has its own identifier or a new one.
        """
        if not self._recorded:
            return None
        self._count("replayed messages")
        target, message = self._rng.of(self._recorded)
        if self._rng.draw_one_in(2):
            identifier = MessageId(message.identifier.source, message.identifier.number + _REPEATED)
            message = replace(message, identifier=identifier)
        return target, message

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
