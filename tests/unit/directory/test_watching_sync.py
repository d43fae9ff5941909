"""The controls and messages of content synchronization, and what a refresh amounts to ([RFC4533] 2, 3)."""

import contextlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm.directory.ber import ENUMERATED, boolean, integer, octet_string, sequence
from mqdssm.directory.requests import LdapControl
from mqdssm.directory.responses import INTERMEDIATE_RESPONSE, MessageBounds
from mqdssm.directory.watching.hints import Hints, TouchedEntry
from mqdssm.directory.watching.phases import Phases
from mqdssm.directory.watching.sync import (
    INFO_OID,
    STATE_OID,
    EntryState,
    IdSet,
    NewCookie,
    PhaseEnds,
    SyncState,
    decode_info,
    decode_state,
    request_control,
)
from mqdssm.errors import DecodeError

ONE, TWO, THREE = (UUID(int=number) for number in (1, 2, 3))
QUEUE = frozenset({"top", "msmqqueue"})
COOKIE = b"rid=000,csn=20261121001823.324745Z#000000#000#000000"


def state_control(state: int, key: UUID, cookie: bytes | None = None) -> tuple[LdapControl, ...]:
    parts = [integer(state, ENUMERATED), octet_string(key.bytes)]
    if cookie is not None:
        parts.append(octet_string(cookie))
    return (LdapControl("1.2.3"), LdapControl(STATE_OID, value=sequence(*parts)))


def info(value: bytes, oid: str = INFO_OID):
    content = octet_string(oid, 0x80) + octet_string(value, 0x81)
    return decode_info(content, MessageBounds(1, INTERMEDIATE_RESPONSE, 0, len(content), len(content)))


def test_the_request_asks_for_refresh_and_persist():
    assert request_control(None) == LdapControl(
        "1.3.6.1.4.1.4203.1.9.1.1", critical=True, value=bytes.fromhex("30030a0103")
    )
    assert request_control(b"abc").value == bytes.fromhex("30080a01030403616263")


@pytest.mark.parametrize("state", list(EntryState))
@pytest.mark.parametrize("cookie", [None, COOKIE])
def test_the_state_of_an_entry(state, cookie):
    assert decode_state(state_control(state, ONE, cookie)) == SyncState(state, str(ONE), cookie)


@pytest.mark.parametrize(
    "controls",
    [
        (),
        (LdapControl(STATE_OID),),
        state_control(4, ONE),
        (LdapControl(STATE_OID, value=sequence(integer(1, ENUMERATED), octet_string(b"15 octets here!"))),),
        (LdapControl(STATE_OID, value=state_control(1, ONE)[1].value + b"\x00"),),
        state_control(1, ONE, b"x" * 65_537),
    ],
)
def test_a_damaged_state_is_refused(controls):
    with pytest.raises(DecodeError, match="RFC4533"):
        decode_state(controls)


def test_what_servers_say_of_many_entries():
    ids = sequence(octet_string(ONE.bytes), octet_string(TWO.bytes), tag=0x31)
    assert info(octet_string(COOKIE, 0x80)) == NewCookie(COOKIE)
    assert info(sequence(octet_string(COOKIE), tag=0xA1)) == PhaseEnds(
        present=False, done=True, cookie=COOKIE
    )
    assert info(sequence(boolean(value=False), tag=0xA2)) == PhaseEnds(present=True, done=False)
    assert info(sequence(ids, tag=0xA3)) == IdSet((str(ONE), str(TWO)), deletes=False)
    assert info(sequence(octet_string(COOKIE), boolean(value=True), ids, tag=0xA3)) == IdSet(
        (str(ONE), str(TWO)), deletes=True, cookie=COOKIE
    )
    assert info(b"whatever", oid="1.2.3") is None


