"""``mqdssm receive``: print the messages that arrive in a private queue."""

import base64
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli.endpoints import parse_endpoint
from mqdssm.cli.messages.send import LISTEN, Port, find_default_folder, lock_folder
from mqdssm.cli.run import CommandRun, declare_command
from mqdssm.cli.watch.termination import end_on_signals
from mqdssm.model.packets import SESSION_PORT

if TYPE_CHECKING:
    from mqdssm.model.transport import Message

SHOWN_CHARS_MAX: Final = 60
"""Maximum characters of a body in the output for people; JSON has whole bodies."""
_FLUSH_S: Final = 1.5  # shorter than the time after which `ending` ends the program

QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue, without private$.")]
Listen = Annotated[str, typer.Option("--listen", metavar="ADDRESS:PORT", help="Address to listen on.")]
Count = Annotated[int | None, typer.Option("--count", min=1, metavar="N", help="End after so many messages.")]


State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="Folder of the queue and its recoverable messages; only one command at a time can use it. "
        "Default: one of this user and command.",
    ),
]


def receive(
    run: CommandRun,
    *,
    queue: QueueName,
    listen: Listen = LISTEN,
    count: Count = None,
    state: State = None,
    port: Port = SESSION_PORT,
) -> None:
    r"""Print the messages that arrive in a private queue of this command.

    The protocol is \[MS-MQQB]. The command runs until Ctrl-C.
    Other machines send to DIRECT=TCP:<address>\\private$\\QUEUE. A recoverable message is removed from the
    disk after it was printed: if the command is killed in between, the next one prints it again, with the
    same id. JSON output has one document in each line, with the body in base64.
    """
    from mqdssm.messaging import QueueManager

    address = parse_endpoint("--listen", listen, SESSION_PORT, any_port=True)
    folder = state or find_default_folder("receive")
    manager = QueueManager(folder, listen=address, port=port, queues=(queue,))
    with end_on_signals() as end, lock_folder(folder, 0), manager:
        private_queue = manager.open(queue)
        end.on_signal(private_queue.close)
        run.output.note(f"listening on {manager.listens_on or address}: Ctrl-C ends it")
        received = 0
        while received != count:
            with private_queue.receiving() as message:  # removed when it is printed
                if message is None:
                    break
                _print(run, message)
            received += 1
        manager.close(_FLUSH_S)


def _print(run: CommandRun, message: "Message") -> None:
    if run.output.is_json:
        run.output.json_line(json.dumps(_build_document(message), ensure_ascii=False))
    else:
        run.output.line(_format_message(message))
    sys.stdout.flush()


def _build_document(message: "Message") -> dict[str, Any]:
    from mqdssm.model.transport import NO_MESSAGE

    return {
        "id": str(message.identifier),
        "source": str(message.identifier.source),
        "class": _name_class(message.message_class),
        "label": message.label,
        "priority": message.priority,
        "sent": _format_time(message),
        "body": base64.b64encode(message.body).decode("ascii"),
        "body_type": message.body_type,
        "correlation": None if message.correlation == NO_MESSAGE else str(message.correlation),
    }


def _format_message(message: "Message") -> str:
    """Return a message as one line for people."""
    text = message.body[:SHOWN_CHARS_MAX].decode("utf-8", "replace")
    octets = f"{len(message.body)} bytes"
    return f"{_format_time(message)}  {message.identifier}  {message.label!r}  {octets}  {text}"


def _name_class(message_class: int) -> str:
    from mqdssm.model.transport import MessageClass

    names = {int(kind): kind.name for kind in MessageClass}
    return names.get(message_class, f"{message_class:#06x}")


def _format_time(message: "Message") -> str:
    return datetime.fromtimestamp(message.sent_at, UTC).isoformat()


app = declare_command(
    receive,
    connects=False,
    examples=(
        "mqdssm receive orders",
        "mqdssm receive orders --listen 10.0.0.5:1801 --count 1 -o json",
    ),
)
