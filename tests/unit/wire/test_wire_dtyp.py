"""Security descriptors, lists and entries, [MS-DTYP] 2.4.4 to 2.4.6."""

import copy
import json
import pickle
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from support.wire.strategies import assert_length_is_law

from mqdssm.errors import DecodeError
from mqdssm.wire.dtyp import (
    ANONYMOUS,
    EVERYONE,
    Ace,
    AceFlags,
    AceType,
    Acl,
    AclForm,
    DescriptorControl,
    SecurityDescriptor,
    Sid,
    allow,
    allow_object,
    deny,
)

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "descriptors.json").read_text())
BYTES = {v["id"]: bytes.fromhex(v["hex"]) for v in VECTORS}
DESCRIPTORS = [pytest.param(v, id=v["id"]) for v in VECTORS if v["kind"] == "descriptor"]
SEND = UUID("06bd3202-df3e-11d1-9c86-006008764d0e")
HEADER = SecurityDescriptor.from_bytes


@pytest.mark.parametrize("vector", DESCRIPTORS)
def test_vectors_both_ways(vector):
    image = bytes.fromhex(vector["hex"])
    made = SecurityDescriptor.from_bytes(image)
    assert bytes(made) == image
    assert SecurityDescriptor.from_bytes(bytearray(image)) == made
    assert SecurityDescriptor.from_sddl(vector["sddl"]).to_sddl() == made.to_sddl()


@pytest.mark.parametrize("vector", DESCRIPTORS)
def test_length_is_law(vector):
    assert_length_is_law(bytes.fromhex(vector["hex"]), SecurityDescriptor.from_bytes)


@pytest.mark.parametrize("vector", DESCRIPTORS)
def test_rebuilt_from_its_parts_means_the_same(vector):
    made = SecurityDescriptor.from_bytes(bytes.fromhex(vector["hex"]))
    rebuilt = replace(made)
    assert rebuilt == made
    assert SecurityDescriptor.from_bytes(bytes(rebuilt)) == made


def test_the_published_descriptor():
    made = SecurityDescriptor.from_bytes(BYTES["dtyp-sd-2.5.1.4"])
    assert made.control == 0xB014
    assert made.owner == made.group == Sid("S-1-5-32-544")
    assert made.sacl == Acl((Ace(AceType.SYSTEM_AUDIT, AceFlags.FAILED_ACCESS, 0x80000000, EVERYONE),))
    assert made.dacl is not None
    assert [(ace.type, ace.flags, ace.mask, str(ace.sid)) for ace in made.dacl.aces] == [
        (0, 3, 0xA0000000, "S-1-5-32-545"),
        (0, 3, 0x10000000, "S-1-5-32-544"),
        (0, 3, 0x10000000, "S-1-5-18"),
        (0, 3, 0x10000000, "S-1-3-0"),
    ]
    assert bytes(made.dacl.aces[0]) == BYTES["dtyp-ace-allow-users"]


def test_an_entry_alone():
    image = BYTES["dtyp-ace-allow-users"]
    assert bytes(Ace.from_bytes(image)) == image
    assert_length_is_law(image, Ace.from_bytes)


def test_canonical_layout_is_owner_group_sacl_dacl():
    """Windows accepts any order; ours is that of Samba and of our own vectors."""
    made = SecurityDescriptor.build(owner=ANONYMOUS, dacl=[allow(EVERYONE, 0xF003F)])
    assert bytes(made) == BYTES["derived-sd-owner-anon-everyone-full"]
    assert (
        bytes(SecurityDescriptor.build(dacl=[allow(EVERYONE, 0x20020)])) == BYTES["derived-sd-everyone-read"]
    )


def test_absent_null_and_empty_are_three_things():
    absent = SecurityDescriptor.build(owner=EVERYONE)
    null = SecurityDescriptor.build(control=DescriptorControl.DACL_PRESENT | DescriptorControl.SACL_PRESENT)
    empty = SecurityDescriptor.build(dacl=(), sacl=())
    full = SecurityDescriptor.build(dacl=[deny(EVERYONE, 1)], sacl=[Ace(2, 0x40, 1, EVERYONE)])
    for made, form in (
        (absent, AclForm.ABSENT),
        (null, AclForm.NULL),
        (empty, AclForm.EMPTY),
        (full, AclForm.ENTRIES),
    ):
        again = SecurityDescriptor.from_bytes(bytes(made))
        assert again.dacl_form is form
        assert again == made
    assert len({absent, null, empty, full}) == 4
    assert bytes(null) == bytes.fromhex("01001480" + "00" * 16)


