"""Changes of many elements at once, over several connections (decision M119).

Each element is changed by the event for a single one, in a thread: preconditions, defaults and notices are
those of that event. Only new queues are sent ahead of the answers (`queue_creation`). An element of another
kind than the one before waits for all before it: queues for their queue managers, and these for their sites.
An element that names an object of a running change waits for that.
"""

import contextvars
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar, cast
from uuid import UUID

from mqdssm.errors import MqdssmError
from mqdssm.events.attributes import KEYS
from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Queue

if TYPE_CHECKING:
    from concurrent.futures import Future

E = TypeVar("E", bound=DirectoryObject)

CONNECTIONS: Final = 4
"""Default number of connections."""
CONNECTIONS_MAX: Final = 32
"""Maximum number of connections: half of those that a session may have."""
BEGUN_PER_CONNECTION: Final = 4
"""Changes for each connection that have begun or wait for a thread: outcomes come in order, and some wait."""

Created: TypeAlias = Generator[tuple[Queue, MqdssmError | ValueError | None], None, None]
"""Queues with the reason why each was not created, or None."""
CreateAhead: TypeAlias = Callable[[Iterator[Queue], bool], Created | None]

OnProgress: TypeAlias = Callable[[int, int], None]
"""Called with the number of elements whose change has ended, and of those that failed."""


def check_connections(number: int) -> None:
    """Raise ValueError for a number of connections that is not allowed."""
    if not 1 <= number <= CONNECTIONS_MAX:
        raise ValueError(f"{number} connections: 1 to {CONNECTIONS_MAX} are allowed")


@dataclass(frozen=True, slots=True)
class ElementOutcome(Generic[E]):
    """Outcome of the change of one element (decision M119).

    Attributes:
        element: the caller's element.
        created: True if the object was created.
        error: why the change failed; None if it succeeded.
    """

    element: E
    created: bool = False
    error: MqdssmError | ValueError | None = None

    @property
    def succeeded(self) -> bool:
        """True if the change was made."""
        return self.error is None

    @property
    def identifier(self) -> UUID | None:
        """Identifier of the element; a created one has that of the new object."""
        return self.element.identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOptions:
    """Options of the changes of many elements (decision M119).

    Attributes:
        connections: changes at a time, each with a connection of its own.
        stop_on_error: begin no further change after the first failure.
        on_progress: called after each change, in order.

    Raises:
        ValueError: a number of connections that is not allowed.
    """

    connections: int = CONNECTIONS
    stop_on_error: bool = False
    on_progress: OnProgress | None = None

    def __post_init__(self) -> None:
        check_connections(self.connections)


@dataclass(frozen=True, slots=True)
class _Begun(Generic[E]):
    """Change that has begun, or waits for a thread."""

    element: E
    keys: frozenset[object]
    created: "Future[bool]"


