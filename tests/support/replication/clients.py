"""Clients of directory servers: they change objects of all types, and know what has to be there in the end.

Each client has objects of its own, so what becomes of them follows from what it was told. A change that
nobody answered is asked for again until somebody does: nothing is in doubt in the end.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from mqdssm.engines.replication.operations import ObjectOutcome
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult, name_of
from mqdssm.model.messages import Command, Properties, PropertyValue
from mqdssm.model.propids import INTEGERS, ObjectType, Propid, Variant
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.samples.seeded_random import SeededRandom, compute_octets
from mqdssm.tables.creation import DEFAULTS
from mqdssm.tables.property_rows import CHANGED
from mqdssm.wire.dtyp import SecurityDescriptor, Sid
from support.replication.queue_managers import guid_of

AGAIN: Final = frozenset(
    {
        Hresult.MQDS_NO_RSP_FROM_OWNER,
        Hresult.MQDS_OWNER_NOT_REACHED,
        Hresult.MQ_ERROR_SERVICE_NOT_AVAILABLE,
        Hresult.MQ_ERROR_INSUFFICIENT_RESOURCES,
        Hresult.MQDS_UNKNOWN_SOURCE,
    }
)
"""Answers after which it is not known whether the change was made, or it was not."""
THERE: Final = frozenset({Hresult.MQ_ERROR_QUEUE_EXISTS, Hresult.MQ_ERROR_MACHINE_EXISTS, Hresult.MQ_ERROR})
"""Answers to a creation that is asked for again: it was made."""
PATIENCE_S: Final = 60.0
_NAMES: Final[Mapping[ObjectType, Propid]] = {
    ObjectType.QUEUE: Propid.Q_PATHNAME,
    ObjectType.MACHINE: Propid.QM_PATHNAME,
    ObjectType.SITE: Propid.S_PATHNAME,
    ObjectType.CN: Propid.CN_NAME,
    ObjectType.ENTERPRISE: Propid.E_NAME,
}
_LEFT_ALONE: Final = frozenset(
    {
        *_NAMES.values(),
        Propid.QM_SERVICE,  # who serves is for the administrator
        Propid.QM_SITE_ID,
        Propid.QM_SIGN_PK,
        Propid.S_PSC,
        Propid.S_PSC_SIGNPK,
        Propid.E_PECNAME,
        Propid.L_NEIGHBOR1,
        Propid.L_NEIGHBOR2,
        Propid.U_SID,
        Propid.Q_SCOPE,
    }
)
"""What clients do not give values of chance."""
_TYPES: Final = (
    *(ObjectType.QUEUE,) * 9,
    *(ObjectType.MACHINE,) * 4,
    *(ObjectType.CN, ObjectType.USER, ObjectType.ROUTING_LINK) * 2,
    ObjectType.SITE,
)
_TEXTS: Final = (
    "",
    "plain",
    " spaces ",
    "Größe 東京 😀",
    'a,b=c+d;"<>#\\',
    "*()\\2a",
    "x" * 400,
    "tab\tline\n",
)
_DESCRIPTOR: Final = bytes(SecurityDescriptor(owner=Sid.parse("S-1-5-21-1-2-3-1001")))


class Server(Protocol):
    """A server that changes are asked for at."""

    def ask(
        self,
        command: Command,
        kind: ObjectType,
        partition_id: Guid,
        *,
        path_name: str | None = None,
        identifier: Guid | None = None,
        properties: Properties = (),
    ) -> ObjectOutcome: ...


@dataclass
class Thing:
    """An object of a client.

    Attributes:
        kind: its type.
        identifier: its GUID.
        partition_id: its partition.
        path_name: its path name, if it has one.
        values: what it has to have; None: it is deleted.
    """

    kind: ObjectType
    identifier: Guid
    partition_id: Guid
    path_name: str | None
    values: dict[Propid, PropertyValue] | None = field(default_factory=dict)


class Client:
    """Changes objects at one server.

    Args:
        name: of the client; its choices follow from it.
        server: where it asks.
        sites: identifiers of the sites whose partitions it changes.
        patience_s: how long it asks for one change.
        makes_sites: its server is the PEC, which makes sites for nobody but its own clients (R107).
    """

    def __init__(
        self,
        name: str,
        server: Server,
        sites: tuple[Guid, ...],
        *,
        patience_s: float = PATIENCE_S,
        makes_sites: bool = False,
    ) -> None:
        self.name, self.server = name, server
        self.things: dict[Guid, Thing] = {}
        self.attempts = 0
        self._sites, self._patience_s = sites, patience_s
        self._rng = SeededRandom("client", name)
        self._made = 0
        self._types = [one for one in _TYPES if makes_sites or one is not ObjectType.SITE]

    def run(self, changes: int) -> None:
        """Make so many changes; machines come first."""
        bare = [] if self.things else list(self._sites)
        for site in bare:
            self._create(ObjectType.MACHINE, site)
        for _ in range(changes - len(bare)):
            self._change_something()

    def live(self, *kinds: ObjectType) -> list[Thing]:
        """Its objects that are there."""
        return [one for one in self.things.values() if one.values is not None and one.kind in kinds]

    def _change_something(self) -> None:
        kind = self._rng.of(self._types)
        found = self.live(kind)
        chance = self._rng.draw_below(10)
        if found and chance < 3:
            self._update(self._rng.of(found))
        elif found and chance < 5 and kind is not ObjectType.SITE:
            self._delete(self._rng.of(found))
        elif kind is not ObjectType.SITE or not found:  # a site is a partition: few
            self._create(kind, self._rng.of(self._sites))

    # -- changes

    def _create(self, kind: ObjectType, site: Guid) -> None:
        self._made += 1
        number = self._made
        machines = [one for one in self.live(ObjectType.MACHINE) if one.partition_id == site]
        in_site = kind in {ObjectType.QUEUE, ObjectType.MACHINE}
        if kind is ObjectType.QUEUE and not machines:
            kind = ObjectType.MACHINE
        thing = Thing(kind, guid_of(f"{self.name} {number}"), site if in_site else PEC_PARTITION_ID, None)
        if kind is ObjectType.QUEUE:
            machine = self._rng.of(machines).path_name
            taken = {one.path_name for one in self.live(ObjectType.QUEUE)}
            again = f"{machine}\\{self._name(self._rng.draw_below(6))}"  # names come again
            thing.path_name = f"{machine}\\{self._name(number)}" if again in taken else again
        elif kind in _NAMES:
            thing.path_name = f"{self.name}{kind.name[0]}{number}"
        properties = tuple(dict((*self._required(thing), *self._values(kind))).items())
        if self._until(Command.CREATE, thing, properties):
            values = {**DEFAULTS[kind], **dict(properties)}
            if thing.path_name is not None:
                values[_NAMES[kind]] = thing.path_name
            thing.values = values
            self.things[thing.identifier] = thing

    def _name(self, number: int) -> str:
        """The name of a queue: of all kinds, and some long."""
        return self._rng.of(
            (
                f"q{number}",
                f"Q {number} (a)",
                f"größe{number}",
                f"a,b=c+{number};x",
                f"#{number}",
                f"l{number}" + "x" * 110,
            )
        )

    def _required(self, thing: Thing) -> Properties:
        """What an object has to have ([MS-MQDS] 3.1.6.3)."""
        match thing.kind:
            case ObjectType.MACHINE:
                return (
                    (Propid.QM_SITE_ID, thing.partition_id),
                    (Propid.QM_CNS, ()),
                    (Propid.QM_ADDRESS, b""),
                )
            case ObjectType.SITE:
                return ((Propid.S_PSC, f"nobody{self.name}"), (Propid.S_PSC_SIGNPK, b""))
            case ObjectType.USER:
                sid = bytes(
                    Sid.parse(
                        f"S-1-5-21-{self._rng.draw_below(1 << 31)}-2-3-{thing.identifier.uuid.int & 0xFFFF}"
                    )
                )
                return ((Propid.U_SID, sid), (Propid.U_SIGN_CERT, b"certificate"), (Propid.U_DIGEST, ()))
            case ObjectType.ROUTING_LINK:
                other = guid_of(f"elsewhere {self.name} {self._made}")
                return (
                    (Propid.L_NEIGHBOR1, self._rng.of(self._sites)),
                    (Propid.L_NEIGHBOR2, other),
                    (Propid.L_COST, self._made),
                )
            case _:
                return ()

    def _update(self, thing: Thing) -> None:
        properties = self._values(thing.kind)
        if self._until(Command.UPDATE, thing, properties) and thing.values is not None:
            thing.values |= dict(properties)

    def _delete(self, thing: Thing) -> None:
        if thing.kind is ObjectType.MACHINE:
            queues = self.live(ObjectType.QUEUE)
            if any(one.path_name and one.path_name.startswith(f"{thing.path_name}\\") for one in queues):
                return
        if self._until(Command.DELETE, thing, ()):
            thing.values = None

    def _values(self, kind: ObjectType) -> Properties:
        """Some properties with values of chance, one at least."""
        free = [one for one in CHANGED[kind] if one not in _LEFT_ALONE]
        chosen = {self._rng.of(free) for _ in range(self._rng.draw_between(1, 5))}
        return tuple((one, self._value(one)) for one in sorted(chosen))

    def _value(self, propid: Propid) -> Any:
        self._made += 1
        if propid.spec_name.endswith("_SECURITY"):
            return self._rng.of((_DESCRIPTOR, compute_octets(30, self.name, self._made)))
        if propid.variant in INTEGERS:
            low, high = INTEGERS[propid.variant]
            return self._rng.of((low, high, 0, 1, self._rng.draw_between(low, high)))
        match propid.variant:
            case Variant.LPWSTR:
                return self._rng.of(_TEXTS)
            case Variant.CLSID:
                return guid_of(f"value {self._made}")
            case Variant.CLSIDS:
                return tuple(guid_of(f"value {self._made} {n}") for n in range(self._rng.draw_below(3)))
            case Variant.LPWSTRS:
                return tuple(self._rng.of(_TEXTS) for _ in range(self._rng.draw_below(3)))
            case _:
                return compute_octets(self._rng.draw_below(40), self.name, self._made)

    # -- asking

    def _until(self, command: Command, thing: Thing, properties: Properties) -> bool:
        """Ask for a change until it is known what became of it; whether it was made."""
        until = time.monotonic() + self._patience_s
        by_name = command is not Command.CREATE and thing.path_name is not None and self._rng.draw_one_in(2)
        unsure = False
        while True:
            self.attempts += 1
            outcome = self.server.ask(
                command,
                thing.kind,
                thing.partition_id,
                path_name=thing.path_name if by_name or command is Command.CREATE else None,
                identifier=None if by_name else thing.identifier,
                properties=properties,
            )
            status = outcome.status
            if status == Hresult.MQ_OK:
                return True
            if unsure and command is Command.CREATE and status in THERE:
                return True
            if unsure and command is Command.DELETE and status == Hresult.MQDS_OBJECT_NOT_FOUND:
                return True
            what = f"{self.name}: {command.name} {thing.kind.name} {thing.path_name!r}: {name_of(status)}"
            assert status in AGAIN, what
            assert time.monotonic() < until, what
            unsure = True
            time.sleep(0.1)


def differences(things: list[Thing], found: Mapping[Guid, Mapping[Propid, PropertyValue]]) -> list[str]:
    """How what a server has differs from what clients were told.

    Args:
        things: of the clients.
        found: the properties of all objects that a server has, by identifier.
    """
    wrong = []
    for thing in things:
        there = found.get(thing.identifier)
        what = f"{thing.kind.name} {thing.path_name or thing.identifier}"
        if (there is None) is not (thing.values is None):
            wrong.append(f"{what} is {'not ' if there is None else ''}there")
        elif there is not None and thing.values is not None:
            wrong += [
                f"{what}: {propid.name} is {there.get(propid)!r}, not {value!r}"
                for propid, value in thing.values.items()
                if there.get(propid) != value
            ]
    return wrong
