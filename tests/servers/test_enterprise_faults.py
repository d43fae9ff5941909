"""Directory servers as processes on a bad network: each acknowledged change is at each server, once."""

import math
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from support.servers.crews import QUICK, WHOLE_S, Crew, check_whole
from support.servers.enterprise import (
    FIVE,
    EnterpriseProcesses,
    Member,
    Place,
    bad_network,
    on_loopback,
    wait_for,
)
from support.servers.namespaces import why_not
from support.servers.packet_relay import PacketRelay, lose

from mqdssm.server.backup import back_up, restore
from mqdssm.server.folder import DirectoryServerFolder

FAKETIME: Final = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), Path("libfaketime"))
THREE: Final = (FIVE[0], FIVE[1], FIVE[3])
"""A PEC, a PSC and its BSC."""


@pytest.fixture(autouse=True)
def needs_namespaces() -> None:
    if reason := why_not():
        pytest.skip(reason)


@contextmanager
def harmed(relay: PacketRelay) -> Iterator[None]:
    """Lose, delay and reorder packets during a block."""
    relay.delay_s, relay.jitter_s, relay.loss = 0.01, 0.05, 0.05
    yield
    assert relay.overtaken
    relay.delay_s = relay.jitter_s = relay.loss = 0


@dataclass(frozen=True)
class Load:
    """Servers on a bad network, their clients, and their faults.

    Attributes:
        places: the servers.
        times: how many times 950 changes are made, and 50 more for each server that is killed.
        each: clients of each server.
        pause_s: of each client between two changes.
        creating: share of the changes that create a queue.
        objects: number of queues that are created at least.
        harmed: names of the servers that are cut off for five seconds, and killed.
    """

    places: Sequence[Place] = FIVE
    times: float = 1
    each: int = 2
    pause_s: float = 0.1
    creating: float = 0.5
    objects: int = 500
    harmed: Sequence[str] = tuple(place.name for place in FIVE)


LOADS: Final = [
    pytest.param(
        Load(THREE, 0.1, 1, objects=30, harmed=("PSC01",)), marks=pytest.mark.timeout(240), id="tiny"
    ),
    pytest.param(Load(), marks=[pytest.mark.soak, pytest.mark.timeout(14_400)], id="small"),
    pytest.param(
        Load(times=20, each=4, pause_s=0, creating=0.9, objects=20_000),
        marks=[pytest.mark.soak, pytest.mark.timeout(14_400)],
        id="large",
    ),
]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
@pytest.mark.parametrize("load", LOADS)
def test_servers_on_a_bad_network_that_are_killed_in_turn(tmp_path, load):
    """Loss by iptables; delay, reordering and a cut of five seconds by the tests."""
    if shutil.which("iptables") is None:
        pytest.skip("iptables is not installed")
    times = load.times
    with bad_network(tmp_path, load.places, settings=QUICK) as (servers, lan, relay):
        crew = Crew(servers, load.each, load.pause_s, creating=load.creating)
        work = partial(_work_and_tell, crew, seconds=600 * max(1, math.sqrt(times)))
        work(int(200 * times))
        lose(lan, 0.1)
        work(int(300 * times))
        relay.delay_s, relay.jitter_s = 0.02, 0.1
        work(int(300 * times))
        for name in load.harmed:
            relay.cut = frozenset({servers.members[name].host})
            time.sleep(5)
        relay.cut = frozenset()
        work(int(100 * times))
        for name in load.harmed:
            servers.end(name, signal.SIGKILL)
            time.sleep(2)
            servers.start(name)
            work(int(50 * times))
        lose(lan, 0)
        assert relay.overtaken
        begin = time.monotonic()
        check_whole(servers, crew)
        assert crew.created >= load.objects
        seconds = time.monotonic() - begin
        print(f"{crew.acknowledged:,} changes, {crew.created:,} objects: equal in {seconds:.0f} s")  # noqa: T201


def _work_and_tell(crew: Crew, changes: int, *, seconds: float) -> None:
    """Wait for changes, and print how long they took."""
    begin = time.monotonic()
    crew.work(changes, seconds)
    passed = time.monotonic() - begin
    print(f"{changes:,} changes in {passed:.0f} s: {changes / passed:.1f} a second")  # noqa: T201


@pytest.mark.soak
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.3")
@pytest.mark.timeout(3600)
def test_a_site_is_cut_off_for_ten_minutes(tmp_path):
    """The servers of Oslo change their own site meanwhile, the others theirs."""
    with bad_network(tmp_path, settings=QUICK) as (servers, _, relay):
        oslo = Crew(servers, 2, 0.5, at=["PSC02", "BSC02"], owners=["PSC02"])
        others = Crew(servers, 2, 0.5, at=["PEC01", "PSC01", "BSC01"], owners=["PEC01", "PSC01"])
        relay.cut = frozenset({"psc02", "bsc02"})
        until = time.monotonic() + 600
        while time.monotonic() < until:
            oslo.work(10)
            others.work(10)
        relay.cut = frozenset()
        check_whole(servers, oslo, others)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
@pytest.mark.timeout(180)
def test_the_disk_of_a_psc_is_full(tmp_path):
    own = small_disk("PSC01", 1 << 20)
    with on_loopback(tmp_path, FIVE[:2], settings=QUICK, own_settings=own) as servers:
        crew = Crew(servers, 2, 0.0, owners=["PEC01"])
        fill_and_mend(servers, "PSC01", crew, 20)
        check_whole(servers, crew)


