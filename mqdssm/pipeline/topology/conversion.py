"""Conversion of the queues of a source to definitions of another message broker."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mqdssm.errors import ConfigError, convert_folder_errors
from mqdssm.events.durable_files import make_empty_folder, write_atomically
from mqdssm.pipeline.engines import EngineKind
from mqdssm.pipeline.topology import artemis, kafka, rabbitmq, servicebus
from mqdssm.pipeline.topology.gaps import Feature, Gap, find_gaps, format_markdown
from mqdssm.pipeline.topology.model import QueueTopology, read_topology
from mqdssm.pipeline.topology.names import NameCode, NameKind, NameTable, SourceName
from mqdssm.pipeline.topology.private_queues import PrivateQueues, read_private_queues

if TYPE_CHECKING:
    from mqdssm.pipeline.validate.sources import ValidationSource

NAMES_FILE: Final = "names.json"
REPORT_FILE: Final = "report.json"
REPORT_PAGE: Final = "report.md"


class Broker(StrEnum):
    """Message broker that definitions are made for."""

    RABBITMQ = "rabbitmq"
    SERVICE_BUS = "servicebus"
    ARTEMIS = "artemis"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class _Maker:
    title: str
    code: NameCode
    instead: Mapping[Feature, str]
    files: Callable[[QueueTopology, NameTable], Iterator[tuple[str, str]]]


_MAKERS: Final[Mapping[Broker, _Maker]] = {
    Broker.RABBITMQ: _Maker("RabbitMQ", rabbitmq.CODE, rabbitmq.INSTEAD, rabbitmq.format_files),
    Broker.SERVICE_BUS: _Maker(
        "Azure Service Bus", servicebus.CODE, servicebus.INSTEAD, servicebus.format_files
    ),
    Broker.ARTEMIS: _Maker("Apache ActiveMQ Artemis", artemis.CODE, artemis.INSTEAD, artemis.format_files),
    Broker.KAFKA: _Maker("Apache Kafka", kafka.CODE, kafka.INSTEAD, kafka.format_files),
}


@dataclass(frozen=True, slots=True)
class Conversion:
    """Result of a conversion.

    Attributes:
        broker: the broker.
        source: where from, for people.
        engine: that read the source.
        queues: number of queues.
        unreadable: number of queues without a readable path name, which are left out.
        private: the private queues among them, with files that could not be added.
        files: names of the files that were written.
        gaps: features without a counterpart.
    """

    broker: Broker
    source: str
    engine: str
    queues: int
    unreadable: int
    private: PrivateQueues
    files: tuple[str, ...]
    gaps: tuple[Gap, ...]

    def to_document(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {
            "broker": self.broker.value,
            "source": self.source,
            "engine": self.engine,
            "queues": self.queues,
            "unreadable": self.unreadable,
            "private": len(self.private.queues),
            "incomplete": list(self.private.incomplete),
            "not_added": {problem.file: problem.problem for problem in self.private.problems},
            "files": list(self.files),
            "gaps": [gap.to_document() for gap in self.gaps],
        }


def code_of(broker: Broker) -> NameCode:
    """Return the encoding of names for a broker."""
    return _MAKERS[broker].code


def convert(
    source: "ValidationSource",
    broker: Broker,
    folder: Path,
    added: Sequence[Path] = (),
    *,
    engine: str = EngineKind.LOCAL.value,
) -> Conversion:
    """Write the definitions for a broker, the names and the report.

    Args:
        source: an opened export or directory.
        broker: the broker.
        folder: new or empty.
        added: files of machines with their private queues, or folders of such files.
        engine: that read the source.

    Raises:
        ConfigError: two queues would have one name, a path does not exist, or nothing can be written.
    """
    make_empty_folder(folder)
    maker = _MAKERS[broker]
    private = read_private_queues(added)
    topology = read_topology(source, private.queues)
    names = NameTable(maker.code)
    texts = dict(maker.files(topology, names))
    gaps = find_gaps(topology, maker.instead)
    texts[NAMES_FILE] = _format_json({"broker": broker.value, "names": list(_name_rows(topology, names))})
    files = (*texts, REPORT_FILE, REPORT_PAGE)
    result = Conversion(
        broker, topology.source, engine, len(topology.queues), topology.unreadable, private, files, gaps
    )
    texts[REPORT_FILE] = _format_json(result.to_document())
    facts = (
        ("Source", topology.source),
        ("Queues", f"{result.queues}, {len(private.queues)} of them private"),
        ("Left out", str(result.unreadable)),
    )
    texts[REPORT_PAGE] = format_markdown(f"From MSMQ to {maker.title}", facts, gaps)
    with convert_folder_errors(f"{folder} cannot be written"):
        for name, text in texts.items():
            write_atomically(folder / name, [text])
    return result


def _name_rows(topology: QueueTopology, names: NameTable) -> Iterator[dict[str, str]]:
    """Yield the names of the conversion, with facts that only the source has."""
    queues = {queue.path: queue for queue in topology.queues}
    sids = {name: sid for sid, name in topology.accounts.items()}
    for source, code in names.list_items():
        row = {"kind": source.kind.value, "source": source.text, "name": code}
        queue = queues.get(source.text) if source.kind is NameKind.QUEUE else None
        if queue is not None:
            facts = {"identifier": queue.identifier, "label": queue.label, "type": queue.service_type}
            row |= {key: value for key, value in facts.items() if value}
        elif source.kind is NameKind.ACCOUNT:
            row["sid"] = sids[source.name]
        yield row


def load_names(folder: Path) -> dict[str, SourceName]:
    """Read the names of a conversion: name in the broker -> name in MSMQ.

    Raises:
        ConfigError: the file is missing or no file of names.
    """
    path = folder / NAMES_FILE
    try:
        rows = json.loads(path.read_bytes())["names"]
        return {row["name"]: _source_of(NameKind(row["kind"]), row["source"]) for row in rows}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is no file of names") from error


def _source_of(kind: NameKind, text: str) -> SourceName:
    return SourceName.of_path(kind, text) if kind.has_computer else SourceName(kind, text)


def _format_json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"
