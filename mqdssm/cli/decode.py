"""``mqdssm decode``: show the fields of a captured message."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum, StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli import exits
from mqdssm.cli.run import CommandRun, command_app, print_error

if TYPE_CHECKING:
    from mqdssm.wire.show import Shown

SHOWN_BYTES_MAX: Final = 48
"""Maximum bytes of a value in a table; JSON has all of them."""


class MessageKind(StrEnum):
    """Protocol of a message."""

    REPLICATION = "replication"
    NOTIFICATION = "notification"
    TOPOLOGY = "topology"


def decode(
    run: CommandRun,
    *,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE|-", help="File with the body of one message; - is the standard input."),
    ],
    kind: Annotated[MessageKind, typer.Option("--kind", help="Protocol of the message.")],
) -> int:
    r"""Show the fields of a captured message. Exit code 1 if it is damaged.

    replication: body of a message between directory servers (\[MC-MQDSRP]).
    notification: body of a message that notifies a queue manager of changes (\[MS-MQCN]).
    topology: datagram of a client that looks for directory servers, or the reply (\[MS-MQSD]).
    Of a damaged message the fields before the damage are shown.
    """
    largest, show = _decoder_of(kind)
    with _opened(file) as stream:
        data = stream.read(largest + 1)
    decoded_data = show(data)
    if run.output.is_json:
        from mqdssm.wire.show import to_json_value

        run.output.document(to_json_value("", decoded_data.fields))
    else:
        run.output.pairs(_pairs("", decoded_data.fields))
    if decoded_data.error is None:
        return exits.ExitCode.FINE
    sys.stdout.flush()  # what could be read comes before the error
    return print_error(decoded_data.error, exits.ExitCode.FINDINGS, is_json=run.output.is_json)


def _opened(file: Path) -> AbstractContextManager[IO[bytes]]:
    if str(file) != "-":
        return file.open("rb")
    if sys.stdin is None:  # it was closed before we began
        raise exits.UsageProblem("there is no standard input: name a file")
    return nullcontext(sys.stdin.buffer)


def _decoder_of(kind: MessageKind) -> "tuple[int, Callable[[bytes], Shown]]":
    """Return maximum length and decoder of a kind of message."""
    from mqdssm.wire import mqcn, mqdsrp, mqsd

    match kind:
        case MessageKind.REPLICATION:
            return mqdsrp.MESSAGE_BYTES_MAX, mqdsrp.show_message
        case MessageKind.NOTIFICATION:
            return mqcn.MESSAGE_BYTES_MAX, mqcn.show_message
        case MessageKind.TOPOLOGY:
            return mqsd.PACKET_BYTES_MAX, mqsd.show_message


def _pairs(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Flatten a tree to names and values: ``DirectoryChanges[0].PropertyValue.PROPID_Q_LABEL``."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _pairs(f"{path}.{name}" if path else name, item)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        if not any(isinstance(element, Mapping) for element in value):
            yield path, ", ".join(_text(path, element) for element in value)
            return
        for number, item in enumerate(value):
            yield from _pairs(f"{path}[{number}]", item)
    else:
        yield path, _text(path, value)


def _text(path: str, value: Any) -> str:
    """Format a value for people."""
    from mqdssm.model.guid import Guid
    from mqdssm.model.hresults import name_of
    from mqdssm.wire.show import sequence_number

    if isinstance(value, Guid):
        return str(value)
    if isinstance(value, bytes):
        number = sequence_number(path.rpartition(".")[2], value)
        more = "" if len(value) <= SHOWN_BYTES_MAX else f"… ({len(value)} bytes)"
        return value[:SHOWN_BYTES_MAX].hex() + more if number is None else str(number)
    if isinstance(value, Enum):
        return f"{int(value.value)} {value.name}"
    if path == "Result":
        return f"{value:#010x} {name_of(value)}"
    return str(int(value)) if isinstance(value, int) else value


app = command_app(
    decode,
    connects=False,
    examples=(
        "mqdssm decode --kind replication message.bin",
        "mqdssm decode --kind replication -o json - < message.bin",
        "mqdssm decode --kind notification body.bin",
        "mqdssm decode --kind topology -o json datagram.bin",
    ),
)