def test_a_message_names_so_many_entries_at_most(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mqdssm.directory.watching.sync.IDS_MAX", 3)
    ids = [octet_string(UUID(int=number).bytes) for number in range(4)]
    found = info(sequence(sequence(*ids[:3], tag=0x31), tag=0xA3))
    assert isinstance(found, IdSet)
    assert len(found.keys) == 3
    with pytest.raises(DecodeError, match="more than 3"):
        info(sequence(sequence(*ids, tag=0x31), tag=0xA3))


@given(st.binary(max_size=80))
def test_nothing_but_an_error_comes_of_nonsense(value):
    content = octet_string(INFO_OID, 0x80) + octet_string(value, 0x81)
    for decode in (
        lambda: info(value),
        lambda: decode_state((LdapControl(STATE_OID, value=value),)),
        lambda: decode_info(value, MessageBounds(1, INTERMEDIATE_RESPONSE, 0, len(value), len(value))),
        lambda: decode_info(
            content[:-1], MessageBounds(1, INTERMEDIATE_RESPONSE, 0, len(content), len(content))
        ),
    ):
        with contextlib.suppress(DecodeError):
            decode()


def add(key: UUID, dn: str, cookie: bytes | None = None) -> tuple[str, frozenset[str], SyncState]:
    return dn, QUEUE, SyncState(EntryState.ADD, str(key), cookie)


def test_without_a_cookie_everything_is_compared():
    phases = Phases(None)
    phases.entry(*add(ONE, "CN=one"))
    assert phases.take().is_empty
    phases.info(PhaseEnds(present=False, done=True, cookie=COOKIE))
    assert phases.take() == Hints(full=True, has_gap=True, place=COOKIE.decode())
    phases.entry(*add(TWO, "CN=two", b"next"), "version")
    assert phases.take() == Hints(place="next")
    assert phases.take_touched() == (TouchedEntry(str(TWO), "CN=two", QUEUE, version="version"),)


def test_deletions_are_listed_while_the_server_remembers():
    phases = Phases(COOKIE)
    phases.info(IdSet((str(ONE),), deletes=True))
    phases.entry(*add(TWO, "CN=two"))
    assert phases.take().is_empty, "a cookie counts together with all that came before it"
    assert not phases.take_touched()
    phases.info(PhaseEnds(present=False, done=True, cookie=b"csn=7;9"))
    found = phases.take()
    assert found.touched == (TouchedEntry(str(TWO), "CN=two", QUEUE),)
    assert (found.full, found.has_gap, found.place) == (False, False, "csn=7;9")
    assert phases.take_touched() == (TouchedEntry(str(ONE), gone=True, version="9"),), (
        "the last number is not older"
    )


def test_a_present_phase_does_not_say_what_came_and_went():
    phases = Phases(COOKIE)
    phases.info(IdSet((str(ONE),), deletes=False))
    phases.entry("CN=three", QUEUE, SyncState(EntryState.PRESENT, str(THREE)))
    phases.entry(*add(TWO, "CN=two"))
    phases.info(PhaseEnds(present=True, done=False))
    assert phases.take().is_empty
    phases.info(PhaseEnds(present=False, done=True, cookie=b"later"))
    found = phases.take()
    assert [one.key for one in found.touched] == [str(TWO)]
    assert found.has_gap
    assert not phases.take().has_gap, "it is said once"


def test_where_nothing_happened_the_place_is_the_same():
    phases = Phases(COOKIE)
    phases.info(PhaseEnds(present=False, done=True))
    assert phases.take() == Hints(place=COOKIE.decode())
    assert phases.take() == Hints()


def test_changes_as_they_are_made():
    phases = Phases(COOKIE)
    phases.info(PhaseEnds(present=False, done=True))
    phases.take()
    phases.entry("CN=one", QUEUE, SyncState(EntryState.MODIFY, str(ONE), b"1"))
    phases.entry("CN=two", frozenset(), SyncState(EntryState.DELETE, str(TWO), b"2"))
    phases.info(NewCookie(b"3"))
    assert phases.take() == Hints(place="3")
    assert phases.take_touched() == (
        TouchedEntry(str(ONE), "CN=one", QUEUE),
        TouchedEntry(str(TWO), "CN=two", frozenset(), gone=True),
    )
