"""Output of the PowerShell script, as JSON or CLIXML, as a report of a machine."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_pascal

from mqdssm.pipeline.inventory.machines.report import (
    Counts,
    MachineReport,
    QueueReport,
    ReportProblem,
    sort_instances,
    with_counts,
)

SCRIPT: Final = "msmq-machine.ps1"
TEXT_CHARS_MAX: Final = 4_096
PROBLEMS_MAX: Final = 100
_JSON_DATE: Final = re.compile(r"/Date\((-?\d{1,15})(?:[+-]\d{4})?\)/")
_FIRST_YEAR: Final = 1601
"""Times before the first of Windows are times that were never set."""


def read_script() -> str:
    """Return the script, which is installed with this package."""
    return files("mqdssm.pipeline.inventory.machines").joinpath(SCRIPT).read_text(encoding="utf-8")


def _parse_time(value: Any) -> datetime | None:
    """Read a time: ISO 8601 with a zone, or Windows PowerShell's ``/Date(ms)/``."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ValueError("is no time")  # noqa: TRY004  pydantic takes ValueError
    match = _JSON_DATE.fullmatch(value)
    try:
        if match is not None:
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(match[1]))
        else:
            moment = datetime.fromisoformat(value)
            if moment.year < _FIRST_YEAR:
                return None
            if moment.tzinfo is None:
                raise ValueError(f"time {value[:40]!r} has no zone")
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"time {value[:40]!r} is out of range") from None


def _as_list(value: Any) -> Any:
    """Return a list.

    PowerShell writes some lists of one object as the object, and some lists with their count.
    """
    if isinstance(value, dict):
        inner = value.get("value")
        return inner if isinstance(inner, list) and set(value) == {"value", "Count"} else [value]
    return [value] if isinstance(value, str) else value


def _parse_guid(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ValueError("is no GUID")  # noqa: TRY004  pydantic takes ValueError
    guid = UUID(value)
    return str(guid) if guid.int else None


Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]
Number = Annotated[int, Field(ge=0, lt=2**64)]
Moment = Annotated[datetime | None, BeforeValidator(_parse_time)]
GuidText = Annotated[str | None, BeforeValidator(_parse_guid)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_pascal, populate_by_name=True)


class _Queue(_Part):
    queue_name: Annotated[Text, Field(min_length=1)]
    identifier: Annotated[GuidText, Field(alias="Id")] = None
    label: Text | None = None
    transactional: bool | None = None
    use_journal_queue: bool | None = None
    authenticate: bool | None = None
    encryption_required: Text | None = None
    maximum_queue_size: Number | None = None
    maximum_journal_size: Number | None = None
    create_time: Moment = None
    last_modify_time: Moment = None
    message_count: Number | None = None
    bytes_in_queue: Number | None = None
    journal_message_count: Number | None = None
    bytes_in_journal: Number | None = None

    def report(self) -> QueueReport:
        return QueueReport(
            name=self.queue_name,
            identifier=self.identifier,
            label=self.label,
            transactional=self.transactional,
            journaling=self.use_journal_queue,
            authentication=self.authenticate,
            privacy=self.encryption_required,
            quota=self.maximum_queue_size,
            journal_quota=self.maximum_journal_size,
            created=self.create_time,
            modified=self.last_modify_time,
            counts=Counts(
                self.message_count, self.bytes_in_queue, self.journal_message_count, self.bytes_in_journal
            ),
        )


class _QueueCounter(_Part):
    name: Text
    messages_in_queue: Number | None = None
    bytes_in_queue: Number | None = None
    messages_in_journal_queue: Number | None = None
    bytes_in_journal_queue: Number | None = None

    def to_counts(self) -> Counts:
        return Counts(
            self.messages_in_queue,
            self.bytes_in_queue,
            self.messages_in_journal_queue,
            self.bytes_in_journal_queue,
        )


class _System(_Part):
    caption: Text | None = None
    version: Text | None = None


class _Service(_Part):
    state: Text | None = None
    start_mode: Text | None = None
    started: Moment = None


class _ServiceCounters(_Part):
    received: Annotated[Number | None, Field(alias="MSMQIncomingMessages")] = None
    sent: Annotated[Number | None, Field(alias="MSMQOutgoingMessages")] = None


class _Output(_Part):
    """Output of the script."""

    format: Literal["mqdssm-machine"]
    version: Literal[1]
    moment: Annotated[Moment, Field(alias="Taken")] = None
    computer_name: Annotated[Text, Field(min_length=1)]
    dns_host_name: Text | None = None
    identifier: GuidText = None
    operating_system: _System | None = None
    service: _Service | None = None
    service_counters: _ServiceCounters | None = None
    queues: Annotated[list[_Queue] | None, BeforeValidator(_as_list)] = None
    queue_counters: Annotated[list[_QueueCounter] | None, BeforeValidator(_as_list)] = None
    problems: Annotated[list[Text] | None, BeforeValidator(_as_list), Field(max_length=PROBLEMS_MAX)] = None

    def report(self, origin: str) -> MachineReport:
        system, service = self.operating_system or _System(), self.service or _Service()
        numbers = self.service_counters or _ServiceCounters()
        counted = sort_instances(
            (self.computer_name, self.dns_host_name),
            ((counter.name, counter.to_counts()) for counter in self.queue_counters or ()),
        )
        return MachineReport(
            origin=origin,
            computer_name=self.computer_name,
            dns_name=self.dns_host_name or None,
            identifier=self.identifier,
            moment=self.moment,
            system=system.caption,
            system_version=system.version,
            service=service.state,
            start_mode=service.start_mode,
            started=service.started,
            received=numbers.received,
            sent=numbers.sent,
            queues=tuple(with_counts((queue.report() for queue in self.queues or ()), counted.queues)),
            is_complete=self.queues is not None,
            own=counted.own,
            outgoing=counted.outgoing,
            problems=tuple(self.problems or ()),
        )


def reports_of(documents: Iterable[Any], origin: str) -> list[MachineReport]:
    """Read the machines of a file.

    Args:
        documents: values of the file; the script's output of each machine, perhaps of several in a list.
        origin: name of the file.

    Raises:
        ReportProblem: a value is not the script's output; the message names its place.
    """
    reports = []
    for number, document in enumerate(_flatten(documents), start=1):
        if not isinstance(document, dict) or document.get("Format") != "mqdssm-machine":
            raise ReportProblem(
                f"object {number} is no output of the script: its Format is not 'mqdssm-machine'"
            )
        try:
            reports.append(_Output.model_validate(document).report(origin))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise ReportProblem(f"object {number}, {place}: {first['msg']}") from None
    return reports


def _flatten(documents: Iterable[Any]) -> Iterable[Any]:
    for document in documents:
        if isinstance(document, list):
            yield from document
        else:
            yield document
