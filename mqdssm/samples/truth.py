"""What was planted in a sample enterprise, and how that compares with what was found."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from mqdssm.errors import ConfigError
from mqdssm.samples.faults import Truth
from mqdssm.samples.forms import FAULTS_NAME


class TruthComparison(NamedTuple):
    """Findings beside what was planted.

    Attributes:
        planted: how many objects a finding must name.
        missed: those that none names.
        unplanted: objects that findings name though nothing is planted there.
    """

    planted: int
    missed: tuple[Truth, ...]
    unplanted: tuple[Truth, ...]

    @property
    def is_equal(self) -> bool:
        """Whether all that was planted is found, and nothing else."""
        return not self.missed and not self.unplanted


def read_truth(folder: Path) -> Counter[Truth]:
    """Read what findings must name.

    Args:
        folder: that a sample enterprise was written to, with defects.

    Raises:
        ConfigError: it has no list of them.
    """
    try:
        lines = (folder / FAULTS_NAME).read_text(encoding="utf-8").splitlines()
        return Counter(Truth(**json.loads(line)) for line in lines)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{folder / FAULTS_NAME} is no list of planted defects: {error}") from error


def compared(planted: Counter[Truth], found: Iterable[Truth]) -> TruthComparison:
    """Compare what was found with what was planted, object by object."""
    named = Counter(found)
    return TruthComparison(
        planted.total(), tuple((planted - named).elements()), tuple((named - planted).elements())
    )
