"""Whole enterprises, simulated: some seeds in every run, many in `make soak` and `make simulate`."""

import os
import subprocess
import sys
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest
from mutations import MUTATIONS
from regressions import LONG, REGRESSIONS

from mqdssm.testing.simulation.command import PROCESSES, main, replay, run_seeds
from mqdssm.testing.simulation.fault_options import NONE
from mqdssm.testing.simulation.generations import RECORDED, Generation
from mqdssm.testing.simulation.hostile_messages import KINDS
from mqdssm.testing.simulation.options import Options, options_of
from mqdssm.testing.simulation.run import RunReport, Simulation, simulate

MUTANTS = Path(__file__).resolve().parent.parent / "mutants"
SHORT = range(1, 6)
SHORT_LATER = range(2_000, 2_005)
SHORT_HARDSHIPS = range(300_000, 300_008)
SHORT_HOSTILE = range(320_000, 320_006)
SHORT_FAILING = range(220_006, 220_011)
SHORT_FOREIGN = range(340_000, 340_003)
SOAK_FOREIGN = range(340_100, 340_300)
DIRECTORIES = (pytest.param(330_180, marks=pytest.mark.soak), 330_330)
"""Seeds of small enterprises that have their stores on directories."""
REINSTALLED = (12025, 12042, 12043)
"""Seeds in which a primary controller loses its directory."""
UNHEARD_OF = (2037, 2431)
"""Seeds in which one loses it before anybody has heard of its own machine."""
SOAK = range(400_000, 401_200)
"""Seeds that may draw every option."""
ALWAYS = {
    *("duration_s", "pace_ms", "removals", "few", "together"),
    *("down_max_s", "slow_max_ms", "late_max_s", "cut_max_s", "full_max_s", "damaged_max_s", "jump_max_s"),
}
"""Options that every run has."""
FOREIGN_REACHED = (
    "foreign writes to owners",
    "foreign writes to replicas",
    "note another program changed a replica",
    "note published a change of another program",
    "the operator synchronizes a replica",
)
REACHED = (
    "answer MQ_OK",
    "answer MQ_ERROR_NO_RESPONSE_FROM_OBJECT_SERVER",
    "crashes",
    "cuts",
    "doubled",
    "expired",
    "late",
    "lost",
    "nacked",
    "note a change is not finished",
    "note given up: the directory is damaged",
    "note synchronizes in full",
    "note handed over",
    "note became the authority",
    "note has another PSC",
    "note forgot changes: too many are waiting",
    "note our site was removed from the enterprise",
    "admin adds a site",
    "admin adds a BSC",
    "admin removes a site",
    "admin removes a BSC",
    "admin hands a site over",
    "admin hands the enterprise over",
    "admin renames a server",
    "admin reinstalls a BSC",
    "admin restores a BSC",
    "admin makes another server take over",
    "admin restores a PSC",
    "admin reinstalls a PSC",
    "admin has a BSC take over from a PSC that lost its directory",
    "note asks another server for what it owned",
    "admin does two things together",
    "note somebody knows more of our partition than we do",
    "note asks others for what it owned",
    "state SYNC0",
    "sent ALREADY_PURGED",
    "sent BSC_ACK",
    "sent CHANGE_PROPAGATION",
    "sent CHANGE_REPLY",
    "sent CHANGE_REQUEST",
    "sent PSC_ACK",
    "sent SYNC_REPLY",
    "sent SYNC_REQUEST",
    "written by services",
    "disk with no room",
    "disk with no room for what grows",
    "damaged entries",
    "clocks set",
    "admin removes a hostile server",
    "note refused: a change of roles, names or keys",
    "note refused: a request in another's name",
    "note somebody claims to know more of our partition than we do",
    *(f"lie {kind.__name__}" for kind in KINDS),
)
"""What must have happened somewhere in many runs: a simulation that does not get there proves nothing."""


def clean(report: RunReport) -> None:
    if report.violation:
        pytest.fail(f"{report.violation}\nsee it: {replay(report.seed)}", pytrace=False)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
@pytest.mark.spec("MC-MQDSRP 3.3.7.5")
@pytest.mark.parametrize("seed", SHORT)
def test_every_replica_becomes_its_authoritys_copy(seed: int) -> None:
    report = simulate(seed)
    clean(report)
    assert report.requests > 10
    assert report.counts["entries"] > 10


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.2")
@pytest.mark.parametrize("seed", SHORT_LATER)
def test_later_options(seed: int) -> None:
    clean(simulate(seed))


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.7")
@pytest.mark.parametrize("seed", SHORT_FAILING)
def test_operations_that_fail_behind_their_writes(seed: int) -> None:
    clean(simulate(seed))


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
@pytest.mark.parametrize("seed", SHORT_HARDSHIPS)
def test_hardships(seed: int) -> None:
    clean(simulate(seed))


@pytest.mark.spec("MC-MQDSRP 5.1")
@pytest.mark.parametrize("seed", SHORT_HOSTILE)
def test_a_hostile_server_harms_what_it_owns_and_nothing_else(seed: int) -> None:
    report = simulate(seed)
    clean(report)
    assert all(report.counts.get(f"lie {kind.__name__}") for kind in KINDS)


