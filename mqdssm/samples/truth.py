"""Comparison of the planted defects of a sample enterprise with the findings."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from mqdssm.errors import ConfigError
from mqdssm.samples.faults import Truth
from mqdssm.samples.forms import FAULTS_NAME


class TruthComparison(NamedTuple):
    """Difference between findings and planted defects.

    Attributes:
        planted: number of objects that a finding must name.
        missed: planted objects without a finding.
        unplanted: objects of findings without a planted defect.
    """

    planted: int
    missed: tuple[Truth, ...]
    unplanted: tuple[Truth, ...]

    @property
    def is_equal(self) -> bool:
        """True if the findings are exactly the planted defects."""
        return not self.missed and not self.unplanted


def read_truth(folder: Path) -> Counter[Truth]:
    """Read the list of planted defects.

    Args:
        folder: the folder of a sample enterprise with defects.

    Raises:
        ConfigError: the folder has no valid list.
    """
    try:
        lines = (folder / FAULTS_NAME).read_text(encoding="utf-8").splitlines()
        return Counter(Truth(**json.loads(line)) for line in lines)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{folder / FAULTS_NAME} is no list of planted defects: {error}") from error


def compared(planted: Counter[Truth], found: Iterable[Truth]) -> TruthComparison:
    """Compare the findings with the planted defects, object by object."""
    named = Counter(found)
    return TruthComparison(
        planted.total(), tuple((planted - named).elements()), tuple((named - planted).elements())
    )