def test_explicit_entries_are_those_that_were_not_inherited():
    own, inherited = allow(EVERYONE, 1), allow(EVERYONE, 2, AceFlags.INHERITED)
    assert SecurityDescriptor.build(dacl=[own, inherited]).explicit_aces() == (own,)
    assert SecurityDescriptor.build().explicit_aces() == ()


def test_lists_get_the_revision_they_need():
    assert Acl.of([allow(EVERYONE, 1)]).revision == 2
    assert Acl.of([allow(EVERYONE, 1), allow_object(EVERYONE, 0x100, SEND)]).revision == 4
    for revision in (2, 3, 4):
        assert Acl.from_bytes(bytes(Acl((), revision))).revision == revision


@pytest.mark.parametrize(
    "image",
    [
        "04002000" + "00" * 28,  # compound
        "14000800" + "01020304",  # unknown type
        "ff000400",  # unknown, header only
        "0500180001000000" + "04000000" + bytes(EVERYONE).hex(),  # object entry with an undefined flag
        "09031c00ffff1f00" + bytes(EVERYONE).hex() + "6172747800000000",  # conditional
        "050048000100000003000000" + "11" * 16 + "22" * 16 + bytes(Sid("S-1-5-32-544")).hex() + "33" * 12,
    ],
)
def test_entries_of_every_kind_are_kept_byte_for_byte(image):
    image = bytes.fromhex(image)
    ace = Ace.from_bytes(image)
    assert bytes(ace) == image
    assert ace.size == len(image)
    listed = Acl((ace,), 4)
    assert Acl.from_bytes(bytes(listed)) == listed


def test_object_entries():
    for object_type, inherited in ((SEND, None), (None, SEND), (SEND, SEND), (None, None)):
        ace = allow_object(EVERYONE, 0x100, object_type, inherited)
        assert Ace.from_bytes(bytes(ace)) == ace
        assert_length_is_law(bytes(ace), Ace.from_bytes)
    assert bytes(allow_object(EVERYONE, 0x100, SEND)).hex() == (
        "050028000001000001000000" + "0232bd063edfd1119c86006008764d0e" + bytes(EVERYONE).hex()
    )


def header(control=0x8004, owner=0, group=0, sacl=0, dacl=0, revision=1):
    offsets = b"".join(number.to_bytes(4, "little") for number in (owner, group, sacl, dacl))
    return bytes([revision, 0]) + control.to_bytes(2, "little") + offsets


EMPTY_ACL = bytes(Acl())


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (header(revision=2), r"2\.4\.6 Revision at offset 0: is 2, must be 1"),
        (header(control=0x0004), r"2\.4\.6 Control at offset 2: is 0x0004: SR"),
        (
            header(control=0x8000, dacl=20) + EMPTY_ACL,
            "OffsetDacl at offset 16: is 20, must be 0 where DACL_PRESENT",
        ),
        (
            header(control=0x8000, sacl=20) + EMPTY_ACL,
            "OffsetSacl at offset 12: is 20, must be 0 where SACL_PRESENT",
        ),
        (header(dacl=16) + EMPTY_ACL, "OffsetDacl at offset 16: is 16, inside the header"),
        (header(owner=19) + bytes(EVERYONE), "OffsetOwner at offset 4: is 19, inside the header"),
        (header(dacl=28) + EMPTY_ACL, r"2\.4\.5 AclRevision at offset 28: needs 1 bytes, 0 left"),
        (
            header(dacl=0xFFFFFFFF) + EMPTY_ACL,
            r"2\.4\.5 AclRevision at offset 4294967295: needs 1 bytes, 0 left",
        ),
        (header(owner=20), r"2\.4\.2\.2 Revision at offset 20: needs 1 bytes, 0 left"),
        (header(dacl=20) + bytes([5, 0, 8, 0, 0, 0, 0, 0]), "AclRevision at offset 20: is 5, at most 4"),
        (header(dacl=20) + bytes([1, 0, 8, 0, 0, 0, 0, 0]), "AclRevision at offset 20: is 1, at least 2"),
        (header(dacl=20) + bytes([2, 0, 7, 0, 0, 0, 0, 0]), "AclSize at offset 22: is 7, at least 8"),
        (header(dacl=20) + bytes([2, 0, 9, 0, 0, 0, 0, 0]), "AclSize at offset 20: needs 9 bytes, 8 left"),
        (header(dacl=20) + bytes([2, 0, 8, 0, 1, 0, 0, 0]), "AceType at offset 28: needs 1 bytes, 0 left"),
        (header() + b"\0", r"2\.4\.6 end at offset 20: 1 bytes left over"),
    ],
)
def test_refusals_name_section_field_and_offset(image, problem):
    with pytest.raises(DecodeError, match=problem):
        SecurityDescriptor.from_bytes(image)


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        ("00000600ffff", "AceSize at offset 2: is 6, must be a multiple of 4"),
        ("00000000", "AceSize at offset 2: is 0, at least 4"),
        ("0000fcff", "AceSize at offset 2: is 65532, at most 65524"),
        ("00000800", "AceSize at offset 0: needs 8 bytes, 4 left"),
        ("00000400", "Mask at offset 4: needs 4 bytes, 0 left"),
        ("0000080001000000", "Revision at offset 8: needs 1 bytes, 0 left"),
        ("00001000010000000102000000000001", "SubAuthority at offset 16: needs 8 bytes, 0 left"),
        ("0500080001000000", "Flags at offset 8: needs 4 bytes, 0 left"),
        ("05000c000100000001000000", "ObjectType at offset 12: needs 16 bytes, 0 left"),
        ("05001c000100000003000000" + "11" * 16, "InheritedObjectType at offset 28: needs 16 bytes, 0 left"),
    ],
)
def test_wrong_entries_name_the_field(image, problem):
    with pytest.raises(DecodeError, match=problem):
        Ace.from_bytes(bytes.fromhex(image))


