"""pyarrow without pandas, which it imports where it is: 0.3 s of processor time and 30 MB, for nothing.

None in ``sys.modules`` would do for Python's own import, but not for pyarrow's.
"""

import sys
from importlib.machinery import ModuleSpec


class _NoPandas:
    """Makes pandas look as if it were not installed."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """See ``importlib.abc.MetaPathFinder``."""
        if name == "pandas":
            raise ModuleNotFoundError("this process does without pandas", name=name)
        return None


def hide_pandas() -> None:
    """Hide pandas from this process, which is one of ours alone."""
    sys.meta_path.insert(0, _NoPandas())


def show_pandas() -> None:
    """Show pandas again: Spark needs it."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _NoPandas)]
