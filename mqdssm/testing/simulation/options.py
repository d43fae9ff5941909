"""Options of a run, which follow from its seed.

Enterprise, settings, workload and faults are options.
"""

from dataclasses import dataclass, replace
from typing import Final

from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.testing.simulation.fault_options import NONE, FaultOptions, hardships_of
from mqdssm.testing.simulation.generations import Generation, generation_of, narrow

PER_MILLE: Final = 1000
"""Unit of chances: one in a thousand."""
_DIRECTORIES_EVERY: Final = 10
"""One run in this number has its stores on directories."""
_MANY_SERVERS: Final = 8
"""Number of servers from which runs are short, because simulated seconds cost more; so with directories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFaults:
    """Faults of the network; chances in a thousand messages.

    Attributes:
        lost: gone without a trace.
        doubled: delivered twice.
        late: held up, at most `late_max_s` seconds; others take milliseconds.
        late_max_s: see `late`.
        refused: sent back, NackBadDestQueue.
        unsigned: sent back, NackBadSignature.
        cut_every_s: about so often two groups of servers lose sight of each other; 0 is never.
        cut_max_s: how long at most.
        coded: every message travels as its bytes.
    """

    lost: int = 0
    doubled: int = 0
    late: int = 0
    late_max_s: int = 0
    refused: int = 0
    unsigned: int = 0
    cut_every_s: int = 0
    cut_max_s: int = 0
    coded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFaults:
    """Faults of servers; chances in a thousand operations.

    Attributes:
        crash_every_s: about so often one of them crashes; 0 is never.
        down_max_s: how long it stays down at most.
        slow: chance that the store takes its time, at most `slow_max_ms`.
        slow_max_ms: see `slow`.
        flaky: chance that the store cannot be reached, or its answer is lost, and the driver repeats.
        failing: chance that an operation on objects fails after it has done all, a part or nothing.
        skew_max_s: how far clocks stand apart, and jump while a server is down.
        drift_max: how much faster or slower a clock goes, in a thousand.
    """

    crash_every_s: int = 0
    down_max_s: int = 0
    slow: int = 0
    slow_max_ms: int = 0
    flaky: int = 0
    failing: int = 0
    skew_max_s: int = 0
    drift_max: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Settings of a server (`mqdssm.engines.replication.settings.Settings`)."""

    request_wait_s: float
    intrasite_s: float
    intersite_s: float
    header_s: float
    bsc_ack_s: float
    sync_wait_s: float
    sync_wait_max_s: float
    purge_buffer: int
    purge_interval: int
    ack_interval: int
    pending_max: int
    available_max: int
    message_changes_max: int
    message_bytes_max: int
    backlog_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Work of clients and administrators while the enterprise has faults.

    Attributes:
        duration_s: how long.
        pace_ms: about so often a client changes something.
        removals: chance that a change is a deletion.
        few: number of names of each kind that clients use, so that names are used again.
        topology_every_s: about so often an administrator changes the topology; 0 is never.
        sites_come: sites are added.
        sites_go: sites are removed.
        bscs_come: backup controllers are added.
        bscs_go: backup controllers are removed.
        site_handover: a backup controller takes over from the primary one.
        enterprise_handover: another site's controller becomes that of the enterprise.
        renaming: controllers start anew under another name.
        reinstalling: backup controllers lose their directory, and start anew with nothing or an old copy.
        site_scope: queues of site scope are made, too.
        takeover: an authority is lost for good, and another server is made it.
        takeover_half: a backup controller that is not whole takes over, where other sites have what it lacks.
        primary_restoring: primary controllers start from an old copy of their directory.
        primary_reinstalling: primary controllers lose their directory, and start with nothing.
        services: services beside authorities write themselves, and say so.
        together: so many changes of the topology are under way at the same time.
    """

    duration_s: int
    pace_ms: int
    removals: int
    few: int
    topology_every_s: int = 0
    sites_come: bool = False
    sites_go: bool = False
    bscs_come: bool = False
    bscs_go: bool = False
    site_handover: bool = False
    enterprise_handover: bool = False
    renaming: bool = False
    reinstalling: bool = False
    site_scope: bool = False
    takeover: bool = False
    takeover_half: bool = False
    primary_restoring: bool = False
    primary_reinstalling: bool = False
    services: bool = False
    together: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a whole run.

    Attributes:
        seed: where every choice comes from.
        bscs: how many backup controllers each site has in the beginning; the first site is the PEC's.
        network: faults of the network.
        servers: faults of the servers.
        tuning: settings of the servers.
        work: what is done.
        fault_options: faults that came later.
        directories: stores are on LDAP directories, not in memory.
    """

    seed: int
    bscs: tuple[int, ...]
    network: NetworkFaults
    servers: ServerFaults
    tuning: Tuning
    work: Workload
    fault_options: FaultOptions = NONE
    directories: bool = False


