"""The log of a run: kept in memory, and written to a file where the settings name one."""

import contextlib
import logging
import logging.handlers
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from mqdssm.cli.exits import UsageProblem
from mqdssm.model.escapes import visible, visible_lines
from mqdssm.model.redaction import redact

KEPT_RECORDS: Final = 2000
"""Records of this run that a support bundle takes along."""
SHOWN_WARNINGS: Final = 5
"""Warnings that a run tells; a damaged directory has as many as objects."""
FILE_BYTES_MAX: Final = 1024 * 1024
FILES_KEPT: Final = 2

_ROOT: Final = "mqdssm"


class _Kept(logging.Handler):
    """The last records, as lines."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: deque[str] = deque(maxlen=KEPT_RECORDS)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


class _Told(logging.Handler):
    """Warnings of the library, for people: the first few, and how many more there were."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            return  # the error itself is told
        self.count += 1
        if self.count <= SHOWN_WARNINGS:
            sys.stderr.write(f"warning: {visible(redact(record.getMessage()))}\n")

    def tell_rest(self) -> None:
        if self.count > SHOWN_WARNINGS:
            sys.stderr.write(
                f"warning: {self.count - SHOWN_WARNINGS} more (MQDSSM_LOG_FILE keeps them all)\n"
            )


class _RedactingFormatter(logging.Formatter):
    """Lines of a log, without secrets; a record is one line, and as many as its traceback has."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  logging's own name
        return visible_lines(super().formatException(ei))


class _LogFile(logging.handlers.RotatingFileHandler):
    """A log file whose failure is told once, and is no failure of the run."""

    _failed = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self._failed:
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  of logging
        del record
        self._failed = True
        error = sys.exc_info()[1]
        reason = error.strerror if isinstance(error, OSError) else error
        sys.stderr.write(
            f"warning: the log file {visible(self.baseFilename)} cannot be written: {reason}; "
            "this run goes on without it\n"
        )

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what could not be written is written again
            super().close()


_FORMAT: Final = _RedactingFormatter("%(asctime)s %(levelname)s %(name)s %(message)s")
_kept = _Kept()
_kept.setFormatter(_FORMAT)


@contextlib.contextmanager
def recording(*, debug: bool) -> Iterator[None]:
    """Keep the log of what happens meanwhile; with `debug` show it, too."""
    logger = logging.getLogger(_ROOT)
    told: logging.Handler = _Told()
    if debug:
        told = logging.StreamHandler(sys.stderr)
        told.setFormatter(_FORMAT)
    before = (logger.level, logger.propagate, list(logger.handlers))
    logger.setLevel(logging.DEBUG if debug else logging.INFO)
    logger.propagate = False
    for handler in (_kept, told):
        logger.addHandler(handler)
    try:
        yield
    finally:
        if isinstance(told, _Told):
            told.tell_rest()
        level, logger.propagate, handlers = before
        logger.setLevel(level)
        for handler in [one for one in logger.handlers if one not in handlers]:
            logger.removeHandler(handler)
            handler.close()


def to_file(file: Path | None) -> None:
    """Write the log of this run to a file, too; a full one is put aside.

    Raises:
        UsageProblem: it cannot be written.
    """
    if file is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handler = _LogFile(
            file, maxBytes=FILE_BYTES_MAX, backupCount=FILES_KEPT, encoding="utf-8", errors="backslashreplace"
        )
    except OSError as error:
        raise UsageProblem(f"the log file {file} cannot be written: {error.strerror}") from None
    handler.setFormatter(_FORMAT)
    logging.getLogger(_ROOT).addHandler(handler)


def kept() -> Sequence[str]:
    """The log of this run so far."""
    return tuple(_kept.lines)
