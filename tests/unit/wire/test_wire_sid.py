"""Security identifiers, [MS-DTYP] 2.4.2."""

import copy
import json
import pickle
from pathlib import Path

import pytest
from support.wire.strategies import assert_length_is_law

from mqdssm.errors import DecodeError
from mqdssm.wire.sid import ANONYMOUS, EVERYONE, WELL_KNOWN, Sid

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "descriptors.json").read_text())
SIDS = [pytest.param(bytes.fromhex(v["hex"]), v["text"], id=v["id"]) for v in VECTORS if v["kind"] == "sid"]


@pytest.mark.parametrize(("packet", "text"), SIDS)
def test_vectors_both_ways(packet, text):
    assert Sid.from_bytes(packet) == Sid(text)
    assert str(Sid.from_bytes(packet)) == text
    assert bytes(Sid(text)) == packet


@pytest.mark.parametrize(("packet", "text"), SIDS)
def test_length_is_law(packet, text):
    assert_length_is_law(packet, Sid.from_bytes)


def test_refusals_name_the_field():
    with pytest.raises(DecodeError, match=r"\[MS-DTYP\] 2\.4\.2\.2 Revision at offset 0: is 2, must be 1"):
        Sid.from_bytes(bytes.fromhex("020100000000000100000000"))
    with pytest.raises(DecodeError, match="SubAuthorityCount at offset 1: is 16, at most 15"):
        Sid.from_bytes(bytes([1, 16]) + bytes(6 + 64))
    with pytest.raises(DecodeError, match="SubAuthority at offset 8: needs 8 bytes, 4 left"):
        Sid.from_bytes(bytes.fromhex("010200000000000100000000"))
    with pytest.raises(DecodeError, match="end at offset 12: 1 bytes left over"):
        Sid.from_bytes(bytes(EVERYONE) + b"\0")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("s-1-5-18", "S-1-5-18"),
        (" S-1-1-0 ", "S-1-1-0"),
        ("S-1-0x5-0x20-544", "S-1-5-32-544"),
        ("S-1-4294967295-1", "S-1-4294967295-1"),
        ("S-1-4294967296-1", "S-1-0x000100000000-1"),
        ("S-1-0xFFFFFFFFFFFF", "S-1-0xFFFFFFFFFFFF"),
        ("S-1-5", "S-1-5"),
        ("S-1-5-" + "-".join("0" * 15), "S-1-5-" + "-".join("0" * 15)),
    ],
)
def test_parse_accepts_what_others_write(text, canonical):
    assert str(Sid.parse(text)) == canonical
    assert Sid.from_bytes(bytes(Sid.parse(text))) == Sid(canonical)


@pytest.mark.parametrize(
    "text",
    [
        *("", "S", "S-1", "S-1-", "S-2-5-18", "S-1-5-", "S-1--18", "X-1-5-18", "S-1-5-18-", "S_1_5"),
        *("S-1-5-018", "S-1-5-+18", "S-1-5- 18", "S-1-5-1_8", "S-1-5-x12", "S-1-5-0x", "S-1-5-\u0661"),
        *("S-1-5-4294967296", "S-1-281474976710656", "S-1-0x1000000000000", "S-1-5-18\0", "S-1-5-18\n"),
        "S-1-5-" + "-".join("0" * 16),
    ],
)
def test_no_sid(text):
    with pytest.raises(ValueError, match="no SID"):
        Sid.parse(text)


@pytest.mark.parametrize("text", ["s-1-5-18", "S-1-0x5-18", " S-1-5-18", "S-1-0x0001-1"])
def test_constructor_takes_canonical_text_only(text):
    with pytest.raises(ValueError, match="SID"):
        Sid(text)


def test_parts():
    guest = Sid("S-1-5-21-1-2-3-501")
    assert (guest.authority, guest.subauthorities, guest.rid) == (5, (21, 1, 2, 3, 501), 501)
    assert guest.domain == Sid("S-1-5-21-1-2-3")
    assert EVERYONE.domain is None
    with pytest.raises(ValueError, match="S-1-5 has no relative identifier"):
        _ = Sid("S-1-5").rid
    with pytest.raises(ValueError, match="at most 15"):
        Sid.of(5, *range(16))
    with pytest.raises(ValueError, match="no SID"):
        Sid.of(5, 2**32)


def test_well_known():
    assert WELL_KNOWN["EVERYONE"] is EVERYONE
    assert (str(EVERYONE), str(ANONYMOUS)) == ("S-1-1-0", "S-1-5-7")
    assert len(set(WELL_KNOWN.values())) == len(WELL_KNOWN)


def test_is_a_value():
    assert copy.deepcopy(EVERYONE) == EVERYONE == pickle.loads(pickle.dumps(EVERYONE))
    assert hash(Sid("S-1-1-0")) == hash(EVERYONE)
    with pytest.raises(AttributeError):
        EVERYONE.text = "S-1-5-7"  # type: ignore[misc]
