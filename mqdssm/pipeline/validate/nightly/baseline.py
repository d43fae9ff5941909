"""Baseline: a file of known findings, with the number of each.

JSON Lines: a head with the version and the moment, then a line for each identity, sorted.

The identity of a finding is equal in two runs for one defect of one object. The identity consists of the
rule, the type, the object, the attribute, and the GUIDs and SIDs that the message names. Order, time, and the
words and numbers of a message do not matter. If several findings have one identity, as two bad entries of one
descriptor, their number counts.
"""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from mqdssm.errors import ConfigError
from mqdssm.events.durable_files import write_atomically
from mqdssm.model.dn import normalize
from mqdssm.pipeline.validate.rules.rule import SEVERITIES, Finding

LINE_BYTES_MAX: Final = 16 << 20
"""Limit of a line of a baseline, which takes about 200 bytes; no number of lines is too large."""
_NAMED: Final = re.compile(
    r"(?<![0-9a-f-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f-])|\bS-1-\d+(?:-\d+)+",
    re.IGNORECASE,
)


class FindingKey(NamedTuple):
    """Identity of a finding.

    Attributes:
        rule: id of the rule.
        type: type of the object.
        object: its GUID, else its DN in normal form; empty for a finding about no object.
        attribute: the attribute that is wrong.
        detail: GUIDs and SIDs that the message names, besides the object's own, sorted.
    """

    rule: str
    type: str
    object: str
    attribute: str
    detail: str


def key_of(finding: Finding) -> FindingKey:
    """Return the identity of a finding."""
    own_guid = finding.guid.lower() if finding.guid else ""
    named = {text.lower() for text in _NAMED.findall(finding.message)} - {own_guid}
    return FindingKey(
        finding.rule,
        finding.type,
        own_guid or normalize_dn(finding.dn or ""),
        finding.attribute,
        " ".join(sorted(named)),
    )


@lru_cache(maxsize=65_536)
def normalize_dn(text: str) -> str:
    """Return a DN in normal form; other text in lower case."""
    if not text:
        return ""
    try:
        return normalize(text)
    except ValueError:
        return text.lower()


VERSION: Final = 1
_FIELDS: Final = (*FindingKey._fields, "severity", "dn")


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """A known finding, with the number of equal ones.

    Attributes:
        key: their identity.
        severity: how bad they are.
        dn: DN of the object, for people.
        count: how many there are.
    """

    key: FindingKey
    severity: str
    dn: str
    count: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """Known findings.

    Attributes:
        created: when it was written; None: there is none.
        findings: by identity.
    """

    created: datetime | None
    findings: Mapping[FindingKey, KnownFinding]

    @classmethod
    def of(cls, findings: Iterable[Finding], created: datetime) -> "Baseline":
        """Collect findings; memory grows with the number of identities."""
        counts: Counter[FindingKey] = Counter()
        first: dict[FindingKey, Finding] = {}
        for finding in findings:
            key = key_of(finding)
            counts[key] += 1
            first.setdefault(key, finding)
        known_findings = (
            KnownFinding(key, first[key].severity, first[key].dn or "", count)
            for key, count in counts.items()
        )
        return cls(created, {finding.key: finding for finding in known_findings})

    def counts(self) -> Counter[FindingKey]:
        """Return the number of findings of each identity, to be counted down."""
        return Counter({key: finding.count for key, finding in self.findings.items()})

    def write(self, path: Path) -> None:
        """Write the file with mode 0600, replacing an old one.

        Raises:
            ConfigError: it cannot be written, or `load` could not read it.
        """
        head = {"mqdssm-baseline": VERSION, "made": self.created.isoformat() if self.created else None}
        lines = (_format_line(self.findings[key]) for key in sorted(self.findings))
        try:
            write_atomically(path, chain((json.dumps(head) + "\n",), lines))
        except ValueError as error:
            raise ConfigError(f"{path} cannot be written: {error}") from error

    def write_if_changed(self, path: Path) -> None:
        """Write the file, unless it has the same findings.

        If it has them it stays as it is, with its moment.

        Raises:
            ConfigError: it cannot be written.
        """
        with contextlib.suppress(ConfigError):  # there is none, or it is damaged
            if Baseline.load(path).findings == self.findings:
                return
        self.write(path)

    @classmethod
    def load(cls, path: Path) -> "Baseline":
        """Read a file.

        Raises:
            ConfigError: it cannot be read, or is no baseline; the text names file and line.
        """
        number = 1
        try:
            with path.open("rb") as file:
                created = _parse_created(_read_line(file))
                findings: dict[FindingKey, KnownFinding] = {}
                while file.peek(1):
                    number += 1
                    finding = _parse_finding(_read_line(file))
                    findings[finding.key] = finding
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(
                f"{path} is no baseline, line {number}: {error}; make one with --write-baseline"
            ) from error
        return cls(created, findings)


NOTHING_KNOWN: Final = Baseline(None, {})


def _format_line(finding: KnownFinding) -> str:
    """Return a finding's line.

    Raises:
        ValueError: it would be longer than `LINE_BYTES_MAX`.
    """
    values = (*finding.key, finding.severity, finding.dn)
    fields = {**dict(zip(_FIELDS, values, strict=True)), "count": finding.count}
    line = json.dumps(fields, ensure_ascii=False) + "\n"
    _check_length(line.encode())
    return line


def _read_line(file: BinaryIO) -> Any:
    """Read a line."""
    line = file.readline(LINE_BYTES_MAX + 1)
    _check_length(line)
    return json.loads(line)


def _check_length(line: bytes) -> None:
    if len(line) > LINE_BYTES_MAX:
        raise ValueError(f"it is longer than {LINE_BYTES_MAX} bytes")


def _parse_created(head: Any) -> datetime:
    if not isinstance(head, dict) or head.get("mqdssm-baseline") != VERSION:
        raise ValueError(f"its first line does not say that it is a baseline of version {VERSION}")
    return datetime.fromisoformat(head["made"])


def _parse_finding(line: Any) -> KnownFinding:
    texts = [line[name] for name in _FIELDS]
    count = line["count"]
    if not all(isinstance(text, str) for text in texts) or type(count) is not int or count < 1:
        raise ValueError("a field has the wrong kind")
    *key, severity, dn = texts
    if severity not in SEVERITIES:
        raise ValueError(f"{severity!r} is no severity")
    return KnownFinding(FindingKey(*key), severity, dn, count)


def subtract_findings(now: Baseline, then: Baseline) -> Iterator[KnownFinding]:
    """Yield the findings of `now` that `then` does not have.

    The number of additional ones is yielded, too.
    """
    for key in sorted(now.findings):
        finding = now.findings[key]
        before = then.findings.get(key)
        more = finding.count - (before.count if before else 0)
        if more > 0:
            yield KnownFinding(finding.key, finding.severity, finding.dn, more)