@pytest.mark.spec("MC-MQDSRP 3.1.7.1.2")
def test_what_other_programs_write_is_published_or_mended() -> None:
    """Decisions R112, R113, R165."""
    reports = [simulate(seed) for seed in SHORT_FOREIGN]
    for report in reports:
        clean(report)
    assert all(any(one.counts.get(what) for one in reports) for what in FOREIGN_REACHED)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_seeds_with_other_programs() -> None:
    for report in run_seeds(SOAK_FOREIGN.start, len(SOAK_FOREIGN)):
        clean(report)


@pytest.mark.spec("MC-MQDSRP 3.1.1.2.2")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", DIRECTORIES)
def test_stores_on_directories(seed: int) -> None:
    """Decision R146: the LDAP store and our LDAP client, with crashes around LDAP writes."""
    assert options_of(seed).directories
    clean(simulate(seed))


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
@pytest.mark.parametrize("seed", REINSTALLED)
def test_primary_controllers_that_lose_their_directory(seed: int) -> None:
    report = simulate(seed)
    clean(report)
    assert report.counts["admin reinstalls a PSC"]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
@pytest.mark.parametrize("seed", UNHEARD_OF)
def test_what_nobody_had_heard_of_is_made_again(seed: int) -> None:
    """Decision R80: with an option that these seeds do not have by themselves."""
    options = options_of(seed)
    lost = replace(options, work=replace(options.work, primary_reinstalling=True))
    clean(Simulation(lost).run())


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.soak] * (seed in LONG)) for seed in REGRESSIONS]
)
def test_what_was_broken_once_is_not_broken_again(seed: int) -> None:
    clean(simulate(seed))


@pytest.mark.parametrize("seed", [3, pytest.param(74, marks=pytest.mark.soak)])
def test_a_seed_is_one_run_whatever_the_hash_seed_is(seed: int) -> None:
    """Otherwise a failing seed could not be seen again."""
    code = f"from mqdssm.testing.simulation.run import simulate\nprint(simulate({seed}))"
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(told) == 1
    assert told.pop().strip() == repr(simulate(seed))


def test_seeds_have_runs_of_their_own() -> None:
    assert len({repr(options_of(seed)).partition("bscs")[2] for seed in range(50)}) == 50


def drawn(options: Options) -> dict[str, bool]:
    """Options of a run that are drawn or not, by name."""
    parts = (options, options.network, options.servers, options.work, options.fault_options)
    switches = ((one.name, getattr(part, one.name)) for part in parts for one in fields(part))
    return {name: bool(value) for name, value in switches if isinstance(value, int) and name != "seed"}


def test_every_seed_may_draw_every_option() -> None:
    """Each is drawn by some and not by others, wherever one looks; so are those that change everything."""
    for first in (1_000, 10_000_000):
        runs = [drawn(options_of(seed)) for seed in range(first, first + 400)]
        for name in runs[0].keys() - ALWAYS:
            assert {one[name] for one in runs} == {True, False}, name
        assert {(one["directories"], bool(one["lies_every_ms"])) for one in runs} == {
            (directories, hostile) for directories in (True, False) for hostile in (True, False)
        }
        with_other_programs = [one for one in runs if one["foreign_every_s"]]
        for name in ("directories", "windows", "lies_every_ms"):
            assert {one[name] for one in with_other_programs} == {True, False}, name


def test_recorded_seeds_keep_their_options() -> None:
    planted = (tomllib.loads(path.read_text(encoding="utf-8")) for path in MUTANTS.glob("*.toml"))
    named = (item for one in planted for mutant in one["mutant"] for item in mutant["caught_by"])
    seeds = {int(item.removeprefix("seed ")) for item in named if item.startswith("seed ")}
    assert RECORDED.keys() >= REGRESSIONS.keys() | {one.seed for one in MUTATIONS} | seeds
    for seed, generation in RECORDED.items():
        assert options_of(seed) == options_of(seed, generation)
    first = options_of(1)
    assert first.fault_options == NONE
    assert not first.servers.failing
    assert options_of(1, Generation.ALL) != first


def test_a_trace_tells_what_happens() -> None:
    lines: list[str] = []
    report = simulate(2, lines.append)
    assert not report.violation
    text = "\n".join(lines)
    for part in ("Srv1: starts, life 1", "> Srv1 SyncRequestMessage", "! ApplyChanges(P=", "answers Reply("):
        assert part in text


def test_the_command_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(2, 1, verbose=False) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[-1].startswith("2 seeds, 0 violations, ")
    assert told[-1].endswith(" seeds per minute")


@pytest.mark.soak
def test_many_seeds() -> None:
    """The issue asks for 10,000 of them: `make simulate SEEDS=10000`."""
    counts: dict[str, int] = {}
    for report in run_seeds(SOAK.start, len(SOAK)):
        clean(report)
        for name, count in report.counts.items():
            counts[name] = counts.get(name, 0) + count
    assert not [name for name in REACHED if not counts.get(name)]
    assert PROCESSES == 2
