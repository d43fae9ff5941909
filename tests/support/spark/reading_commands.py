"""Commands that read a directory, the places of their results, and what is there after a kill."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mqdssm.pipeline.manifest import MANIFEST_NAME
from mqdssm.pipeline.migrate.plan_file import PLAN_NAME
from mqdssm.samples.forms import SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan

COMMANDS: Final = {
    "export": "export --to OUT",
    "validate": "validate --history HISTORY --metrics METRICS --report REPORT --write-baseline BASELINE",
    "inventory": "inventory --csv CSV --html REPORT",
    "diff": "diff TABLES URL",
    "plan": "plan TABLES --to PLAN --create-computers",
    "migrate": "migrate TABLES --to PLAN --create-computers",
}
RESULTS: Final = {
    "OUT": MANIFEST_NAME,
    "PLAN": PLAN_NAME,
    **dict.fromkeys(("HISTORY", "METRICS", "REPORT", "BASELINE", "CSV"), ""),
}
"""Place of a result -> file that makes a folder a whole one; empty: each file is a result."""


@dataclass(frozen=True)
class ReadingCommand:
    """A command with its tables and the places of its results.

    Attributes:
        name: of `COMMANDS`.
        folder: where the tables and results are.
        url: of the directory, for a comparison; the command reads the one of its environment.
        engine: that runs it.
    """

    name: str
    folder: Path
    url: str
    engine: str
    places: dict[str, Path] = field(init=False)

    def __post_init__(self) -> None:
        sample = EnterprisePlan(sites=2, machines=6, queues=30, users=2, seed=1)
        generate(sample, self.folder / "tables", SampleForm.MQIS)
        object.__setattr__(self, "places", {name: self.folder / name.lower() for name in RESULTS})

    @property
    def words(self) -> list[str]:
        """The command line."""
        given = {**self.places, "TABLES": self.folder / "tables", "URL": self.url}
        chosen = [str(given.get(word, word)) for word in COMMANDS[self.name].split()]
        return [*chosen, "--engine", self.engine]

    def results(self) -> list[Path]:
        """Return the files that may be taken for a result."""
        return [path for name, whole in RESULTS.items() for path in _found(self.places[name], whole)]


def _found(place: Path, whole: str) -> Iterator[Path]:
    """Yield the files of a place; of a folder that is not whole none."""
    if whole and not (place / whole).exists():
        return
    yield from (path for path in (place, *place.rglob("*")) if path.is_file())
