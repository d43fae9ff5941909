"""Measure, print, and write benchmarks/results.json and docs/performance.md: `make bench`.

`--only NAME` (may be repeated) and `--quick` (a smoke test) print alone and write nothing: what is written
is one whole run. `--again NAME` measures a row anew, after a change of what it measures: that row is
replaced, and the page says so. The exit status is 1 when a goal is missed, after everything was written.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import (
    asynchronous,
    codec,
    comparing,
    creating,
    discovering,
    enterprises,
    exporting,
    importing,
    listing,
    loading,
    migrating,
    notifying,
    packets,
    reading,
    replicating,
    report,
    samba,
    sessions,
    starting,
    synchronizing,
    validating,
)
from benchmarks.harness import DOCUMENT, Goal, Outcome, Skipped, read_results, write_results
from benchmarks.world import Size, World, filled

Measure = Callable[..., Outcome]
ROWS: Mapping[Goal, Measure] = {
    **listing.ROWS,
    **reading.ROWS,
    **asynchronous.ROWS,
    **importing.ROWS,
    **creating.ROWS,
    **samba.ROWS,
    **exporting.ROWS,
    **validating.ROWS,
    **starting.ROWS,
    **comparing.ROWS,
    **loading.ROWS,
    **migrating.ROWS,
    **codec.ROWS,
    **packets.ROWS,
    **sessions.ROWS,
    **replicating.ROWS,
    **synchronizing.ROWS,
    **notifying.ROWS,
    **discovering.ROWS,
    **enterprises.ROWS,
}
"""Creating comes last: the lists have to find what was loaded, and nothing else."""
QUICK = Size(queues=4_000, queue_managers=200, hosts=50)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit status."""
    options = _options(arguments)
    chosen = options.only or options.again
    rows = [row for goal, row in ROWS.items() if not chosen or goal.name in chosen]
    begin = time.perf_counter()
    with filled(QUICK if options.quick else Size()) as world:
        print(f"{world.size.queues} queues loaded in {time.perf_counter() - begin:.1f} s", flush=True)
        measured = [_measured(world, row, quick=options.quick) for row in rows]
    outcomes = [one for one in measured if one is not None]
    print(f"{time.perf_counter() - begin:.0f} s in all")
    if options.again and not (options.quick or options.only):
        write_results(merged(read_results(), [one.as_json() for one in outcomes]))
        page = DOCUMENT.read_text(encoding="utf-8")
        DOCUMENT.write_text(report.again(page, outcomes), encoding="utf-8")
    elif not (options.quick or options.only):
        write_results([one.as_json() for one in outcomes])
        DOCUMENT.write_text(report.document(outcomes), encoding="utf-8")
    missed = [one.goal.name for one in outcomes if not one.met]
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


def merged(old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with some replaced by name, and those behind them that were not there yet."""
    rows = {one["name"]: one for one in old} | {one["name"]: one for one in new}
    return list(rows.values())


def _measured(world: World, row: Measure, *, quick: bool) -> Outcome | None:
    try:
        outcome = row(world, quick=quick)
    except Skipped as reason:
        print(f"skipped: {reason}", flush=True)
        return None
    print(report.table_row(outcome), flush=True)
    return outcome


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [goal.name for goal in ROWS]
    parser.add_argument("--only", action="append", choices=names, help="measure this row; writes nothing")
    parser.add_argument("--again", action="append", choices=names, help="measure this row anew, replace it")
    parser.add_argument("--quick", action="store_true", help="few runs on a small directory; writes nothing")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
