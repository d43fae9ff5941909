"""Metrics of a run as text for OpenMetrics and the textfile collector of node_exporter."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from mqdssm.events.durable_files import write_atomically
from mqdssm.pipeline.validate.nightly.assessment import StateCounts
from mqdssm.pipeline.validate.nightly.history import HistoryLine

PREFIX: Final = "mqdssm_validation"
FILE_MODE: Final = 0o644
"""node_exporter runs as another user. The file contains numbers and names of rules, but no object."""

Sample = tuple[Mapping[str, str], float]
"""Labels and a value."""


def write_metrics(path: Path, run: HistoryLine, counts: StateCounts) -> None:
    """Write the metrics of a run into a file, atomically.

    Raises:
        ConfigError: it cannot be written.
    """
    write_atomically(path, metrics_of(run, counts), mode=FILE_MODE)


def metrics_of(run: HistoryLine, counts: StateCounts) -> Iterator[str]:
    """Yield the lines of the metrics of a run.

    All are gauges, the only suitable type that both formats have.
    """
    findings = (
        ({"rule": one.rule, "severity": one.severity, "state": one.state.value}, float(count))
        for one, count in sorted(counts.counts.items())
    )
    objects = (({"type": name}, float(count)) for name, count in sorted(run.objects.items()))
    no_labels: Mapping[str, str] = {}
    ended = run.started.timestamp() + run.seconds
    yield from _family("findings", "Number of findings of a rule.", findings)
    yield from _family("objects", "Number of objects that were validated.", objects)
    yield from _family("appeared", "Findings that the run before had not.", [(no_labels, run.appeared)])
    yield from _family("mended", "Findings of the run before that are gone.", [(no_labels, run.mended)])
    yield from _family("failed", "1 if the findings exceed a threshold.", [(no_labels, int(run.has_failed))])
    yield from _family("duration_seconds", "Length of the run.", [(no_labels, run.seconds)])
    yield from _family("end_timestamp_seconds", "End of the run, Unix time.", [(no_labels, ended)])
    yield from _family("info", "Version of mqdssm.", [({"version": run.version}, 1)])
    yield "# EOF\n"


def _family(name: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {PREFIX}_{name} {text}\n"
    yield f"# TYPE {PREFIX}_{name} gauge\n"
    for labels, value in samples:
        inside = ",".join(f'{label}="{_escaped(content)}"' for label, content in labels.items())
        yield f"{PREFIX}_{name}{f'{{{inside}}}' if inside else ''} {value:.15g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
