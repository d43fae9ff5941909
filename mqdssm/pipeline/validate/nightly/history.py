"""History of a validation: a line for each run, and the findings of the last run.

``DIR/runs.jsonl`` has a line for each run. ``DIR/last.jsonl`` has the findings of the last run, in the form
of a baseline. A finding that the last run did not have is new; one that only the last run had is mended.

Metrics of a run as text for OpenMetrics and the textfile collector of node_exporter.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from mqdssm.errors import ConfigError, convert_folder_errors
from mqdssm.events.durable_files import write_atomically
from mqdssm.pipeline.validate.nightly.assessment import StateCounts
from mqdssm.pipeline.validate.nightly.baseline import Baseline, KnownFinding, subtract_findings

RUNS_NAME: Final = "runs.jsonl"
LAST_NAME: Final = "last.jsonl"
FOLDER_MODE: Final = 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One run in the history.

    Attributes:
        started: when it began.
        seconds: how long it took.
        source: name of the source.
        version: of mqdssm.
        objects: number of objects of each type.
        findings: number of findings of each rule, in all states.
        severities: number of findings of each severity, in all states.
        states: number of findings of each state.
        appeared: number of findings that the previous run did not have.
        mended: number of findings that only the previous run had.
        has_failed: the exit code was 1.
    """

    started: datetime
    seconds: float
    source: str
    version: str
    objects: Mapping[str, int]
    findings: Mapping[str, int]
    severities: Mapping[str, int]
    states: Mapping[str, int]
    appeared: int
    mended: int
    has_failed: bool

    def to_json(self) -> str:
        """Return the line without a line end."""
        return json.dumps(asdict(self) | {"started": self.started.isoformat()}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a line.

        Raises:
            ValueError: it is none.
        """
        values = json.loads(text)
        try:
            return cls(**values | {"started": datetime.fromisoformat(values["started"])})
        except (TypeError, KeyError) as error:
            raise ValueError(f"no line of a history: {error}") from error


@dataclass(frozen=True, slots=True)
class RunChanges:
    """Changes since the last run.

    Attributes:
        since: when the last run began; None: there was none.
        appeared: findings that the last run did not have.
        mended: findings that only the last run had.
    """

    since: datetime | None
    appeared: tuple[KnownFinding, ...]
    mended: tuple[KnownFinding, ...]


def count_findings(findings: "tuple[KnownFinding, ...]") -> int:
    """Return the number of findings, equal ones counted singly."""
    return sum(finding.count for finding in findings)


@dataclass(frozen=True, slots=True)
class History:
    """A folder with the runs of one validation."""

    folder: Path

    def prepare(self) -> None:
        """Create the folder and check its files; to be called before long work.

        Raises:
            ConfigError: it cannot be made, or its files are damaged.
        """
        with convert_folder_errors(f"{self.folder} cannot be made"):
            self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK):
            raise ConfigError(f"{self.folder} cannot be written to: give another folder to --history")
        self.read_lines()
        self.read_last()

    def read_lines(self) -> tuple[HistoryLine, ...]:
        """Read all runs; a last line that a killed run left incomplete is ignored.

        Raises:
            ConfigError: another line is damaged.
        """
        path = self.folder / RUNS_NAME
        try:
            *whole, _cut = path.read_text(encoding="utf-8", errors="replace").split("\n")
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        lines = []
        for number, line in enumerate(whole, 1):
            try:
                lines.append(HistoryLine.from_json(line))
            except ValueError as error:
                raise ConfigError(
                    f"{path}, line {number}: {error}; take the line out, or move the file away"
                ) from error
        return tuple(lines)

    def read_last(self) -> Baseline | None:
        """Return the findings of the last run; None: there was none.

        Raises:
            ConfigError: the file is damaged.
        """
        path = self.folder / LAST_NAME
        return Baseline.load(path) if path.exists() else None

    def compare(self, now: Baseline) -> RunChanges:
        """Compare findings with those of the last run; nothing changed if there was none.

        Raises:
            ConfigError: the file of the last run is damaged.
        """
        last = self.read_last()
        if last is None:
            return RunChanges(None, (), ())
        return RunChanges(
            last.created, tuple(subtract_findings(now, last)), tuple(subtract_findings(last, now))
        )

    def add(self, line: HistoryLine, findings: Baseline) -> None:
        """Add a run: its line first, then its findings.

        Raises:
            ConfigError: the folder cannot be written to.
        """
        path = self.folder / RUNS_NAME
        text = (line.to_json() + "\n").encode("utf-8", "surrogatepass")
        try:
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                end = os.lseek(handle, 0, os.SEEK_END)
                if end and os.pread(handle, 1, end - 1) != b"\n":  # an incomplete line
                    whole = os.pread(handle, end, 0).rfind(b"\n") + 1
                    os.ftruncate(handle, whole)
                os.write(handle, text)
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error
        findings.write(self.folder / LAST_NAME)


def line_of(
    about: Mapping[str, Any], counts: StateCounts, changes: RunChanges, *, has_failed: bool
) -> HistoryLine:
    """Make the line of a run.

    Args:
        about: the run: ``started``, ``seconds``, ``source``, ``version``, ``objects``.
        counts: its findings.
        changes: changes since the last run.
        has_failed: its exit code was 1.
    """
    rules: Counter[str] = Counter()
    severities: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for rule_state, count in counts.counts.items():
        rules[rule_state.rule] += count
        severities[rule_state.severity] += count
        states[rule_state.state.value] += count
    return HistoryLine(
        **about,
        findings=dict(sorted(rules.items())),
        severities=dict(severities),
        states=dict(states),
        appeared=count_findings(changes.appeared),
        mended=count_findings(changes.mended),
        has_failed=has_failed,
    )


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
        ({"rule": key.rule, "severity": key.severity, "state": key.state.value}, float(count))
        for key, count in sorted(counts.counts.items())
    )
    objects = (({"type": name}, float(count)) for name, count in sorted(run.objects.items()))
    no_labels: Mapping[str, str] = {}
    ended = run.started.timestamp() + run.seconds
    yield from _format_family("findings", "Number of findings of a rule.", findings)
    yield from _format_family("objects", "Number of objects that were validated.", objects)
    yield from _format_family(
        "appeared", "Findings that the run before had not.", [(no_labels, run.appeared)]
    )
    yield from _format_family(
        "mended", "Findings of the run before that are gone.", [(no_labels, run.mended)]
    )
    yield from _format_family(
        "failed", "1 if the findings exceed a threshold.", [(no_labels, int(run.has_failed))]
    )
    yield from _format_family("duration_seconds", "Length of the run.", [(no_labels, run.seconds)])
    yield from _format_family("end_timestamp_seconds", "End of the run, Unix time.", [(no_labels, ended)])
    yield from _format_family("info", "Version of mqdssm.", [({"version": run.version}, 1)])
    yield "# EOF\n"


def _format_family(name: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {PREFIX}_{name} {text}\n"
    yield f"# TYPE {PREFIX}_{name} gauge\n"
    for labels, value in samples:
        inside = ",".join(f'{label}="{_escape_label(content)}"' for label, content in labels.items())
        yield f"{PREFIX}_{name}{f'{{{inside}}}' if inside else ''} {value:.15g}\n"


def _escape_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
