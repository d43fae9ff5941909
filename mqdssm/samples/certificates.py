"""Certificates of sample users and keys of sample machines.

Certificates and keys are well-formed, and equal in every run.
They are signed with Ed25519, whose signatures contain no random numbers. The authority's key is computed from
a public text: nothing may ever trust it.
"""

from datetime import UTC, datetime
from functools import cache
from typing import Final
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from mqdssm.samples.seeded_random import compute_octets
from mqdssm.wire.certificates import UserSignCerts
from mqdssm.wire.keys import PROVIDER_BASE, PROVIDER_ENHANCED, RSA_BLOB, PublicKey, PublicKeys, RsaBlob

AUTHORITY: Final = "mqdssm sample authority"
VALID_FROM: Final = datetime(2020, 1, 1, tzinfo=UTC)
VALID_TO: Final = datetime(2099, 12, 31, tzinfo=UTC)
EXPONENT: Final = 65537
BASE_KEY_BYTES: Final = 512 // 8
ENHANCED_KEY_BYTES: Final = 1024 // 8
BALLAST: Final = x509.ObjectIdentifier("2.25.1")  # an OID without a registered owner


@cache
def _make_authority() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(compute_octets(32, AUTHORITY))


def make_certificate(
    name: str,
    identifier: UUID,
    begin: datetime = VALID_FROM,
    end: datetime = VALID_TO,
    *,
    ballast: int = 0,
) -> bytes:
    """Make an X.509 certificate.

    Args:
        name: common name of the subject.
        identifier: becomes its serial number; two certificates of one name need different ones.
        begin: start of the validity.
        end: end of the validity.
        ballast: octets of an unknown extension.

    Returns:
        DER bytes.
    """
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY)])
    private_key = Ed25519PrivateKey.from_private_bytes(compute_octets(32, AUTHORITY, identifier))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(private_key.public_key())
        .serial_number(identifier.int >> 1 or 1)  # at most 159 bits, and positive
        .not_valid_before(begin)
        .not_valid_after(end)
    )
    if ballast:
        unknown = x509.UnrecognizedExtension(BALLAST, bytes(ballast))
        builder = builder.add_extension(unknown, critical=False)
    return builder.sign(_make_authority(), None).public_bytes(Encoding.DER)


def sign_certificates(ders: dict[UUID, bytes]) -> UserSignCerts:
    """Return the MQUSERSIGNCERTS of certificates, with their identifiers.

    See [MS-MQMQ] 2.2.22.
    """
    identifiers = iter(ders)
    return UserSignCerts.from_certificates(ders.values(), make_guid=lambda: next(identifiers))


def make_encryption_keys(identifier: UUID) -> bytes:
    """Return the MQDSPUBLICKEYS of a machine: a short key and a long one.

    See [MS-MQMQ] 2.2.2.
    The moduli are random numbers of the right size; their private keys do not exist.
    """
    sizes = ((PROVIDER_BASE, BASE_KEY_BYTES), (PROVIDER_ENHANCED, ENHANCED_KEY_BYTES))
    keys = (PublicKey(provider_name=name, blob=_encode_rsa_blob(size, identifier)) for name, size in sizes)
    return bytes(PublicKeys(tuple(keys)))


def _encode_rsa_blob(size: int, identifier: UUID) -> bytes:
    drawn = compute_octets(size, "modulus", size, identifier)
    modulus = bytes([drawn[0] | 1, *drawn[1:-1], drawn[-1] | 0x80])  # odd, and of full length
    return RSA_BLOB.encode(RsaBlob(bits=8 * size, exponent=EXPONENT, modulus=modulus))
