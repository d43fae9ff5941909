"""Files that a user names, read up to a limit.

A wrong name may be that of a device or of a huge file.
"""

import tomllib
from pathlib import Path
from typing import Any


class TooLongFileError(ValueError):
    """A file is longer than its limit."""


def read_limited(file: Path, bytes_max: int) -> bytes:
    """Read a file.

    Args:
        file: its path.
        bytes_max: limit of its size, in bytes; no more is read.

    Raises:
        OSError: the file cannot be read.
        TooLongFileError: it is longer than the limit.
    """
    with file.open("rb") as opened:
        data = opened.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise TooLongFileError(f"{file} is longer than {bytes_max} bytes")
    return data


def read_toml(file: Path, bytes_max: int) -> dict[str, Any]:
    """Read a file in TOML, with the arguments of `read_limited`.

    Raises:
        OSError: the file cannot be read.
        TooLongFileError: it is longer than the limit.
        ValueError: it is no UTF-8, or no TOML.
    """
    return tomllib.loads(read_limited(file, bytes_max).decode("utf-8"))
