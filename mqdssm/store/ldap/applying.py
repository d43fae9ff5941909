"""Changes on their way into the directory: planned in their order, sent together (decision R15)."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqdssm.directory.filters import Equal, LdapFilter
from mqdssm.directory.loading.items import Action, Item
from mqdssm.directory.loading.sending import Request
from mqdssm.directory.responses import LdapResult
from mqdssm.directory.session import Session
from mqdssm.errors import GenericDirectoryError, ObjectAlreadyExists, ObjectNotFound
from mqdssm.events.making import Maker, Target
from mqdssm.model.dn import DN, normalize
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult, name_of
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType
from mqdssm.store.ldap.held import TWIN, Held, held_of, values_of
from mqdssm.store.ldap.planning import (
    Plan,
    Planner,
    Renaming,
    Wanted,
    domain_of,
    is_aside,
    path_of,
    placeholder,
    reduced,
)
from mqdssm.store.ldap.references import complete, follow
from mqdssm.store.ldap.view import Concern, Reader, View, Viewing, batches
from mqdssm.tables.ldap_results import is_full
from mqdssm.tables.properties import NAME as PATH_NAME
from mqdssm.tables.properties import OBJECT_GUID, references_of

log = logging.getLogger(__name__)

CHANGES_AT_ONCE: Final = 256
"""Changes that are looked up and sent together."""
ATTEMPTS_MAX: Final = 4
"""How often a change is planned again because the directory was not as it was read."""

SUCCESS, NO_SUCH_OBJECT, NOT_LEAF, EXISTS, FAILED_ASSERTION = 0, 32, 66, 68, 122
_BUSY: Final = frozenset({51, 52})
_STALE: Final = frozenset({NO_SUCH_OBJECT, EXISTS, FAILED_ASSERTION})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a change was not made.

    Attributes:
        status: HRESULT.
        stale: the directory was not as it was read: it may be planned again.
    """

    status: int
    stale: bool = False


@dataclass(slots=True)
class _Run:
    """Plans that may be carried out together."""

    plans: list[tuple[Wanted, Plan]] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)  # normalised DNs
    alone: bool = False

    def admits(self, plan: Plan) -> bool:
        """Whether a plan may be carried out at the same time: nothing it touches is being deleted."""
        if not self.plans:
            return True
        if self.alone or plan.ahead or plan.before or plan.behind:
            return False
        dns = [DN.parse(one.item.dn) for one in (*plan.first, *plan.last)]
        touched = {name for dn in dns for name in (dn.normalized, dn.parent.normalized)}
        return not (touched & self.deleted)

    def add(self, wanted: Wanted, plan: Plan) -> None:
        """Take it in."""
        self.plans.append((wanted, plan))
        self.deleted |= {normalize(one.item.dn) for one in plan.last}
        self.alone = bool(plan.ahead or plan.before or plan.behind)


