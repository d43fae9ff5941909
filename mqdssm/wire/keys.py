"""Public keys of queue managers: MQDSPUBLICKEYS ([MS-MQMQ] 2.2.2).

The RSA blobs within them are decoded as well.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Self

from mqdssm.wire import fields
from mqdssm.wire.codecs import U8, U16, U32, raw
from mqdssm.wire.layout import Layout

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

KEYS_MAX: Final = 256  # ours; the specification gives none, Windows stores one or two
KEY_BLOB_BYTES_MAX: Final = 20 + 65536 // 8  # header and the modulus of a 65,536-bit key
PROVIDER_NAME_BYTES_MAX: Final = 2 * 256  # ours; the specification gives none

PROV_RSA_FULL: Final = 0x01

PROVIDER_BASE: Final = "Microsoft Base Cryptographic Provider v1.0"
PROVIDER_ENHANCED: Final = "Microsoft Enhanced Cryptographic Provider v1.0"


class KeyAlgorithm(IntEnum):
    """Purpose of a key, aiKeyAlg ([MS-MQDS] 2.2.19)."""

    CALG_RSA_SIGN = 0x2400
    CALG_RSA_KEYX = 0xA400


@dataclass(frozen=True, slots=True, kw_only=True)
class RsaBlob:
    """PUBLICKEYBLOB of an RSA key: BLOBHEADER and RSAPUBKEY.

    See [MS-MQDS] 2.2.19 and 2.2.18.

    Attributes:
        algorithm: a `KeyAlgorithm`, or another number.
        bits: length of the modulus, a multiple of 8.
        exponent: the public exponent.
        modulus: little-endian bytes.

    Raises:
        ValueError: when `bits` is not the length of `modulus`.
    """

    algorithm: int = KeyAlgorithm.CALG_RSA_KEYX
    bits: int
    exponent: int
    modulus: bytes

    def __post_init__(self) -> None:
        if self.bits != 8 * len(self.modulus):
            raise fields.FieldError("bits", f"is {self.bits}, modulus has {8 * len(self.modulus)} bits")


RSA_BLOB: Final = Layout(
    RsaBlob,
    "[MS-MQDS] 2.2.18",
    fields.Const("bType", U8, 0x06),
    fields.Const("bVersion", U8, 0x02),
    fields.Ignored("reserved", U16),
    fields.Value("algorithm", U32, "aiKeyAlg"),
    fields.Const("magic", raw(4), b"RSA1"),
    fields.Value("bits", U32, "bitLen"),
    fields.Value("exponent", U32, "pubExp"),
    fields.Bytes("modulus", high=65536 // 8),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """One key with its cryptographic provider, MQDSPUBLICKEY ([MS-MQMQ] 2.2.1).

    The provider is given by its name.

    Attributes:
        provider_name: name of the cryptographic service provider.
        provider_type: PROV_RSA_FULL (1) or PROV_RSA_AES (0x18); other numbers are kept.
        blob: aBuf, as stored: BLOBHEADER and RSAPUBKEY.
    """

    provider_name: str = PROVIDER_ENHANCED
    provider_type: int = PROV_RSA_FULL
    blob: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> "PublicKey":
        """Decode one key, without bytes behind it.

        Raises:
            DecodeError: for a truncated, longer or wrong structure.
        """
        return PUBLIC_KEY.decode(data)

    @classmethod
    def from_rsa(
        cls,
        key: "RSAPublicKey",
        *,
        provider_name: str = PROVIDER_ENHANCED,
        provider_type: int = PROV_RSA_FULL,
        algorithm: int = KeyAlgorithm.CALG_RSA_KEYX,
    ) -> Self:
        """Make a key from an RSA key of the `cryptography` package.

        Raises:
            ValueError: for a key whose exponent does not fit 32 bits.
        """
        numbers = key.public_numbers()
        length = (key.key_size + 7) // 8
        blob = RsaBlob(
            algorithm=algorithm,
            bits=8 * length,
            exponent=numbers.e,
            modulus=numbers.n.to_bytes(length, "little"),
        )
        return cls(provider_name=provider_name, provider_type=provider_type, blob=RSA_BLOB.encode(blob))

    def __bytes__(self) -> bytes:
        return PUBLIC_KEY.encode(self)

    @property
    def rsa_blob(self) -> RsaBlob:
        """Numbers of the RSA key in `blob`.

        Raises:
            DecodeError: when it is no RSA key.
        """
        return RSA_BLOB.decode(self.blob)

    def rsa(self) -> "RSAPublicKey":
        """Return the key as an object of the `cryptography` package.

        Raises:
            DecodeError: when `blob` is no RSA key.
            ValueError: when `cryptography` refuses its numbers.
        """
        from cryptography.hazmat.primitives.asymmetric.rsa import (  # noqa: PLC0415  heavy, seldom needed
            RSAPublicNumbers,
        )

        blob = self.rsa_blob
        return RSAPublicNumbers(blob.exponent, int.from_bytes(blob.modulus, "little")).public_key()


PUBLIC_KEY: Final = Layout(
    PublicKey,
    "[MS-MQMQ] 2.2.1",
    fields.ByteSize("blob", U32, "ulKeyLen", high=KEY_BLOB_BYTES_MAX),
    fields.ByteSize("provider_name", U32, "ulProviderLen", high=PROVIDER_NAME_BYTES_MAX),
    fields.Value("provider_type", U32, "ulProviderType"),
    fields.Text16("provider_name", "sProviderName"),
    fields.Bytes("blob", "aBuf"),
)


@dataclass(frozen=True, slots=True)
class PublicKeys:
    """The keys of a queue manager, MQDSPUBLICKEYS ([MS-MQMQ] 2.2.2).

    The attribute is mSMQEncryptKey, the property is PublicEncryptionKeyList.

    `bytes(keys)` is the stored form.
    """

    keys: tuple[PublicKey, ...] = ()

    @classmethod
    def from_bytes(cls, data: bytes) -> "PublicKeys":
        """Decode the stored form, without bytes behind it.

        Raises:
            DecodeError: for a truncated, longer or wrong structure.
        """
        return PUBLIC_KEYS.decode(data)

    def __bytes__(self) -> bytes:
        return PUBLIC_KEYS.encode(self)


PUBLIC_KEYS: Final = Layout(
    PublicKeys,
    "[MS-MQMQ] 2.2.2",
    fields.TotalSize("ulLen", U32),
    fields.Count("keys", U32, "cNumofKeys", high=KEYS_MAX),
    fields.Items("keys", fields.Nested(PUBLIC_KEY), "aPublicKeys"),
)