def options_of(seed: int, generation: Generation | None = None) -> Options:
    """Return the options of a seed.

    Each run has only some kinds of faults: a fault that is always present hides the behaviour
    without it.

    Args:
        seed: where every choice comes from.
        generation: what may be drawn; None: what the seed was recorded with, or everything.
    """
    generation = narrow(generation_of(seed) if generation is None else generation, seed)
    rng = SeededRandom("options", seed)
    bscs = _draw_enterprise(rng)
    fault_options = hardships_of(seed, generation)
    if fault_options.is_hostile and sum(bscs) + len(bscs) == 1:
        bscs = (1,)  # a hostile server needs a second server besides the PEC
    directories = _has_directories(seed, generation)
    is_short = sum(bscs) + len(bscs) >= _MANY_SERVERS or (directories and generation >= Generation.ALL)
    network, servers, tuning = _draw_network_faults(rng), _draw_server_faults(rng), draw_tuning(rng)
    work = _work(rng, is_short=is_short)
    if directories and generation >= Generation.SHORT:
        work = replace(work, duration_s=work.duration_s // 2)
    if generation >= Generation.SERVICES:
        work = _draw_later_options(seed, work, generation, is_honest=not fault_options.is_hostile)
    return Options(
        seed=seed,
        bscs=bscs,
        network=network,
        servers=servers if generation < Generation.FAILING else _draw_later_faults(seed, servers),
        tuning=tuning,
        work=_with_owners(work) if fault_options.foreign_every_s else work,
        fault_options=fault_options,
        directories=directories,
    )


def _has_directories(seed: int, generation: Generation) -> bool:
    if generation < Generation.ALL:
        return generation is Generation.DIRECTORIES and seed % _DIRECTORIES_EVERY == 0
    return generation is not Generation.FOREIGN and SeededRandom("directories", seed).draw_one_in(
        _DIRECTORIES_EVERY
    )


def _with_owners(work: Workload) -> Workload:
    """Return a workload in which each partition keeps its owner.

    A change of another program that its owner has not published yet would else be one of a replica.
    """
    return replace(
        work,
        site_handover=False,
        enterprise_handover=False,
        takeover=False,
        takeover_half=False,
        primary_restoring=False,
        primary_reinstalling=False,
    )


def _draw_enterprise(rng: SeededRandom) -> tuple[int, ...]:
    size = rng.draw_below(20)
    if size == 0:
        sites, bscs = rng.draw_between(4, 8), 4
    elif size < 6:
        sites, bscs = rng.draw_between(2, 5), 2
    else:
        sites, bscs = rng.draw_between(1, 3), 2
    return tuple(rng.draw_below(bscs + 1) for _ in range(sites))


def _draw_network_faults(rng: SeededRandom) -> NetworkFaults:
    return NetworkFaults(
        lost=_draw_or_zero(rng, (5, 50, 200)),
        doubled=_draw_or_zero(rng, (10, 100, 300)),
        late=_draw_or_zero(rng, (20, 200)),
        late_max_s=rng.of((1, 8, 30, 300)),
        refused=_draw_or_zero(rng, (5, 50)),
        unsigned=_draw_or_zero(rng, (5, 50)),
        cut_every_s=_draw_or_zero(rng, (60, 200)),
        cut_max_s=rng.of((10, 60, 400)),
        coded=rng.draw_one_in(4),
    )


def _draw_server_faults(rng: SeededRandom) -> ServerFaults:
    return ServerFaults(
        crash_every_s=_draw_or_zero(rng, (15, 40, 120)),
        down_max_s=rng.of((1, 20, 200)),
        slow=_draw_or_zero(rng, (50, 500, 1000)),
        slow_max_ms=rng.of((5, 200, 4000)),
        flaky=_draw_or_zero(rng, (5, 50)),
        skew_max_s=_draw_or_zero(rng, (10, 4000)),
        drift_max=_draw_or_zero(rng, (1, 50)),
    )


def draw_tuning(rng: SeededRandom) -> Tuning:
    """Draw the settings of servers."""
    sync_wait_s = rng.draw_between(2, 30)
    return Tuning(
        request_wait_s=float(rng.draw_between(5, 30)),
        intrasite_s=rng.draw_between(2, 40) / 10,
        intersite_s=rng.draw_between(5, 150) / 10,
        header_s=float(rng.draw_between(5, 60)),
        bsc_ack_s=float(rng.draw_between(20, 300)),
        sync_wait_s=float(sync_wait_s),
        sync_wait_max_s=float(sync_wait_s * rng.draw_between(1, 8)),
        purge_buffer=rng.of((0, 2, 8, 30, 1024)),
        purge_interval=rng.of((1, 4, 16, 256)),
        ack_interval=rng.of((1, 4, 16, 256)),
        pending_max=rng.of((1, 3, 100)),
        available_max=rng.of((2, 10, 10_000)),
        message_changes_max=rng.of((1, 2, 5, 1000)),
        message_bytes_max=rng.of((100, 600, 1 << 20)),
        backlog_max=rng.of((20, 100, 10_000)),
    )


def _work(rng: SeededRandom, *, is_short: bool) -> Workload:
    topology = rng.draw_one_in(2)
    duration_s = rng.draw_between(80, 250) if is_short else rng.draw_between(120, 900)
    return Workload(
        duration_s=duration_s,
        pace_ms=rng.of((800, 2_000, 5_000)),
        removals=rng.of((50, 200, 400)),
        few=rng.of((2, 6, 30)),
        topology_every_s=rng.of((20, 60, 150)) if topology else 0,
        sites_come=rng.draw_one_in(2),
        sites_go=rng.draw_one_in(3),
        bscs_come=rng.draw_one_in(2),
        bscs_go=rng.draw_one_in(2),
        site_handover=rng.draw_one_in(2),
        enterprise_handover=rng.draw_one_in(2),
        renaming=rng.draw_one_in(3),
        reinstalling=rng.draw_one_in(3),
        site_scope=rng.draw_one_in(4),
        takeover=topology and rng.draw_one_in(6),
    )


def _draw_later_faults(seed: int, faults: ServerFaults) -> ServerFaults:
    """Draw the faults of later generations, with separate random numbers."""
    return replace(faults, failing=_draw_or_zero(SeededRandom("later faults", seed), (2, 10, 40)))


def _draw_later_options(seed: int, work: Workload, generation: Generation, *, is_honest: bool) -> Workload:
    """Draw the options of later generations, with separate random numbers.

    Args:
        seed: where every choice comes from.
        work: what was drawn before.
        generation: what may be drawn.
        is_honest: no server is hostile; a hostile BSC could falsify the recovery of its PSC.
    """
    rng = SeededRandom("later options", seed)
    if rng.draw_one_in(2):
        return work
    return replace(
        work,
        services=rng.draw_one_in(3),
        together=rng.of((1, 2, 3)),
        primary_restoring=rng.draw_one_in(3) and is_honest,
        takeover_half=work.takeover and not work.renaming and rng.draw_one_in(2),
        primary_reinstalling=generation >= Generation.REINSTALLED and rng.draw_one_in(2) and is_honest,
    )


def _draw_or_zero(rng: SeededRandom, choices: tuple[int, ...]) -> int:
    """Return one of the choices, or 0 in half of the cases."""
    return rng.of(choices) if rng.draw_one_in(2) else 0
