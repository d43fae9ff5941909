"""The replication engine's tables of handlers are complete, and timers are found again by their names."""

from typing import get_args

import pytest

from mqdssm.engines.replication import engine
from mqdssm.engines.replication.internal_events import InternalEvent
from mqdssm.engines.replication.timers import Timer, TimerPurpose


def test_each_timer_and_each_internal_event_has_a_handler() -> None:
    assert set(engine._TIMERS) == set(TimerPurpose)
    assert set(engine._INTERNAL_EVENTS) == set(get_args(InternalEvent))


@pytest.mark.parametrize("purpose", TimerPurpose)
@pytest.mark.parametrize("key", ["", "psc other", "7 a b"])
def test_a_timer_is_found_by_its_name(purpose: TimerPurpose, key: str) -> None:
    assert Timer.parse(Timer(purpose, key).name) == Timer(purpose, key)


def test_a_name_of_no_timer_is_an_error() -> None:
    with pytest.raises(ValueError, match="'nothing'"):
        Timer.parse("nothing psc other")
