"""``mqdssm`` as the minor version before or after this one could be.

The next version sends fields and values that this one does not know, and has newer formats. The previous one
leaves out fields that may be missing, and has older formats. Both are this program with other constants,
and with replies that are changed on their way.
"""

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, RootModel

import mqdssm
from mqdssm.cli.main import run
from mqdssm.drivers.queue_manager import message_schema
from mqdssm.server import backup, control_protocol, folder

ADDED: Final = "of_the_next_version"
_TESTS: Final = str(Path(__file__).parents[2])
_LOADING: Final = f"import sys; sys.path.append({_TESTS!r})"
NEXT: Final = (
    sys.executable,
    "-c",
    f"{_LOADING}; from support.versions.minor_versions import run_next; run_next()",
)
"""Command line of the next minor version."""
PREVIOUS: Final = (
    sys.executable,
    "-c",
    f"{_LOADING}; from support.versions.minor_versions import run_previous; run_previous()",
)
"""Command line of the previous minor version."""
MISSING: Final = frozenset({"oldest", "mqdssm", "own_objects"})
"""Fields that have defaults, and that the previous version does not have."""
_FREE: Final = frozenset({"hosts", "attributes"})
"""Fields whose members are no fields."""
NEXT_FORMAT: Final = folder.FORMAT + 1
NEXT_STEP: Final = ("CREATE TABLE of_the_next_version (number INTEGER)",)
NEXT_VERSION: Final = "0.{}.0".format(int(mqdssm.__version__.split(".")[1]) + 1)


def grown(content: Any) -> Any:
    """Return a JSON value with a further field in each object, and a state that is new."""
    if isinstance(content, list):
        return [grown(item) for item in content]
    if not isinstance(content, dict):
        return content
    fields = {name: value if name in _FREE else grown(value) for name, value in content.items()}
    if "in_flight" in fields:
        fields["state"] = "RESUMING"
    return {**fields, ADDED: {"a": [1]}}


def shrunk(content: Any) -> Any:
    """Return a JSON value without the fields that the previous version did not have."""
    if isinstance(content, list):
        return [shrunk(item) for item in content]
    if not isinstance(content, dict):
        return content
    return {name: shrunk(value) for name, value in content.items() if name not in MISSING}


def _replace_replies(change: Callable[[Any], Any]) -> None:
    """Send other first documents and replies; requests stay as they are."""
    send = control_protocol.send_document

    def send_changed(connection: socket.socket, document: BaseModel, bytes_max: int) -> None:
        is_changed = bytes_max == control_protocol.REPLY_BYTES_MAX or isinstance(
            document, control_protocol.Hello
        )
        sent: BaseModel = RootModel(change(document.model_dump(mode="json"))) if is_changed else document
        send(connection, sent, bytes_max)

    control_protocol.send_document = send_changed


def _become(version: str, number: int, steps: tuple[tuple[str, ...], ...]) -> None:
    """Set the version of mqdssm, the format of folders and the steps of the database of messages."""
    named: Any = {mqdssm: "__version__", folder: "FORMAT", backup: "FORMAT"}
    for module, name in named.items():
        setattr(module, name, version if module is mqdssm else number)
    message_schema.STEPS = steps


def run_next() -> None:
    """Run the command line as the next minor version."""
    _become(NEXT_VERSION, NEXT_FORMAT, (*message_schema.STEPS, NEXT_STEP))
    protocol: Any = control_protocol
    protocol.PROTOCOL_VERSION += 1
    _replace_replies(grown)
    run()


def run_previous() -> None:
    """Run the command line as the previous minor version."""
    _become("0.0.9", folder.FORMAT - 1, message_schema.STEPS[:-1])
    _replace_replies(shrunk)
    run()
