"""Public keys that may sign for a queue manager.

Keys come from the directory and from the administrator.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Final, Generic, Protocol, TypeVar

from mqdssm.drivers.store_thread import list_objects, read_object
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.properties import get_guid, get_roles, type_of
from mqdssm.errors import DecodeError, DirectoryError, MappingError
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, Properties, PropertyValue
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import Service
from mqdssm.wire.keys import PublicKey, PublicKeys

log: Final = logging.getLogger(__name__)

BELIEVED_S: Final = 60.0
"""Seconds for which an answer of the directory is used: key changes are seen within a minute."""
UNKNOWN_S: Final = 5.0
"""Seconds for which an empty answer is used: new servers are found soon, the directory is not flooded."""
OUTAGE_S: Final = 600.0
"""Maximum age of an answer while the directory is not reachable, or its store is busy with changes."""
ANSWERS_MAX: Final = 1000
"""Maximum number of cached machines; an enterprise has a few hundred directory servers at most."""
KEYS_TRIED_MAX: Final = 8
"""Maximum number of keys tried for one machine; it usually has one for each provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedSender:
    """Machine that may sign messages, with its public keys.

    Attributes:
        machine_name: name of the machine.
        service: what it is to the directory, PROPID_QM_SERVICE.
        keys: its public keys.
        machine_id: its QueueManager.Identifier; None where the keys are those of a site's PSC alone.
        site_id: the site whose partition has its object; None: not known.
    """

    machine_name: str
    service: Service = Service.NONE
    keys: tuple[PublicKey, ...] = field(repr=False)
    machine_id: Guid | None = None
    site_id: Guid | None = None

    def is_called(self, machine_name: str) -> bool:
        """Return True if this is the name of the machine, in any case."""
        return self.machine_name.casefold() == machine_name.casefold()

    @property
    def is_directory_server(self) -> bool:
        """True if the machine is a BSC, PSC or PEC ([MS-MQMQ] 2.3.2.9)."""
        return bool(self.service & (Service.BSC | Service.PSC | Service.PEC))


class KeyRing(Protocol):
    """Source of the machines and keys that may sign as a queue manager."""

    def find_senders(self, queue_manager: Guid) -> Iterable[TrustedSender]:
        """Return senders that may have signed messages with a SenderIdentifier.

        The likeliest sender is first.

        Raises:
            DirectoryError: it cannot be told now.
        """


@dataclass(frozen=True, slots=True)
class PinnedKeys:
    """Keys that the administrator configured.

    A new server knows its PEC and PSC from them.

    Attributes:
        pinned_senders: senders by QueueManager.Identifier.
    """

    pinned_senders: Mapping[Guid, TrustedSender]

    def find_senders(self, queue_manager: Guid) -> Iterator[TrustedSender]:
        """Yield the configured sender with this identifier, if there is one."""
        if queue_manager in self.pinned_senders:
            yield replace(self.pinned_senders[queue_manager], machine_id=queue_manager)


@dataclass(frozen=True, slots=True)
class KeyRings:
    """Several key rings that are asked in order.

    A machine gets its name from a later ring if that ring has its identifier and key: a machine that
    the administrator has pinned may get another name (decision R183).
    """

    rings: tuple[KeyRing, ...]

    def find_senders(self, queue_manager: Guid) -> Iterator[TrustedSender]:
        """Yield the senders of all key rings.

        Raises:
            DirectoryError: as `KeyRing.find_senders`.
        """
        for at, ring in enumerate(self.rings, start=1):
            for sender in ring.find_senders(queue_manager):
                yield _with_ring_name(sender, self.rings[at:], queue_manager)


def _with_ring_name(sender: TrustedSender, rings: Iterable[KeyRing], queue_manager: Guid) -> TrustedSender:
    """Return a sender, perhaps under another name.

    A key ring may have another name for its identifier and key.
    """
    try:
        senders = [
            candidate
            for ring in rings
            for candidate in ring.find_senders(queue_manager)
            if candidate.machine_id == queue_manager and set(candidate.keys) & set(sender.keys)
        ]
    except (DirectoryError, MappingError) as error:  # an entry of another machine may be damaged
        log.debug("nobody can say whether %s has another name: %s", sender.machine_name, error)
        return sender
    if len({candidate.machine_name.casefold() for candidate in senders}) != 1:
        return sender  # no other name, or another PSC claims the identifier and the key, which is public
    return replace(sender, machine_name=senders[0].machine_name, site_id=senders[0].site_id)


