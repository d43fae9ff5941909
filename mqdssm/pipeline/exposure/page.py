"""Page of an exposure: totals, machines by score, open queues, rules."""

import itertools
from collections import Counter
from pathlib import Path
from typing import Final

from mqdssm.pipeline.exposure.assessment import ENDED, Exposure, Record
from mqdssm.pipeline.exposure.computers import LOGON_DAYS
from mqdssm.pipeline.exposure.rules import QUEUE_OPEN, QUEUE_RECEIVES, SCORE_MAX, SCORE_RULES
from mqdssm.pipeline.exposure.windows_lifecycle import SOURCE, TABLE_DATE
from mqdssm.pipeline.exposure.writers import describe_finding
from mqdssm.pipeline.report.charts import make_chart
from mqdssm.pipeline.report.page import check_page, format_value, write_page

MACHINES_MAX: Final = 500
QUEUES_MAX: Final = 300
_OPEN: Final = frozenset({QUEUE_OPEN.id, QUEUE_RECEIVES.id})
_ONE: Final = (("plain", ""),)


def write_exposure_page(path: Path, exposure: Exposure) -> None:
    """Write the page of an exposure.

    Args:
        path: of the file, which is replaced.
        exposure: what it shows.

    Raises:
        ConfigError: jinja2 is missing, or the file cannot be written.
    """
    check_page(path)
    machines = list(exposure.machines())
    open_queues = (record for record in exposure.queues() if _OPEN & set(record["Rules"]))
    queues = list(itertools.islice(open_queues, QUEUES_MAX + 1))
    write_page(
        path,
        "exposure.html",
        title=f"Exposure of {format_value(exposure.inventory.source)}",
        exposure=exposure,
        inventory=exposure.inventory,
        tiles=_make_tiles(exposure, machines),
        by_rule=make_chart(
            "by-rule",
            "Machines by rule",
            (
                (rule.id, "#rules", {"plain": exposure.counts[rule.id]})
                for rule in SCORE_RULES
                if exposure.counts.get(rule.id)
            ),
            _ONE,
        ),
        by_support=make_chart(
            "by-support",
            "Machines by support of Windows",
            (
                (name, "", {"plain": count})
                for name, count in Counter(record["Support"] for record in machines).items()
            ),
            _ONE,
        ),
        machines=machines[:MACHINES_MAX],
        machines_count=len(machines),
        queues=queues[:QUEUES_MAX],
        queues_more=len(queues) > QUEUES_MAX,
        rules=SCORE_RULES,
        score_max=SCORE_MAX,
        logon_days=LOGON_DAYS,
        table_date=TABLE_DATE,
        lifecycle=SOURCE,
        words=describe_finding,
    )


def _make_tiles(exposure: Exposure, machines: list[Record]) -> list[tuple[int, str, str]]:
    ended = sum(record["Support"] == ENDED for record in machines)
    stale = sum(bool(record["Stale"]) for record in machines)
    open_queues = sum(record["OpenQueues"] for record in machines)
    return [
        (len(machines), "machines", ""),
        (exposure.highest, "highest score", ""),
        (ended, "without support", "error" if ended else "fine"),
        (stale, "stale", "warning" if stale else "fine"),
        (open_queues, "open queues", "error" if open_queues else "fine"),
    ]
