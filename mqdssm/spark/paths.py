"""Paths of local files and folders as Spark takes them.

Spark takes texts, not URIs: ``%20`` stands for itself. Paths that are read may be patterns.
"""

import re
from pathlib import Path
from typing import Final

_PATTERN: Final = re.compile(r"[\\{}\[\]*?,]")


def path_to_write(path: Path) -> str:
    """Return the text for a folder that Spark writes."""
    return f"file://{path.absolute()}"


def path_to_read(path: Path) -> str:
    """Return the text for a file or a folder that Spark reads: no part of it is a pattern."""
    return _PATTERN.sub(r"\\\g<0>", path_to_write(path))
