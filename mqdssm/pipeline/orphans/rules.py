"""Rules: which objects count as orphans, and what a plan does with them."""

from dataclasses import dataclass
from typing import Final

from mqdssm.pipeline.orphans.places import LINK_CLASS
from mqdssm.tables.dependent_objects import SETTINGS_CLASS
from mqdssm.tables.schema import MANAGER_CLASS, QUEUE_CLASS

TYPE_NAMES: Final = {
    QUEUE_CLASS: "queue",
    MANAGER_CLASS: "queue-manager",
    SETTINGS_CLASS: "settings",
    LINK_CLASS: "routing-link",
}
"""Object class -> type on the command line."""


@dataclass(frozen=True, slots=True)
class OrphanRule:
    """One kind of orphan.

    Attributes:
        id: its name.
        classes: classes of the objects.
        defect: what is wrong with them, in words.
        why: why they can be deleted; or, if `removes` is False, why not.
        section: section of the specification that the objects do not follow.
        validation: the rule of `mqdssm validate` that reports such objects; empty: exports do not have them.
        removes: True if a plan may delete them.
        needs_absence: True if it must be proven that another object does not exist.
        is_misplaced: True if the object is where the server makes no such object, or may make none.
    """

    id: str
    classes: tuple[str, ...]
    defect: str
    why: str
    section: str
    validation: str
    removes: bool = True
    needs_absence: bool = False
    is_misplaced: bool = False


NO_COMPUTER: Final = OrphanRule(
    "queue-manager-without-computer",
    (MANAGER_CLASS,),
    "a queue manager whose parent is no computer",
    "no machine can find it: a queue manager is directly below its computer",
    "[MS-MQDSSM] 2.2.1",
    "queue-manager-computer-exists",
    is_misplaced=True,
)
NO_MANAGER: Final = OrphanRule(
    "queue-without-queue-manager",
    (QUEUE_CLASS,),
    "a queue whose parent is no queue manager",
    "its path name has no machine: a queue is directly below its queue manager",
    "[MS-MQDSSM] 2.2.1",
    "queue-manager-exists",
    is_misplaced=True,
)
OF_ORPHAN: Final = OrphanRule(
    "queue-of-orphan",
    (QUEUE_CLASS,),
    "a queue of a queue manager without computer",
    "no machine serves it",
    "[MS-MQDSSM] 2.2.1",
    "queue-manager-computer-exists",
    is_misplaced=True,
)
NO_SITE: Final = OrphanRule(
    "settings-without-site",
    (SETTINGS_CLASS,),
    "a settings object that is below no site",
    "queue managers look for settings objects below CN=Sites",
    "[MS-MQDSSM] 3.1.6.1.1.3, 3.1.6.7.1.9",
    "",
    is_misplaced=True,
)
SETTINGS_OWNER: Final = OrphanRule(
    "settings-without-queue-manager",
    (SETTINGS_CLASS,),
    "a settings object whose mSMQQMID names no queue manager of the forest",
    "it is deleted with its queue manager, which is gone; and no computer of that name has another one",
    "[MS-MQDSSM] 3.1.6.1.1.3, 3.1.6.7.1.9",
    "settings-queue-manager-exists",
    needs_absence=True,
)
NO_ENTERPRISE: Final = OrphanRule(
    "link-without-enterprise",
    (LINK_CLASS,),
    "a routing link whose parent is no enterprise object",
    "queue managers look for links below CN=MsmqServices",
    "[MS-MQDSSM] 2.2.1",
    "",
    is_misplaced=True,
)
NO_END: Final = OrphanRule(
    "link-without-site",
    (LINK_CLASS,),
    "a routing link with a site that is gone, by its DN and by the GUID in the link's name",
    "a link joins two sites",
    "[MS-MQDMPR] 3.1.1.8",
    "link-sites-exist",
    needs_absence=True,
)
OTHER_OWNER: Final = OrphanRule(
    "settings-of-former-queue-manager",
    (SETTINGS_CLASS,),
    "a settings object whose mSMQQMID names no queue manager, of a computer that has another one",
    "the present queue manager may need it: write the roles of that one again",
    "[MS-MQDSSM] 3.1.6.1.1.3, 3.1.6.7.1.9",
    "settings-queue-manager-exists",
    removes=False,
)
NO_OWNER: Final = OrphanRule(
    "settings-without-owner",
    (SETTINGS_CLASS,),
    "a settings object without a GUID in mSMQQMID",
    "nobody can tell whose it is",
    "[MS-MQDSSM] 3.1.6.1.1.3, 3.1.6.7.1.9",
    "settings-queue-manager-exists",
    removes=False,
)
CONFLICT: Final = OrphanRule(
    "conflict-name",
    (QUEUE_CLASS, MANAGER_CLASS, SETTINGS_CLASS, LINK_CLASS),
    "an object that was renamed (CNF), since two domain controllers made one of that name",
    "the machine may use either of them: find out which GUID it uses",
    "[MS-MQDSSM] 2.2.1",
    "conflict-name",
    removes=False,
)
STALE: Final = OrphanRule(
    "stale-reference",
    (MANAGER_CLASS, LINK_CLASS),
    "an attribute that refers to an object that is gone",
    "the object itself is in use: its machine or an administrator has to choose another value (M129)",
    "[MS-MQDMPR] 3.1.1.1, 3.1.1.8",
    "reference-dangling",
    removes=False,
)

ORPHAN_RULES: Final = (
    NO_COMPUTER,
    OF_ORPHAN,
    NO_MANAGER,
    NO_SITE,
    SETTINGS_OWNER,
    NO_ENTERPRISE,
    NO_END,
    OTHER_OWNER,
    NO_OWNER,
    CONFLICT,
    STALE,
)
"""All rules, in the order in which their objects are listed."""
