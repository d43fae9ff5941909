"""MQUSERSIGNCERTS, [MS-MQMQ] 2.2.21 and 2.2.22."""

import hashlib
import json
from itertools import count
from pathlib import Path
from uuid import UUID

import pytest
from support.wire.strategies import assert_length_is_law

from mqdssm.errors import DecodeError
from mqdssm.wire.certificates import UserSignCert, UserSignCerts, digest_of

BY_ID = {
    vector["id"]: vector
    for vector in json.loads((Path(__file__).parents[2] / "vectors" / "keys.json").read_text())
    if vector["kind"] == "certificates"
}
VECTORS = [pytest.param(vector, id=name) for name, vector in BY_ID.items()]


@pytest.mark.parametrize("vector", VECTORS)
def test_vectors_both_ways(vector):
    image = bytes.fromhex(vector["hex"])
    made = UserSignCerts.from_bytes(image)
    assert bytes(made) == image
    assert [digest.hex() for digest in made.digests()] == [e["digest"] for e in vector["certificates"]]
    for one, expected in zip(made.certificates, vector["certificates"], strict=True):
        assert one.identifier == UUID(expected["identifier"])
        assert one.digest_matches is expected["matches"]
        assert UserSignCert.from_bytes(bytes(one)) == one
        if "subject" in expected:
            assert one.load_certificate().subject.rfc4514_string() == expected["subject"]


@pytest.mark.parametrize("vector", VECTORS)
def test_length_is_law(vector):
    assert_length_is_law(bytes.fromhex(vector["hex"]), UserSignCerts.from_bytes)


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.9")
def test_digests_mirror_the_digest_fields_in_the_same_order():
    made = UserSignCerts.from_bytes(bytes.fromhex(BY_ID["certificates-two"]["hex"]))
    turned = UserSignCerts(made.certificates[::-1])
    assert made.digests() == tuple(hashlib.md5(one.der).digest() for one in made.certificates)
    assert turned.digests() == made.digests()[::-1]
    wrong = UserSignCerts.from_bytes(bytes.fromhex(BY_ID["certificates-wrong-digest"]["hex"]))
    assert wrong.digests() == (bytes(range(16)),), "the field as stored, not what it should be"


def test_made_from_certificates():
    certificates = [one.load_certificate() for one in two().certificates]
    numbers = count(1)
    made = UserSignCerts.from_certificates(certificates, make_guid=lambda: UUID(int=next(numbers)))
    assert made.digests() == two().digests()
    assert [one.identifier.int for one in made.certificates] == [1, 2]
    assert all(one.digest_matches for one in made.certificates)
    assert [one.der for one in made.certificates] == [one.der for one in two().certificates]
    assert UserSignCerts.from_certificates([b"abc"]).digests() == (digest_of(b"abc"),)
    assert len({one.identifier for one in UserSignCerts.from_certificates([b"a"] * 9).certificates}) == 9


def two() -> UserSignCerts:
    return UserSignCerts.from_bytes(bytes.fromhex(BY_ID["certificates-two"]["hex"]))


def test_refusals_name_the_field():
    image = bytes.fromhex(BY_ID["certificates-two"]["hex"])
    with pytest.raises(DecodeError, match=r"\[MS-MQMQ\] 2\.2\.21 CertificateCount at offset 0: needs 4"):
        UserSignCerts.from_bytes(b"")
    with pytest.raises(DecodeError, match=r"2\.2\.21 Certificates at offset 4: needs 108 bytes, 0 left"):
        UserSignCerts.from_bytes(b"\3\0\0\0")
    with pytest.raises(DecodeError, match=r"2\.2\.22 Certificate at offset 40: needs"):
        UserSignCerts.from_bytes(image[:100])
    with pytest.raises(DecodeError, match="CertificateLength at offset 32: is 1048577, at most 1048576"):
        UserSignCert.from_bytes(bytes(32) + b"\x01\x00\x10\x00")
    with pytest.raises(DecodeError, match="CertificateCount at offset 0: is 29128, at most 29127"):
        UserSignCerts.from_bytes(b"\xc8\x71\0\0")


def test_what_cannot_be_encoded():
    with pytest.raises(ValueError, match="Digest: has 15 bytes, must have 16"):
        bytes(UserSignCert(digest=bytes(15), identifier=UUID(int=0), der=b""))
    with pytest.raises(ValueError, match="Identifier: 'x' is no GUID"):
        bytes(UserSignCert(digest=bytes(16), identifier="x", der=b""))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"(?i)pars"):
        UserSignCert.of(b"no certificate", UUID(int=0)).load_certificate()
