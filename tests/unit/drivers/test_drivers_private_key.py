"""Private keys: their files, and that nobody sees them."""

import copy
import logging
import os
import pickle
import stat

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from support.replication.queue_managers import key_of

from mqdssm.drivers.authentication.private_key import PrivateKey, is_signed
from mqdssm.errors import ConfigError
from mqdssm.model.transport import HashAlgorithm
from mqdssm.wire.keys import KeyAlgorithm, PublicKeys


def pem(key, encryption=NoEncryption()) -> bytes:  # noqa: B008
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def test_a_key_file_is_its_owners_alone_and_never_overwritten(tmp_path):
    file = tmp_path / "key.pem"
    before = os.umask(0)
    try:
        made = PrivateKey.load_or_generate(file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    data = file.read_bytes()
    again = PrivateKey.load_or_generate(file)
    assert again.public_keys() == made.public_keys()
    with pytest.raises(ConfigError, match="cannot be written"):
        made.save(file)
    assert file.read_bytes() == data


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(tmp_path, mode):
    file = tmp_path / "key.pem"
    key_of("LEFT").save(file)
    file.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        PrivateKey.load(file)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no key",
        pem(ec.generate_private_key(ec.SECP256R1())),
        pem(rsa.generate_private_key(65537, 1024), BestAvailableEncryption(b"password")),
        # an algorithm that nobody knows, 1.3.6.1.4.1.99999.1
        b"-----BEGIN PRIVATE KEY-----\nMBUCAQAwCwYJKwYBBAGGjR8BBAMBAgM=\n-----END PRIVATE KEY-----\n",
    ],
    ids=["empty", "text", "no RSA", "password", "unknown"],
)
def test_a_file_that_holds_no_key(tmp_path, content):
    file = tmp_path / "key.pem"
    file.touch(0o600)
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="holds no"):
        PrivateKey.load(file)


def test_a_full_disk_leaves_no_half_key(tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ConfigError, match="No space left"):
            key_of("LEFT").save(tmp_path / "key.pem")
    assert list(tmp_path.iterdir()) == []
    key_of("LEFT").save(tmp_path / "key.pem")
    with pytest.raises(ConfigError, match="cannot be written"):
        key_of("LEFT").save(tmp_path / "missing" / "key.pem")


def test_a_new_key_is_on_the_disk_with_its_name(tmp_path, monkeypatch):
    """A power failure must not leave a server whose public key is in the directory, and its key nowhere."""
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(stat.S_ISDIR(os.fstat(handle).st_mode)))
    key_of("LEFT").save(tmp_path / "key.pem")
    assert synced == [False, True]


def test_a_key_whose_name_is_not_on_the_disk_is_none(tmp_path, monkeypatch):
    def broken(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(ConfigError, match=r"key\.pem cannot be written: Input/output error"):
        key_of("LEFT").save(tmp_path / "key.pem")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        PrivateKey.load(tmp_path / "none.pem")


def test_short_keys_are_refused():
    with pytest.raises(ValueError, match="512"):
        PrivateKey.generate(512)


def test_nothing_shows_the_key(tmp_path, caplog):
    key = key_of("LEFT")
    numbers = key._key.private_numbers()
    logging.getLogger("test").warning("%s %r", key, key)
    text = f"{key} {key!r} {[key]} {caplog.text}"
    assert "***" in text
    for secret in (numbers.d, numbers.p, numbers.q):
        assert str(secret) not in text
        assert f"{secret:x}" not in text.lower()
    for copier in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private key"):
            copier(key)
    assert not hasattr(key, "__dict__")


def test_the_public_half_is_what_the_directory_holds():
    public = key_of("LEFT").public_keys()
    assert PublicKeys.from_bytes(bytes(public)) == public
    assert public.keys[0].rsa_blob.algorithm == KeyAlgorithm.CALG_RSA_SIGN
    signature = key_of("LEFT").sign(b"data", HashAlgorithm.SHA256)
    assert is_signed(public.keys[0].rsa(), b"data", signature, HashAlgorithm.SHA256)
    assert not is_signed(public.keys[0].rsa(), b"data", signature, HashAlgorithm.SHA1)
    for wrong in (b"", signature[:-1], signature + b"\0", bytes(len(signature)), b"\xff" * len(signature)):
        assert not is_signed(public.keys[0].rsa(), b"data", wrong, HashAlgorithm.SHA256)
