"""Recorded messages that come again (decision R59)."""

from hypothesis import given
from hypothesis import strategies as st

from mqdssm.drivers.authentication.replay_detection import (
    AGE_MAX_S,
    SENDERS_MAX,
    ReplayDetector,
    SeenSignatures,
)

NOW = 1_700_000_000


def test_once_and_never_again():
    replays = SeenSignatures(NOW)
    assert replays.admit(NOW, b"a", NOW)
    assert not replays.admit(NOW, b"a", NOW)
    assert not replays.admit(NOW, b"a", NOW + AGE_MAX_S)
    assert not replays.admit(NOW, b"a", NOW + AGE_MAX_S + 1)
    assert replays.admit(NOW + AGE_MAX_S, b"b", NOW + AGE_MAX_S)


def test_dates_that_cannot_be():
    replays = SeenSignatures(NOW - 2 * AGE_MAX_S)
    assert replays.is_in_time(NOW - AGE_MAX_S, NOW)
    assert not replays.is_in_time(NOW - AGE_MAX_S - 1, NOW)
    assert replays.is_in_time(NOW + AGE_MAX_S, NOW)
    assert not replays.is_in_time(NOW + AGE_MAX_S + 1, NOW)
    assert not SeenSignatures(NOW + 0.7).is_in_time(NOW - 1, NOW + 1), "before the start"
    assert SeenSignatures(NOW + 0.7).is_in_time(NOW, NOW + 1), "dates are whole seconds"


def test_a_clock_that_went_back_admits_nothing_again():
    replays = SeenSignatures(NOW)
    assert replays.admit(NOW, b"a", NOW)
    assert replays.admit(NOW + 5000, b"b", NOW + 5000)
    assert not replays.admit(NOW, b"a", NOW)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5), st.integers(-4, 30)), max_size=60))
def test_nothing_is_admitted_twice_however_little_is_remembered(steps):
    """Dates, names and clocks at random, room for three: a pair of date and name passes once."""
    replays = SeenSignatures(NOW, age_max_s=10, seen_max=3)
    passed = set()
    for date, name, now in steps:
        message = NOW + date, f"{date} {name}".encode()
        if replays.admit(*message, NOW + now):
            assert message not in passed
            assert abs(now - date) <= 10
            passed.add(message)
    assert len(replays._seen) == len(replays._by_date) <= 3


def test_who_sends_too_many_messages_has_his_own_refused():
    """Dated ahead, they would outlast those of all others (decision R98)."""
    replays = ReplayDetector(NOW, seen_max=1000)
    assert replays.admit("psc1", NOW, b"first", NOW)
    for number in range(5000):
        replays.admit("mallory", NOW + 3000, b"%d" % number, NOW)
    assert replays.admit("psc1", NOW, b"second", NOW)
    assert replays.admit("psc1", NOW + 1, b"third", NOW + 1)
    assert not replays.admit("psc1", NOW, b"first", NOW)
    assert not replays.admit("mallory", NOW, b"old", NOW)
    assert sum(map(len, replays._of.values())) == replays._total <= 1000


def test_senders_of_whom_nothing_is_kept_are_forgotten():
    replays = ReplayDetector(NOW)
    for number in range(3 * SENDERS_MAX):
        now = NOW + 10 * number
        assert replays.admit(f"m{number}", now, b"same", now)
    assert len(replays._of) <= SENDERS_MAX
    assert not replays.admit("m0", NOW, b"same", now)
    assert not replays.admit(f"m{number}", now, b"same", now)
    assert not replays.admit("m0", NOW, b"same", NOW), "nor with a clock that went back"


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.integers(0, 5), st.integers(-4, 30)),
        max_size=80,
    )
)
def test_nothing_of_any_sender_is_admitted_twice(steps):
    replays = ReplayDetector(NOW, age_max_s=10, seen_max=4)
    passed = set()
    for sender, date, name, now in steps:
        message = sender, NOW + date, f"{date} {name}".encode()
        if replays.admit(*message, NOW + now):
            assert message not in passed
            assert replays.is_in_time(NOW + date, NOW + now)
            passed.add(message)
        assert replays._total == sum(map(len, replays._of.values())) <= 4
