"""Who is believed about what: the rules of trust (R105, R107), as docs/replication.md shows them."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class TrustRule:
    """One rule of trust.

    Attributes:
        statement: kind of statement in a message.
        believed: senders from which it is accepted.
        otherwise: what happens if it comes from another sender.
    """

    statement: str
    believed: str
    otherwise: str


RULES: Final = (
    TrustRule(
        "changes, answers and AlreadyPurged of a partition that is not ours",
        "its authority; a BSC: its PSC; the PEC, where we asked it since nobody else answers (R46, R71); "
        "at the PEC, the PSC that the site's object names (R187); "
        "the server that an unfinished full synchronization began with, unless it was removed (R192); "
        "while we restore what was ours: our BSCs and the PEC that we asked (R104, R170), for the PEC any "
        "PSC that it asked",
        "dropped",
    ),
    TrustRule(
        "changes, answers and AlreadyPurged of a partition that is ours, or of objects that it cannot have",
        "nobody",
        "dropped",
    ),
    TrustRule(
        "a higher number than ours, in a partition that is not ours; how much may be purged there",
        "those of the first row",
        "they are asked for more, and the PEC who the authority is (R46, R72)",
    ),
    TrustRule(
        "a higher number than ours, in a partition that is ours",
        "the machine that the enterprise names as its authority, unless it handed over to us and the "
        "enterprise has not named us yet (R136); the PEC; "
        "for the PEC any PSC, where it has given no number of the enterprise yet (R139)",
        "a warning: the operator may name the authority (R39)",
    ),
    TrustRule(
        "who the authority of a partition is",
        "the PEC, by the site's object, also if that names nobody (R186); "
        "the authority itself, by its last number (R38); the operator",
        "dropped",
    ),
    TrustRule(
        "which machines a site has, and their names",
        "its authority, also about a name that no other machine has yet: the server that was to get it is "
        "given another one by the operator (R164)",
        "dropped",
    ),
    TrustRule("how far a PSC has got", "that PSC", "dropped"),
    TrustRule("that a BSC is alive", "that BSC", "dropped"),
    TrustRule(
        "a request, and in whose name it is",
        "the requester itself; of a BSC: the PSC of its site; any server, where we know nobody of that name; "
        "nobody, where it has no name (R137)",
        "refused with MQ_ERROR_ACCESS_DENIED",
    ),
    TrustRule(
        "a request to make or remove a site or a directory server, "
        "or to change its role, name or signing keys, or the PEC's name",
        "the server itself, for its own name and keys; the authority of a site, for its own name and keys "
        "in the site's object; neither for what it passes on (R141); clients of the owner itself, for all",
        "refused with MQ_ERROR_ACCESS_DENIED",
    ),
    TrustRule(
        "a question, and in whose name it is",
        "the requester itself; any server, where we know nobody of that name; "
        "nobody, where it has no name (R137)",
        "dropped",
    ),
    TrustRule("what came of a request", "the machine that we asked", "dropped"),
)
"""All rules; docs/replication.md has them as a table."""
