"""Signing certificates of users and queue managers, in MQUSERSIGNCERTS.

See [MS-MQMQ] 2.2.21.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self
from uuid import UUID, uuid4

from mqdssm.wire.codecs import GUID, U32, raw
from mqdssm.wire.fields import Bytes, ByteSize, Count, Items, Nested, Value
from mqdssm.wire.layout import Layout

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

CERTIFICATE_BYTES_MAX: Final = 0x10_0000  # upper range of mSMQSignCertificates (decision M28)
CERTIFICATES_MAX: Final = CERTIFICATE_BYTES_MAX // 36  # the most empty ones that fit
DIGEST_BYTES: Final = 16


def digest_of(certificate: bytes) -> bytes:
    """Return the MD5 digest that identifies a certificate ([MS-MQMQ] 2.2.22).

    The digest has 16 bytes and is not for security.
    """
    return hashlib.md5(certificate, usedforsecurity=False).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSignCert:
    """One certificate, MQUSERSIGNCERT ([MS-MQMQ] 2.2.22).

    Attributes:
        digest: Digest, 16 bytes as stored; `digest_matches` compares it with the certificate.
        identifier: Identifier, made by the program that registered the certificate.
        der: Certificate, X.509 DER bytes as stored.
    """

    digest: bytes
    identifier: UUID
    der: bytes

    @classmethod
    def of(cls, der: bytes, identifier: UUID) -> Self:
        """Make a structure from DER bytes; the digest is computed."""
        return cls(digest=digest_of(der), identifier=identifier, der=der)

    @classmethod
    def from_bytes(cls, data: bytes) -> "UserSignCert":
        """Decode one structure, without bytes behind it.

        Raises:
            DecodeError: for a truncated, longer or wrong structure.
        """
        return USER_SIGN_CERT.decode(data)

    def __bytes__(self) -> bytes:
        return USER_SIGN_CERT.encode(self)

    @property
    def digest_matches(self) -> bool:
        """True if `digest` is the MD5 of the certificate.

        If it is not, validation reports it (decision M21).
        """
        return self.digest == digest_of(self.der)

    def load_certificate(self) -> "Certificate":
        """Return the certificate as an object of the `cryptography` package.

        Raises:
            ValueError: when the bytes are no X.509 certificate.
        """
        from cryptography.x509 import load_der_x509_certificate  # noqa: PLC0415  heavy, seldom needed

        return load_der_x509_certificate(self.der)


USER_SIGN_CERT: Final = Layout(
    UserSignCert,
    "[MS-MQMQ] 2.2.22",
    Value("digest", raw(DIGEST_BYTES), "Digest"),
    Value("identifier", GUID, "Identifier"),
    ByteSize("der", U32, "CertificateLength", high=CERTIFICATE_BYTES_MAX),
    Bytes("der", "Certificate"),
)


@dataclass(frozen=True, slots=True)
class UserSignCerts:
    """Certificates in stored order, MQUSERSIGNCERTS ([MS-MQMQ] 2.2.21).

    The attribute mSMQSignCertificates has this structure.

    `bytes(certificates)` is the stored form.
    """

    certificates: tuple[UserSignCert, ...] = ()

    @classmethod
    def from_bytes(cls, data: bytes) -> "UserSignCerts":
        """Decode the stored form, without bytes behind it.

        Raises:
            DecodeError: for a truncated, longer or wrong structure.
        """
        return USER_SIGN_CERTS.decode(data)

    @classmethod
    def from_certificates(
        cls, certificates: Iterable["Certificate | bytes"], *, make_guid: Callable[[], UUID] = uuid4
    ) -> Self:
        """Make the structure from certificates, in their order.

        Args:
            certificates: of the `cryptography` package, or DER bytes.
            make_guid: makes the Identifier of each certificate.
        """
        return cls(
            tuple(UserSignCert.of(_encode_der(certificate), make_guid()) for certificate in certificates)
        )

    def __bytes__(self) -> bytes:
        return USER_SIGN_CERTS.encode(self)

    def digests(self) -> tuple[bytes, ...]:
        """Return the Digest fields in order, the values of mSMQDigests.

        See [MS-MQDSSM] 3.1.6.1.1.9.
        """
        return tuple(certificate.digest for certificate in self.certificates)


USER_SIGN_CERTS: Final = Layout(
    UserSignCerts,
    "[MS-MQMQ] 2.2.21",
    Count("certificates", U32, "CertificateCount", high=CERTIFICATES_MAX),
    Items("certificates", Nested(USER_SIGN_CERT), "Certificates"),
)


def _encode_der(certificate: "Certificate | bytes") -> bytes:
    if isinstance(certificate, bytes):
        return certificate
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415  heavy, seldom needed

    return certificate.public_bytes(Encoding.DER)