class Applier:
    """Carries changes of one partition out."""

    def __init__(self, session: Session, reader: Reader) -> None:
        self._session = session
        self._reader = reader
        self._viewing = Viewing(reader)
        self._maker = Maker(Target.of(session), lambda _guids, _class: {})
        self._domain = domain_of(reader.places.root)

    def apply(self, changes: Sequence[Wanted]) -> tuple[int, int, list[Guid | None]]:
        """Make changes, in their order as far as one depends on another.

        Returns:
            How many from the beginning are durable, the status of the next one (or MQ_OK), and the GUIDs of
            their objects.

        Raises:
            DirectoryError: the directory cannot be reached.
        """
        identifiers: list[Guid | None] = []
        attempts = 0
        while len(identifiers) < len(changes):
            some = changes[len(identifiers) : len(identifiers) + CHANGES_AT_ONCE]
            made, failure = self._some(some)
            identifiers += made
            attempts = 1 if made else attempts + 1
            if failure is not None and not (failure.stale and attempts < ATTEMPTS_MAX):
                return len(identifiers), failure.status, identifiers
        return len(identifiers), Hresult.MQ_OK, identifiers

    def view(self, changes: Sequence[Wanted]) -> View:
        """What is there of what some changes concern."""
        refers = [
            guid
            for one in changes
            if one.command is not Command.DELETE
            for _, guids in references_of(one.concern.type, one.concern.properties.items())
            for guid in guids
        ]
        return self._viewing.view(changes[0].numbers.partition, [one.concern for one in changes], refers)

    def _some(self, changes: Sequence[Wanted]) -> tuple[list[Guid | None], Failure | None]:
        """Make some changes; those from the beginning that are durable, and why the next one is not."""
        planner = Planner(self.view(changes), self._maker, self._domain)
        failures: dict[int, Failure] = {}
        identifiers: list[Guid | None] = []
        run, first_row = _Run(), changes[0].row
        for wanted in changes:
            plan = planner.plan(wanted)
            if plan.status != Hresult.MQ_OK:
                failures[wanted.row] = Failure(plan.status)
                break
            identifiers.append(plan.identifier)
            if not run.admits(plan):
                self._carry_out(run, failures)
                run = _Run()
                if failures:
                    break
            run.add(wanted, plan)
        self._carry_out(run, failures)
        self._complete(changes)
        if not failures:
            return identifiers, None
        row = min(failures)
        return identifiers[: row - first_row], failures[row]

    def _complete(self, changes: Sequence[Wanted]) -> None:
        """Let those that refer to new objects know where these are."""
        kinds = {ObjectType.SITE, ObjectType.MACHINE}
        whole = [one for one in changes if one.concern.type in kinds and one.command is not Command.DELETE]
        complete(self._session, self._reader, [one.concern.identifier for one in whole])

    def settle(self, gone: Iterable[Held]) -> None:
        """Give objects that had to stand aside the GUIDs and names of those that are gone (decision R53)."""
        terms: list[LdapFilter] = []
        for held in gone:
            if held.identifier is not None:
                terms.append(Equal(TWIN, bytes(held.identifier)))
            terms += (Equal(PATH_NAME, raw) for raw in held.entry.get(PATH_NAME, ()))
        for entry in list(self._reader.any_of(terms)):
            held = held_of(entry)
            self.settle_one(held)

    def settle_one(self, held: Held) -> None:
        """Let an object that stands aside have its GUID and name, if nobody else has them."""
        if not held.is_object or not (is_aside(held.dn) or TWIN in held.entry):
            return
        if held.type is None or held.identifier is None or held.numbers is None:
            return
        concern = Concern(held.type, held.identifier, None, values_of(held, held.type))
        view = self._viewing.view(held.numbers.partition, [concern])
        there = view.elsewhere.get(held.identifier)
        if TWIN in held.entry and (there is None or TWIN in there.entry):
            changes = {OBJECT_GUID: (bytes(held.identifier),), TWIN: ()}
            item = Item(row=0, action=Action.MODIFY, dn=held.dn, attributes=changes)
            # no condition: slapd's overlay unique applies it to its own search, too, and fails
            self._send([Request(item=item)], {})
        place = view.place(concern, held.identifier, path_of(concern))
        if is_aside(held.dn) and place is not None and view.at.get(place.dn.normalized) is None:
            self._rename([Renaming(DN.parse(held.dn), place.dn)])

    def remove(self, entries: Iterable[Held]) -> None:
        """Remove objects and tombstones that have no other ones below them any more.

        Raises:
            DirectoryError: the directory cannot be reached, or refuses it.
        """
        for some in batches(entries, CHANGES_AT_ONCE):
            failures: dict[int, Failure] = {}
            requests = [
                Request(
                    item=Item(
                        row=row,
                        action=Action.DELETE if left is None else Action.MODIFY,
                        dn=held.dn,
                        attributes=left or {},
                    ),
                    condition=held.unchanged,
                )
                for row, held in enumerate(some)
                for left in (reduced(held),)
            ]
            kept = self._send(requests, failures)
            self._leave_placeholders(kept, failures)
            self.settle(some)
            refused = next((one for one in failures.values() if not one.stale), None)
            if refused is not None:
                raise GenericDirectoryError(f"objects could not be removed: {name_of(refused.status)}")

    # -- one run

    def _carry_out(self, run: _Run, failures: dict[int, Failure]) -> None:
        plans = run.plans
        ahead = self._send([one for _, plan in plans for one in plan.ahead], failures)
        self._leave_placeholders(ahead, failures)
        self._rename(one for _, plan in plans for one in plan.before)
        first = [one for wanted, plan in plans if wanted.row not in failures for one in plan.first]
        self._send(first, failures)
        last = [one for wanted, plan in plans if wanted.row not in failures for one in plan.last]
        left = self._send(last, failures)
        if left:
            self._leave_placeholders(left, failures)
        self._rename(one for wanted, plan in plans if wanted.row not in failures for one in plan.behind)
        gone = [one for wanted, plan in plans if wanted.row not in failures for one in plan.gone]
        if gone:
            self.settle(gone)

    def _send(self, requests: list[Request], failures: dict[int, Failure]) -> list[Request]:
        """Send requests; those that could not be made because there are others below are given back."""
        left: list[Request] = []
        if not requests:
            return left
        for request, result in self._session.loader.send(requests):
            if result.code == SUCCESS or (
                result.code == NO_SUCH_OBJECT and request.item.action is Action.DELETE
            ):
                continue
            if result.code == NOT_LEAF and request.item.action is Action.DELETE:
                left.append(request)
                continue
            failure = self._failure(request, result)
            row = request.item.row
            # a stale request of a change may be the consequence of another one
            if row not in failures or failures[row].stale:
                failures[row] = failure
        return left

    def _failure(self, request: Request, result: LdapResult) -> Failure:
        if result.code in _BUSY:
            raise GenericDirectoryError(
                "the server is too busy", dn=request.item.dn, ldap_code=result.code, server_text=result.text
            )
        if result.code in _STALE:
            return Failure(Hresult.MQ_ERROR_DS_ERROR, stale=True)
        error = self._session.profile.explain(result, request.item.action, request.item.dn)
        if isinstance(error, ObjectAlreadyExists):
            return Failure(Hresult.MQ_ERROR_DS_ERROR, stale=True)
        log.error(
            "%s of %s: LDAP result %d %s", request.item.action, request.item.dn, result.code, result.text
        )
        full = is_full(result.code, result.text)
        return Failure(Hresult.MQ_ERROR_DS_IS_FULL if full else Hresult.MQ_ERROR_DS_ERROR)

    def _leave_placeholders(self, requests: Iterable[Request], failures: dict[int, Failure]) -> None:
        """Objects that are deleted while others are below them: the entry stays (decision R53)."""
        replaced = []
        for request in requests:
            dn = request.item.dn
            entry = next(iter(self._reader.any_of([self._session.profile.dn_filter(dn)])), None)
            if entry is None:
                continue
            held = held_of(entry)
            item = Item(row=request.item.row, action=Action.MODIFY, dn=dn, attributes=placeholder(held))
            replaced.append(Request(item=item, condition=request.condition))
        self._send(replaced, failures)

    def _rename(self, renamings: Iterable[Renaming]) -> None:
        """Give entries other names; one that cannot have it keeps the old one, which no property shows.

        What refers to an entry is told before, so that a crash in between is found by the next attempt.
        """
        for one in renamings:
            follow(self._session, self._reader, str(one.old), str(one.new))
            try:
                self._session.rename(one.old, _rdn(one.new), one.new.parent)
            except (ObjectAlreadyExists, ObjectNotFound) as error:
                log.warning("%s keeps its name: %s", one.old, error)
                follow(self._session, self._reader, str(one.new), str(one.old))


def _rdn(dn: DN) -> str:
    return str(DN((dn.rdns[0],)))
