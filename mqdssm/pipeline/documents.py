"""Documents in JSON that one run writes and another one reads."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from mqdssm.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)


def read_document(model: type[Model], path: Path, *, other: str, absent: str = "") -> Model:
    """Read a document.

    Args:
        model: what it holds.
        path: of its file.
        other: what to say of a file that holds something else, behind its name.
        absent: what to say where there is none; empty: that it cannot be read.

    Raises:
        ConfigError: there is none, or it cannot be used.
    """
    try:
        return model.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise ConfigError(absent or f"{path} cannot be read: {error.strerror}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise ConfigError(f"{path} {other}") from error
