"""Hypothesis strategies for what the wire layer carries, and ways to break bytes."""

from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import strategies as st

from mqdssm.errors import DecodeError
from mqdssm.wire.acl import OBJECT_TYPES, Ace, Acl
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import DescriptorControl
from mqdssm.wire.sddl import DOMAIN_ALIASES, WELL_KNOWN_ALIASES
from mqdssm.wire.sid import Sid

U32 = st.integers(0, 2**32 - 1)
DOMAIN = Sid("S-1-5-21-1-2-3")
AUTHORITIES = st.integers(0, 2**48 - 1)
SHORT_AUTHORITIES = st.sampled_from([0, 1, 2, 3, 5, 15, 16, 2**32 - 2])  # Samba turns to 0x one too early
BIT_FREE_CONTROL = int(
    DescriptorControl.SACL_PRESENT | DescriptorControl.DACL_PRESENT | DescriptorControl.SELF_RELATIVE
)


def sids(authorities: st.SearchStrategy[int] = AUTHORITIES):
    numbers = st.lists(U32, max_size=15)
    made = st.builds(lambda authority, subs: Sid.of(authority, *subs), authorities, numbers)
    known = st.sampled_from(list(WELL_KNOWN_ALIASES.values()))
    accounts = st.sampled_from([Sid(f"{DOMAIN}-{rid}") for rid in (*DOMAIN_ALIASES.values(), 1000)])
    return known | accounts | made


def common_aces(who: st.SearchStrategy[Sid]):
    """Entries of the kinds that Windows and Samba of any age know, without anything behind the SID."""
    flags = st.integers(0, 255).map(lambda bits: bits & 0xDF)
    plain = st.builds(Ace, st.sampled_from([0, 1, 2, 3]), flags, U32, who)
    objects = st.builds(
        Ace, st.sampled_from([5, 6, 7, 8]), flags, U32, who, st.none() | st.uuids(), st.none() | st.uuids()
    )
    return plain | objects


def aces():
    """Entries of every kind, also such as we do not know."""
    words = st.binary(max_size=40).map(lambda data: data[: len(data) & ~3])
    kinds = st.sampled_from([0, 1, 2, 3, 9, 0x0A, 0x0D, 0x0E, 0x11, 0x12, 0x13])
    flags = st.integers(0, 255)
    plain = st.builds(lambda t, f, m, s, d: Ace(t, f, m, s, data=d), kinds, flags, U32, sids(), words)
    objects = st.builds(
        Ace,
        st.sampled_from(sorted(OBJECT_TYPES)),
        flags,
        U32,
        sids(),
        st.none() | st.uuids(),
        st.none() | st.uuids(),
        words,
    )
    unknown = st.builds(lambda t, f, d: Ace(t, f, data=d), st.sampled_from([4, 0x14, 0xFF]), flags, words)
    odd = st.builds(
        lambda f, m, o, d: Ace(5, f, data=m.to_bytes(4, "little") + (4 | o).to_bytes(4, "little") + d),
        flags,
        U32,
        U32,
        words,
    )
    return plain | objects | unknown | odd


def acls(of: st.SearchStrategy[Ace] | None = None):
    return st.lists(of if of is not None else aces(), max_size=4).map(Acl.of)


def descriptors(
    who: st.SearchStrategy[Sid] | None = None, of: st.SearchStrategy[Ace] | None = None, *, null: bool = True
):
    who = who if who is not None else sids()

    def build(control, owner, group, sacl, dacl, null_sacl, null_dacl, sbz1):
        control = (control & ~BIT_FREE_CONTROL) | DescriptorControl.SELF_RELATIVE
        control |= DescriptorControl.SACL_PRESENT if sacl is not None or (null and null_sacl) else 0
        control |= DescriptorControl.DACL_PRESENT if dacl is not None or (null and null_dacl) else 0
        return SecurityDescriptor(control, owner, group, sacl, dacl, sbz1)

    return st.builds(
        build,
        st.integers(0, 0xFFFF),
        st.none() | who,
        st.none() | who,
        st.none() | acls(of),
        st.none() | acls(of),
        st.booleans(),
        st.booleans(),
        st.integers(0, 255) if null else st.just(0),
    )


def assert_length_is_law(data: bytes, decode: Callable[[bytes], object]) -> None:
    """Every truncation and one byte more is refused, with DecodeError and nothing else."""
    for size in range(len(data)):
        with pytest.raises(DecodeError) as caught:
            decode(data[:size])
        assert type(caught.value) is DecodeError
        assert caught.value.section.startswith("[M")
        assert 0 <= caught.value.offset <= len(data)
    for more in (b"\0", b"\xff", data):
        if more:
            with pytest.raises(DecodeError):
                decode(data + more)


def mutants(random: Random, seeds: list[bytes], count: int) -> Iterator[bytes]:
    """Seeds with bytes changed, cut out, doubled or put in; sizes and counts are where it hurts."""
    for _ in range(count):
        data = bytearray(random.choice(seeds))
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(data) + 1)
            match random.randrange(6):
                case 0 if at < len(data):
                    data[at] = random.choice((0, 1, 2, 4, 5, 8, 0x10, 0x7F, 0x80, 0xFE, 0xFF))
                case 1 if at < len(data):
                    data[at] ^= 1 << random.randrange(8)
                case 2:
                    del data[at : at + random.randint(1, 8)]
                case 3:
                    data[at:at] = random.randbytes(random.randint(1, 8))
                case 4:
                    number = random.choice((0, 1, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, len(data)))
                    data[at : at + 4] = number.to_bytes(4, "little")
                case _:
                    data[at:at] = data[max(0, at - random.randint(1, 32)) : at]
        yield bytes(data)
