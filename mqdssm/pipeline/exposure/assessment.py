"""Assessment of machines and queues by the rules of the score."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from mqdssm.model.dn import DN
from mqdssm.model.enums import OperatingSystemType
from mqdssm.model.fieldtypes import spec_name
from mqdssm.pipeline.exposure import rules
from mqdssm.pipeline.exposure.computers import ComputerFacts
from mqdssm.pipeline.exposure.rules import OF_VERDICTS, SCORE_MAX, SCORE_RULES, SOON_DAYS, ScoreRule
from mqdssm.pipeline.exposure.windows_lifecycle import WindowsRelease, find_last_day, find_release
from mqdssm.pipeline.inventory import Inventory
from mqdssm.pipeline.validate.rules.examiners import (
    UNKNOWN_PEOPLE,
    Case,
    examine_descriptor,
    find_granted_rights,
    kind_of,
)
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import QueueAccess

Record = dict[str, Any]

SUPPORTED, ENDS_SOON, ENDED, NOT_KNOWN = "supported", "ends soon", "ended", "unknown"
DESCRIPTORS_KEPT: Final = 20_000
EXAMPLES_MAX: Final = 3
"""Queues that a finding about queues names."""
_SERVERS: Final = frozenset(map(spec_name, (OperatingSystemType.WIN_SERVER, OperatingSystemType.WIN_ENT)))
_CLIENTS: Final = frozenset(map(spec_name, (OperatingSystemType.WIN_CLIENT, OperatingSystemType.WIN95)))
_ROLES: Final = ("RoutingServer", "DirectoryServer", "SupportingServer")
MACHINE_COLUMNS: Final = (
    *("ComputerName", "Identifier", "QualifiedComputerName", "OperatingSystemType", "OperatingSystemVersion"),
    *("ForeignSystem", *_ROLES, "Security", "FullPath"),
)
QUEUE_COLUMNS: Final = (
    *("Pathname", "Identifier", "Authentication", "PrivacyLevel", "MulticastAddress", "Security", "FullPath"),
)
MACHINE_RECORD: Final = (
    *("Score", "ComputerName", "DnsName", "Identifier", "OperatingSystem", "OperatingSystemVersion"),
    *("Support", "SupportEnds", "LastLogon", "Stale", "Disabled", "Tcp", "Http", "Roles", "Queues"),
    *("OpenQueues", "UnauthenticatedQueues", "UnencryptedQueues", "Findings", "FullPath"),
)
QUEUE_RECORD: Final = (
    *("Pathname", "Identifier", "Rules", "Senders", "Authentication", "PrivacyLevel", "MulticastAddress"),
    *("Words", "FullPath"),
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Judgement about a descriptor.

    Attributes:
        rules: the rules of the score that it breaks.
        words: what is wrong.
        senders: the unknown people who may send to the queue.
    """

    rules: tuple[ScoreRule, ...]
    words: tuple[str, ...]
    senders: tuple[str, ...] = ()


@lru_cache(maxsize=DESCRIPTORS_KEPT)
def judge_descriptor(name: str, image: bytes | None) -> Judgement:
    """Judge a descriptor by the rules of the validation.

    Args:
        name: type of the object, as on the command line.
        image: the descriptor; None or empty if there is none.
    """
    of_verdicts = OF_VERDICTS[name]
    if not image:
        return Judgement((of_verdicts["security-parses"],), ("there is no security descriptor",))
    verdicts = [
        (of_verdicts[rule], words)
        for rule, words in examine_descriptor(Case(name, (image,), datetime.now(UTC)))
        if rule in of_verdicts
    ]
    broken_rules = dict.fromkeys(rule for rule, _ in verdicts)
    senders = _list_senders(image) if name == "queue" else ()
    return Judgement(tuple(broken_rules), tuple(words for _, words in verdicts), senders)