def test_a_sid_may_not_reach_out_of_its_entry():
    ace = bytes.fromhex("00001000010000000102000000000001") + bytes(8)
    with pytest.raises(DecodeError, match="SubAuthority at offset 24: needs 8 bytes, 0 left"):
        Acl.from_bytes(bytes([2, 0, 8 + len(ace), 0, 1, 0, 0, 0]) + ace)


def test_larger_than_any_descriptor_can_be():
    with pytest.raises(DecodeError, match="131227 bytes, at most 131226"):
        SecurityDescriptor.from_bytes(header() + bytes(131207))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Ace(256, 0, 0, EVERYONE), "one byte"),
        (lambda: Ace(0, -1, 0, EVERYONE), "one byte"),
        (lambda: Ace(0, 0, 2**32, EVERYONE), "no 32-bit number"),
        (lambda: Ace(0, 0, 1), "needs a SID"),
        (lambda: Ace(5, 0, 0, data=b"\0" * 8), "needs a SID"),
        (lambda: Ace(4, 0, 1, data=b"abcd"), "needs a SID"),
        (lambda: Ace(4, 0, 0, EVERYONE), "opaque body"),
        (lambda: Ace(0, 0, 1, EVERYONE, SEND), "has no object type"),
        (lambda: Ace(0, 0, 1, EVERYONE, data=b"abc"), "multiple of 4"),
        (lambda: Ace(0, 0, 1, EVERYONE, data=bytes(65536)), "at most 65524"),
        (lambda: Acl((), 1), "revision 1"),
        (lambda: Acl((), 5), "revision 5"),
        (lambda: Acl((allow(EVERYONE, 1),) * 3277), "at most 65535"),
        (lambda: SecurityDescriptor(0x0004), "SELF_RELATIVE"),
        (lambda: SecurityDescriptor(0x18000), "16 bits"),
        (lambda: SecurityDescriptor(dacl=Acl()), "DACL_PRESENT"),
        (lambda: SecurityDescriptor(sacl=Acl()), "SACL_PRESENT"),
        (lambda: SecurityDescriptor(sbz1=256), "no byte"),
    ],
)
def test_what_cannot_be_encoded_cannot_be_made(make, problem):
    with pytest.raises(ValueError, match=problem):
        make()


def test_the_longest_list():
    acl = Acl((allow(EVERYONE, 1),) * 3276)
    made = SecurityDescriptor.build(dacl=acl.aces, sacl=acl.aces)
    assert acl.size == len(bytes(acl)) == 65528
    assert SecurityDescriptor.from_bytes(bytes(made)) == made


def test_is_a_value():
    image = BYTES["sd-dacl-first-with-gap"]
    made = SecurityDescriptor.from_bytes(image)
    assert bytes(pickle.loads(pickle.dumps(made))) == image
    assert bytes(copy.deepcopy(made)) == image
    assert hash(made) == hash(replace(made))
    changed = replace(made, owner=None)
    assert changed != made
    assert bytes(changed) != image, "the stored bytes must not outlive a change"
    assert SecurityDescriptor.from_bytes(bytes(changed)).owner is None
