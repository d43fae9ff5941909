"""MSMQ access masks in Active Directory and back: nothing is lost, nothing unmeant is granted (M31)."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.wire.strategies import aces, descriptors, sids

from mqdssm.tables.access import (
    KINDS,
    AccessKind,
    AdRight,
    flags_of_parts,
    from_directory,
    is_raw,
    map_ace_from_directory,
    map_ace_to_directory,
    to_directory,
)
from mqdssm.wire import masks
from mqdssm.wire.acl import Ace, AceFlags, AceType, allow, allow_object, deny
from mqdssm.wire.dtyp import AclForm, SecurityDescriptor
from mqdssm.wire.masks import DescriptorControl
from mqdssm.wire.sid import EVERYONE, Sid

SOMEBODY = Sid("S-1-5-21-1-2-3-1000")
ORDINARY = [AceType.ACCESS_ALLOWED, AceType.ACCESS_DENIED, AceType.SYSTEM_AUDIT]
kinds = st.sampled_from(list(KINDS.values()))


def bits_of(kind: AccessKind) -> list[int]:
    return [1 << number for number in range(32) if kind.all >> number & 1]


def masks_of(kind: AccessKind, *, is_complete: bool = True) -> list[int]:
    """Every mask of the rights of a kind, at most 4,096; or only those of one right, of two and of all."""
    bits = bits_of(kind)
    sizes = range(1, len(bits) + 1) if is_complete else (1, 2, len(bits))
    return [sum(chosen) for size in sizes for chosen in combinations(bits, size)]


def there_and_back(ace: Ace, kind: AccessKind) -> tuple[Ace, ...]:
    stored = to_directory(SecurityDescriptor.build(dacl=[ace]), kind)
    found = from_directory(SecurityDescriptor.from_bytes(bytes(stored)), kind)
    assert found.dacl is not None
    return found.dacl.aces


@pytest.mark.slow
@pytest.mark.parametrize("ace_type", ORDINARY, ids=lambda one: one.name)
@pytest.mark.parametrize("name", KINDS)
def test_every_mask_comes_back(name: str, ace_type: AceType) -> None:
    kind = KINDS[name]
    for mask in masks_of(kind, is_complete=ace_type is ORDINARY[0]):  # the type changes no bit
        ace = Ace(ace_type, 0, mask, SOMEBODY)
        assert there_and_back(ace, kind) == (ace,), f"{mask:#x}"


@pytest.mark.parametrize("name", KINDS)
def test_all_named_masks_are_among_them(name: str) -> None:
    kind = KINDS[name]
    for member in kind.rights.__members__.values():
        assert int(member) in masks_of(kind)


def granted(mask: int, kind: AccessKind) -> dict[object, int]:
    """What Active Directory grants for a mask of MSMQ: object type -> bits."""
    found: dict[object, int] = {}
    for ace in map_ace_to_directory(allow(SOMEBODY, mask), kind):
        found[ace.object_type] = found.get(ace.object_type, 0) | ace.mask
    return found


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.8")
@pytest.mark.parametrize("name", KINDS)
def test_only_who_may_set_properties_may_write(name: str) -> None:
    kind = KINDS[name]
    for mask in masks_of(kind):
        plain = granted(mask, kind).get(None, 0)
        assert bool(plain & AdRight.WRITE_PROPERTY) == bool(mask & 0x10), f"{mask:#x}"
        assert bool(plain & AdRight.READ_PROPERTY) == bool(mask & 0x20), f"{mask:#x}"
        for right in (masks.DELETE, masks.READ_CONTROL, masks.WRITE_DAC, masks.WRITE_OWNER):
            assert plain & right == mask & right, f"{mask:#x}"
        if mask != kind.all:  # else it is full control
            more = AdRight.CREATE_CHILD | AdRight.DELETE_CHILD | AdRight.DELETE_TREE
            assert not plain & (more | AdRight.SELF | AdRight.CONTROL_ACCESS), f"{mask:#x}"


def test_the_extended_rights_of_the_schema() -> None:
    queue = KINDS["mSMQQueue"]
    ends = {str(kind)[:8] for kind in granted(0xF, queue)}
    assert ends == {"06bd3200", "06bd3201", "06bd3202", "06bd3203"}
    assert granted(masks.QueueAccess.WRITE_MESSAGE, queue) == {queue.carriers[2].object_type: 0x100}
    machine = KINDS["mSMQConfiguration"]
    creating = granted(masks.MachineAccess.CREATE_QUEUE, machine)
    assert [(str(kind)[:8], bits) for kind, bits in creating.items()] == [("9a0dc343", 0x1)]


def test_rights_that_an_administrator_of_windows_grants() -> None:
    queue = KINDS["mSMQQueue"]
    receive, peek = queue.carriers[0].object_type, queue.carriers[1].object_type
    assert map_ace_from_directory(allow_object(EVERYONE, 0x100, receive), queue) == allow(EVERYONE, 0x3)
    assert map_ace_from_directory(allow_object(EVERYONE, 0x100, peek), queue) == allow(EVERYONE, 0x2)
    assert map_ace_from_directory(allow(EVERYONE, 0x100), queue) == allow(
        EVERYONE, 0xF
    )  # all extended rights
    assert map_ace_from_directory(allow(EVERYONE, 0xF01FF), queue) == allow(EVERYONE, 0xF003F)
    assert map_ace_from_directory(allow(EVERYONE, 0x20094), queue) == allow(EVERYONE, 0x20020)
    assert map_ace_from_directory(allow(EVERYONE, masks.GENERIC_ALL), queue) == allow(EVERYONE, 0xF003F)
    assert map_ace_from_directory(allow(EVERYONE, masks.GENERIC_READ), queue) == allow(EVERYONE, 0x20020)
    assert map_ace_from_directory(deny(EVERYONE, 0x10), queue) == deny(EVERYONE, 0x20)
    journal = queue.carriers[3].object_type
    assert map_ace_from_directory(allow_object(EVERYONE, 0x100, journal), queue) == allow(EVERYONE, 0xA)
    machine = KINDS["mSMQConfiguration"]
    for carrier, rights in ((machine.carriers[0], 0x3), (machine.carriers[3], 0xC0)):
        granted_there = allow_object(EVERYONE, 0x100, carrier.object_type)
        assert map_ace_from_directory(granted_there, machine) == allow(EVERYONE, rights)
    # the same object, another right: no extended right, but a property set that happens to be called so
    other = allow_object(EVERYONE, int(AdRight.READ_PROPERTY), receive)
    assert map_ace_from_directory(other, queue) == other
    # refusing to receive refuses no peeking
    refused = Ace(AceType.ACCESS_DENIED_OBJECT, 0, 0x100, EVERYONE, receive)
    assert map_ace_from_directory(refused, queue) == deny(EVERYONE, 0x1)
    # listing, deleting children: nothing of MSMQ's
    assert map_ace_from_directory(allow(EVERYONE, 0x46), queue) is None


@pytest.mark.parametrize("name", KINDS)
def test_masks_that_were_stored_without_translation(name: str) -> None:
    kind = KINDS[name]
    for mask in kind.raw:
        ace = allow(EVERYONE, mask)
        assert is_raw(ace, kind)
        assert map_ace_from_directory(ace, kind) == ace
    for mask in masks_of(kind):
        assert not any(is_raw(made, kind) for made in map_ace_to_directory(allow(EVERYONE, mask), kind))
        assert not any(is_raw(made, kind) for made in map_ace_to_directory(deny(EVERYONE, mask), kind))


@given(kinds, st.integers(0, 2**32 - 1), st.sampled_from(ORDINARY))
def test_any_number_is_a_mask(kind: AccessKind, mask: int, ace_type: AceType) -> None:
    """Bits that mean nothing are dropped; what is left comes back, generic bits as what they stand for."""
    meant = masks.map_generic(mask, kind.rights)
    known = meant & (kind.all | masks.SYNCHRONIZE)
    standard = meant & 0x1F0000
    expected = (Ace(ace_type, 0, known | standard, SOMEBODY),) if known | standard else ()
    assert there_and_back(Ace(ace_type, 0, mask, SOMEBODY), kind) == expected


@given(kinds, descriptors(of=aces()))
def test_what_is_there_can_always_be_read_and_written(kind: AccessKind, stored: SecurityDescriptor) -> None:
    own = from_directory(stored, kind)
    assert (own.owner, own.group) == (stored.owner, stored.group)
    assert not any(ace.inherited for ace in own.explicit_aces())
    assert own.dacl_form in {stored.dacl_form, AclForm.EMPTY}
    again = from_directory(to_directory(own, kind), kind)
    assert again == own  # from then on nothing changes any more
    assert again.control & DescriptorControl.DACL_AUTO_INHERITED == 0


@given(kinds, st.lists(st.tuples(sids(), st.integers(1, 0xFF)), max_size=6))
def test_several_entries(kind: AccessKind, entries: list[tuple[Sid, int]]) -> None:
    """Entries of different identities stay apart, in their order; those of one are joined."""
    wanted: dict[Sid, int] = {}
    for sid, mask in entries:
        if mask & kind.all:
            wanted[sid] = wanted.get(sid, 0) | (mask & kind.all)
    stored = to_directory(SecurityDescriptor.build(dacl=[allow(sid, mask) for sid, mask in entries]), kind)
    found = from_directory(stored, kind)
    assert {ace.sid: ace.mask for ace in found.explicit_aces()} == wanted
    assert [ace.sid for ace in found.explicit_aces()] == list(wanted)


@pytest.mark.parametrize("protected", [0, DescriptorControl.DACL_PROTECTED, DescriptorControl.SACL_PROTECTED])
def test_what_keeps_inherited_entries_away_stays(protected: int) -> None:
    listed = [allow(EVERYONE, 0x20)]
    control = DescriptorControl.DACL_PRESENT | DescriptorControl.SACL_PRESENT | protected
    descriptor = SecurityDescriptor.build(dacl=listed, sacl=[], control=control)
    stored = to_directory(descriptor, KINDS["mSMQQueue"])
    found = from_directory(stored, KINDS["mSMQQueue"])
    both = DescriptorControl.DACL_PROTECTED | DescriptorControl.SACL_PROTECTED
    assert (stored.control & both, found.control & both) == (protected, protected)


def test_grants_and_refusals_keep_their_order() -> None:
    queue = KINDS["mSMQQueue"]
    listed = [allow(EVERYONE, 0x4), deny(SOMEBODY, 0x4), allow(EVERYONE, 0x2)]
    stored = to_directory(SecurityDescriptor.build(dacl=listed), queue)
    assert list(from_directory(stored, queue).explicit_aces()) == listed


def test_inherited_entries_are_never_written() -> None:
    queue = KINDS["mSMQQueue"]
    inherited = allow(EVERYONE, 0x20094, AceFlags.INHERITED)
    descriptor = SecurityDescriptor.build(dacl=[allow(SOMEBODY, 0x20), inherited])
    written = to_directory(descriptor, queue)
    assert written.dacl is not None
    assert [ace.sid for ace in written.dacl.aces] == [SOMEBODY]


def test_parts_present() -> None:
    build = SecurityDescriptor.build
    assert flags_of_parts(build()) == 0
    assert flags_of_parts(build(owner=EVERYONE)) == 1
    assert flags_of_parts(build(group=EVERYONE)) == 2
    assert flags_of_parts(build(dacl=[])) == 4
    assert flags_of_parts(build(control=DescriptorControl.DACL_PRESENT)) == 4
    assert flags_of_parts(build(owner=EVERYONE, group=EVERYONE, sacl=[], dacl=[])) == 15
