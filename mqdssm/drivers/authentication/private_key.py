"""Private key of a queue manager, in a file that only its owner can read."""

import os
import stat
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, Self

from mqdssm.errors import ConfigError
from mqdssm.events.durable_files import sync_folder
from mqdssm.model.transport import HashAlgorithm
from mqdssm.wire.keys import KeyAlgorithm, PublicKey, PublicKeys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

KEY_BITS: Final = 2048
"""Bits of a new key. Windows made 512 and 1024 ([MS-MQDMPR] 3.1.3), which are too weak today."""
KEY_BITS_MIN: Final = 1024
"""Shorter keys can be broken by anyone; `cryptography` refuses them, too."""
FILE_BYTES_MAX: Final = 64 * 1024
"""A longer file is no key file."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def read_secret_file(file: Path, noun: str, bytes_max: int) -> bytes:
    """Read a file that only its owner can read.

    Args:
        file: the file.
        noun: for messages, as "key file".
        bytes_max: octets that are read at most.

    Raises:
        ConfigError: it cannot be read, or others may read it.
    """
    try:
        with file.open("rb") as opened:
            mode, data = os.fstat(opened.fileno()).st_mode, opened.read(bytes_max)
    except OSError as error:
        raise ConfigError(f"the {noun} {file} cannot be read: {error.strerror}") from None
    if os.name == "posix" and mode & _OTHERS:
        raise ConfigError(f"the {noun} {file} can be read by others: chmod 600 {file}")
    return data


class PrivateKey:
    """RSA key that signs messages; it never appears in a repr, a pickle or a log."""

    __slots__ = ("_key",)

    def __init__(self, key: "RSAPrivateKey") -> None:
        self._key = key

    @classmethod
    def generate(cls, bits: int = KEY_BITS) -> Self:
        """Generate a new key.

        Raises:
            ValueError: fewer than `KEY_BITS_MIN` bits.
        """
        from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415  heavy, seldom needed

        if bits < KEY_BITS_MIN:
            raise ValueError(f"a key of {bits} bits is too short: at least {KEY_BITS_MIN}")
        return cls(rsa.generate_private_key(public_exponent=65537, key_size=bits))

    @classmethod
    def load(cls, file: Path) -> Self:
        """Read a key from a PEM file that only its owner can read.

        Raises:
            ConfigError: the file cannot be read, others may read it, or it holds no RSA key without password.
        """
        from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415  heavy, seldom needed
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

        data = read_secret_file(file, "key file", FILE_BYTES_MAX)
        try:
            key = load_pem_private_key(data, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):  # its words may quote the key
            raise ConfigError(f"the key file {file} holds no PEM key without password") from None
        if not isinstance(key, RSAPrivateKey) or key.key_size < KEY_BITS_MIN:
            raise ConfigError(f"the key file {file} holds no RSA key of at least {KEY_BITS_MIN} bits")
        return cls(key)

    @classmethod
    def load_or_generate(cls, file: Path) -> Self:
        """Read the key from a file, or generate a key.

        If the file does not exist, it is written.

        Raises:
            ConfigError: as `load` and `save`.
        """
        if file.exists():
            return cls.load(file)
        key = cls.generate()
        key.save(file)
        return key

    def save(self, file: Path) -> None:
        """Write the key durably to a new file of mode 0600.

        An existing file is never replaced.

        Raises:
            ConfigError: there is a file already, or it cannot be written.
        """
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  heavy, seldom needed

        data = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(file, flags, 0o600)
        except OSError as error:
            raise ConfigError(f"the key file {file} cannot be written: {error.strerror}") from None
        try:
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(opened.fileno())
            sync_folder(file.parent)
        except OSError as error:
            file.unlink(missing_ok=True)  # half a key would stand in the way of a new one
            raise ConfigError(f"the key file {file} cannot be written: {error.strerror}") from None

    def public_keys(self) -> PublicKeys:
        """Return the public key in the form of PROPID_QM_SIGN_PK ([MS-MQMQ] 2.2.2).

        PROPID_S_PSC_SIGNPK has this form, too.
        """
        public = PublicKey.from_rsa(self._key.public_key(), algorithm=KeyAlgorithm.CALG_RSA_SIGN)
        return PublicKeys((public,))

    def sign(self, data: bytes, algorithm: HashAlgorithm) -> bytes:
        """Sign bytes with PKCS #1 1.5.

        The signature is little-endian, as in CryptoAPI (decision R57).
        """
        return self._key.sign(data, _make_padding(), _make_hash(algorithm))[::-1]

    def __repr__(self) -> str:
        return f"PrivateKey({self._key.key_size} bits, ***)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a private key is not copied into a pickle")


def is_signed(key: "RSAPublicKey", data: bytes, signature: bytes, algorithm: HashAlgorithm) -> bool:
    """Return True if `PrivateKey.sign` made the signature of these bytes."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  heavy, seldom needed

    try:
        key.verify(signature[::-1], data, _make_padding(), _make_hash(algorithm))
    except InvalidSignature:
        return False
    return True


@cache
def _make_padding() -> "PKCS1v15":
    from cryptography.hazmat.primitives.asymmetric.padding import (  # noqa: PLC0415  heavy, seldom needed
        PKCS1v15,
    )

    return PKCS1v15()


@cache
def _make_hash(algorithm: HashAlgorithm) -> "hashes.HashAlgorithm":
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415  heavy, seldom needed

    # MD5 and SHA-1 are the protocol's own (decision R17)
    kinds: Mapping[HashAlgorithm, Callable[[], hashes.HashAlgorithm]] = {
        HashAlgorithm.MD5: hashes.MD5,
        HashAlgorithm.SHA1: hashes.SHA1,
        HashAlgorithm.SHA256: hashes.SHA256,
        HashAlgorithm.SHA512: hashes.SHA512,
    }
    return kinds[algorithm]()
