"""Queues, accounts and rights of a source, as other message brokers need them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from mqdssm.errors import ConfigError
from mqdssm.model.elements import GUID_NULL, QUOTA_UNLIMITED
from mqdssm.pipeline.inventory.rights import names_of
from mqdssm.pipeline.validate.rules.examiners import REFUSALS, find_granted_rights, kind_of
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import QueueAccess
from mqdssm.wire.sid import ANONYMOUS, AUTHENTICATED_USERS, EVERYONE

if TYPE_CHECKING:
    from mqdssm.pipeline.validate.sources import ValidationSource

COLUMNS: Final = (
    "Pathname",
    "Identifier",
    "Label",
    "Type",
    "Quota",
    "JournalQuota",
    "Journaling",
    "Transactional",
    "Authentication",
    "PrivacyLevel",
    "MulticastAddress",
    "BasePriority",
    "Security",
)
_BATCH_ROWS: Final = 10_000
_DESCRIPTORS_KEPT: Final = 20_000
KB: Final = 1024
EVERYBODY: Final = frozenset({EVERYONE.text, ANONYMOUS.text, AUTHENTICATED_USERS.text})
"""SIDs that stand for all users: no broker has such an account."""


@dataclass(frozen=True, slots=True)
class QueueRights:
    """Accounts with rights on a queue, as SIDs.

    Attributes:
        send: may send.
        receive: may receive.
        peek: may peek, and not receive.
        journal: may receive from the journal.
        refused: named by entries that refuse rights.
        problem: why this is not the whole truth; empty if it is.
    """

    send: tuple[str, ...] = ()
    receive: tuple[str, ...] = ()
    peek: tuple[str, ...] = ()
    journal: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    problem: str = ""

    def list_sids(self) -> Iterator[str]:
        """Yield all accounts with rights; one with several rights comes several times."""
        yield from (*self.send, *self.receive, *self.peek, *self.journal)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerQueue:
    r"""A queue.

    Attributes:
        path: path name, ``computer\queue`` or ``computer\private$\queue``.
        identifier: GUID.
        label: label.
        service_type: GUID of the kind of service; empty for none.
        quota: most octets of messages; None: no limit.
        journal_quota: most octets of the journal; None: no limit.
        journaling: messages that are taken out are kept in a journal.
        transactional: takes messages of transactions alone.
        authentication: takes signed messages alone.
        encrypted: takes encrypted messages alone.
        multicast: address and port from which it receives, too; empty for none.
        base_priority: priority of its messages between machines.
        rights: rights on it.
    """

    path: str
    identifier: str = ""
    label: str = ""
    service_type: str = ""
    quota: int | None = None
    journal_quota: int | None = None
    journaling: bool = False
    transactional: bool = False
    authentication: bool = False
    encrypted: bool = False
    multicast: str = ""
    base_priority: int = 0
    rights: QueueRights = QueueRights()

    @property
    def computer(self) -> str:
        """Name of the computer."""
        return self.path.partition("\\")[0]


@dataclass(frozen=True, slots=True)
class QueueTopology:
    """Queues of a source with their accounts.

    Attributes:
        source: where from, for people.
        queues: in the order of their path names.
        accounts: SID -> name of the account, or the SID itself.
        unreadable: number of queues without a readable path name, which are left out.
    """

    source: str
    queues: tuple[BrokerQueue, ...]
    accounts: Mapping[str, str]
    unreadable: int = 0

    def list_computers(self) -> list[str]:
        """Return the computers with queues, each once."""
        return list(dict.fromkeys(queue.computer for queue in self.queues))

    def group_multicasts(self) -> dict[str, list[BrokerQueue]]:
        """Return the queues of each multicast address."""
        addresses: dict[str, list[BrokerQueue]] = {}
        for queue in self.queues:
            if queue.multicast:
                addresses.setdefault(queue.multicast, []).append(queue)
        return addresses


def read_topology(source: "ValidationSource", private: Sequence[BrokerQueue] = ()) -> QueueTopology:
    """Read the queues of a source.

    Args:
        source: an opened export or directory, with public queues.
        private: private queues of machines; a computer gets the name that its public queues have.

    Raises:
        ConfigError: a file of the source cannot be read, or two queues have one path name.
    """
    queues, unreadable = [], 0
    for row in _read_rows(source):
        path = row.get("Pathname")
        if not path or not all(str(path).partition("\\")):
            unreadable += 1
            continue
        queues.append(_make_queue(row))
    computers = {queue.computer.casefold(): queue.computer for queue in queues}
    queues += (_add_computer_name(computers.get(queue.computer.casefold()), queue) for queue in private)
    queues.sort(key=lambda queue: (queue.path.casefold(), queue.path))
    for first, second in pairwise(queues):
        if first.path == second.path:
            raise ConfigError(_describe_one_path(first, second))
    sids = {sid for queue in queues for sid in queue.rights.list_sids()}
    names = names_of(sids, source.sets)
    accounts = {sid: names.get(sid) or sid for sid in sorted(sids)}
    counts: dict[str, int] = {}
    for name in accounts.values():
        counts[name.casefold()] = counts.get(name.casefold(), 0) + 1
    single = {sid: name if counts[name.casefold()] == 1 else sid for sid, name in accounts.items()}
    return QueueTopology(source.name, tuple(queues), single, unreadable)


def _add_computer_name(computer: str | None, queue: BrokerQueue) -> BrokerQueue:
    """Return a queue with the name of its computer; None keeps the name."""
    if computer is None:
        return queue
    _, _, name = queue.path.partition("\\")
    return replace(queue, path=f"{computer}\\{name}")


def _describe_one_path(first: BrokerQueue, second: BrokerQueue) -> str:
    """Return the message for two queues with one path name."""
    words = f"two queues have the path name {first.path}"
    if not first.identifier or not second.identifier:
        return f"{words}: the added files are of two machines with this name; convert one of them at a time"
    return f"{words}: {first.identifier} and {second.identifier}; delete one of them"


def _read_rows(source: "ValidationSource") -> Iterator[dict[str, Any]]:
    queues = source.sets.get("queue")
    if queues is None:
        return
    names = [name for name in COLUMNS if name in queues.types]
    for batch in queues.read_batches(names, _BATCH_ROWS):
        yield from batch.to_pylist()


def _make_queue(row: Mapping[str, Any]) -> BrokerQueue:
    service_type = str(row.get("Type") or "")
    return BrokerQueue(
        path=str(row["Pathname"]),
        identifier=str(row.get("Identifier") or ""),
        label=str(row.get("Label") or ""),
        service_type="" if service_type == str(GUID_NULL) else service_type,
        quota=octets_of(row.get("Quota")),
        journal_quota=octets_of(row.get("JournalQuota")),
        journaling=bool(row.get("Journaling")),
        transactional=bool(row.get("Transactional")),
        authentication=bool(row.get("Authentication")),
        encrypted=row.get("PrivacyLevel") == "Body",
        multicast=str(row.get("MulticastAddress") or ""),
        base_priority=int(row.get("BasePriority") or 0),
        rights=decode_rights(row.get("Security")),
    )


def octets_of(quota: int | None) -> int | None:
    """Return a quota in octets; None for no limit."""
    return None if quota is None or quota == QUOTA_UNLIMITED else int(quota) * KB


@lru_cache(maxsize=_DESCRIPTORS_KEPT)
def decode_rights(image: bytes | None) -> QueueRights:
    """Return the rights in the descriptor of a queue.

    A SID has the rights that entries for this SID grant and no entry before for all users refuses. Membership
    in groups is not known here.
    """
    if not image:
        return QueueRights(problem="no security descriptor")
    try:
        descriptor = SecurityDescriptor.from_bytes(image)
    except ValueError:
        return QueueRights(problem="no valid security descriptor")
    everybody = (EVERYONE.text,)
    if descriptor.dacl is None:
        words = "no DACL: everybody may do everything"
        return QueueRights(everybody, everybody, (), everybody, problem=words)
    kind = kind_of("queue")
    aces = descriptor.dacl.aces
    masks = {
        sid.text: find_granted_rights(sid, aces, kind)
        for sid in dict.fromkeys(a.sid for a in aces if a.sid is not None)
    }

    def having(bits: int, without: int = 0) -> tuple[str, ...]:
        return tuple(
            sid
            for sid, mask in masks.items()
            if mask & bits == bits and not (without and mask & without == without)
        )

    receive = int(QueueAccess.RECEIVE_MESSAGE)
    return QueueRights(
        having(int(QueueAccess.WRITE_MESSAGE)),
        having(receive),
        having(int(QueueAccess.PEEK_MESSAGE), receive),
        having(int(QueueAccess.RECEIVE_JOURNAL_MESSAGE)),
        tuple(dict.fromkeys(ace.sid.text for ace in aces if ace.type in REFUSALS and ace.sid is not None)),
    )
