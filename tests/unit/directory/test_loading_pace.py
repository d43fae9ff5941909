"""A limit of changes a second, by a clock of the test's own."""

import pytest

from mqdssm.directory.loading import sending
from mqdssm.directory.loading.sending import RateLimiter


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(sending, "time", made)
    return made


def taken(limit: RateLimiter, clock: Clock, seconds: float) -> int:
    """How many go within some seconds, by somebody who always wants more."""
    count, end = 0, clock.now + seconds
    while True:
        if limit.take():
            count += 1
        else:
            limit.wait()
        if clock.now >= end:
            return count


def test_no_faster_than_allowed(clock):
    assert taken(RateLimiter(100), clock, 10) in range(999, 1012)


def test_slow_ones(clock):
    assert taken(RateLimiter(0.5), clock, 10) in range(5, 7)


def test_a_pause_is_not_made_up_for(clock):
    limit = RateLimiter(100)
    clock.now += 60
    assert sum(limit.take() for _ in range(1000)) <= 11  # what a tenth of a second allows


def test_without_a_limit(clock):
    limit = RateLimiter(None)
    assert all(limit.take() for _ in range(1000))
    limit.wait()
    assert clock.now == 1000.0
