"""Log of a run: kept in memory, and written to a file if the settings name one."""

import contextlib
import errno
import json
import logging
import logging.handlers
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from mqdssm.cli.exits import UsageProblem, translate_message
from mqdssm.model.safe_text import make_lines_visible, make_visible, redact

KEPT_RECORDS: Final = 2000
"""Maximum records of this run in a support bundle."""
SHOWN_WARNINGS: Final = 5
"""Maximum warnings that a run prints; a damaged directory causes one for each object."""
FILE_BYTES_MAX: Final = 1024 * 1024
FILES_KEPT: Final = 2

_ROOT: Final = "mqdssm"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a disk without room, and of a user who has used up a share."""


def _warn(text: str) -> None:
    """Print a warning; a standard error output on a full disk does not fail the run."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"warning: {make_visible(text)}\n")


def _warn_without(file: str | Path, reason: object) -> None:
    _warn(f"the log file {file} cannot be written: {reason}; this run goes on without it")


class _Kept(logging.Handler):
    """Handler that keeps the last records as lines."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: deque[str] = deque(maxlen=KEPT_RECORDS)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


class _Told(logging.Handler):
    """Handler that prints the library's first warnings and counts the others."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            return  # the error itself is told
        self.count += 1
        if self.count <= SHOWN_WARNINGS:
            _warn(translate_message(record.getMessage()))

    def warn_of_rest(self) -> None:
        if self.count > SHOWN_WARNINGS:
            rest = self.count - SHOWN_WARNINGS
            hidden = f"{rest} more warnings are" if rest > 1 else "1 more warning is"
            _warn(f"{hidden} not shown; with MQDSSM_LOG_FILE=FILE they are all in FILE")


class _RedactingFormatter(logging.Formatter):
    """Formatter without secrets; a record is one line, plus those of its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        return make_visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  logging's own name
        return make_lines_visible(super().formatException(ei))


class _JsonFormatter(_RedactingFormatter):
    """Formatter that makes a record a JSON document in one line."""

    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        if record.exc_info:
            document["traceback"] = redact(self.formatException(record.exc_info))
        return json.dumps(document, ensure_ascii=True)


class _LogFile(logging.handlers.RotatingFileHandler):
    """Log file; a write error is reported once and does not fail the run."""

    _failed = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._failed:
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  of logging
        del record
        self._failed = True
        error = sys.exc_info()[1]
        _warn_without(self.baseFilename, error.strerror if isinstance(error, OSError) else error)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written is written again
            super().close()


_FORMAT: Final = _RedactingFormatter("%(asctime)s %(levelname)s %(name)s %(message)s")
_kept = _Kept()
_kept.setFormatter(_FORMAT)


@contextlib.contextmanager
def record_log(*, debug: bool) -> Iterator[None]:
    """Record the log while the block runs; with `debug` print it, too."""
    logger = logging.getLogger(_ROOT)
    console_handler: logging.Handler = _Told()
    if debug:
        console_handler = logging.StreamHandler(sys.stderr)
        console_handler.setFormatter(_FORMAT)
    before = (logger.level, logger.propagate, list(logger.handlers))
    logger.setLevel(logging.DEBUG if debug else logging.INFO)
    logger.propagate = False
    for handler in (_kept, console_handler):
        logger.addHandler(handler)
    try:
        yield
    finally:
        if isinstance(console_handler, _Told):
            console_handler.warn_of_rest()
        level, logger.propagate, handlers = before
        logger.setLevel(level)
        for handler in [handler for handler in logger.handlers if handler not in handlers]:
            logger.removeHandler(handler)
            handler.close()


def to_stderr(*, is_json: bool) -> None:
    """Print all warnings of a long run with their times.

    Args:
        is_json: one JSON document in each line, with time, level, logger and message.
    """
    logger = logging.getLogger(_ROOT)
    console_handlers = [handler for handler in logger.handlers if _is_console(handler)]
    is_debug = not any(isinstance(handler, _Told) for handler in console_handlers)
    if is_debug and not is_json:
        return  # everything is printed already
    for handler in console_handlers:
        logger.removeHandler(handler)
    console_handler = logging.StreamHandler(sys.stderr)
    console_handler.setLevel(logging.DEBUG if is_debug else logging.WARNING)
    console_handler.setFormatter(_JsonFormatter() if is_json else _FORMAT)
    if not is_debug:  # the command line prints its errors itself
        console_handler.addFilter(lambda record: not record.name.startswith(f"{_ROOT}.cli."))
    logger.addHandler(console_handler)


def _is_console(handler: logging.Handler) -> bool:
    return isinstance(handler, _Told) or (
        type(handler) is logging.StreamHandler and handler.formatter is _FORMAT
    )


def to_file(file: Path | None) -> None:
    """Write the log of this run also to a rotating file; a full disk is a warning.

    Raises:
        UsageProblem: it cannot be written, and not because the disk is full.
    """
    if file is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handler = _LogFile(
            file, maxBytes=FILE_BYTES_MAX, backupCount=FILES_KEPT, encoding="utf-8", errors="backslashreplace"
        )
    except OSError as error:
        if error.errno in _FULL:
            _warn_without(file, error.strerror)
            return
        raise UsageProblem(f"the log file {file} cannot be written: {error.strerror}") from None
    handler.setFormatter(_FORMAT)
    logging.getLogger(_ROOT).addHandler(handler)


def read_kept_lines() -> Sequence[str]:
    """Return the log of this run so far."""
    return tuple(_kept.lines)
