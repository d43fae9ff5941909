"""Signing and verifying messages ([MS-MQQB] 3.1.7.1.4, 3.1.5.8.3).

See also [MC-MQDSRP] 3.1.7.2.1.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from mqdssm.drivers.authentication.keyring import KEYS_TRIED_MAX, KeyRing, TrustedSender
from mqdssm.drivers.authentication.private_key import KEY_BITS_MIN, PrivateKey, is_signed
from mqdssm.drivers.authentication.replay_detection import AGE_MAX_S, ReplayDetector
from mqdssm.drivers.authentication.replay_marks import ReplayMarks
from mqdssm.drivers.threads import WarningLimit
from mqdssm.errors import ConfigError, DecodeError, DirectoryError, MappingError
from mqdssm.model.guid import GUID_BYTES, Guid
from mqdssm.model.transport import (
    NO_MESSAGE,
    AuthenticationLevel,
    HashAlgorithm,
    Message,
    SenderIdentifierType,
)
from mqdssm.wire.keys import PublicKey
from mqdssm.wire.signing import select_signed_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

log: Final = logging.getLogger(__name__)

SENDERS_TRIED_MAX: Final = 1000
"""Senders whose keys are tried for one message; a site has one, and one try takes 20 microseconds."""
SIGNATURE_BYTES_MAX: Final = 2048
"""Longest signature, of a 16,384-bit key; Windows makes no longer ones."""
_USABLE_KEYS: Final = 256
"""Number of decoded keys that are kept; decoding one takes as long as verifying a signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignaturePolicy:
    """Settings for signing messages and for accepting signatures.

    The defaults sign as [MC-MQDSRP] 3.1.7.2.1 says and accept what [MS-MQQB] 3.1.5.8.3 does. Among servers of
    mqdssm alone everything may be narrowed: SHA-256, `levels` of SIG20, `dated_only`.

    Attributes:
        hash_algorithm: of our signatures.
        level: of our signatures. SIG20 covers destination and source too; Windows NT 4.0 knows SIG10 alone.
        hash_algorithms: those of signatures that are taken.
        levels: those of signatures that are taken.
        dated_only: take no message without a date; those of Windows have none (decision R59).
        age_max_s: how far a date may lie from now.
    """

    hash_algorithm: HashAlgorithm = HashAlgorithm.MD5
    level: AuthenticationLevel = AuthenticationLevel.SIG20
    hash_algorithms: frozenset[HashAlgorithm] = frozenset(HashAlgorithm)
    levels: frozenset[AuthenticationLevel] = frozenset({AuthenticationLevel.SIG20, AuthenticationLevel.SIG10})
    dated_only: bool = False
    age_max_s: int = AGE_MAX_S


AS_SPECIFIED: Final = SignaturePolicy()


class Distrust(StrEnum):
    """Reasons for which a message is not accepted as authentic."""

    UNSIGNED = "not signed by a queue manager"
    REFUSED = "signed in a way that is not taken"
    UNKNOWN = "sender unknown"
    WRONG = "wrong signature"
    STALE = "dated before our start, too long ago or ahead"
    REPLAYED = "seen before"
    UNAVAILABLE = "the directory could not be asked"
    UNRECORDED = "the file of replay marks could not be written"

    @property
    def is_bad_signature(self) -> bool:
        """True if the sender receives NackBadSignature."""
        return self in _BAD_SIGNATURE

    @property
    def is_temporary(self) -> bool:
        """True if the same message may be accepted later."""
        return self in {Distrust.UNAVAILABLE, Distrust.UNRECORDED}


