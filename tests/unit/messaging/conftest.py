"""Queue managers of programs on loopback."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.messaging.managers import Managers


@pytest.fixture
def managers(tmp_path: Path) -> Iterator[Managers]:
    with ExitStack() as closing:
        yield Managers(tmp_path, closing)


@pytest.fixture
def pair(managers: Managers) -> tuple[Any, Any]:
    """Two queue managers that reach each other by name."""
    return managers.start("left"), managers.start("right")