@pytest.mark.soak
@pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("full", ["PEC01", "PSC01", "BSC01"])
def test_the_disk_of_a_server_is_full(tmp_path, full):
    """Packets are lost, late and out of order meanwhile; the server is killed while its disk is full."""
    own = small_disk(full, 1_500_000)
    with bad_network(tmp_path, THREE, settings=QUICK, own_settings=own) as (servers, _, relay):
        crew = Crew(servers, 2, 0.0)
        with harmed(relay):
            fill_and_mend(servers, full, crew, 100, pause_s=20, number=signal.SIGKILL)
        check_whole(servers, crew)


def small_disk(name: str, octets: int) -> dict[str, str]:
    """Settings of a server whose directory has room for so many octets."""
    return {name: f"[store]\ndatabase_bytes_max = {octets}"}


def fill_and_mend(
    servers: EnterpriseProcesses,
    full: str,
    crew: Crew,
    changes: int,
    *,
    pause_s: float = 1,
    number: int = signal.SIGTERM,
) -> None:
    """Fill a disk: its clients are refused, the others go on; end the server, and give it more room."""
    wait_for("the disk is full", 600, lambda: _is_full(servers.members[full]))
    time.sleep(pause_s)
    servers.end(full, number)
    config = servers.members[full].config
    config.write_text(re.sub(r"(?<=database_bytes_max = )\d+", "150_000_000", config.read_text()))
    servers.start(full)
    crew.work(changes, 300)


def _is_full(member: Member) -> bool:
    """Return True if the log of a server says that its database is full."""
    return "the directory is full" in member.log.read_text()


@pytest.mark.soak
@pytest.mark.spec("MC-MQDSRP 3.1.3.1")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("lost", ["PEC01", "PSC01", "BSC01"])
def test_a_server_is_restored_from_an_old_backup(tmp_path, lost):
    """Everything that it had told another server comes back; packets are lost, late and out of order."""
    with bad_network(tmp_path, THREE, settings=QUICK) as (servers, _, relay), harmed(relay):
        member = servers.members[lost]
        first = Crew(servers, 2, 0.05)
        first.work(100)
        back_up(DirectoryServerFolder(member.folder), tmp_path / "backup")
        first.work(200)
        first.stop()
        wait_for("all replicas have the last numbers", WHOLE_S, lambda: servers.lag() == 0)
        left = [name for name in servers.members if name != lost]
        others = Crew(servers, 2, 0.2, at=left, letter="d")
        servers.end(lost, signal.SIGKILL)
        shutil.rmtree(member.folder)
        restore(tmp_path / "backup", member.folder)
        servers.start(lost, "--restored")
        others.work(200, 600)
        check_whole(servers, first, others)


def with_clock(folder: Path, offset: Path) -> dict[str, str]:
    """Environment of programs whose clock differs from ours by what a file says."""
    (folder / "site").mkdir()
    # libfaketime 0.9.10 refuses clock_nanosleep with an absolute time of a clock that it leaves alone
    patch = "import select, time\ntime.sleep = lambda seconds: select.select([], [], [], seconds)\n"
    (folder / "site" / "sitecustomize.py").write_text(patch)
    return {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
        "PYTHONPATH": os.pathsep.join((str(folder / "site"), os.environ.get("PYTHONPATH", ""))),
    }


JUMPS: Final = (("+3d", 3), ("+0", 0), ("-3d", -3), ("+0", 0), ("+40", 0), ("-40", 0), ("+0", 0))
"""Offsets of a clock as libfaketime reads them, with their days."""


@pytest.mark.spec("MS-MQQB 3.1.5.8.3")
@pytest.mark.timeout(180)
def test_the_clock_of_a_psc_jumps(tmp_path):
    with on_loopback(tmp_path, FIVE[:2], settings=QUICK) as servers:
        jump(servers, "PSC01", tmp_path, JUMPS[:2], (1, 0.1, 20), pause_s=3)


@pytest.mark.soak
@pytest.mark.spec("MS-MQQB 3.1.5.8.3")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["PEC01", "PSC01", "BSC01"])
def test_a_clock_jumps(tmp_path, name):
    with bad_network(tmp_path, THREE, settings=QUICK) as (servers, _, _):
        jump(servers, name, tmp_path, JUMPS, (2, 0.1, 100), pause_s=15)


def jump(
    servers: EnterpriseProcesses,
    name: str,
    folder: Path,
    jumps: Sequence[tuple[str, int]],
    load: tuple[int, float, int],
    *,
    pause_s: float,
) -> None:
    """Set a server's clock again and again: nothing is lost, and all goes on when it is right again."""
    if not FAKETIME.exists():
        pytest.skip("libfaketime is not installed")
    each, client_pause_s, changes = load
    member, offset = servers.members[name], folder / "offset"
    offset.write_text("+0")
    servers.end(name)
    member.environment |= with_clock(folder, offset)
    servers.start(name)
    crew = Crew(servers, each, client_pause_s)
    crew.work(changes, 300)
    for text, days in jumps:
        offset.write_text(text)
        time.sleep(pause_s)
        shift = member.status().taken_at.timestamp() - time.time()
        assert abs(shift / 86_400 - days) < 0.1
    crew.work(2 * changes, 600)
    check_whole(servers, crew)
