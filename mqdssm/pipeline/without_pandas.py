"""pyarrow without pandas, for a faster import.

pyarrow imports pandas if it is installed, at a cost of 0.3 s and 30 MB.
None in ``sys.modules`` would stop the import statement of Python, but not the import in pyarrow.
"""

import sys
from importlib.machinery import ModuleSpec


class _NoPandas:
    """Import finder that reports pandas as not installed."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """See ``importlib.abc.MetaPathFinder``."""
        if name == "pandas":
            raise ModuleNotFoundError("this process does without pandas", name=name)
        return None


def hide_pandas() -> None:
    """Hide pandas from this process, which runs this program alone."""
    sys.meta_path.insert(0, _NoPandas())


def show_pandas() -> None:
    """Show pandas again: Spark needs it."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _NoPandas)]