class _Run(Generic[E]):
    """Changes of the elements of one iterable."""

    def __init__(self, elements: Iterable[E], change: Callable[[E], bool], options: BulkOptions) -> None:
        self._source: Iterator[E] = iter(elements)
        self._change = change
        self._options = options
        self._begun: deque[_Begun[E]] = deque()
        self._is_ending = False
        self._problem: Exception | None = None
        self._ended = self._failed = 0

    def collect_outcomes(self) -> Generator[ElementOutcome[E], None, None]:
        """Yield the outcomes in the order of the elements."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  few need it, and it takes time

        threads = ThreadPoolExecutor(self._options.connections, thread_name_prefix="mqdssm-changes")
        try:
            for element in self._take_elements():
                keys = _keys_of(element)
                while not self._is_ending and self._has_to_wait(element, keys):
                    yield self._take()
                if not self._is_ending:
                    context = contextvars.copy_context()
                    created = threads.submit(context.run, self._change, element)
                    self._begun.append(_Begun(element, keys, created))
            while self._begun:
                yield self._take()
        finally:
            threads.shutdown(cancel_futures=True)  # waits for the changes that were sent
        if self._problem is not None:
            raise self._problem

    def _take_elements(self) -> Iterator[E]:
        """Yield the elements until the run ends or the caller's iterable fails."""
        while not self._is_ending:
            try:
                element = next(self._source)
            except StopIteration:
                return
            except Exception as error:  # noqa: BLE001  raised after the outcomes of what has begun
                self._problem = error
                return
            yield element

    def _has_to_wait(self, element: E, keys: frozenset[object]) -> bool:
        if len(self._begun) >= BEGUN_PER_CONNECTION * self._options.connections:
            return True
        return any(
            type(other.element) is not type(element) or not keys.isdisjoint(other.keys)
            for other in self._begun
        )

    def _take(self) -> ElementOutcome[E]:
        """Wait for the oldest change and return its outcome."""
        oldest = self._begun.popleft()
        try:
            outcome = ElementOutcome(oldest.element, created=oldest.created.result())
        except (MqdssmError, ValueError) as error:
            outcome = ElementOutcome(oldest.element, error=error)
            self._failed += 1
            self._is_ending = self._is_ending or self._options.stop_on_error
        self._ended += 1
        if self._options.on_progress is not None:
            self._options.on_progress(self._ended, self._failed)
        return outcome


def change_many(
    elements: Iterable[E], change: Callable[[E], bool], options: BulkOptions
) -> Generator[ElementOutcome[E], None, None]:
    """Change many elements, and yield an outcome for each (decision M119).

    The outcomes come in the order of the elements.

    Args:
        elements: taken as they are changed: memory does not grow with their number.
        change: changes one, in a thread; returns True if it was created.
        options: how.

    Raises:
        Exception: while iterating: what `elements`, the call-back or a defect of `change` raises. Outcomes of
            changes that have begun come before an error of `elements`.
    """
    return _Run(elements, change, options).collect_outcomes()


def create_in_groups(
    elements: Iterable[E],
    change: Callable[[E], bool],
    create_ahead: CreateAhead,
    options: BulkOptions,
) -> Generator[ElementOutcome[E], None, None]:
    """Create many elements, queues ahead of the answers (decision M119).

    Args:
        elements: as for `change_many`.
        change: creates one.
        create_ahead: creates queues that follow each other.
        options: how.
    """
    ended = failed = 0
    inner = BulkOptions(connections=options.connections, stop_on_error=options.stop_on_error)
    for are_queues, group in groupby(elements, lambda element: type(element) is Queue):
        members = iter(group)
        ahead = create_ahead(cast("Iterator[Queue]", members), options.stop_on_error) if are_queues else None
        if ahead is None:
            outcomes = change_many(members, change, inner)
        else:
            outcomes = cast("Generator[ElementOutcome[E], None, None]", _outcomes_of(ahead))
        with closing(outcomes):
            for outcome in outcomes:
                ended, failed = ended + 1, failed + (not outcome.succeeded)
                if options.on_progress is not None:
                    options.on_progress(ended, failed)
                yield outcome
        if failed and options.stop_on_error:
            return


def _outcomes_of(ahead: Created) -> Generator[ElementOutcome[Queue], None, None]:
    with closing(ahead):
        for queue, error in ahead:
            yield ElementOutcome(queue, created=error is None, error=error)


def _keys_of(element: object) -> frozenset[object]:
    """Return the keys by which an element names its object."""
    keys: set[object] = {id(element)}
    if isinstance(element, DirectoryObject):
        for name in KEYS.get(element.element_name, ()):
            value = getattr(element, element.field_name(name))
            keys.add((name, str(value).lower()) if value else id(element))
    return frozenset(keys)


