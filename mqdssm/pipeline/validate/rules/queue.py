"""Rules about queues."""

from typing import Final

from mqdssm.pipeline.validate.rules.rule import Judged, MissingReference, Repeated, Rule, Wrong
from mqdssm.pipeline.validate.rules.vocabulary import EXTENSION

PARENT: Final = r"regexp_replace(FullPath, r'^(?:[^,\\]|\\.)*,', '')"
"""The DN of the parent: the text after the first unescaped comma."""

# computer, backslash, and a public queue name that [MS-MQMQ] 2.1.1 allows since version 4
_LEGAL: Final = r"^[^\\]+\\(?:[Pp][Rr][Ii][Vv][Aa][Tt][Ee]\$\\)?[!#-*\-./0-9:<-\[\]-\x7e]+\z"
# form of a name that was cut in two and lost its second part: only such names have 64 characters
_CUT: Final = r"^[^\\]+\\[^\\]{55}-[0-9a-f]{8}\z"
# some servers return path names in lower case
_RENAMED: Final = r"\n(?:CNF|DEL|cnf|del):"
_NAME: Final = r"substring_index(Pathname, '\\', -1)"
_MULTICAST: Final = (
    r"^(?:22[4-9]|23[0-9])(?:\.(?:[0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])){3}"
    r":(?:[0-9]|[1-9][0-9]{1,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])\z"
)

RULES: Final[tuple[Rule, ...]] = (
    Repeated(
        id="pathname-unique",
        severity="error",
        types=("queue",),
        attribute="Pathname",
        section="[MS-MQMQ] 2.1.1",
        what="a machine has one queue of a name, in whatever case",
        message="{count} queues are called {value}",
        key="lower(Pathname)",
    ),
    MissingReference(
        id="queue-manager-exists",
        severity="error",
        types=("queue",),
        attribute="FullPath",
        section="[MS-MQDSSM] 2.2.1",
        what="a queue lies directly below a queue manager",
        message=f"there is no queue manager at {{{PARENT}}}",
        value=f"lower({PARENT})",
        target="queue-manager",
        key="lower(FullPath)",
    ),
    MissingReference(
        id="queue-manager-exists",
        severity="error",
        types=("queue",),
        attribute="Pathname",
        section="[MS-MQMQ] 2.1.1",
        what="a queue lies directly below a queue manager",
        message="there is no queue manager of {value}",
        value=r"lower(substring_index(Pathname, '\\', 1))",
        target="queue-manager",
        key="lower(ComputerName)",
        instead_of="FullPath",
    ),
    Wrong(
        id="queue-multicast-transactional",
        severity="error",
        types=("queue",),
        attribute="MulticastAddress",
        section="[MS-MQDMPR] 3.1.1.2",
        what="a transactional queue has no multicast address: nothing is sent in a transaction to many",
        message="MulticastAddress is {MulticastAddress}, yet the queue is transactional",
        bad="Transactional and MulticastAddress <> ''",
    ),
    Wrong(
        id="queue-public-only",
        severity="error",
        types=("queue",),
        attribute="Pathname",
        section="[MS-MQMQ] 2.1.1",
        what="a directory holds public queues alone",
        message="{Pathname} is the name of a private queue",
        bad=r"contains(Pathname, '$') and Pathname rlike r'^[^\\]+\\[Pp][Rr][Ii][Vv][Aa][Tt][Ee]\$\\'",
    ),
    Wrong(
        id="queue-name-form",
        severity="warning",
        types=("queue",),
        attribute="Pathname",
        section="[MS-MQMQ] 2.1.1",
        what='a queue name has 1 to 124 characters: no blank, control or non-ASCII one, none of " + , ; \\',
        message="{Pathname} has a name that no version of MSMQ since 4.0 would make",
        bad=(
            f"(not (Pathname rlike r'{_LEGAL}') or (length(Pathname) > 124 and length({_NAME}) > 124))"
            f" and not (Pathname rlike r'{_RENAMED}')"
        ),
    ),
    Judged(
        id="queue-name-hash",
        severity="error",
        types=("queue",),
        attribute="Pathname",
        section="[MS-MQDSSM] 2.2.5, 3.1.6.1.2.5",
        what="cn, mSMQQueueNameExt and the hash between them belong to one name",
        examiner="queue-name",
        looks_at=("FullPath", EXTENSION),
        where=f"{EXTENSION} is not null or (length(Pathname) > 64 and Pathname rlike r'{_CUT}')",
    ),
    Wrong(
        id="queue-multicast-address",
        severity="error",
        types=("queue",),
        attribute="MulticastAddress",
        section="[MS-MQMQ] 2.1.6",
        what="MulticastAddress is an IPv4 multicast address and a port",
        message="MulticastAddress is {MulticastAddress}, not an address as 234.1.1.1:8001",
        bad=f"MulticastAddress <> '' and not (MulticastAddress rlike r'{_MULTICAST}')",
        decodes=True,
    ),
    Wrong(
        id="queue-times",
        severity="warning",
        types=("queue", "queue-manager"),
        attribute="ModifyTime",
        section="[MS-MQDMPR] 3.1.1.1, 3.1.1.2",
        what="nothing was changed before it was made",
        message="changed at {ModifyTime}, yet made at {CreateTime}",
        bad="ModifyTime < CreateTime",
    ),
)
