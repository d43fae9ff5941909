"""Sessions in simulated time: connections lost, cut and delayed, processes that end ([MS-MQQB] 3.1)."""

from collections import Counter
from dataclasses import fields, replace

import pytest

from mqdssm.testing.session_simulation.options import SessionOptions, session_options_of
from mqdssm.testing.session_simulation.run import simulate_sessions
from mqdssm.testing.session_simulation.world import SessionWorld
from mqdssm.testing.simulation.command import main, replay, run_seeds
from mqdssm.testing.simulation.run import RunReport
from mqdssm.testing.simulation.trace import Violation

QUIET = SessionOptions(machines=2, window_sizes=(64, 64), delay_s=0.01, store_s=0.1)
RECORDED = (*range(40), 204_039)
"""The last one: no defect of a session, whose driver never said that messages had left on another one."""
REACHED = (
    "acknowledgements with a message",
    "crashes",
    "cut inside a packet",
    "cuts",
    "disks lost",
    "messages returned",
    "second copies",
    "session closed: closed by the driver",
    "session closed: connection lost",
    "session closed: idle",
    "session closed: messages not acknowledged in time",
    "session closed: no positive ping response",
    "session closed: not established in time",
    "session closed: stopped",
    "session closed: the neighbour has another address",
    "stops",
)
"""What must have happened somewhere in the recorded runs."""


def clean(report: RunReport) -> None:
    if report.violation:
        pytest.fail(f"{report.violation}\nsee it: {replay(report.seed, is_of_sessions=True)}", pytrace=False)


@pytest.mark.spec("MS-MQQB 3.1.1.6")
def test_messages_arrive_once():
    """Recorded seeds with all faults; a violation names its message."""
    counts: Counter[str] = Counter()
    for seed in RECORDED:
        report = simulate_sessions(seed)
        clean(report)
        counts.update(report.counts)
    assert not [name for name in REACHED if not counts[name]]


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1_000, 3_000, 200))
def test_messages_arrive_once_in_many_runs(first):
    for seed in range(first, first + 200):
        clean(simulate_sessions(seed))


def test_a_run_follows_from_its_seed():
    first, second, other = simulate_sessions(7), simulate_sessions(7), simulate_sessions(8)
    assert first == second
    assert first.steps != other.steps


def test_all_kinds_of_runs_happen():
    drawn = [session_options_of(seed) for seed in RECORDED]
    for field in fields(SessionOptions):
        values = {getattr(options, field.name) for options in drawn}
        assert (len(values) > 1) != (field.name in {"messages", "minutes"}), field.name


@pytest.mark.spec("MS-MQQB 3.1.1.6.1")
@pytest.mark.parametrize("is_recoverable", [False, True])
@pytest.mark.parametrize("are_octets", [False, True])
def test_a_flow_in_one_direction_is_not_delayed(is_recoverable, are_octets):
    """Decision T26: 1,000 messages with a window of 64 would need 160 seconds by the timer alone."""
    world = SessionWorld(1, replace(QUIET, are_octets=are_octets))
    for _ in range(1_000):
        world.send("A", "B", is_recoverable=is_recoverable)
    world.run(20.0)
    assert len(world.delivered) == 1_000
    world.finish()


def test_the_world_notices_a_message_that_is_lost():
    world = SessionWorld(1, QUIET)
    world.send("A", "B", is_recoverable=True)
    world.run(60.0)
    world.delivered.clear()
    with pytest.raises(Violation, match="acknowledged, but not there"):
        world.check_receipt(world.messages[0])
    with pytest.raises(Violation, match="never delivered"):
        world.finish()


def test_the_world_notices_a_second_copy_and_a_wrong_order():
    world = SessionWorld(1, QUIET)
    for _ in range(20):
        world.send("A", "B", is_recoverable=True)
    first, *_, last = (one for one in world.messages if one.priority == world.messages[0].priority)
    world.check_order(last)
    with pytest.raises(Violation, match=f"behind message {last.number}"):
        world.check_order(first)
    world = SessionWorld(1, QUIET)
    world.send("A", "B", is_recoverable=True)
    world.run(60.0)
    world.deliver(world.messages[0], 1)
    with pytest.raises(Violation, match="delivered 2 times"):
        world.finish()


def test_make_simulate_runs_the_sessions_of_each_seed(capsys):
    assert main(1, 3, verbose=True) == 0
    assert "B>A Connected(" in capsys.readouterr().out
    (both,) = run_seeds(3, 1)
    assert both.counts["sessions: sessions opened"] == simulate_sessions(3).counts["sessions opened"] > 0
    assert both.counts["entries"] > 10


def test_a_range_of_seeds_runs_sessions_alone(capsys, monkeypatch):
    assert main(30, 0, verbose=False, is_of_sessions=True) == 0
    assert capsys.readouterr().out.startswith("30 seeds, 0 violations, ")
    monkeypatch.setattr(SessionWorld, "finish", broken)
    assert main(1, 5, verbose=False, is_of_sessions=True) == 1
    told = capsys.readouterr().out
    assert "seed 5: sessions: broken" in told
    assert "see it: make simulate SEEDS=1 FIRST=5 VERBOSE=1 SESSIONS=1" in told


def broken(_world):
    raise Violation("broken")
