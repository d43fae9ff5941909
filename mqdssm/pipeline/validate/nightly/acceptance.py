"""Acceptance: the part of a file of rules that lists findings which do not fail a run."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from mqdssm.errors import ConfigError
from mqdssm.pipeline.validate.nightly.assessment import read_thresholds
from mqdssm.pipeline.validate.nightly.suppressions import EXPIRED_RULE, Suppression, read_suppressions


class Acceptance(NamedTuple):
    """Accepted findings: suppressions and thresholds.

    Attributes:
        suppressions: tables ``[[suppress]]``.
        fail: table ``[fail]``: numbers of new findings that are allowed, by severity and rule.
    """

    suppressions: tuple[Suppression, ...]
    fail: Mapping[str, int]


NOTHING_ACCEPTED: Final = Acceptance((), MappingProxyType({}))


def load_acceptance(path: Path, rules: Iterable[str]) -> Acceptance:
    """Read the suppressions and thresholds of a file of rules.

    Args:
        path: of the file.
        rules: ids of all rules, those of the file as well.

    Raises:
        ConfigError: the file cannot be read or is invalid; the text names it.
    """
    from mqdssm.pipeline.validate.rules.own import read_content

    content = read_content(path)
    known = [*dict.fromkeys(rules), EXPIRED_RULE]
    try:
        return Acceptance(
            read_suppressions(content.get("suppress", []), known),
            read_thresholds(content.get("fail", {}), known),
        )
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
