"""Run an enterprise of five directory servers, and replicate objects: `make enterprise OBJECTS=20000`.

A PEC, two PSCs and two BSCs run as processes, each with its own slapd in a network namespace of its own.
Clients create queues at all five. The program prints the rate of acknowledged changes, the lag of the
replicas, the time until all are equal, and the processor time of servers and slapds; then it compares the
replicas object by object. It ends with exit code 1 if a change failed. It needs root.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.servers.enterprise import (  # noqa: E402  found by the path above
    FIVE,
    NETWORK,
    PORT,
    EnterpriseProcesses,
    wait_for,
)
from support.servers.namespaces import Lan, why_not  # noqa: E402
from support.servers.queue_load import (  # noqa: E402
    LoadedServer,
    Outcomes,
    create_queues,
    exit_code,
)

SETTLE_S = 1_200.0


def processor_seconds(servers: EnterpriseProcesses) -> dict[str, float]:
    """Processor time of each server with its slapd so far."""
    rows = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        rows[int(file.parent.name)] = int(fields[1]), int(fields[11]) + int(fields[12])

    def of_tree(pid: int) -> int:
        return rows[pid][1] + sum(of_tree(child) for child, (parent, _) in rows.items() if parent == pid)

    ticks = os.sysconf("SC_CLK_TCK")
    running = {name: member.process.pid for name, member in servers.members.items() if member.process}
    return {name: of_tree(pid) / ticks for name, pid in running.items()}


def load(servers: EnterpriseProcesses, objects: int) -> dict[str, Outcomes]:
    """Create the objects at all servers, and print the progress."""
    begin = time.monotonic()
    lags = [0]

    def tell(created: int) -> None:
        lags.append(servers.lag())
        seconds = time.monotonic() - begin
        print(f"{seconds:6.0f} s  {created:7,d} created  lag {lags[-1]:6,d} changes", flush=True)

    loaded = [
        LoadedServer(member.host, servers.psc_of(member.place.site).name, member.socket)
        for member in servers.members.values()
    ]
    outcomes = create_queues(loaded, objects, tell)
    seconds, created = time.monotonic() - begin, sum(outcome.created for outcome in outcomes.values())
    print(f"largest lag: {max(lags):,} changes")
    print(f"{created:,} objects created in {seconds:.0f} s: {created / seconds:.0f} changes a second")
    return outcomes


def main() -> int:
    """Run the enterprise; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("objects", type=int)
    objects = parser.parse_args().objects
    if reason := why_not():
        raise SystemExit(f"make enterprise: {reason}")
    with (
        tempfile.TemporaryDirectory(prefix="mqdssm-") as folder,
        Lan.made({NETWORK: [place.host for place in FIVE]}) as lan,
        closing(
            EnterpriseProcesses(
                Path(folder),
                address_of=lambda host: f"{lan.address(NETWORK, host)}:{PORT}",
                launch=lan.start,
            )
        ) as servers,
    ):
        for host in lan.hosts:
            lan.ip(host, "link", "set", "lo", "up")
        begin = time.monotonic()
        for role, seconds in servers.build():
            print(f"  {role}: {seconds:.1f} s", flush=True)
        print(f"five servers work after {time.monotonic() - begin:.0f} s", flush=True)
        used = processor_seconds(servers)
        outcomes = load(servers, objects)
        for name, outcome in outcomes.items():
            print(f"  {name}: {outcome.created:,} created, {outcome.failed:,} not: {outcome.problem or '-'}")
        begin = time.monotonic()
        wait_for("all replicas have the last numbers", SETTLE_S, lambda: servers.lag() == 0)
        print(f"converged {time.monotonic() - begin:.1f} s after the last change")
        created = sum(outcome.created for outcome in outcomes.values())
        for name, seconds in processor_seconds(servers).items():
            print(f"  {name}: {(seconds - used[name]) / created * 1000:.1f} ms of processor time a change")
        print(f"compared: {json.dumps(servers.compare())}")
    return exit_code(outcomes)


if __name__ == "__main__":
    sys.exit(main())