class SingleEvents(Protocol):
    """Events for single elements, as `Directory` has them (decision M119)."""

    def create(self, obj: DirectoryObject, *, attributes: Sequence[str] | None = None) -> UUID:
        """Create an object."""

    def write(
        self, obj: DirectoryObject, *, attributes: Sequence[str] | None = None, if_unchanged: bool = False
    ) -> None:
        """Write attributes of an object."""

    def upsert(self, obj: DirectoryObject, *, attributes: Sequence[str] | None = None) -> bool:
        """Write an object, or create it."""

    def delete(self, obj: DirectoryObject, recursive: bool = False) -> None:
        """Delete an object."""

    def create_ahead(
        self, attributes: Sequence[str] | None, queues: Iterator[Queue], stop_on_error: bool
    ) -> Created | None:
        """Create queues ahead of the answers; None if each needs its own event."""


class BulkChanges:
    """Changes of many elements at once: a part of `Directory` (decision M119).

    Each method takes any iterable and returns a generator of outcomes, one for each element, in order. A
    failure is the outcome of its element; the other elements are changed nevertheless. Nothing is sent before
    the first outcome is asked for. At most 4 changes for each connection are ahead of the last outcome.
    Creates of queues use one connection, and some 300 of them are ahead.

    If the generator is closed early, no further change begins, and it waits for those that were sent. An
    element that was created then has its Identifier, whether its outcome was yielded or not.

    The elements of one kind are changed in any order. Where the order matters, use one connection.
    """

    def create_many(
        self: SingleEvents,
        elements: Iterable[E],
        *,
        attributes: Sequence[str] | None = None,
        connections: int = CONNECTIONS,
        stop_on_error: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Generator[ElementOutcome[E], None, None]:
        """Create many objects, each as `Directory.create` does.

        Args:
            elements: the objects; queue managers before their queues.
            attributes: names of the attributes to persist; None: all that are populated.
            connections: creates at a time, 1 to 32.
            stop_on_error: begin no further create after the first failure.
            on_progress: called after each with the number of ended and of failed creates.

        Raises:
            ValueError: a number of connections that is not allowed.
        """

        def change(element: E) -> bool:
            self.create(element, attributes=attributes)
            return True

        options = BulkOptions(connections=connections, stop_on_error=stop_on_error, on_progress=on_progress)
        return create_in_groups(elements, change, partial(self.create_ahead, attributes), options)

    def write_many(
        self: SingleEvents,
        elements: Iterable[E],
        *,
        attributes: Sequence[str] | None = None,
        if_unchanged: bool = False,
        connections: int = CONNECTIONS,
        stop_on_error: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Generator[ElementOutcome[E], None, None]:
        """Write many objects, each as `Directory.write` does.

        The arguments are those of `write` and `create_many`.
        """

        def change(element: E) -> bool:
            self.write(element, attributes=attributes, if_unchanged=if_unchanged)
            return False

        options = BulkOptions(connections=connections, stop_on_error=stop_on_error, on_progress=on_progress)
        return change_many(elements, change, options)

    def upsert_many(
        self: SingleEvents,
        elements: Iterable[E],
        *,
        attributes: Sequence[str] | None = None,
        connections: int = CONNECTIONS,
        stop_on_error: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Generator[ElementOutcome[E], None, None]:
        """Write or create many objects, each as `Directory.upsert` does.

        The arguments are those of `create_many`. The outcome says which objects were created.
        """
        options = BulkOptions(connections=connections, stop_on_error=stop_on_error, on_progress=on_progress)
        return change_many(elements, lambda element: self.upsert(element, attributes=attributes), options)

    def delete_many(
        self: SingleEvents,
        elements: Iterable[E],
        *,
        recursive: bool = False,
        connections: int = CONNECTIONS,
        stop_on_error: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Generator[ElementOutcome[E], None, None]:
        """Delete many objects, each as `Directory.delete` does.

        The arguments are those of `delete` and `create_many`; queues come before their queue managers.
        """

        def change(element: E) -> bool:
            self.delete(element, recursive)
            return False

        options = BulkOptions(connections=connections, stop_on_error=stop_on_error, on_progress=on_progress)
        return change_many(elements, change, options)
