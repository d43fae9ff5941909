"""Rules of the score: points for what makes an attack easier or worse.

The score of a machine is the sum of its points, at most `SCORE_MAX`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mqdssm.pipeline.exposure.windows_lifecycle import SOURCE

SCORE_MAX: Final = 100
SOON_DAYS: Final = 365
"""Support that ends within so many days ends soon."""


@dataclass(frozen=True, slots=True)
class ScoreRule:
    """One rule of the score.

    Attributes:
        id: its name.
        points: for the machine, or for each queue.
        most: maximum of the points for all queues of a machine.
        reason: the reason for the points.
        section: the section or page that the rule refers to.
    """

    id: str
    points: int
    most: int
    reason: str
    section: str


def _make_machine_rule(name: str, points: int, reason: str, section: str) -> ScoreRule:
    return ScoreRule(name, points, points, reason, section)


_QUEUE_MASK: Final = "[MS-MQMQ] 2.2.24"
_MACHINE_MASK: Final = "[MS-MQMQ] 2.2.23"

SUPPORT_ENDED: Final = _make_machine_rule(
    "support-ended",
    30,
    "the release of Windows gets no security updates: CVE-2023-21554 and later defects of MSMQ stay open",
    SOURCE,
)
SUPPORT_ENDS: Final = _make_machine_rule(
    "support-ends-soon", 5, f"security updates end within {SOON_DAYS} days", SOURCE
)
STALE: Final = _make_machine_rule(
    "stale",
    15,
    "the computer did not log on for long: it may be gone, and others can take its names and rights over",
    "[MS-ADA1] lastLogonTimestamp",
)
DISABLED: Final = _make_machine_rule(
    "account-disabled",
    10,
    "the account of the computer is disabled, and its queues are still published",
    "[MS-ADTS] 2.2.16, userAccountControl",
)
CLONED: Final = _make_machine_rule(
    "queue-manager-cloned",
    20,
    "two machines have one identity: messages for one can reach the other",
    "[MS-MQDMPR] 3.1.1.1",
)
DOUBLE: Final = _make_machine_rule(
    "queue-manager-duplicate",
    10,
    "one computer has two queue managers: programs may use the wrong one",
    "[MS-MQDMPR] 3.1.1.1",
)
ORPHAN: Final = _make_machine_rule(
    "queue-manager-computer-exists",
    10,
    "the computer is gone, and its queue manager is still published",
    "[MS-MQDSSM] 2.2.1",
)
SERVER_ROLE: Final = _make_machine_rule(
    "server-role",
    5,
    "a routing, directory or supporting server accepts messages and calls of all machines",
    "[MS-MQDMPR] 3.1.1.1",
)
HTTP: Final = _make_machine_rule(
    "http-perhaps",
    3,
    "the computer has a service principal name of HTTP: a web server may accept messages over HTTP",
    "[MS-ADA3] servicePrincipalName",
)
MACHINE_OPEN: Final = _make_machine_rule(
    "machine-open",
    15,
    "unknown people may change the queue manager, its owner or its permissions, or everything",
    _MACHINE_MASK,
)
MACHINE_READ: Final = _make_machine_rule(
    "machine-receives",
    10,
    "unknown people may read or take messages of its dead-letter queue or journal",
    _MACHINE_MASK,
)
MACHINE_RIGHTS_UNKNOWN: Final = _make_machine_rule(
    "machine-rights-unknown",
    5,
    "its security descriptor is missing or damaged: nobody knows who may use it",
    "[MS-DTYP] 2.4.6",
)
QUEUE_OPEN: Final = ScoreRule(
    "queue-open",
    10,
    30,
    "unknown people may change the queue, its owner or its permissions, or everything",
    _QUEUE_MASK,
)
QUEUE_RECEIVES: Final = ScoreRule(
    "queue-receives", 8, 24, "unknown people may receive or peek its messages", _QUEUE_MASK
)
QUEUE_RIGHTS_UNKNOWN: Final = ScoreRule(
    "queue-rights-unknown",
    3,
    9,
    "its security descriptor is missing or damaged: nobody knows who may use it",
    "[MS-DTYP] 2.4.6",
)
UNAUTHENTICATED: Final = ScoreRule(
    "queue-unauthenticated",
    2,
    20,
    "unknown people may send, and messages need no signature: their senders can be invented",
    "[MS-MQDMPR] 3.1.1.2, Authentication",
)
UNENCRYPTED: Final = ScoreRule(
    "queue-unencrypted",
    1,
    10,
    "unknown people may send, and messages need no encryption: others can read them on the way",
    "[MS-MQDMPR] 3.1.1.2, PrivacyLevel",
)
MULTICAST: Final = ScoreRule(
    "queue-multicast",
    3,
    9,
    "the queue takes messages of a multicast address: everybody in that network can send to it",
    "[MS-MQDMPR] 3.1.1.2, MulticastAddress",
)

SCORE_RULES: Final = (
    *(SUPPORT_ENDED, CLONED, STALE, MACHINE_OPEN, MACHINE_READ, DISABLED, DOUBLE, ORPHAN, QUEUE_OPEN),
    *(QUEUE_RECEIVES, SERVER_ROLE, SUPPORT_ENDS, MACHINE_RIGHTS_UNKNOWN, HTTP, QUEUE_RIGHTS_UNKNOWN),
    *(MULTICAST, UNAUTHENTICATED, UNENCRYPTED),
)
"""All rules, heaviest first."""

OF_VERDICTS: Final[Mapping[str, Mapping[str, ScoreRule]]] = MappingProxyType(
    {
        "queue": MappingProxyType(
            {
                "everyone-full-control": QUEUE_OPEN,
                "everyone-takes-ownership": QUEUE_OPEN,
                "everyone-changes": QUEUE_OPEN,
                "everyone-owns": QUEUE_OPEN,
                "security-dacl": QUEUE_OPEN,
                "everyone-receives": QUEUE_RECEIVES,
                "security-parses": QUEUE_RIGHTS_UNKNOWN,
            }
        ),
        "queue-manager": MappingProxyType(
            {
                "everyone-full-control": MACHINE_OPEN,
                "everyone-takes-ownership": MACHINE_OPEN,
                "everyone-changes": MACHINE_OPEN,
                "everyone-owns": MACHINE_OPEN,
                "security-dacl": MACHINE_OPEN,
                "everyone-receives": MACHINE_READ,
                "security-parses": MACHINE_RIGHTS_UNKNOWN,
            }
        ),
    }
)
"""Rules of the score for rules of the validation about descriptors, by type of object."""
