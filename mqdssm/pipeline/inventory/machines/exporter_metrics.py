"""Metrics of windows_exporter, in Prometheus' text format.

The names are those of its collectors msmq, os, cs and service; before version 0.13 they began with ``wmi_``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from mqdssm.errors import require_packages
from mqdssm.pipeline.inventory.machines.report import (
    SERVICE,
    Counts,
    MachineReport,
    ReportProblem,
    sort_instances,
    with_counts,
)

_NUMBERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "msmq_messages_in_queue": "messages",
        "msmq_bytes_in_queue": "bytes",
        "msmq_messages_in_journal_queue": "journal_messages",
        "msmq_bytes_in_journal_queue": "journal_bytes",
    }
)
_PREFIX: Final = re.compile("(?:windows|wmi)_")
_ADDRESS: Final = re.compile(r"\[?[0-9a-f:]*:[0-9a-f:.]*\]?|\d+\.\d+\.\d+\.\d+", re.IGNORECASE)
_PORT: Final = re.compile(r":\d+$")
_LINE_CHARS_SHOWN: Final = 60


class _Sample(NamedTuple):
    name: str
    labels: Mapping[str, str]
    value: float
    moment: datetime | None


@dataclass(slots=True)
class _Machine:
    """Samples of one machine."""

    hostname: str = ""
    fqdn: str = ""
    system: str | None = None
    system_version: str | None = None
    service: str | None = None
    start_mode: str | None = None
    moment: datetime | None = None
    queues: dict[str, dict[str, int]] = field(default_factory=dict)

    def take(self, sample: _Sample) -> None:
        labels = sample.labels
        if sample.name in _NUMBERS:
            self.queues.setdefault(labels.get("name", ""), {})[_NUMBERS[sample.name]] = int(sample.value)
            if sample.moment is not None:
                self.moment = max(self.moment or sample.moment, sample.moment)
        elif sample.name in {"os_hostname", "cs_hostname"}:
            self.hostname, self.fqdn = labels.get("hostname", ""), labels.get("fqdn", "")
        elif sample.name == "os_info":
            self.system, self.system_version = labels.get("product"), labels.get("version")
        elif labels.get("name", "").casefold() == SERVICE and sample.value == 1:
            if sample.name == "service_state":
                self.service = labels.get("state")
            elif sample.name == "service_start_mode":
                self.start_mode = labels.get("start_mode")


def read_metrics(text: str, origin: str, default_name: str) -> list[MachineReport]:
    """Read the metrics of one machine, or of several with the label ``instance``.

    Args:
        text: the metrics.
        origin: name of the file.
        default_name: name of the machine if no metric has it.

    Raises:
        ReportProblem: a line is no metric, or there is none of MSMQ; the message names the line.
        MissingPackageError: prometheus_client is not installed.
    """
    require_packages("prometheus_client", extra="server")
    machines: dict[str, _Machine] = {}
    for sample in _read_samples(text):
        machines.setdefault(sample.labels.get("instance", ""), _Machine()).take(sample)
    reports = [
        _report(machine, instance, origin, default_name)
        for instance, machine in machines.items()
        if machine.queues or machine.service is not None
    ]
    if not reports:
        raise ReportProblem("no metric of MSMQ: start windows_exporter with its collector msmq")
    return reports


def _read_first_label(name: str) -> str:
    """Return the computer in the name of a file.

    The name may be ``paris01.example.com`` or ``paris01.2026-01-31``.
    """
    return name if _ADDRESS.fullmatch(name) else name.partition(".")[0] or name


def _report(machine: _Machine, instance: str, origin: str, default_name: str) -> MachineReport:
    host = _PORT.sub("", instance)
    named = host if host and not _ADDRESS.fullmatch(host) else ""
    dns_name = machine.fqdn or (named if "." in named else "")
    computer = machine.hostname or named.partition(".")[0] or host or _read_first_label(default_name)
    counted = sort_instances(
        (computer, dns_name), ((name, Counts(**numbers)) for name, numbers in machine.queues.items())
    )
    return MachineReport(
        origin=origin,
        computer_name=computer,
        dns_name=dns_name or None,
        moment=machine.moment,
        system=machine.system,
        system_version=machine.system_version,
        service=machine.service,
        start_mode=machine.start_mode,
        queues=tuple(with_counts((), counted.queues)),
        own=counted.own,
        outgoing=counted.outgoing,
    )


def _read_samples(text: str) -> Iterator[_Sample]:
    """Yield the samples that a report needs; all other lines are checked as well."""
    from prometheus_client.parser import text_string_to_metric_families

    for number, raw_line in enumerate(text.split("\n"), start=1):
        line = raw_line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            samples = [sample for family in text_string_to_metric_families(line) for sample in family.samples]
        except Exception as error:  # noqa: BLE001  the parser raises what its steps raise
            begin = line[:_LINE_CHARS_SHOWN]
            raise ReportProblem(f"line {number}: {begin!r} is no metric ({type(error).__name__})") from None
        for sample in samples:
            prefix = _PREFIX.match(sample.name)
            if prefix is None:
                continue
            name = sample.name[prefix.end() :]
            if name in _NUMBERS and not 0 <= sample.value < 2**64:
                raise ReportProblem(f"line {number}: {sample.value} is no number of messages or bytes")
            yield _Sample(name, sample.labels, sample.value, _parse_time(sample.timestamp, number))


def _parse_time(timestamp: object, number: int) -> datetime | None:
    if timestamp is None:
        return None
    try:
        return datetime.fromtimestamp(float(str(timestamp)), UTC)
    except (ValueError, OverflowError, OSError):
        raise ReportProblem(f"line {number}: the time of the metric is out of range") from None
