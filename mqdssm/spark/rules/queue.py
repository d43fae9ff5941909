"""Rules of queues."""

from typing import Final

from mqdssm.spark.rules.rule import PARENT_DN, MissingReference, Rule

_PARENT: Final = PARENT_DN.format(dn="FullPath")

RULES: Final[tuple[Rule, ...]] = (
    MissingReference(
        id="queue-manager-exists",
        severity="error",
        types=("queue",),
        attribute="FullPath",
        section="[MS-MQDSSM] 2.2.1",
        what="a queue lies directly below a queue manager",
        message=f"concat('there is no queue manager at ', {_PARENT})",
        value=f"lower({_PARENT})",
        target="queue-manager",
        key="lower(FullPath)",
    ),
)
