"""Identity of a finding: equal in two runs for one defect of one object.

It consists of the rule, the type, the object, the attribute and the GUIDs and SIDs that the message names.
The order of findings, the time and the words and numbers of a message are not part of it. If several findings
have one identity, as two bad entries of one descriptor, their number counts.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from mqdssm.model.dn import normalize
from mqdssm.pipeline.validate.rules.rule import Finding

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
    own = finding.guid.lower() if finding.guid else ""
    named = {text.lower() for text in _NAMED.findall(finding.message)} - {own}
    return FindingKey(
        finding.rule,
        finding.type,
        own or normal_dn(finding.dn or ""),
        finding.attribute,
        " ".join(sorted(named)),
    )


@lru_cache(maxsize=65_536)
def normal_dn(text: str) -> str:
    """Return a DN in normal form; other text in lower case."""
    if not text:
        return ""
    try:
        return normalize(text)
    except ValueError:
        return text.lower()
