"""Named timers, and the clock that never goes backwards."""

import time

from mqdssm.drivers.engine_driver import Timers, make_steady_clock


def test_first_out_first_and_each_once():
    timers = Timers()
    assert timers.wait(0) is None
    timers.start("b", 20)
    timers.start("a", 10)
    timers.start("c", 30)
    assert timers.wait(4) == 6
    assert timers.wait(50) == 0
    assert timers.take_due(9.9) is None
    assert [timers.take_due(20), timers.take_due(20), timers.take_due(20)] == ["a", "b", None]
    assert timers.wait(20) == 10


def test_started_anew_and_stopped():
    timers = Timers()
    timers.start("a", 10)
    timers.start("a", 30)
    assert timers.take_due(29) is None
    timers.stop("a")
    timers.stop("never")
    assert timers.take_due(100) is None


def test_the_clock_shows_the_time_and_goes_on_steadily(monkeypatch):
    clock = make_steady_clock()
    assert abs(clock() - time.time()) < 1
    before = clock()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert clock() >= before
