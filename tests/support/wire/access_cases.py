"""Access control lists and users for access checks: few SIDs and bits, so that entries meet."""

from hypothesis import strategies as st

from mqdssm.wire.acl import Ace, AceType
from mqdssm.wire.sid import ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, Sid

ACCOUNTS = [Sid(f"S-1-5-21-1-2-3-{number}") for number in range(1000, 1006)]
SIDS = [*ACCOUNTS, EVERYONE, AUTHENTICATED_USERS, ANONYMOUS, Sid("S-1-3-4"), Sid("S-1-5-32-545")]
BITS = [0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000]
MASKS = st.sets(st.sampled_from(BITS), min_size=1).map(sum) | st.just(0xF_003F)
ACES = st.builds(
    Ace,
    st.sampled_from([AceType.ACCESS_ALLOWED, AceType.ACCESS_DENIED]),
    st.sampled_from([0, 0, 0, 0x2, 0x8, 0x10]),
    MASKS,
    st.sampled_from(SIDS),
)
LISTS = st.lists(ACES, min_size=1, max_size=8) | st.lists(ACES, max_size=2) | st.none()
USERS = st.sets(st.sampled_from([sid for sid in SIDS if sid.text != "S-1-3-4"]), min_size=1)
OWNERS = st.none() | st.sampled_from(ACCOUNTS)
