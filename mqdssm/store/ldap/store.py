"""The LDAP store: performs the operations of the engine on one LDAP directory.

A directory belongs to one replicating server: no other server numbers objects in it. It is read with a few
searches for all changes of an operation, and written with many requests in flight. A result is returned after
the server has answered all of them. Every operation may be repeated.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Final, Self

from mqdssm.directory.filters import And, Equal, GreaterOrEqual, LessOrEqual, Not, Substrings
from mqdssm.directory.loading.items import Action, Item
from mqdssm.directory.loading.sending import ChangeInFlight
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.schema_check import find_subschema_dn
from mqdssm.directory.session import Session
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.plain_words import describe_plainly
from mqdssm.errors import ConfigError, DirectoryError, DirectoryNotConnected, MappingError
from mqdssm.events.references import split_into_batches
from mqdssm.model.closeable import Closeable
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.seqnum import MIN, SequenceNumber
from mqdssm.store import rules
from mqdssm.store.damage_log import DamageLog
from mqdssm.store.ldap import references
from mqdssm.store.ldap.change_batches import ChangeApplier
from mqdssm.store.ldap.change_planner import MANAGER_CLASS, PlannedChange
from mqdssm.store.ldap.directory_owner import Owner, claim
from mqdssm.store.ldap.foreign_changes import ForeignChanges
from mqdssm.store.ldap.local_changes import LocalChanges
from mqdssm.store.ldap.places import DirectoryPlaces
from mqdssm.store.ldap.ranges import TOMBSTONE, NumberSearches, build_range_filter, read_of
from mqdssm.store.ldap.state import StateKeeper, delete_all
from mqdssm.store.ldap.stored_entry import StoredEntry, select_readable, stored_entry_of, values_of
from mqdssm.store.ldap.view import ChangeSubject, StoreSearches
from mqdssm.store.performer import FULL, map_performers
from mqdssm.tables import schema_mqis
from mqdssm.tables.creation import DEFAULTS
from mqdssm.tables.ldap_results import is_full
from mqdssm.tables.numbering import (
    BUCKET,
    CEILING_STEP,
    NUMBER,
    PARTITION,
    Numbering,
    bucket_of,
    number_value,
)
from mqdssm.tables.properties import PROPERTY_TABLES

log = logging.getLogger(__name__)

_DONE: Final = ops.Done()
_DAMAGED: Final[Mapping[type[ops.Operation], ops.Result]] = {
    **dict.fromkeys(
        (ops.CreateObject, ops.UpdateObject, ops.DeleteObject),
        ops.ObjectOutcome(status=Hresult.MQ_ERROR_DS_ERROR),
    ),
    ops.ApplyChanges: ops.Applied(count=0, status=Hresult.MQ_ERROR_DS_ERROR),
}
"""Results of changes of a damaged entry (decision R83); other operations are given up."""
_TOMBSTONES_AT_ONCE: Final = 256
_NO_SUCH_OBJECT: Final = 32
_HINT: Final = (
    "load ldif/mqis.schema (slapd.conf: include) or ldif/mqis.ldif (cn=config: ldapadd), and index "
    f"{', '.join(schema_mqis.INDEXED)} for equality"
)


class LdapStore(Closeable):
    """Directory of a replicating server (decisions R50 to R55).

    `mqdssm.store.performer.Store` is its protocol.

    Example:
        >>> with LdapStore.open(options) as store:  # doctest: +SKIP
        ...     store.perform(LoadState())
    """

    def __init__(self, session: Session, *, owner: Owner | None = None, closes_session: bool = False) -> None:
        """Check the directory, and add the missing containers.

        Args:
            session: a session with the directory, whose options have `allow_replicated`.
            owner: the server that has to own the directory; None for a reader.
            closes_session: True to close the session with the store.

        Raises:
            ConfigError: this directory cannot be used for the store; the text says why, and what to do.
            DirectoryError: it cannot be reached, or has no MSMQ.
        """
        self._session = session
        self._closes_session = closes_session
        self._is_closed = False
        self._is_complete = False
        self._damage_log = DamageLog()
        _check(session)
        places = DirectoryPlaces(session)
        self._reader = StoreSearches(session, places)
        self._state = StateKeeper(session, places)
        self._ranges = NumberSearches(session, self._reader)
        self._state.prepare()
        if owner is not None:
            claim(session, places, owner)
        self._applier = ChangeApplier(session, self._reader)
        self._authority = LocalChanges(self._reader, self._applier)
        self._foreign = ForeignChanges(session, self._reader)
        self._find_foreign = self._foreign.find
        self._performers = map_performers(self)

    @classmethod
    def open(cls, options: ConnectionOptions, *, owner: Owner | None = None) -> Self:
        """Connect to the directory and check it.

        Args:
            options: options of the connection.
            owner: as in the constructor.

        Raises:
            ConfigError: as in the constructor.
            DirectoryError: as in the constructor.
        """
        session = Session.open(replace(options, allow_replicated=True))
        try:
            return cls(session, owner=owner, closes_session=True)
        except BaseException:
            session.close()
            raise

    @property
    def heard_at(self) -> float:
        """Time when the directory sent anything last, in monotonic seconds.

        The time is minus infinity if it never did.
        """
        return self._session.heard_at

    def close(self) -> None:
        """Close the store and its own session; no data are lost."""
        self._is_closed = True
        if self._closes_session:
            self._session.close()

    def perform(self, operation: Any) -> Any:
        """Perform one operation; see `mqdssm.store.performer.Store`.

        Raises:
            DirectoryError: the directory cannot be reached; the operation may be repeated.
            MappingError: an entry of the store is damaged, and the operation's result has no status.
        """
        self._check_open()
        try:
            with self._session.keep_one_server():
                return self._performers[type(operation)](operation)
        except MappingError as error:
            damaged = _DAMAGED.get(type(operation))
            if damaged is None:
                raise
            self._damage_log.report(operation, str(error))
            return damaged
        except DirectoryError as error:
            full = FULL.get(type(operation))
            if full is None or not is_full(error.ldap_code, error.server_text, error.dn):
                raise
            log.warning("%s failed: %s", describe_plainly(operation), error)
            return full

    def _check_open(self) -> None:
        if self._is_closed:
            raise DirectoryNotConnected("this store is closed", hint="open it again")

    # -- state of the protocol

    def _load_state(self, _operation: ops.LoadState) -> ops.PersistedState:
        return self._state.load()

    def _save_partition(self, operation: ops.SavePartition) -> ops.Done:
        self._state.save_partition(operation.partition)
        return _DONE

    def _remove_partition(self, operation: ops.RemovePartition) -> ops.Done:
        self._state.remove_partition(operation.partition_id)
        return _DONE

    def _save_neighbor(self, operation: ops.SaveNeighbor) -> ops.Done:
        self._state.save_neighbor(operation.neighbor)
        return _DONE

    def _remove_neighbor(self, operation: ops.RemoveNeighbor) -> ops.Done:
        self._state.remove_neighbor(operation.machine_name, is_bsc=operation.is_bsc)
        return _DONE

    def _recover(self, operation: ops.Recover) -> ops.Recovered:
        partition = operation.partition_id
        highest, doubtful = self._find_highest(partition)
        saved = self._state.read_partition(partition)
        lowest = MIN if saved is None else saved.last
        owned = saved is not None and saved.owned
        if owned:  # one change at a time: only the last one can be incomplete
            lowest = max(lowest, highest.minus(CEILING_STEP))
        try:
            self._complete_interrupted_work()
            status = self._finish(partition, lowest)
            if owned and status == Hresult.MQ_OK:
                status = self._repeat(partition, highest)
        except DirectoryError as error:
            if not is_full(error.ldap_code, error.server_text, error.dn):
                raise
            log.warning("what was cut short in partition %s waits for room: %s", partition, error)
            status = Hresult.MQ_ERROR_DS_IS_FULL
        return ops.Recovered(highest=highest, status=status, doubtful=doubtful)

    def _complete_interrupted_work(self) -> None:
        """Complete interrupted work besides the objects themselves, once after the start."""
        if self._is_complete:
            return
        for complete in (
            self._applier.entry_renamer.complete_moves,
            self._applier.settings_objects.update_after_crash,
            partial(references.replace_stand_ins, self._session, self._reader),
        ):
            try:
                complete()
            except MappingError as error:  # replication does not depend on it
                log.error("the places of machines and their settings could not all be looked at: %s", error)  # noqa: TRY400
        self._is_complete = True

    def _find_highest(self, partition: Guid) -> tuple[SequenceNumber, SequenceNumber]:
        return self._ranges.find_highest(partition, self._state.read_ceiling(partition))

    def _finish(self, partition: Guid, after: SequenceNumber) -> int:
        """Complete interrupted deletions (decision R15).

        Of an object and its tombstone, the newer one stays.

        Returns:
            MQ_OK; else why a deletion could not be completed.
        """
        status: int = Hresult.MQ_OK
        search_filter = And(
            (TOMBSTONE, Equal(PARTITION, bytes(partition)), GreaterOrEqual(NUMBER, number_value(after)))
        )
        tombstones = select_readable(self._reader.find(search_filter))
        for some in split_into_batches(tombstones, _TOMBSTONES_AT_ONCE):
            again: list[PlannedChange] = []
            for tombstone in some:
                if tombstone.identifier is not None and tombstone.numbers is not None:
                    again.append(_plan_deletion(len(again), tombstone.identifier, tombstone.numbers))
            _, failed, _ = self._applier.apply(again)
            status = failed or status
        return status

    def _repeat(self, partition: Guid, number: SequenceNumber) -> int:
        """Repeat the work on names and references after an authority's last change.

        See decisions R97 and R103.

        Returns:
            MQ_OK; else why it could not be done.
        """
        status: int = Hresult.MQ_OK
        search_filter = build_range_filter(partition, number, number, (bucket_of(partition, number),))
        for stored_entry in select_readable(self._reader.find(search_filter)):
            if stored_entry.type is None or stored_entry.identifier is None or not stored_entry.is_object:
                continue
            concern = ChangeSubject(
                stored_entry.type, stored_entry.identifier, None, values_of(stored_entry, stored_entry.type)
            )
            numbers = Numbering(partition, number)
            again = PlannedChange(row=0, command=Command.CREATE, concern=concern, numbers=numbers)
            try:
                _, failed, _ = self._applier.apply([again])
            except MappingError as error:  # replication does not depend on it
                log.error("what follows from change %d could not all be done: %s", number, error)  # noqa: TRY400
            else:
                status = failed or status
        return status

    def _expect(self, partition: Guid, number: SequenceNumber) -> None:
        """Raise the ceiling before a number is written."""
        ceiling = self._state.read_ceiling(partition)
        highest = max(self._find_highest(partition)) if ceiling is None else MIN
        self._state.raise_ceiling(partition, number, highest)

    # -- changes of the authority

    def _create(self, operation: ops.CreateObject) -> ops.ObjectOutcome:
        self._expect(operation.partition_id, operation.seq_number)
        return self._authority.create(operation)

    def _update(self, operation: ops.UpdateObject) -> ops.ObjectOutcome:
        self._expect(operation.partition_id, operation.seq_number)
        return self._authority.update(operation)

    def _delete(self, operation: ops.DeleteObject) -> ops.ObjectOutcome:
        self._expect(operation.partition_id, operation.seq_number)
        return self._authority.delete(operation)

    # -- reading

    def _read(self, operation: ops.ReadObject) -> ops.ObjectRead:
        entries: Iterator[StoredEntry] = iter(())
        if operation.identifier is not None:
            entries = self._reader.find_objects([operation.identifier])
        elif operation.path_name is not None:
            entries = iter(self._reader.find_named(operation.object_type, operation.path_name))
        mine = [
            stored_entry
            for stored_entry in entries
            if stored_entry.is_object and stored_entry.type is operation.object_type
        ]
        if operation.partition_id is not None:
            mine = [
                stored_entry
                for stored_entry in mine
                if stored_entry.number_in(operation.partition_id) is not None
            ]
        return read_of(max(mine, key=attrgetter("age"), default=None))

    def _list(self, operation: ops.ListObjects) -> ops.ObjectsListed:
        table = PROPERTY_TABLES[operation.object_type]
        of_type = Equal("objectClass", table.classes[0].encode())
        search_filter = And((of_type, Equal(PARTITION, bytes(operation.partition_id))))
        entries = (
            stored_entry
            for entry in self._reader.find(search_filter)
            if (stored_entry := stored_entry_of(entry)).is_object
        )
        return ops.ObjectsListed(
            objects=tuple(
                read_of(entry)
                for entry in entries
                if not operation.service or _has_service(entry, operation.service)
            )
        )

    def _has_objects(self, operation: ops.HasObjects) -> ops.Answer:
        if operation.queues_of is not None:
            machines = self._reader.find_objects([operation.queues_of])
            return ops.Answer(
                yes=any(
                    self._authority.has_queues(machine)
                    for machine in machines
                    if machine.number_in(operation.partition_id) is not None
                )
            )
        search_filter = And((Equal(PARTITION, bytes(operation.partition_id)), Not(TOMBSTONE)))
        return ops.Answer(yes=next(self._reader.find(search_filter, ("1.1",)), None) is not None)

    def _lookup_changes(self, operation: ops.LookupChanges) -> ops.ChangesFound:
        saved = self._state.read_partition(operation.partition_id)
        last = min(operation.up_to, self._bound_search(operation.partition_id, operation.up_to))
        result = self._ranges.collect_changes(
            replace(operation, up_to=last), MIN if saved is None else saved.purged
        )
        if result.reached == last:
            return ops.ChangesFound(changes=result.changes, reached=operation.up_to)
        return result

    def _bound_search(self, partition: Guid, up_to: SequenceNumber) -> SequenceNumber:
        """Return a limit above which no number exists.

        With it, a request up to MAX does not search there.
        """
        ceiling = self._state.read_ceiling(partition)
        return up_to if ceiling is None else SequenceNumber(ceiling)

    # -- replicas

    def _apply_changes(self, operation: ops.ApplyChanges) -> ops.Applied:
        changes = operation.changes
        if not changes:
            return ops.Applied(count=0, status=Hresult.MQ_OK)
        self._expect(operation.partition_id, max(change.seq_number for change in changes))
        planned_changes, problem = _plan_changes(changes)
        count, status, _ = self._applier.apply(planned_changes)
        if status == Hresult.MQ_OK and problem is not None:
            status = problem
        return ops.Applied(count=count, status=status)

    # -- tombstones and full synchronization

    def _purge(self, operation: ops.PurgeDeletedObjects) -> ops.Done:
        bounds = (
            GreaterOrEqual(NUMBER, number_value(MIN.next())),
            LessOrEqual(NUMBER, number_value(operation.up_to)),
        )
        search_filter = And((TOMBSTONE, Equal(PARTITION, bytes(operation.partition_id)), *bounds))
        delete_all(self._session, (entry.dn for entry in self._reader.find(search_filter, ("1.1",))))
        return _DONE

    def _mark(self, operation: ops.MarkPartition) -> ops.Done:
        partition = operation.partition_id
        self._finish(partition, MIN)
        zero = Numbering(partition, MIN).values()
        search_filter = And((Equal(PARTITION, bytes(partition)), Not(Equal(NUMBER, number_value(MIN)))))
        items = (
            Item(row=0, action=Action.MODIFY, dn=entry.dn, attributes=zero)
            for entry in self._reader.find(search_filter, ("1.1",))
        )
        for request, result in self._session.loader.send(ChangeInFlight(item=item) for item in items):
            if result.code not in {0, _NO_SUCH_OBJECT}:
                raise self._session.loader.error_of(result, "modify", request.item.dn)
        return _DONE

    def _sweep(self, operation: ops.SweepPartition) -> ops.Done:
        partition = operation.partition_id
        marked = (Equal(BUCKET, bucket_of(partition, MIN)), Equal(NUMBER, number_value(MIN)))
        above = Equal("objectClass", MANAGER_CLASS.encode())
        for search_filter in (And((*marked, Not(above))), And(marked)):  # queues before their machines
            moves = -1
            while moves != self._applier.entry_renamer.moves:
                # entries that were read before may have been moved
                moves = self._applier.entry_renamer.moves
                self._applier.remove(map(stored_entry_of, self._reader.find(search_filter)))
        aside = And((Equal(PARTITION, bytes(partition)), Substrings("cn", any=(b"@",))))
        for entry in list(self._reader.find(aside)):
            self._applier.entry_renamer.restore_object(stored_entry_of(entry))
        return _DONE


def _check(session: Session) -> None:
    """Check that a directory can be used for the store.

    Raises:
        ConfigError: it cannot; the text says why, and what to do.
        DirectoryError: the server cannot be read, or its directory has no MSMQ.
    """
    if session.profile.no_replication:
        raise ConfigError(
            f"{session.profile.title} cannot hold the replication store: {session.profile.no_replication}"
        )
    session.check_msmq()
    entry = session.get(find_subschema_dn(session), ["objectClasses", "attributeTypes"])
    text = b"\n".join((*entry.all("objectClasses"), *entry.all("attributeTypes"))).decode(errors="replace")
    names = {definition.name for definition in schema_mqis.CLASSES} | {
        definition.name for definition in schema_mqis.ATTRIBUTES
    }
    missing = sorted(name for name in names if f"'{name}'" not in text)
    if missing:
        raise ConfigError(
            f"this server cannot hold the replication store: its schema lacks {', '.join(missing[:3])}"
            f"{' and more' if len(missing) > 3 else ''}; {_HINT}"
        )


def _has_service(stored_entry: StoredEntry, service: int) -> bool:
    value = values_of(stored_entry, ObjectType.MACHINE, (Propid.QM_SERVICE,)).get(Propid.QM_SERVICE)
    return isinstance(value, int) and bool(value & service)


def _plan_changes(changes: Sequence[DirectoryChange]) -> tuple[list[PlannedChange], Hresult | None]:
    """Return the planned changes up to the first invalid one, and its status."""
    planned_changes: list[PlannedChange] = []
    for change in changes:
        concern = _subject_of(change)
        if isinstance(concern, Hresult):
            return planned_changes, concern
        planned_changes.append(
            PlannedChange(
                row=len(planned_changes),
                command=Command(change.command),
                concern=concern,
                numbers=Numbering(change.partition_id, change.seq_number),
                scope=rules.scope_of_deletion(change.get(Propid.D_SCOPE)),
            )
        )
    return planned_changes, None


def _subject_of(change: DirectoryChange) -> ChangeSubject | Hresult:
    """Return what a change concerns, or the status of a change that is not valid."""
    if change.command == Command.DELETE:
        kind = rules.type_of_deletion(change.get(Propid.D_OBJTYPE))
        return ChangeSubject(kind, change.guid_identifier, change.path_name, {})
    object_type = change.object_type
    if object_type is None or object_type not in DEFAULTS:
        return Hresult.MQDS_WRONG_OBJ_TYPE
    if change.command == Command.UPDATE:
        properties = rules.select_kept_properties(object_type, change.properties)
        return ChangeSubject(object_type, change.guid_identifier, change.path_name, properties)
    identifier = change.guid_identifier or rules.find_identifier(object_type, change.properties)
    if identifier is None:
        return Hresult.MQ_ERROR_PROPERTY
    whole = rules.complete_properties(object_type, change.path_name, change.properties)
    return ChangeSubject(object_type, identifier, None, whole)


def _plan_deletion(row: int, identifier: Guid, numbers: Numbering) -> PlannedChange:
    """Return the deletion that left a tombstone."""
    concern = ChangeSubject(ObjectType.DELETED_OBJECT, identifier, None, {})
    return PlannedChange(row=row, command=Command.DELETE, concern=concern, numbers=numbers)
