"""``mqdssm decode``: show the fields of a captured message."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from enum import Enum, StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli import exits
from mqdssm.cli.output import Output
from mqdssm.cli.run import CommandRun, declare_command, open_standard_input, print_error
from mqdssm.model.packets import SESSION_PORT

if TYPE_CHECKING:
    from mqdssm.diagnostics.capture import CapturedItem, Endpoint
    from mqdssm.wire.show import Shown

SHOWN_BYTES_MAX: Final = 48
"""Maximum bytes of a value in a table; JSON has all of them."""


class MessageKind(StrEnum):
    """Protocol of a message."""

    REPLICATION = "replication"
    NOTIFICATION = "notification"
    TOPOLOGY = "topology"
    MQQB = "mqqb"


def decode(
    run: CommandRun,
    *,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|-", help="File with one message, or a capture; - is the standard input."
        ),
    ],
    kind: Annotated[MessageKind | None, typer.Option("--kind", help="Protocol of the message.")] = None,
    pcap: Annotated[bool, typer.Option("--pcap", help="FILE is a capture (pcap, pcapng).")] = False,
    port: Annotated[
        int, typer.Option("--port", help="TCP port of queue managers in the capture.")
    ] = SESSION_PORT,
) -> int:
    r"""Show the fields of a captured message, or of all packets of a capture.

    Exit code 1 if it is damaged.

    replication: body of a message between directory servers (\[MC-MQDSRP]).
    notification: body of a message that notifies a queue manager of changes (\[MS-MQCN]).
    topology: datagram of a client that looks for directory servers, or the reply (\[MS-MQSD]).
    mqqb: packet of a session between queue managers (\[MS-MQQB]).
    Of a damaged message the fields before the damage are shown.
    """
    if pcap:
        if kind is not None:
            raise exits.UsageProblem("--pcap shows packets of mqqb: leave out --kind")
        with _open_file(file) as stream:
            return _show_capture(stream, port, run.output)
    if kind is None:
        raise exits.UsageProblem(f"name the protocol with --kind ({', '.join(MessageKind)}), or --pcap")
    largest, show = _decoder_of(kind)
    with _open_file(file) as stream:
        data = stream.read(largest + 1)
    decoded_data = show(data)
    if run.output.is_json:
        from mqdssm.wire.show import to_json_value

        run.output.document(to_json_value("", decoded_data.fields))
    else:
        run.output.pairs(_flatten_value("", decoded_data.fields))
    if decoded_data.error is None:
        return exits.ExitCode.FINE
    sys.stdout.flush()  # what could be read comes before the error
    return print_error(decoded_data.error, exits.ExitCode.FINDINGS, is_json=run.output.is_json)


def _open_file(file: Path) -> AbstractContextManager[IO[bytes]]:
    if str(file) != "-":
        return file.open("rb")
    return nullcontext(open_standard_input())


def _decoder_of(kind: MessageKind) -> "tuple[int, Callable[[bytes], Shown]]":
    """Return maximum length and decoder of a kind of message."""
    from mqdssm.wire import mqcn, mqdsrp, mqsd, packet_view

    match kind:
        case MessageKind.REPLICATION:
            return mqdsrp.MESSAGE_BYTES_MAX, mqdsrp.show_message
        case MessageKind.NOTIFICATION:
            return mqcn.MESSAGE_BYTES_MAX, mqcn.show_message
        case MessageKind.TOPOLOGY:
            return mqsd.PACKET_BYTES_MAX, mqsd.show_message
        case MessageKind.MQQB:
            return packet_view.SHOWN_BYTES_MAX, packet_view.show_packet


def _show_capture(stream: IO[bytes], port: int, output: Output) -> int:
    """Print the packets of a capture, and what is damaged or missing."""
    from mqdssm.diagnostics.capture import Capture

    capture = Capture(port)
    documents = map(_build_document, capture.read(stream))
    packets = problems = 0

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal packets, problems
        for document in documents:
            packets += document["packet"] is not None
            problems += document["error"] is not None
            yield document

    if output.is_json:
        output.json_array(map(_encode_json, counted()))
    else:
        for document in counted():
            _print_item(document, output)
    frames = f", {capture.unreadable_frames} unreadable frames" if capture.unreadable_frames else ""
    output.note(f"{capture.sessions} sessions, {packets} packets, {problems} problems{frames}")
    if not capture.sessions:
        output.note(f"nothing of TCP port {port} is in the capture: name another one with --port")
    return exits.ExitCode.FINDINGS if problems else exits.ExitCode.FINE


def _build_document(item: "CapturedItem") -> dict[str, Any]:
    """Return a packet or a problem of a capture."""
    from mqdssm.wire.packet_view import name_packet, show_packet

    document: dict[str, Any] = {
        "time": datetime.fromtimestamp(item.time, UTC).isoformat(timespec="microseconds"),
        "session": item.session,
        "source": _format_endpoint(item.source),
        "destination": _format_endpoint(item.destination),
    }
    if not item.data:
        return document | {"packet": None, "fields": {}, "error": item.problem}
    decoded_data = show_packet(item.data)
    error = None if decoded_data.error is None else str(decoded_data.error)
    return document | {"packet": name_packet(item.data), "fields": decoded_data.fields, "error": error}


def _format_endpoint(endpoint: "Endpoint") -> str:
    address, port = endpoint
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _encode_json(document: dict[str, Any]) -> str:
    from mqdssm.wire.show import to_json_value

    return json.dumps(to_json_value("", document), ensure_ascii=False)


def _print_item(document: dict[str, Any], output: Output) -> None:
    """Print a packet or a problem for people."""
    name = "problem" if document["packet"] is None else document["packet"] or "damaged packet"
    ends = f"{document['source']} > {document['destination']}"
    output.line(f"{document['time']}  session {document['session']}  {ends}  {name}")
    output.pairs((f"  {field}", text) for field, text in _flatten_value("", document["fields"]))
    if document["error"] is not None:
        output.line(f"  error: {document['error']}")


def _flatten_value(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Flatten a tree to pairs of names and values.

    A name is a path: ``DirectoryChanges[0].PropertyValue.PROPID_Q_LABEL``.
    """
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _flatten_value(f"{path}.{name}" if path else name, item)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        if not any(isinstance(element, Mapping) for element in value):
            yield path, ", ".join(_format_value(path, element) for element in value)
            return
        for number, item in enumerate(value):
            yield from _flatten_value(f"{path}[{number}]", item)
    else:
        yield path, _format_value(path, value)


def _format_value(path: str, value: Any) -> str:
    """Format a value for people."""
    from mqdssm.model.guid import Guid
    from mqdssm.model.hresults import name_of
    from mqdssm.wire.show import read_sequence_number

    if isinstance(value, Guid):
        return str(value)
    if isinstance(value, bytes):
        number = read_sequence_number(path.rpartition(".")[2], value)
        more = "" if len(value) <= SHOWN_BYTES_MAX else f"… ({len(value)} bytes)"
        return value[:SHOWN_BYTES_MAX].hex() + more if number is None else str(number)
    if isinstance(value, Enum):
        return f"{int(value.value)} {value.name}"
    if path == "Result":
        return f"{value:#010x} {name_of(value)}"
    return str(int(value)) if isinstance(value, int) else value


app = declare_command(
    decode,
    connects=False,
    examples=(
        "mqdssm decode --kind replication message.bin",
        "mqdssm decode --kind replication -o json - < message.bin",
        "mqdssm decode --kind notification body.bin",
        "mqdssm decode --kind topology -o json datagram.bin",
        "mqdssm decode --kind mqqb packet.bin",
        "mqdssm decode --pcap capture.pcapng",
    ),
)