def _list_senders(image: bytes) -> tuple[str, ...]:
    try:
        parsed = SecurityDescriptor.from_bytes(image)
    except ValueError:
        return ()
    if parsed.dacl is None:
        return tuple(UNKNOWN_PEOPLE.values())[:1]
    kind, aces = kind_of("queue"), parsed.dacl.aces
    send = int(QueueAccess.WRITE_MESSAGE)
    return tuple(who for sid, who in UNKNOWN_PEOPLE.items() if find_granted_rights(sid, aces, kind) & send)


def find_queue_rules(row: Record) -> tuple[ScoreRule, ...]:
    """Return the rules that a queue breaks."""
    judgement = judge_descriptor("queue", row.get("Security"))
    broken_rules = list(judgement.rules)
    if judgement.senders and row.get("Authentication") is False:
        broken_rules.append(rules.UNAUTHENTICATED)
    if judgement.senders and row.get("PrivacyLevel") not in {None, "Body"}:
        broken_rules.append(rules.UNENCRYPTED)
    if row.get("MulticastAddress"):
        broken_rules.append(rules.MULTICAST)
    return tuple(broken_rules)


@dataclass(slots=True)
class _Tally:
    """Queues of one machine."""

    queues: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    open: int = 0
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, row: Record) -> None:
        broken_rules = find_queue_rules(row)
        self.queues += 1
        self.open += any(rule in {rules.QUEUE_OPEN, rules.QUEUE_RECEIVES} for rule in broken_rules)
        for rule in broken_rules:
            self.broken[rule.id] += 1
            names = self.examples.setdefault(rule.id, [])
            if len(names) < EXAMPLES_MAX:
                names.append((row.get("Pathname") or row.get("Identifier") or "").partition("\\")[2])


