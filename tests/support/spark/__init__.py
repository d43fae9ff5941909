"""Exports and jobs, by Spark and by processes of this machine."""

from typing import Final

import pytest

SPARK_IN_SOAK: Final = pytest.mark.parametrize(
    "engine", ["local", pytest.param("spark", marks=pytest.mark.soak)], indirect=True
)
"""For tests of what follows a job, as the form of its output: the engine that did it makes no difference."""
LOCAL_ENGINE: Final = pytest.mark.parametrize("engine", ["local"], indirect=True)
"""For tests whose work is never given to an engine, or that reach into this process."""
