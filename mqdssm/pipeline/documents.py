"""Documents that one run writes and a later run reads.

A document is JSON of pydantic models, and replaced atomically.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from mqdssm.errors import ConfigError
from mqdssm.events.durable_files import replace_file


class Document(BaseModel):
    """Base of documents and their parts.

    Documents are immutable, and refuse fields that the program does not know.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


Model = TypeVar("Model", bound=Document)


def read_document(model: type[Model], path: Path, *, other: str, absent: str = "") -> Model:
    """Read a JSON document and validate it.

    Args:
        model: pydantic model of the document.
        path: of its file.
        other: message for a file that does not fit the model; it follows the path.
        absent: message for a missing file; empty: that it cannot be read.

    Raises:
        ConfigError: the file is missing, cannot be read, or does not fit the model.
    """
    try:
        return model.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise ConfigError(absent or f"{path} cannot be read: {error.strerror}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise ConfigError(f"{path} {other}") from error


def write_document(path: Path, document: Document, *, mode: int | None = None) -> None:
    """Replace a JSON document atomically.

    Raises:
        OSError: the file cannot be written; the old document is as it was.
    """
    write_whole(path, [document.model_dump_json(indent=2).encode(), b"\n"], mode=mode)


def write_whole(path: Path, pieces: Iterable[bytes], *, mode: int | None = None) -> None:
    """Replace a file atomically; remove the draft of an interrupted attempt.

    Only one process may write the file at a time.

    Args:
        path: of the file.
        pieces: its content.
        mode: permissions of the file; None: as the umask allows.
    """
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    replace_file(path, pieces, mode=mode, draft=draft)
