"""Signing keys and certificates in two attributes ([MS-MQDSSM] 3.1.6.1.1.9, 3.1.6.7.1.8, 3.1.6.7.6.4)."""

from collections.abc import Set as AbstractSet
from typing import Final

from mqdssm.model.elements import QueueManager
from mqdssm.wire.certificates import UserSignCerts

KEYS_NAME: Final = "PublicSigningKeyList"
CERTIFICATES: Final = "mSMQSignCertificates"
DIGESTS: Final = "mSMQDigests"


def keys_of(manager: QueueManager, names: AbstractSet[str]) -> dict[str, tuple[bytes, ...]]:
    """Return the values of a queue manager for its computer object ([MS-MQDSSM] 3.1.6.1.1.9, 3.1.6.7.1.8).

    Args:
        manager: the queue manager.
        names: the attributes to be written; nothing goes there unless the keys are among them.

    Raises:
        DecodeError: as `signing_values`.
    """
    return signing_values(manager.public_signing_key_list) if KEYS_NAME in names else {}


def signing_values(image: bytes) -> dict[str, tuple[bytes, ...]]:
    """Return the attributes for an MQUSERSIGNCERTS structure and its digests (decision M21).

    The Mig attributes were set by Windows 2000 alone ([MS-MQDSSM] note <9>): they are left as they are.

    Args:
        image: the structure, byte for byte; empty for none.

    Raises:
        DecodeError: no MQUSERSIGNCERTS.
    """
    if not image:
        return {CERTIFICATES: (), DIGESTS: ()}
    digests = UserSignCerts.from_bytes(image).digests()
    # a set of values: LDAP refuses the same digest twice
    return {CERTIFICATES: (image,), DIGESTS: tuple(dict.fromkeys(digests))}
