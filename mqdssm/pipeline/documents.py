"""Documents that one run writes and a later run reads: JSON of pydantic models, replaced atomically."""

import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from mqdssm.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)


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


def write_document(path: Path, document: BaseModel) -> None:
    """Replace a JSON document atomically.

    Raises:
        OSError: the file cannot be written; the old document is as it was.
    """
    write_whole(path, document.model_dump_json(indent=2).encode() + b"\n")


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file atomically, after a sync of the new content to the disk."""
    draft = path.with_name(path.name + ".new")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
