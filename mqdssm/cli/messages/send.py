"""``mqdssm send``: send a message to a private queue."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli import exits
from mqdssm.cli.discovery.endpoints import endpoint
from mqdssm.cli.run import CommandRun, command_app
from mqdssm.model.packets import SESSION_PORT
from mqdssm.model.transport import BODY_BYTES_MAX, DEFAULT_PRIORITY, PRIORITY_MAX

if TYPE_CHECKING:
    from mqdssm.drivers.tcp_network import TcpSettings

LISTEN: Final = f"0.0.0.0:{SESSION_PORT}"
WAIT_MAX_S: Final = 86_400.0
_RETRY_S: Final = 1.0
_RETRY_MAX_S: Final = 5.0


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
    ack: Ack = None,
    wait: Wait = 30.0,
    port: Port = SESSION_PORT,
    listen: Listen = LISTEN,
) -> None:
    r"""Send a message to a private queue of MSMQ, and wait for its delivery.

    The protocol is \[MS-MQQB].
    Without --ack the other queue manager has taken the message, which may yet find no such queue. Exit code
    1: a negative acknowledgement, which is named. Exit code 3: not delivered within --wait seconds.
    """
    from mqdssm.messaging import QueueManager

    content = _read(body)
    address = None if ack is None else endpoint("--listen", listen, SESSION_PORT, any_port=True)
    with QueueManager(listen=address, port=port, settings=_settings(wait)) as manager:
        sent = manager.send(
            format_name,
            content,
            label=label,
            priority=priority,
            time_to_reach_queue=max(1, int(wait)),
            acknowledge=None if ack is None else ack.value,
        )
        delivery = sent.wait(wait)
    document: dict[str, Any] = {"id": str(sent.identifier), "delivery": delivery.value}
    run.output.answer(document, f"{sent.identifier}  {delivery.value}")


def _read(body: Path) -> bytes:
    """Read the content of the message.

    Raises:
        UsageProblem: there is no standard input, or the content is too long.
    """
    if str(body) != "-":
        with body.open("rb") as file:
            content = file.read(BODY_BYTES_MAX + 1)
    elif sys.stdin is None:
        raise exits.UsageProblem("there is no standard input: name a file")
    else:
        content = sys.stdin.buffer.read(BODY_BYTES_MAX + 1)
    if len(content) > BODY_BYTES_MAX:
        raise exits.UsageProblem(f"--body {body} is longer than a message can be, {BODY_BYTES_MAX} bytes")
    return content


def _settings(wait_s: float) -> "TcpSettings":
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


app = command_app(
    send,
    connects=False,
    examples=(
        r"mqdssm send 'DIRECT=TCP:10.0.0.5\private$\orders' --body order.xml --label 'Order 17'",
        r"mqdssm send 'DIRECT=OS:web01\private$\orders' --body - --ack receive --wait 60 < order.xml",
    ),
)
