"""A certificate authority and a server certificate for tests.

Making both takes a few milliseconds.
"""

import contextlib
import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

LIFETIME: Final = timedelta(days=3650)
CLOCK_SKEW: Final = timedelta(days=1)  # a client whose clock is behind still accepts it
RENEW_BEFORE: Final = timedelta(days=30)
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1")


def make_certificates(folder: Path, names: "Sequence[str]" = LOOPBACK_NAMES) -> None:
    """Write ``ca.pem``, ``cert.pem`` and ``key.pem``, all of mode 0600.

    Nothing is written if valid ones exist.

    The authority's own key is not kept: nobody can sign a second certificate with it.

    Args:
        folder: an existing folder.
        names: host names and IP addresses that the certificate is valid for.
    """
    if _are_valid(folder, names):
        return
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _make_authority(authority_key)
    server = _make_server_certificate(server_key, names, authority, authority_key)
    key = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem = serialization.Encoding.PEM
    write_private(folder / "key.pem", key)
    write_private(folder / "cert.pem", server.public_bytes(pem))
    write_private(folder / "ca.pem", authority.public_bytes(pem))


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, from its creation on."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _are_valid(folder: Path, names: "Sequence[str]") -> bool:
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes())
    except (OSError, ValueError):
        return False
    if not (folder / "ca.pem").exists() or not (folder / "key.pem").exists():
        return False
    certificate_names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(_build_general_names(names)) <= set(certificate_names) and (
        certificate.not_valid_after_utc > datetime.now(UTC) + RENEW_BEFORE
    )


def _build_general_names(names: "Sequence[str]") -> "list[x509.GeneralName]":
    from cryptography import x509

    result: list[x509.GeneralName] = []
    for name in names:
        try:
            result.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            result.append(x509.DNSName(name))
    return result


def _make_builder(
    subject: str, issuer: str, key: "ec.EllipticCurvePublicKey", *, authority: bool
) -> "x509.CertificateBuilder":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    now = datetime.now(UTC)
    subject_name, issuer_name = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (subject, issuer)
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject_name)
        .issuer_name(issuer_name)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=not authority,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=authority,
                crl_sign=authority,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


_AUTHORITY_NAME: Final = "mqdssm test authority"


def _make_authority(key: "ec.EllipticCurvePrivateKey") -> "x509.Certificate":
    from cryptography.hazmat.primitives import hashes

    builder = _make_builder(_AUTHORITY_NAME, _AUTHORITY_NAME, key.public_key(), authority=True)
    return builder.sign(key, hashes.SHA256())


def _make_server_certificate(
    key: "ec.EllipticCurvePrivateKey",
    names: "Sequence[str]",
    authority: "x509.Certificate",
    authority_key: "ec.EllipticCurvePrivateKey",
) -> "x509.Certificate":
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    identifier = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _make_builder(names[0], _AUTHORITY_NAME, key.public_key(), authority=False)
        .add_extension(x509.SubjectAlternativeName(_build_general_names(names)), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
    )
    return builder.sign(authority_key, hashes.SHA256())
