"""Exit codes, messages of errors, and signals that end a run."""

import contextlib
import errno
import json
import re
import signal
import threading
from collections.abc import Iterator
from enum import IntEnum
from types import FrameType
from typing import Any, Final, Never

from mqdssm import errors
from mqdssm.directory.log_in import LOG_IN_NAMES
from mqdssm.model.safe_text import make_visible, redact

SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
EXIT_CODE_BASE: Final = 128
"""Base of the exit code after a signal, as in shells; the number of the signal is added."""


class Terminated(KeyboardInterrupt):
    """Exception for a signal that ends the program.

    Like KeyboardInterrupt it is no `Exception`.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


@contextlib.contextmanager
def raise_on_signals() -> Iterator[None]:
    """Raise `Terminated` in the main thread for signals that end a program.

    Ignored signals stay ignored, as under ``nohup``. After the first signal further ones are ignored, so that
    nothing interrupts the clean-up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # where no signal arrives
        return
    numbers = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]

    def end(number: int, _: FrameType | None) -> Never:
        for signal_number in numbers:
            signal.signal(signal_number, signal.SIG_IGN)
        raise Terminated(number)

    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


INTERRUPTED: Final = 130
"""Exit code after SIGINT, as in shells."""
PIPE_CLOSED: Final = 141
"""Exit code after SIGPIPE, as in shells: the reader of the output has closed it."""


_ARGUMENTS: Final = (
    *LOG_IN_NAMES,
    "forest",
    "catalog",
    "read_only",
    "password_file",
    "recursive",
    "limit",
    "listen",
)
OPTION_OF_ARGUMENT: Final = {
    **{name: f"--{name.replace('_', '-')}" for name in _ARGUMENTS},
    "password": "--password-file",
}
"""Argument that messages of the library name, as ``tls='none'`` -> option."""
_ARGUMENT: Final = re.compile(
    rf"\b(?P<name>{'|'.join(OPTION_OF_ARGUMENT)})=(?:True\b|'(?P<value>[\w.-]+)'|(?=[\s,;:)]|$))"
)
_QUOTED: Final = re.compile(r"'[^'\n]*'")


class ExitCode(IntEnum):
    """Exit codes of all commands."""

    FINE = 0
    FINDINGS = 1
    USAGE = 2
    NOT_CONNECTED = 3
    NOT_FOUND = 4
    EXISTS = 5
    OTHER = 6


class UsageProblem(errors.ConfigError):
    """Invalid input: command line, environment or configuration file."""


_CODES: Final[tuple[tuple[type[BaseException], ExitCode], ...]] = (  # the first that fits
    (UsageProblem, ExitCode.USAGE),
    (errors.DirectoryNotConnected, ExitCode.NOT_CONNECTED),
    (errors.SourceNotConnected, ExitCode.NOT_CONNECTED),
    (errors.NotDelivered, ExitCode.NOT_CONNECTED),
    (errors.MessageRejected, ExitCode.FINDINGS),
    (errors.ObjectNotFound, ExitCode.NOT_FOUND),
    (errors.AttributeNotFound, ExitCode.NOT_FOUND),
    (errors.ObjectAlreadyExists, ExitCode.EXISTS),
    (errors.MqdssmError, ExitCode.OTHER),  # stored bytes that are damaged are ValueErrors, too
    (ValueError, ExitCode.USAGE),
)


def code_of(error: BaseException) -> int:
    """Return the exit code for an error."""
    if isinstance(error, Terminated):
        return EXIT_CODE_BASE + error.number
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if is_closed_pipe(error):
        return PIPE_CLOSED
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.OTHER)


def is_closed_pipe(error: BaseException) -> bool:
    """Return True if the reader has closed the output."""
    return isinstance(error, OSError) and error.errno in {errno.EPIPE, errno.ESHUTDOWN}


def words_of(error: BaseException) -> str:
    """Return an error's message in one line, in words of the command line.

    The message contains no secrets.
    """
    return translate_message(_message_of(error))


def translate_message(text: str) -> str:
    r"""Return a message of the library in words of the command line.

    The result is one line without secrets.
    Arguments become options, as ``tls='none'`` becomes ``--tls none``. Backslashes in quotes stand once, as
    they were typed.
    """
    safe = redact(text)  # first: what is removed must not be taken for a value of an option
    options = _ARGUMENT.sub(
        lambda match: " ".join(filter(None, (OPTION_OF_ARGUMENT[match["name"]], match["value"]))), safe
    )
    return make_visible(_QUOTED.sub(lambda match: match[0].replace("\\\\", "\\"), options))


def _message_of(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted"
    problems = getattr(error, "errors", None)
    if callable(problems) and isinstance(error, ValueError):  # pydantic's, whose text takes several lines
        return "; ".join(str(problem["msg"]) for problem in problems(include_url=False))
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, errors.MqdssmError | ValueError):
        return str(error) or type(error).__name__
    # an unexpected error
    return f"unexpected {type(error).__name__}: {error}; --debug shows where"


def as_json(error: BaseException, code: int) -> str:
    """Return an error as one line of JSON for programs."""
    document: dict[str, Any] = {"error": type(error).__name__, "message": words_of(error), "exit_code": code}
    if isinstance(error, errors.DecodeError):
        document |= {"section": error.section, "field": error.field, "offset": error.offset}
    if isinstance(error, errors.DirectoryError):
        document["message"] = translate_message(error.message)
        document["result"] = error.result.value
        document["dn"] = error.dn
        document["ldap_code"] = error.ldap_code
        document["server_text"] = redact(error.server_text)
        document["hint"] = translate_message(error.hint)
    return json.dumps(document, ensure_ascii=True)
