"""Sessions in simulated time: connections lost, cut and delayed, processes that crash ([MS-MQQB] 3.1)."""

import pytest
from support.session.simulation import SessionViolationError, SessionWorld, SimulationOptions, simulate

QUIET = SimulationOptions(window_sizes=(64, 64), delay_s=0.01, store_s=0.1)


@pytest.mark.spec("MS-MQQB 3.1.1.6")
def test_messages_arrive_once():
    """Seeds with all faults; a violation names its message."""
    for seed in range(25):
        simulate(seed)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1_000, 3_000, 200))
def test_messages_arrive_once_in_many_runs(first):
    for seed in range(first, first + 200):
        simulate(seed)


def test_a_run_follows_from_its_seed():
    first, second = simulate(7), simulate(7)
    assert (first.steps, first.deliveries, first.now) == (second.steps, second.deliveries, second.now)
    assert simulate(8).steps != first.steps


def test_all_kinds_of_runs_happen():
    """Windows of 1, counts before their wrap, sessions used by both ends, names of both kinds."""
    drawn = [SimulationOptions.of_seed(seed) for seed in range(25)]
    assert {options.window_sizes[1] for options in drawn} == {1, 2, 5, 64}
    for flag in ("are_counts_high", "has_shared_sessions", "are_names_direct"):
        assert {getattr(options, flag) for options in drawn} == {True, False}


@pytest.mark.spec("MS-MQQB 3.1.1.6.1")
@pytest.mark.parametrize("is_recoverable", [False, True])
def test_a_flow_in_one_direction_is_not_delayed(is_recoverable):
    """Decision T26: 1,000 messages with a window of 64 would need 160 seconds by the timer alone."""
    world = SessionWorld(1, QUIET, names=("A", "B"))
    for _ in range(1_000):
        world.send("A", "B", is_recoverable=is_recoverable)
    world.run(20.0)
    assert len(world.deliveries) == 1_000
    world.finish()


def test_the_world_notices_a_message_that_is_lost():
    world = SessionWorld(1, QUIET, names=("A", "B"))
    world.send("A", "B", is_recoverable=True)
    world.run(60.0)
    world.machines["B"].history.clear()
    with pytest.raises(SessionViolationError, match="acknowledged, but not there"):
        world.check_receipt(world.messages[0])
    world.deliveries.clear()
    with pytest.raises(SessionViolationError, match="delivered 0 times"):
        world.finish()