_BAD_SIGNATURE: Final = frozenset({Distrust.UNSIGNED, Distrust.REFUSED, Distrust.UNKNOWN, Distrust.WRONG})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Result for an authentic message.

    Attributes:
        sender: who signed it.
        level: how.
        fingerprint: text that identifies the key.
    """

    sender: TrustedSender
    level: AuthenticationLevel
    fingerprint: str = field(default="", compare=False)


class Signer:
    """Signs the messages of one queue manager.

    Args:
        queue_manager: QueueManager.Identifier, the SenderIdentifier.
        key: its private key.
    """

    def __init__(self, queue_manager: Guid, key: PrivateKey) -> None:
        self._queue_manager = queue_manager
        self._key = key

    def sign(self, message: Message) -> Message:
        """Sign a message that is complete but for its signature.

        The level and hash algorithm are the message's own.

        Its ApplicationTag, where it has none, becomes its date, and its CorrelationIdentifier its own
        identifier: so no two messages have one signature, and each is of its time (decision R59).

        Raises:
            ValueError: AuthenticationLevel None, or a format name that cannot be signed.
        """
        dated = replace(
            message,
            sender_type=SenderIdentifierType.QUEUE_MANAGER,
            sender=bytes(self._queue_manager),
            application_tag=message.application_tag or message.sent_at,
            correlation=message.identifier if message.correlation == NO_MESSAGE else message.correlation,
        )
        data = select_signed_bytes(dated, message.authentication_level)
        return replace(dated, signature=self._key.sign(data, message.hash_algorithm))


class Verifier:
    """Verifies the messages of one queue manager ([MS-MQQB] 3.1.5.8.3); thread-safe.

    Args:
        keys: who may sign.
        started_at: seconds since 1970.
        policy: which signatures are taken.
        marks: what was taken before the start, if a file has it (decision R180); who made them closes them.
        monotonic: seconds that go on, whatever is done to the clock.
    """

    def __init__(
        self,
        keys: KeyRing,
        started_at: float,
        policy: SignaturePolicy = AS_SPECIFIED,
        *,
        marks: ReplayMarks | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        self._policy = policy
        self._warnings: Final = WarningLimit()
        self._replays: Final = ReplayDetector(
            started_at, age_max_s=policy.age_max_s, marks=marks, monotonic=monotonic
        )

    def verify(self, message: Message, now: float) -> Verified | Distrust:
        """Verify a message that was received now (seconds since 1970)."""
        problem = self._check_without_keys(message, now)
        if problem is not None:
            return problem
        try:
            verified = self._find_signer(message)
        except (DirectoryError, MappingError) as error:  # the directory or the object cannot be read
            self._warnings.log(log, "a message is dropped, its sender cannot be looked up: %s", error)
            return Distrust.UNAVAILABLE
        if isinstance(verified, Verified) and message.application_tag:
            # nobody without the key can make this signature, whatever name its owner has (decision R162)
            try:
                admitted = self._replays.admit(
                    verified.fingerprint, message.application_tag, message.signature, now
                )
            except ConfigError as error:
                self._warnings.log(log, "a message of %s is dropped: %s", Guid(message.sender), error)
                return Distrust.UNRECORDED
            return verified if admitted else Distrust.REPLAYED
        return verified

    def withdraw(self, message: Message, verified: Verified) -> None:
        """Accept a signature again whose message could not be stored."""
        self._replays.withdraw(verified.fingerprint, message.application_tag, message.signature)

    def _check_without_keys(self, message: Message, now: float) -> Distrust | None:
        """Return why a message is distrusted, before any key is looked up.

        None if nothing is wrong yet.
        """
        by_queue_manager = (
            message.sender_type is SenderIdentifierType.QUEUE_MANAGER and len(message.sender) == GUID_BYTES
        )
        if not by_queue_manager or not message.signature:
            return Distrust.UNSIGNED
        too_long = len(message.signature) > SIGNATURE_BYTES_MAX
        if too_long or message.hash_algorithm not in self._policy.hash_algorithms:
            return Distrust.REFUSED
        date = message.application_tag
        if not date:
            return Distrust.REFUSED if self._policy.dated_only else None
        return None if self._replays.is_in_time(date, now) else Distrust.STALE

    def _find_signer(self, message: Message) -> Verified | Distrust:
        """Return who signed a message, or a reason if nobody did."""
        problem = Distrust.UNKNOWN
        for sender in islice(self._keys.find_senders(Guid(message.sender)), SENDERS_TRIED_MAX):
            problem = Distrust.WRONG
            for level in (AuthenticationLevel.SIG20, AuthenticationLevel.SIG10):  # the order of 3.1.5.8.3
                key = _find_signing_key(message, level, sender) if level in self._policy.levels else None
                if key is not None:
                    return Verified(sender=sender, level=level, fingerprint=key.fingerprint)
        return problem


@dataclass(frozen=True, slots=True)
class UsableKey:
    """An RSA key for verifying signatures, and a short text.

    The text identifies the key, also in files.
    """

    key: "RSAPublicKey"
    fingerprint: str


def _find_signing_key(
    message: Message, level: AuthenticationLevel, sender: TrustedSender
) -> UsableKey | None:
    """Return the key of a sender that a message was signed with; None if no key fits."""
    try:
        data = select_signed_bytes(message, level)
    except ValueError:  # a destination that cannot be signed
        return None
    return find_signing_key(sender.keys, data, message.signature, message.hash_algorithm)


def find_signing_key(
    keys: Sequence[PublicKey], data: bytes, signature: bytes, algorithm: HashAlgorithm
) -> UsableKey | None:
    """Return the key that some bytes were signed with; None if no key fits."""
    usable_keys = filter(None, map(_decode_key, keys[:KEYS_TRIED_MAX]))
    good = (usable_key for usable_key in usable_keys if is_signed(usable_key.key, data, signature, algorithm))
    return next(good, None)


@lru_cache(maxsize=_USABLE_KEYS)
def _decode_key(key: PublicKey) -> UsableKey | None:
    """Decode a key; None if it is too short or damaged (decision R57)."""
    try:
        public = key.rsa()
    except (DecodeError, ValueError):
        return None
    if public.key_size < KEY_BITS_MIN:
        return None
    numbers = public.public_numbers()
    digest = hashlib.sha256(f"{numbers.n:x} {numbers.e:x}".encode())
    return UsableKey(public, digest.hexdigest()[:32])
