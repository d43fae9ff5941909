"""Requests of clients and their answers, compared with the ledger.

See [MC-MQDSRP] 3.1.7.1.1 and 3.3.7.1.

MQ_OK: done, once. An error: not done. No answer, MQDS_NO_RSP_FROM_OWNER, or a server that stopped: done once
or not at all (decision R61).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mqdssm.engines.replication.actions import ChangeObject
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult, is_failure
from mqdssm.model.messages import Command
from mqdssm.model.propids import Propid
from mqdssm.testing.simulation.ledger import NumberedChange, describe
from mqdssm.testing.simulation.trace import Violation

NOT_REACHED: Final = int(Hresult.MQDS_OWNER_NOT_REACHED)
NO_RESPONSE: Final = int(Hresult.MQDS_NO_RSP_FROM_OWNER)
OWN_PROPERTIES: Final = frozenset({Propid.QM_SERVICE, Propid.QM_PATHNAME, Propid.S_PSC, Propid.E_PECNAME})
"""Properties that authorities change by themselves, when one takes over from another or is renamed."""


@dataclass(slots=True)
class ClientRequest:
    """Request of a client for a change.

    Attributes:
        change: the requested change.
        server: index of the server that received the request.
        life: the server's life then: when that life ends, the answer is lost.
        asked_at: time of the request, simulated seconds.
        status: the answer; None: no answer yet.
        told_at: time of the answer.
        unsure: MQDS_OWNER_NOT_REACHED may be wrong: of two copies of a message one arrives.
    """

    change: ChangeObject
    server: int
    life: int
    asked_at: float
    status: int | None = None
    told_at: float = float("inf")
    unsure: bool = False

    @property
    def may_be_done(self) -> bool:
        """True if the answer permits that the change was made."""
        if self.status is None or self.status == NO_RESPONSE or not is_failure(self.status):
            return True
        return self.unsure and self.status == NOT_REACHED

    @property
    def must_be_done(self) -> bool:
        """True if the answer says that the change was made."""
        return self.status is not None and not is_failure(self.status)

    def fits(self, entry: NumberedChange) -> bool:
        """Return True if an entry of the ledger can be the result of this request."""
        change = self.change
        if change.command is not entry.command or change.object_type is not entry.object_type:
            return False
        if entry.at < self.asked_at or (self.must_be_done and entry.at > self.told_at):
            return False
        if change.identifier is not None:
            if change.identifier != entry.identifier:
                return False
        elif (change.path_name or "").casefold() != entry.path.casefold():
            return False
        return change.command is not Command.UPDATE or set(change.properties) <= set(entry.asked)

    def __str__(self) -> str:
        change = self.change
        name = change.path_name or str(change.identifier)[:8]
        text = describe(self.status)
        return (
            f"request {change.request}, {change.command.name} {change.object_type.name} {name}, told {text}"
        )


class RequestBook:
    """All requests of a run.

    Args:
        is_loose: tells whether a partition's authority was lost; its answers are not checked then.
    """

    def __init__(self, is_loose: Callable[[Guid], bool]) -> None:
        self._is_loose = is_loose
        self.requests: dict[int, ClientRequest] = {}
        self._entries: list[NumberedChange] = []
        self._entries_of: dict[Guid | str, list[NumberedChange]] = {}
        self._by_object: dict[Guid | str, list[ClientRequest]] = {}

    def ask(self, request: ClientRequest) -> None:
        """Record a request."""
        self.requests[request.change.request] = request
        self._by_object.setdefault(_choose_key(request.change), []).append(request)

    def record_answer(self, number: int, status: int, now: float) -> ClientRequest:
        """Record an answer, and check it.

        Raises:
            Violation: an unknown request; a second answer; a wrong answer.
        """
        request = self.requests.get(number)
        if request is None:
            raise Violation(f"an answer to request {number}, which nobody made")
        if request.status is not None:
            raise Violation(f"{request} was answered again: {describe(status)}")
        request.status, request.told_at = status, now
        if self._is_loose(request.change.partition_id):
            return request
        if request.must_be_done and not any(
            request.fits(entry) for entry in self._entries_of_request(request)
        ):
            raise Violation(f"{request}: no authority has done it")
        if not request.may_be_done and request.change.properties:
            matching_entry = next(
                (
                    candidate
                    for candidate in self._entries_of_request(request)
                    if self._is_only(request, candidate)
                ),
                None,
            )
            if matching_entry is not None:
                raise Violation(f"{request}: but it was done: {matching_entry.number} {matching_entry}")
        return request

    def done(self, entry: NumberedChange) -> None:
        """Record a change that an authority made.

        Raises:
            Violation: no client asked for it.
        """
        if not is_own(entry) and not any(
            request.may_be_done and request.fits(entry) for request in self._find_candidates(entry)
        ):
            request_list = ", ".join(str(request) for request in self._find_candidates(entry)) or "nothing"
            raise Violation(f"{entry.number} {entry} was done, but {request_list} asked for")
        self._entries.append(entry)
        self._entries_of.setdefault(entry.identifier, []).append(entry)
        if entry.path:
            self._entries_of.setdefault(entry.path.casefold(), []).append(entry)

    def check(self) -> None:
        """Check that each confirmed request was carried out.

        No request may be carried out more than once.

        Raises:
            Violation: a request is missing, or a change has no request.
        """
        entries = [entry for entry in self._entries if not is_own(entry)]
        candidate_lists = [
            [request for request in self._find_candidates(entry) if request.may_be_done] for entry in entries
        ]
        edges = [
            [request for request in candidates if request.fits(entry)]
            for entry, candidates in zip(entries, candidate_lists, strict=True)
        ]
        unmatched = _match(edges)
        if unmatched is not None:
            raise Violation(
                f"{entries[unmatched].number} {entries[unmatched]} was done more often than asked"
            )
        self._check_promises(entries, edges)

    def _check_promises(
        self, entries: Sequence[NumberedChange], edges: Sequence[Sequence[ClientRequest]]
    ) -> None:
        by_request: dict[int, list[NumberedChange]] = {}
        for entry, candidates in zip(entries, edges, strict=True):
            for request in candidates:
                by_request.setdefault(request.change.request, []).append(entry)
        own_entries = [entry for entry in self._entries if is_own(entry)]
        promised = [
            candidate
            for candidate in self.requests.values()
            if candidate.must_be_done and not self._is_loose(candidate.change.partition_id)
        ]
        fitting = [
            [
                *by_request.get(promise.change.request, ()),
                *(entry for entry in own_entries if promise.fits(entry)),
            ]
            for promise in promised
        ]
        missing = _match(fitting)
        if missing is not None:
            raise Violation(f"{promised[missing]}: it was not done, or not as often as promised")

    def _find_candidates(self, entry: NumberedChange) -> list[ClientRequest]:
        by_path = self._by_object.get(entry.path.casefold(), []) if entry.path else []
        return [*self._by_object.get(entry.identifier, []), *by_path]

    def _entries_of_request(self, request: ClientRequest) -> Iterable[NumberedChange]:
        return (
            entry for entry in self._entries_of.get(_choose_key(request.change), ()) if request.fits(entry)
        )

    def _is_only(self, request: ClientRequest, entry: NumberedChange) -> bool:
        other_requests = (other for other in self._find_candidates(entry) if other is not request)
        return not is_own(entry) and not any(
            other.may_be_done and other.fits(entry) for other in other_requests
        )


def is_own(entry: NumberedChange) -> bool:
    """Return True if authorities make a change like this by themselves."""
    propids = {propid for propid, _ in entry.asked}
    return entry.command is Command.UPDATE and bool(propids) and propids <= OWN_PROPERTIES


def _choose_key(change: ChangeObject) -> Guid | str:
    if change.identifier is not None:
        return change.identifier
    return (change.path_name or "").casefold()


def _match(edges: Sequence[Sequence[object]]) -> int | None:
    """Match each left node with its own right node (Kuhn).

    Returns the first unmatched node, or None.
    """
    holder: dict[int, int] = {}

    def find(left: int, seen: set[int]) -> bool:
        for right in map(id, edges[left]):
            if right in seen:
                continue
            seen.add(right)
            if right not in holder or find(holder[right], seen):
                holder[right] = left
                return True
        return False

    return next((left for left in range(len(edges)) if not find(left, set())), None)
