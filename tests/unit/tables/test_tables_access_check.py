"""The access check against the text of [MS-DTYP] 2.5.3.2, one desired right at a time."""

from collections.abc import Collection, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.wire.access_cases import ACCOUNTS, BITS, LISTS, OWNERS, USERS

from mqdssm.tables.access_check import check_access
from mqdssm.wire.acl import Ace, AceFlags, AceType, allow, deny
from mqdssm.wire.masks import GENERIC_ALL, GENERIC_READ, GENERIC_WRITE, QueueAccess
from mqdssm.wire.sid import EVERYONE, Sid

ANN, BOB = ACCOUNTS[:2]
OWNER_RIGHTS = Sid("S-1-3-4")


def is_allowed(aces: Sequence[Ace] | None, owner: Sid | None, sids: Collection[Sid], desired: int) -> bool:
    """The algorithm as the text has it: what remains of the desired access, entry by entry."""
    if aces is None:
        return True
    remaining = desired
    active = [ace for ace in aces if not ace.flags & 0x8]
    owns = owner is not None and owner in sids
    if owns and all(ace.sid != OWNER_RIGHTS for ace in active):
        remaining &= ~0x6_0000
    for ace in active:
        concerns = ace.sid in sids or (ace.sid == OWNER_RIGHTS and owns)
        if concerns and ace.type == 0x00:
            remaining &= ~ace.mask
        elif concerns and ace.type == 0x01 and remaining & ace.mask:
            return False
        if not remaining:
            return True
    return not remaining


@settings(max_examples=80)
@given(LISTS, OWNERS, USERS)
def test_each_right_as_the_specification_decides(aces, owner, sids) -> None:
    found = check_access(aces, owner, sids, QueueAccess)
    for bit in BITS:
        assert bool(found.granted & bit) == is_allowed(aces, owner, sids, bit), hex(bit)


@settings(max_examples=80)
@given(LISTS, OWNERS, USERS, st.sets(st.sampled_from(BITS), min_size=1).map(sum))
def test_several_rights_at_once(aces, owner, sids, desired) -> None:
    assert check_access(aces, owner, sids, QueueAccess).has(desired) == is_allowed(aces, owner, sids, desired)


@settings(max_examples=80)
@given(LISTS, OWNERS, USERS)
def test_the_entry_that_decided_is_one_that_concerns_the_user(aces, owner, sids) -> None:
    found = check_access(aces, owner, sids, QueueAccess)
    for bit, entry in found.decided.items():
        if entry is None:
            assert aces is None or (owner in sids and bit in {0x2_0000, 0x4_0000})
            continue
        assert entry in (aces or ())
        assert entry.sid in sids or entry.sid == OWNER_RIGHTS
        assert bool(found.granted & bit) == (entry.type == AceType.ACCESS_ALLOWED)
    assert found.granted == sum(bit for bit in found.decided if found.granted & bit)


@pytest.mark.parametrize(
    ("aces", "granted"),
    [
        ([allow(ANN, GENERIC_ALL)], 0xF_003F),
        ([allow(ANN, GENERIC_READ)], 0x2_002B),
        ([allow(ANN, GENERIC_WRITE)], 0x2_0024),
        ([deny(ANN, GENERIC_READ), allow(EVERYONE, GENERIC_ALL)], 0xD_0014),
        ([allow(EVERYONE, 0x4), deny(ANN, 0x4)], 0x4),
        ([deny(BOB, 0x4), allow(EVERYONE, 0x4)], 0x4),
        ([Ace(AceType.ACCESS_ALLOWED_CALLBACK, 0, 0x4, ANN, data=b"artx")], 0),
        ([Ace(AceType.ACCESS_ALLOWED, AceFlags.INHERIT_ONLY, 0x4, ANN), allow(ANN, 0x2)], 0x2),
        ([Ace(AceType.ACCESS_DENIED, AceFlags.INHERIT_ONLY, 0x4, ANN), allow(ANN, 0x4)], 0x4),
        ([Ace(AceType.ACCESS_DENIED, AceFlags.INHERITED, 0x4, ANN), allow(ANN, 0x6)], 0x2),
        ([], 0),
    ],
)
def test_generic_rights_and_the_order_of_entries(aces, granted) -> None:
    assert check_access(aces, None, {ANN, EVERYONE}, QueueAccess).granted == granted


def test_owners() -> None:
    assert check_access([], ANN, {ANN}, QueueAccess).granted == 0x6_0000
    assert check_access([], ANN, {BOB}, QueueAccess).granted == 0
    assert check_access([allow(OWNER_RIGHTS, 0x4)], ANN, {ANN}, QueueAccess).granted == 0x4
    assert check_access([allow(OWNER_RIGHTS, 0x4)], ANN, {BOB}, QueueAccess).granted == 0
    assert check_access(None, None, {BOB}, QueueAccess).granted == 0xF_003F
