"""Signing keys and certificates in two attributes ([MS-MQDSSM] 3.1.6.1.1.9, 3.1.6.7.1.8, 3.1.6.7.6.4)."""

from mqdssm.wire.certificates import UserSignCerts

CERTIFICATES = "mSMQSignCertificates"
DIGESTS = "mSMQDigests"


def signing_values(image: bytes) -> dict[str, tuple[bytes, ...]]:
    """An MQUSERSIGNCERTS structure and the digests in it, written together (decision M21).

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
