"""MQDSPUBLICKEYS and the RSA blobs within, [MS-MQMQ] 2.2.1, 2.2.2 and [MS-MQDS] 2.2.18."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from support.wire.strategies import assert_length_is_law

from mqdssm.errors import DecodeError
from mqdssm.wire.keys import PUBLIC_KEYS, RSA_BLOB, KeyAlgorithm, PublicKey, PublicKeys, RsaBlob

VECTORS = [
    pytest.param(vector, id=vector["id"])
    for vector in json.loads((Path(__file__).parents[2] / "vectors" / "keys.json").read_text())
    if vector["kind"] == "keys"
]
RSA = rsa.generate_private_key(65537, 2048).public_key()


@pytest.mark.parametrize("vector", VECTORS)
def test_vectors_both_ways(vector):
    image = bytes.fromhex(vector["hex"])
    made = PublicKeys.from_bytes(image)
    assert bytes(made) == image
    assert len(made.keys) == len(vector["keys"])
    for key, expected in zip(made.keys, vector["keys"], strict=True):
        assert (key.provider_name, key.provider_type) == (
            expected["provider_name"],
            expected["provider_type"],
        )
        assert PublicKey.from_bytes(bytes(key)) == key
        if "bits" in expected:
            blob = key.rsa_blob
            assert (blob.algorithm, blob.bits, blob.exponent) == (
                expected["algorithm"],
                expected["bits"],
                expected["exponent"],
            )
            assert int.from_bytes(blob.modulus, "little") == int(expected["modulus"])
            assert RSA_BLOB.encode(blob) == key.blob


@pytest.mark.parametrize("vector", VECTORS)
def test_length_is_law(vector):
    assert_length_is_law(bytes.fromhex(vector["hex"]), PublicKeys.from_bytes)


def test_rsa_keys_both_ways():
    key = PublicKey.from_rsa(RSA, provider_type=0x18, algorithm=KeyAlgorithm.CALG_RSA_SIGN)
    assert key.blob[:12].hex() == "060200000024000052534131"
    assert key.rsa() == RSA
    assert PublicKey.from_bytes(bytes(key)).rsa() == RSA
    assert_length_is_law(key.blob, RSA_BLOB.decode)


@pytest.mark.spec("MS-MQQB 2.4.1")
def test_the_prescribed_prefix():
    """[MS-MQQB] 2.4.1: the fixed fields of a PUBLICKEYBLOB for key exchange."""
    assert PublicKey.from_rsa(RSA).blob[:12] == bytes.fromhex("0602000000a4000052534131")


def test_refusals_name_the_field():
    key = bytes(PublicKey(provider_name="p", blob=b"x"))
    with pytest.raises(DecodeError, match=r"\[MS-MQMQ\] 2\.2\.2 ulLen at offset 0: is 7, less than"):
        PublicKeys.from_bytes(bytes.fromhex("0700000000000000"))
    with pytest.raises(DecodeError, match="ulLen at offset 0: needs 9 bytes, 8 left"):
        PublicKeys.from_bytes(bytes.fromhex("0900000000000000"))
    with pytest.raises(DecodeError, match="end at offset 8: 1 bytes left over"):
        PublicKeys.from_bytes(bytes.fromhex("0900000000000000") + b"\0")
    with pytest.raises(DecodeError, match="cNumofKeys at offset 4: is 257, at most 256"):
        PublicKeys.from_bytes(bytes.fromhex("0800000001010000"))
    with pytest.raises(DecodeError, match=r"2\.2\.1 sProviderName at offset 12: needs 4 bytes, 3 left"):
        PublicKey.from_bytes(key[:15])
    with pytest.raises(DecodeError, match="sProviderName at offset 12: has no NUL at its end"):
        PublicKey.from_bytes(key[:14] + b"x" + key[15:])
    with pytest.raises(DecodeError, match="ulProviderLen at offset 4: is 514, at most 512"):
        PublicKey.from_bytes(key[:4] + b"\x02\x02" + key[6:])
    with pytest.raises(DecodeError, match=r"2\.2\.18 bitLen at offset 12: is 16, modulus has 8 bits"):
        RSA_BLOB.decode(bytes.fromhex("0602000000a4000052534131" + "10000000" + "01000100" + "ff"))
    with pytest.raises(DecodeError, match="magic at offset 8: is b'RSA2', must be b'RSA1'"):
        RSA_BLOB.decode(bytes.fromhex("0602000000a4000052534132" + "08000000" + "01000100" + "ff"))


def test_a_size_of_the_whole_is_law_inside_other_structures_too():
    image = bytes.fromhex("0900000000000000") + b"\0"
    with pytest.raises(DecodeError, match="end at offset 8: 1 bytes left over"):
        PUBLIC_KEYS.read(image, 0, len(image))
    assert PUBLIC_KEYS.read(bytes.fromhex("0800000000000000") + b"\0", 0, 9) == (PublicKeys(), 8)


def test_what_cannot_be_encoded():
    with pytest.raises(ValueError, match="bits: is 9, modulus has 8 bits"):
        RsaBlob(bits=9, exponent=3, modulus=b"x")
    with pytest.raises(ValueError, match="sProviderName: holds a NUL"):
        bytes(PublicKey(provider_name="a\0b", blob=b""))
    with pytest.raises(ValueError, match="ulProviderLen: is 514, at most 512"):
        bytes(PublicKey(provider_name="a" * 256, blob=b""))
    with pytest.raises(ValueError, match="cNumofKeys: is 257, at most 256"):
        bytes(PublicKeys((PublicKey(blob=b""),) * 257))


def test_a_blob_that_is_no_rsa_key_is_kept_but_no_key():
    key = PublicKeys.from_bytes(bytes(PublicKeys((PublicKey(blob=b"\1\2\3"),)))).keys[0]
    assert key.blob == b"\1\2\3"
    with pytest.raises(DecodeError):
        key.rsa()
    even = RsaBlob(bits=8, exponent=2, modulus=b"\xff")
    with pytest.raises(ValueError, match="e must be"):
        PublicKey(blob=RSA_BLOB.encode(even)).rsa()


def test_cryptography_is_not_imported_before_it_is_needed():
    code = "import sys, mqdssm.wire.keys, mqdssm.wire.certificates; sys.exit('cryptography' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
