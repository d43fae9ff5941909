"""``mqdssm send``: send a message to a private queue."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli import exits
from mqdssm.cli.endpoints import parse_endpoint
from mqdssm.cli.run import CommandRun, declare_command, open_standard_input
from mqdssm.model.packets import SESSION_PORT
from mqdssm.model.transport import (
    BODY_BYTES_MAX,
    DEFAULT_PRIORITY,
    PRIORITY_MAX,
    TIME_TO_REACH_QUEUE_S,
)

if TYPE_CHECKING:
    from mqdssm.drivers.tcp.network import TcpSettings
    from mqdssm.errors import NotDelivered

LISTEN: Final = f"0.0.0.0:{SESSION_PORT}"
WAIT_MAX_S: Final = 86_400.0
_RETRY_S: Final = 1.0
_RETRY_MAX_S: Final = 5.0
_EXPIRY_S: Final = 2  # the time when a message was sent has no fractions: it expires behind --wait
_FLUSH_S: Final = 1.0  # for recoverable messages of earlier commands


class AcknowledgeOption(StrEnum):
    """Acknowledgement that can be requested."""

    REACH = "reach"
    RECEIVE = "receive"


Destination = Annotated[
    str, typer.Argument(metavar="FORMAT_NAME", help="Private queue: DIRECT=TCP, DIRECT=OS or PRIVATE.")
]
Body = Annotated[
    Path, typer.Option("--body", metavar="FILE|-", help="Content of the message; - is the standard input.")
]
Label = Annotated[str, typer.Option("--label", metavar="TEXT", help="Label, up to 249 characters.")]
Priority = Annotated[
    int, typer.Option("--priority", min=0, max=PRIORITY_MAX, metavar="N", help="Priority; 7 goes first.")
]
Ack = Annotated[
    AcknowledgeOption | None,
    typer.Option("--ack", help="Wait until the message is in its queue, or until a program receives it."),
]
Recoverable = Annotated[
    bool,
    typer.Option(
        "--recoverable",
        help="Keep the message on the disk until the other queue manager has it on its own.",
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="Folder of recoverable messages. A command waits until no other one uses it. Default: one of "
        "this user and command.",
    ),
]
Wait = Annotated[
    float,
    typer.Option("--wait", min=0.1, max=WAIT_MAX_S, metavar="SECONDS", help="Longest time to wait."),
]
Port = Annotated[
    int, typer.Option("--port", min=1, max=65_535, metavar="N", help="TCP port of other queue managers.")
]
Listen = Annotated[
    str,
    typer.Option(
        "--listen", metavar="ADDRESS:PORT", help="With --ack: address to which acknowledgements come."
    ),
]


def send(
    run: CommandRun,
    *,
    format_name: Destination,
    body: Body,
    label: Label = "",
    priority: Priority = DEFAULT_PRIORITY,
    recoverable: Recoverable = False,
    state: State = None,
    ack: Ack = None,
    wait: Wait = 30.0,
    port: Port = SESSION_PORT,
    listen: Listen = LISTEN,
) -> None:
    r"""Send a message to a private queue of MSMQ, and wait for its delivery.

    The protocol is \[MS-MQQB].
    A recoverable message survives the end of this command and of the computer.
    Without --ack the other queue manager has taken the message, which may yet find no such queue. Exit code
    1: a negative acknowledgement, which is named. Exit code 3: not delivered within --wait seconds.
    """
    from mqdssm.errors import NotDelivered
    from mqdssm.messaging import QueueManager

    content = _read(body)
    if state is not None and not recoverable:
        raise exits.UsageProblem("--state is for recoverable messages: give --recoverable, too")
    address = None if ack is None else parse_endpoint("--listen", listen, SESSION_PORT, any_port=True)
    folder = (state or find_default_folder("send")) if recoverable else None
    manager = QueueManager(folder, listen=address, port=port, settings=_build_settings(wait))
    with lock_folder(folder, wait), manager:
        sent = manager.send(
            format_name,
            content,
            label=label,
            priority=priority,
            recoverable=recoverable,
            time_to_reach_queue=TIME_TO_REACH_QUEUE_S if recoverable else math.ceil(wait) + _EXPIRY_S,
            acknowledge=None if ack is None else ack.value,
        )
        try:
            delivery = sent.wait(wait)
        except NotDelivered as error:
            raise _add_kept_hint(error, folder, is_sent=sent.is_sent) from error
        manager.close(_FLUSH_S)
    document: dict[str, Any] = {"id": str(sent.identifier), "delivery": delivery.value}
    run.output.answer(document, f"{sent.identifier}  {delivery.value}")


def find_default_folder(command: str) -> Path:
    """Return the folder for recoverable messages of a command."""
    return Path(typer.get_app_dir("mqdssm")) / "messages" / command


@contextmanager
def lock_folder(folder: Path | None, wait_s: float) -> Iterator[None]:
    """Wait until no other command uses a folder, and keep it for this one.

    Raises:
        ConfigError: another command has it for longer, or it cannot be made.
    """
    from mqdssm.errors import convert_folder_errors
    from mqdssm.events.durable_files import lock_file

    if folder is None:
        yield
        return
    with convert_folder_errors(f"the folder {folder} cannot be made"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    message = (
        f"{folder}: another command uses this folder, in another process: wait for its end, or give this one "
        "an own folder with --state DIR"
    )
    with lock_file(folder / "send.lock", wait_s=wait_s, message=message):
        yield


def _add_kept_hint(error: "NotDelivered", folder: Path | None, *, is_sent: bool) -> "NotDelivered":
    """Add to an error that the message is kept, if it is."""
    from mqdssm.errors import NotDelivered

    if folder is None or is_sent:
        return error
    return NotDelivered(f"{error} The message stays in {folder}: the next recoverable message takes it along")


def _read(body: Path) -> bytes:
    """Read the content of the message.

    Raises:
        UsageProblem: there is no standard input, or the content is too long.
    """
    if str(body) != "-":
        with body.open("rb") as file:
            content = file.read(BODY_BYTES_MAX + 1)
    else:
        content = open_standard_input().read(BODY_BYTES_MAX + 1)
    if len(content) > BODY_BYTES_MAX:
        raise exits.UsageProblem(f"--body {body} is longer than a message can be, {BODY_BYTES_MAX} bytes")
    return content


def _build_settings(wait_s: float) -> "TcpSettings":
    """Return settings for one message.

    The acknowledgement comes at once, and attempts follow soon.
    """
    from dataclasses import replace

    from mqdssm.messaging.queue_manager import MESSAGING

    sessions = replace(
        MESSAGING.sessions,
        window_size=1,  # the peer acknowledges after half a window (decision T26)
        retry_connect_s=min(_RETRY_S, wait_s),
        retry_connect_max_s=_RETRY_MAX_S,
    )
    return replace(MESSAGING, sessions=sessions)


app = declare_command(
    send,
    connects=False,
    examples=(
        r"mqdssm send 'DIRECT=TCP:10.0.0.5\private$\orders' --body order.xml --label 'Order 17'",
        r"mqdssm send 'DIRECT=OS:web01\private$\orders' --body - --ack receive --wait 60 < order.xml",
    ),
)
