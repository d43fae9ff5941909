"""Creation of many queues, sent ahead of the answers (decision M119).

All are sent over one connection. Preconditions, defaults and entries are those of the event for a single
queue. That event is tried for a queue that the server did not add: it finds out the reason. It is also tried
for a queue that has no answer because the connection was lost.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Self
from uuid import UUID

from mqdssm.directory.loading.existing_entries import guid_of, read_entries_at
from mqdssm.directory.loading.items import Action, Item
from mqdssm.directory.loading.sending import ChangeInFlight
from mqdssm.directory.requests import make_entry
from mqdssm.errors import (
    DirectoryError,
    DirectoryNotConnected,
    MqdssmError,
    ObjectAlreadyExists,
    OutcomeUnknown,
)
from mqdssm.events.context import Context
from mqdssm.events.create import CreateContext, Created, mark_created, prepare_create
from mqdssm.events.machines import find_machine
from mqdssm.events.notices import Notices
from mqdssm.events.object_names import parse_new_path
from mqdssm.model.dn import normalize
from mqdssm.model.elements import Queue

AHEAD_MAX: Final = 320
"""Maximum number of queues ahead of the last outcome: a window of unanswered adds, and some to follow."""
IDENTIFIED_AT_ONCE: Final = 50
"""Objects whose objectGUIDs are read together, where the server makes these."""

Failure = MqdssmError | ValueError


@dataclass(slots=True)
class _Sent:
    """Queue whose add was handed to the session."""

    queue: Queue
    work: CreateContext
    dn: str
    attributes: dict[str, tuple[bytes, ...]]
    identifier: UUID | None


@dataclass(slots=True)
class QueueCreation:
    """Creation of the queues of one iterable.

    Attributes:
        ctx: the surroundings.
        notices: sent as for a single create.
        attributes: the specification's names of the attributes to persist; None: all that are populated.
        create: the event for a single queue.
        source: the queues.
        stop_on_error: begin no further create after the first failure.
    """

    ctx: Context
    notices: Notices
    attributes: Sequence[str] | None
    create: Callable[[Queue], object]
    source: Iterator[Queue]
    stop_on_error: bool
    _count: int = 0
    _following: int = 0
    _is_ending: bool = False
    _problem: Exception | None = None
    _sent: dict[int, _Sent] = field(default_factory=dict)
    _unidentified: list[int] = field(default_factory=list)
    _ended: dict[int, tuple[Queue, Failure | None]] = field(default_factory=dict)

    def collect_outcomes(self) -> Generator[tuple[Queue, Failure | None], None, None]:
        """Yield each queue, in order, with the reason why it was not created, or None."""
        steps = self._take_steps()
        try:
            for _ in steps:
                while self._following in self._ended:
                    self._following += 1
                    yield self._ended.pop(self._following - 1)
        finally:
            self._is_ending = True  # an early end waits for what was sent
            for _ in steps:
                pass
        if self._problem is not None:
            raise self._problem

    def _take_steps(self) -> Iterator[None]:
        """Send and settle; a step ends when outcomes may have been added."""
        while True:
            results = self.ctx.session.loader.send(_Requests(self))
            try:
                for request, result in results:
                    self._on_result(request.item.row, is_added=result.code == 0)
                    yield
            except (DirectoryNotConnected, ValueError):
                self._recover_all()
            self._identify()
            yield
            if self._is_ending:
                return

    def _take_next(self) -> tuple[int, Queue] | None:
        """Return the next queue with its number; None at the end or after an error."""
        queue = None
        try:
            queue = None if self._is_ending else next(self.source, None)
        except Exception as error:  # noqa: BLE001  raised after the outcomes of what was sent
            self._problem = error
        if queue is None:
            self._is_ending = True
            return None
        self._count += 1
        return self._count - 1, queue

    def request(self) -> ChangeInFlight | None:
        """Return the next add; None at the end, and while too many outcomes are ahead."""
        while self._count - self._following < AHEAD_MAX and (numbered := self._take_next()) is not None:
            number, queue = numbered
            if queue.identifier is not None:  # it brings a GUID, which needs look-ups of its own
                self._create_singly(number, queue)
                continue
            try:
                sent = self._sent[number] = self._prepare(queue)
            except (MqdssmError, ValueError) as error:
                self._end(number, queue, error)
            else:
                item = Item(row=number, action=Action.ADD, dn=sent.dn, attributes=sent.attributes)
                return ChangeInFlight(item=item)
        return None

    def _prepare(self, queue: Queue) -> _Sent:
        """Make the entry of a queue, as the single event does.

        Raises:
            DirectoryError: a broken precondition.
            ValueError: a name or a value that no directory can hold.
        """
        work = prepare_create(self.ctx, queue, self.attributes)
        profile = self.ctx.session.profile
        machine = find_machine(self.ctx, parse_new_path(queue.pathname or "").computer)
        entry = work.maker.queue(queue, machine.dn, machine.sid, work.names)
        dn = str(entry.dn)
        self.ctx.session.refuse_other_domains("add", dn)
        profile.check_name(dn)
        identity = profile.identity(entry.ldap_class, None, keeps_guids=profile.makes_guid)
        attributes = make_entry((entry.ldap_class,), entry.values) | identity
        return _Sent(queue, work, dn, attributes, guid_of(identity))

    def _on_result(self, number: int, *, is_added: bool) -> None:
        sent = self._sent.pop(number)
        if not is_added:
            self._create_singly(number, sent.queue)
        elif sent.identifier is not None:
            self._finish(number, sent, sent.identifier)
        else:
            self._sent[number] = sent
            self._unidentified.append(number)
            if len(self._unidentified) >= IDENTIFIED_AT_ONCE:
                self._identify()

    def _identify(self) -> None:
        """Read the objectGUIDs that the server made."""
        numbers, self._unidentified = self._unidentified, []
        added = {number: self._sent.pop(number) for number in numbers if number in self._sent}
        try:
            entries = read_entries_at(self.ctx.session, [sent.dn for sent in added.values()], ())
        except DirectoryError as error:
            for number, sent in added.items():
                self._end(number, sent.queue, _make_identity_error(sent, error))
            return
        for number, sent in added.items():
            entry = entries.get(normalize(sent.dn))
            identifier = None if entry is None else guid_of(entry.attributes)
            if identifier is None:
                self._end(number, sent.queue, _make_identity_error(sent, None))
            else:
                self._finish(number, sent, identifier)

    def _finish(self, number: int, sent: _Sent, identifier: UUID) -> None:
        mark_created(sent.work, sent.queue, Created(identifier, sent.work.names))
        self.notices.notify_creation(sent.queue, identifier)
        self._end(number, sent.queue, None)

    def _create_singly(self, number: int, queue: Queue) -> None:
        try:
            self.create(queue)
        except (MqdssmError, ValueError) as error:
            self._end(number, queue, error)
        else:
            self._end(number, queue, None)

    def _recover_all(self) -> None:
        """Go on after a lost connection, or without a server."""
        if not self._sent and (numbered := self._take_next()) is not None:
            self._create_singly(*numbered)  # for the error of its event
        for number in list(self._sent):
            self._recover(number)

    def _recover(self, number: int) -> None:
        """Create a queue whose answer was lost, unless it was created.

        Two adds of one name cannot both succeed: either the first one was made, or the second one is.
        """
        if number in self._unidentified:
            return
        sent = self._sent.pop(number)
        try:
            self.create(sent.queue)
        except ObjectAlreadyExists as error:
            self._end_if_ours(number, sent, error)
        except DirectoryNotConnected as error:
            self._end(number, sent.queue, _make_unknown_error(sent, error))
        except (MqdssmError, ValueError) as error:
            self._end(number, sent.queue, error)
        else:
            self._end(number, sent.queue, None)

    def _end_if_ours(self, number: int, sent: _Sent, error: ObjectAlreadyExists) -> None:
        session = self.ctx.session
        try:
            is_ours = session.was_added(sent.dn, sent.attributes)
            entry = session.get(sent.dn, ["objectGUID"]) if is_ours else None
        except ObjectAlreadyExists as other:
            self._end(number, sent.queue, other)
        except DirectoryError as problem:
            self._end(number, sent.queue, _make_unknown_error(sent, problem))
        else:
            identifier = None if entry is None else guid_of(entry.attributes)
            if identifier is None:
                self._end(number, sent.queue, error)
            else:
                self._finish(number, sent, identifier)

    def _end(self, number: int, queue: Queue, error: Failure | None) -> None:
        self._ended[number] = (queue, error)
        if error is not None and self.stop_on_error:
            self._is_ending = True


class _Requests:
    """Iterator of adds that ends while too many are ahead, and then goes on."""

    def __init__(self, creation: QueueCreation) -> None:
        self._creation = creation

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ChangeInFlight:
        request = self._creation.request()
        if request is None:
            raise StopIteration
        return request


def can_send_ahead(ctx: Context) -> bool:
    """Return True if this session may add; else each single event has its error."""
    if ctx.session.read_only:
        return False
    with suppress(DirectoryError):
        ctx.session.refuse_if_replicated("add")
        return True
    return False


def _make_unknown_error(sent: _Sent, error: DirectoryError) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"add: the answer was lost, and reading back failed: {error}",
        dn=sent.dn,
        hint="read the object before you try again",
    )


def _make_identity_error(sent: _Sent, error: DirectoryError | None) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the object was made, but its objectGUID could not be read{'' if error is None else f': {error}'}",
        dn=sent.dn,
        hint="read the object by its name",
    )
