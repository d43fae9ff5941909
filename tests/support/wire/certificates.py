"""Self-signed certificates in the structure that MSMQ registers them in."""

from datetime import UTC, datetime, timedelta
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mqdssm.wire.certificates import UserSignCerts


@cache
def certificate(name: str) -> x509.Certificate:
    """A certificate of that common name; the same one each time."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    builder = (
        x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    )
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(begin).not_valid_after(begin + timedelta(days=3650))
    return builder.sign(key, hashes.SHA256())


def registered(*names: str) -> UserSignCerts:
    """An MQUSERSIGNCERTS of certificates of these names."""
    return UserSignCerts.from_certificates([certificate(name) for name in names])