class DirectoryKeys:
    """Keys in the directory ([MS-MQMQ] 2.3).

    Machines have PROPID_QM_SIGN_PK, sites have PROPID_S_PSC_SIGNPK.

    The enterprise knows a new site's PSC by its name and key in the site object before it has the
    machine's object, which that PSC itself sends; so the sites' keys count as well (decision R58).

    Each PSC may put any name, GUID and key into its own partition. So a machine that is called as the PSC of
    a site, of the PEC's, too, is taken from that site's partition alone (decision R138).

    Answers are cached. `notice` removes those that a change has made wrong.

    Args:
        perform: performs a reading operation of the replication store; from any thread.
        clock: monotonic seconds.
    """

    def __init__(
        self, perform: Callable[[ops.Operation], ops.Result], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._perform = perform
        self._machines: Final = _Answers[Guid, TrustedSender | None](clock)
        self._sites: Final = _Answers[None, tuple[_Site, ...]](clock)
        # one by one: with an unreliable directory, reading all of them at once might never succeed
        self._own: Final = _Answers[Guid, tuple[TrustedSender | None]](clock)

    def find_senders(self, queue_manager: Guid) -> Iterator[TrustedSender]:
        """Yield the machine, also as PSC of its site.

        For an unknown machine it yields the PSCs of all sites.

        Raises:
            DirectoryError: it cannot be read.
        """
        sites = self._sites.get(None, self._read_sites)
        is_psc = False
        for site in sites:
            (psc,) = self._own.get(site.identifier, partial(self._psc_of, site))
            if psc is not None and psc.machine_id == queue_manager:
                is_psc = True
                yield from site.as_machine(psc)  # of more than one site: all but one of the PSCs lie
        if is_psc:
            return
        machine = self._machines.get(queue_manager, lambda: self._find_machine(queue_manager))
        if machine is None:
            yield from (site.controller for site in sites if site.controller.keys)
            return
        named = [site for site in sites if site.controller.is_called(machine.machine_name)]
        if not named:
            yield machine
        for site in named:
            if site.identifier == machine.site_id:
                yield from site.as_machine(machine)

    def notice(self, operation: ops.Operation, _result: ops.Result) -> None:
        """Remove cached answers that an operation of the store has made wrong.

        Any thread may call this. So the first message of a new directory server is accepted (T132).
        """
        match operation:
            case ops.ApplyChanges(partition_id=partition_id, changes=changes):
                for change in changes:
                    properties = change.properties if change.command in _WHOLE else None
                    self._forget(type_of(change), change.guid_identifier, partition_id, properties)
            case ops.CreateObject(object_type=object_type, partition_id=partition_id, properties=properties):
                self._forget(object_type, None, partition_id, properties)
            case ops.UpdateObject() | ops.DeleteObject():
                self._forget(operation.object_type, operation.identifier, operation.partition_id, None)
            case ops.RemovePartition() | ops.SweepPartition():
                self._forget(ObjectType.SITE, None, operation.partition_id, None)
                self._machines.forget()

    def _forget(
        self,
        object_type: ObjectType | None,
        identifier: Guid | None,
        partition_id: Guid,
        properties: Properties | None,
    ) -> None:
        """Remove the cached answers that depend on an object.

        Args:
            object_type: its type; None: not known.
            identifier: its GUID; None: it is one of the properties, or not known.
            partition_id: its partition.
            properties: all its properties; None: the change does not have them.
        """
        if object_type is ObjectType.SITE:
            self._sites.forget()
            self._own.forget()
        elif object_type is ObjectType.MACHINE:
            self._machines.forget(identifier or get_guid(properties or (), Propid.QM_MACHINE_ID))
            if properties is None or get_roles(properties):
                self._own.forget(partition_id)

    def _find_machine(self, identifier: Guid) -> TrustedSender | None:
        machine = read_object(self._perform, ObjectType.MACHINE, identifier=identifier)
        return None if machine is None else _build_sender(machine)

    def _read_sites(self) -> tuple["_Site", ...]:
        pairs = (
            (site_object.identifier, _build_controller(_collect_values(site_object), site_object.identifier))
            for site_object in list_objects(self._perform, ObjectType.SITE)
        )
        return tuple(_Site(site, psc) for site, psc in pairs if site is not None and psc.machine_name)

    def _psc_of(self, site: "_Site") -> tuple[TrustedSender | None]:
        """Return the machine of a site's PSC from the site's own partition.

        The machine is None if there is none. The cache keeps the answer in outages.
        """
        role = int(Service.PSC | Service.PEC)
        machines = map(
            _build_sender, list_objects(self._perform, ObjectType.MACHINE, site.identifier, service=role)
        )
        named = (
            machine
            for machine in machines
            if machine is not None and site.controller.is_called(machine.machine_name)
        )
        return (next(named, None),)


@dataclass(frozen=True, slots=True)
class _Site:
    """Site with its PSC.

    Attributes:
        identifier: its GUID, and its partition's.
        controller: its PSC, by the site's object; without keys where that has none.
    """

    identifier: Guid
    controller: TrustedSender

    def as_machine(self, machine: TrustedSender) -> Iterator[TrustedSender]:
        """Yield a machine with its own keys, then with its site's keys.

        The site object has these keys for its PSC.
        """
        yield machine
        if self.controller.keys:
            yield replace(self.controller, service=machine.service, machine_id=machine.machine_id)


_WHOLE: Final = frozenset({Command.CREATE, Command.SYNC})
"""Commands of changes that have all properties of an object."""
_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


@dataclass(slots=True)
class _Answer(Generic[_V]):
    """Cached answer of the directory, with its time and the time to ask again."""

    at: float
    ask_at: float
    value: _V


class _Answers(Generic[_K, _V]):
    """Cache of at most `ANSWERS_MAX` answers of the directory.

    The least recently used are removed first.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: Final[OrderedDict[_K, _Answer[_V]]] = OrderedDict()
        self._lock: Final = Lock()
        self._forgotten = 0  # how often something was forgotten

    def forget(self, key: _K | None = None) -> None:
        """Forget an answer, or all of them."""
        with self._lock:
            self._forgotten += 1  # a question that is being asked may get an old answer
            if key is None:
                self._kept.clear()
            else:
                self._kept.pop(key, None)

    def get(self, key: _K, ask: Callable[[], _V]) -> _V:
        now = self._clock()
        with self._lock:
            cached = self._kept.get(key)
            if cached is not None and now < cached.ask_at:
                self._kept.move_to_end(key)
                return cached.value
            forgotten = self._forgotten
        try:
            answer = ask()  # two may ask at once: no harm
        except DirectoryError:
            if cached is None or not cached.value or now >= cached.at + OUTAGE_S:
                raise
            # each attempt may take seconds, and messages wait for it
            cached.ask_at = min(now + UNKNOWN_S, cached.at + OUTAGE_S)
            return cached.value
        with self._lock:
            if forgotten != self._forgotten:
                return answer
            is_known = any(answer) if isinstance(answer, tuple) else answer is not None
            self._kept[key] = _Answer(now, now + (BELIEVED_S if is_known else UNKNOWN_S), answer)
            self._kept.move_to_end(key)
            while len(self._kept) > ANSWERS_MAX:
                self._kept.popitem(last=False)
        return answer


def _build_sender(machine: ops.ObjectRead) -> TrustedSender | None:
    """Return a machine as a sender; None if it has no name."""
    values = _collect_values(machine)
    name = _as_text(values.get(Propid.QM_PATHNAME))
    if not name:
        return None
    return TrustedSender(
        machine_name=name,
        service=Service(_as_number(values.get(Propid.QM_SERVICE))),
        keys=_keys(values.get(Propid.QM_SIGN_PK), f"machine {machine.identifier}"),
        machine_id=machine.identifier,
        site_id=machine.partition_id,
    )


def _build_controller(values: Mapping[Propid, PropertyValue], site: Guid | None) -> TrustedSender:
    return TrustedSender(
        machine_name=_as_text(values.get(Propid.S_PSC)),
        service=Service.PSC,
        keys=_keys(values.get(Propid.S_PSC_SIGNPK), f"site {site}"),
    )


def _collect_values(read: ops.ObjectRead) -> dict[Propid, PropertyValue]:
    return dict(read.properties or ())


def _as_text(value: PropertyValue | None) -> str:
    return value if isinstance(value, str) else ""


def _as_number(value: PropertyValue | None) -> int:
    return value if isinstance(value, int) else 0


def _keys(value: PropertyValue | None, whose: str) -> tuple[PublicKey, ...]:
    if not isinstance(value, bytes) or not value:
        return ()
    try:
        return PublicKeys.from_bytes(value).keys[:KEYS_TRIED_MAX]
    except DecodeError as error:
        log.warning("the signing keys of %s cannot be read: %s", whose, error)
        return ()
