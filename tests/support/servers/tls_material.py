"""Certificates that are wrong in one way each."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey


@dataclass(frozen=True)
class ServerTls:
    """A server's TLS settings and the CA file that its clients need."""

    context: ssl.SSLContext
    ca_file: str


def server_tls(
    folder: Path,
    *,
    address: str = "127.0.0.1",
    expired: bool = False,
    key_bits: int = 0,
    authority_bits: int = 0,
) -> ServerTls:
    """A self-signed authority and a certificate of it for one address; with bits RSA keys of so many."""
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, key = _key(authority_bits), _key(key_bits)
    end = datetime.now(UTC) + (-DAY if expired else DAY)
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {folder.name}")])
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key(), datetime.now(UTC) + DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
    certificate = (
        _builder(x509.Name([]), authority_name, key.public_key(), end)
        .add_extension(names, critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(authority.public_bytes(pem))
    (folder / "cert.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if key_bits:
        context.set_ciphers("DEFAULT@SECLEVEL=0")  # or OpenSSL itself refuses to use it
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return ServerTls(context, str(folder / "ca.pem"))


def _key(bits: int) -> Key:
    return rsa.generate_private_key(65537, bits) if bits else ec.generate_private_key(ec.SECP256R1())


def _builder(subject: x509.Name, issuer: x509.Name, key: PublicKey, end: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - 3 * DAY)
        .not_valid_after(end)
    )