class Exposure:
    """Exposure of the machines of a source.

    Attributes:
        inventory: of the source.
        stale_days: days without a log-on after which a machine is stale.
        counts: number of machines by score rule.

    Args:
        inventory: of the source.
        facts: attributes of computers, by normalized DN.
        stale_days: days without a log-on after which a machine is stale.
    """

    def __init__(self, inventory: Inventory, facts: Mapping[str, ComputerFacts], *, stale_days: int) -> None:
        self.inventory = inventory
        self.stale_days = stale_days
        self._facts = facts
        tallies: dict[Any, _Tally] = {}
        for row, place in inventory.read_placed_rows("queue", QUEUE_COLUMNS):
            key = place if place is not None else (row.get("Pathname") or "").partition("\\")[0].casefold()
            tallies.setdefault(key, _Tally()).add(row)
        dns_name = inventory.build_dns_name_finder()
        names_of_services = inventory.read_service_names()
        self._machines = sorted(
            (
                self._judge_machine(
                    row,
                    tallies.get(place if place is not None else _lower_name(row)),
                    dns_name,
                    names_of_services,
                )
                for row, place in inventory.read_placed_rows("queue-manager", MACHINE_COLUMNS)
            ),
            key=lambda record: (-record["Score"], str(record["ComputerName"]).casefold()),
        )
        self.counts: Mapping[str, int] = Counter(
            finding["rule"] for record in self._machines for finding in record["Findings"]
        )

    def machines(self) -> Iterator[Record]:
        """Yield the machines, the highest score first."""
        yield from self._machines

    def queues(self) -> Iterator[Record]:
        """Yield the queues with findings, in the order of the source."""
        for row, _ in self.inventory.read_placed_rows("queue", QUEUE_COLUMNS):
            broken_rules = find_queue_rules(row)
            if not broken_rules:
                continue
            judgement = judge_descriptor("queue", row.get("Security"))
            record = {name: row.get(name) for name in QUEUE_RECORD}
            yield record | {
                "Rules": [rule.id for rule in broken_rules],
                "Senders": list(judgement.senders),
                "Words": list(judgement.words),
            }

    @property
    def highest(self) -> int:
        """Highest score; 0 without machines."""
        return self._machines[0]["Score"] if self._machines else 0

    def _judge_machine(
        self,
        row: Record,
        tally: _Tally | None,
        dns_name: Any,
        names_of_services: Mapping[str, tuple[str, ...]],
    ) -> Record:
        tally = tally or _Tally()
        path = row.get("FullPath") or ""
        computer = DN.parse(path).parent.normalized if path else ""
        facts = self._facts.get(computer, ComputerFacts())
        system, version = facts.system, facts.version or row.get("OperatingSystemVersion") or ""
        release = find_release(system, version, is_server=_is_server(row.get("OperatingSystemType")))
        support, ends = self._judge_support(release, system)
        stale = None if facts.last_logon is None else self._is_stale(facts.last_logon)
        has_http = any(name.casefold().startswith("http/") for name in names_of_services.get(computer, ()))
        findings = list(self._list_findings(row, support, stale, facts, has_http)) + _list_queue_findings(
            tally
        )
        return {
            "Score": min(SCORE_MAX, sum(finding["points"] for finding in findings)),
            "ComputerName": row.get("ComputerName"),
            "DnsName": row.get("QualifiedComputerName") or dns_name(path) or None,
            "Identifier": row.get("Identifier"),
            "OperatingSystem": system or (release.name if release is not None else None),
            "OperatingSystemVersion": version or None,
            "Support": support,
            "SupportEnds": None if ends is None else ends.isoformat(),
            "LastLogon": facts.last_logon,
            "Stale": stale,
            "Disabled": facts.is_disabled,
            "Tcp": "no" if row.get("ForeignSystem") else "assumed",
            "Http": "perhaps" if has_http else "unknown",
            "Roles": [role for role in _ROLES if row.get(role)],
            "Queues": tally.queues,
            "OpenQueues": tally.open,
            "UnauthenticatedQueues": tally.broken[rules.UNAUTHENTICATED.id],
            "UnencryptedQueues": tally.broken[rules.UNENCRYPTED.id],
            "Findings": sorted(findings, key=lambda finding: (-finding["points"], finding["rule"])),
            "FullPath": row.get("FullPath"),
        }

    def _judge_support(self, release: WindowsRelease | None, system: str) -> tuple[str, Any]:
        if release is None:
            return NOT_KNOWN, None
        ends = find_last_day(release, system)
        today = self.inventory.taken.date()
        if ends < today:
            return ENDED, ends
        return (ENDS_SOON if ends < today + timedelta(days=SOON_DAYS) else SUPPORTED), ends

    def _is_stale(self, last_logon: datetime) -> bool:
        return last_logon < self.inventory.taken - timedelta(days=self.stale_days)

    def _list_findings(
        self, row: Record, support: str, stale: bool | None, facts: ComputerFacts, has_http: bool
    ) -> Iterator[Record]:
        """Yield the findings about the machine itself."""
        broken = self.inventory.problems_of_row("queue-manager", row)
        conditions = {
            rules.SUPPORT_ENDED: support == ENDED,
            rules.SUPPORT_ENDS: support == ENDS_SOON,
            rules.STALE: bool(stale),
            rules.DISABLED: bool(facts.is_disabled),
            rules.HTTP: has_http,
            rules.SERVER_ROLE: any(row.get(role) for role in _ROLES),
            **{rule: rule.id in broken for rule in (rules.CLONED, rules.DOUBLE, rules.ORPHAN)},
        }
        judgement = judge_descriptor("queue-manager", row.get("Security"))
        conditions |= dict.fromkeys(judgement.rules, True)
        for rule in SCORE_RULES:
            if conditions.get(rule):
                yield {"rule": rule.id, "points": rule.points, "objects": 1, "examples": []}


def _list_queue_findings(tally: _Tally) -> list[Record]:
    return [
        {
            "rule": rule.id,
            "points": min(rule.most, rule.points * tally.broken[rule.id]),
            "objects": tally.broken[rule.id],
            "examples": tally.examples[rule.id],
        }
        for rule in SCORE_RULES
        if tally.broken[rule.id]
    ]


def _lower_name(row: Record) -> str:
    return (row.get("ComputerName") or "").casefold()


def _is_server(kind: str | None) -> bool | None:
    if kind in _SERVERS:
        return True
    return False if kind in _CLIENTS else None
