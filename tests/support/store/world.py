"""A world of its own for each test of the contract of stores: a partition, names, the calls in short."""

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final, Protocol

from mqdssm.engines.replication import operations as ops
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Properties, PropertyValue, Scope
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.seqnum import MAX, SequenceNumber
from mqdssm.store.performer import Store

OK: Final = Hresult.MQ_OK
NOT_FOUND: Final = Hresult.MQDS_OBJECT_NOT_FOUND
SID: Final = bytes.fromhex("010500000000000515000000a065cf7e784b9b5fe77c8770f4010000")
PLENTY: Final = 10**6

NUMBERS = count(1)


class Harness(Protocol):
    """A store under test, which can lose its power."""

    @property
    def store(self) -> Store:
        """The store as it was opened last."""
        ...

    @property
    def crashes(self) -> type[BaseException]:
        """What an operation raises that was cut short by `arm`."""
        ...

    def arm(self, point: int) -> None:
        """Crash at a point from now on: 0 is before the first durable write, 1 behind it, and so on."""
        ...

    def disarm(self) -> None:
        """Crash no more."""
        ...

    def reopen(self) -> None:
        """Replace `store` by one as the next start opens it."""
        ...


def guid() -> Guid:
    """A GUID that nothing has had."""
    return Guid(b"contract" + next(NUMBERS).to_bytes(8, "big"))


def number(value: int) -> SequenceNumber:
    return SequenceNumber(value)


class World:
    """A site's partition, and names, that no other test knows; the engine's calls in short."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.site = guid()
        self.prefix = f"w{next(NUMBERS)}"
        self.last = 0

    # -- values

    def name(self, text: str) -> str:
        """A machine's name, or a queue's path name."""
        return self.prefix + text

    def machine(self, identifier: Guid, text: str = "web", **more: PropertyValue) -> Properties:
        """The properties of a new machine."""
        return (
            (Propid.QM_MACHINE_ID, identifier),
            (Propid.QM_PATHNAME, self.name(text)),
            (Propid.QM_SITE_ID, self.site),
            (Propid.QM_CNS, ()),
            (Propid.QM_ADDRESS, b"\x04\0\x01\0\x0a\0\0\x01"),
            *((Propid[f"QM_{name}"], value) for name, value in more.items()),
        )

    def queue(self, identifier: Guid, text: str = r"web\q", **more: PropertyValue) -> Properties:
        """The properties of a new queue."""
        return (
            (Propid.Q_INSTANCE, identifier),
            (Propid.Q_PATHNAME, self.name(text)),
            *((Propid[f"Q_{name}"], value) for name, value in more.items()),
        )

    def next(self) -> SequenceNumber:
        """The next number of the site's partition."""
        self.last += 1
        return number(self.last)

    # -- operations

    @property
    def store(self) -> Store:
        """The store as it is open now."""
        return self.harness.store

    def perform(self, operation: ops.Operation) -> Any:
        return self.store.perform(operation)

    def create(self, properties: Properties, at: int = 0, **other: Any) -> ops.ObjectOutcome:
        """Create an object of the site as its authority; `at` is its number, else the next one."""
        first = properties[0][0].object_type or ObjectType.DELETED_OBJECT
        return self.store.perform(
            ops.CreateObject(
                object_type=other.get("object_type", first),
                path_name=other.get("path_name"),
                properties=properties,
                partition_id=other.get("partition_id", self.site),
                seq_number=number(at) if at else self.next(),
            )
        )

    def update(
        self, which: Guid | str, properties: Properties, at: int = 0, object_type: ObjectType | None = None
    ) -> ops.ObjectOutcome:
        """Update an object of the site as its authority."""
        return self.store.perform(
            ops.UpdateObject(
                object_type=object_type or properties[0][0].object_type or ObjectType.QUEUE,
                path_name=which if isinstance(which, str) else None,
                identifier=which if isinstance(which, Guid) else None,
                properties=properties,
                partition_id=self.site,
                seq_number=number(at) if at else self.next(),
            )
        )

    def delete(
        self,
        which: Guid | str,
        object_type: ObjectType = ObjectType.QUEUE,
        at: int = 0,
        scope: Scope = Scope.ENTERPRISE,
    ) -> ops.ObjectOutcome:
        """Delete an object of the site as its authority."""
        return self.store.perform(
            ops.DeleteObject(
                object_type=object_type,
                path_name=which if isinstance(which, str) else None,
                identifier=which if isinstance(which, Guid) else None,
                scope=scope,
                partition_id=self.site,
                seq_number=number(at) if at else self.next(),
            )
        )

    def read(
        self,
        which: Guid | str,
        object_type: ObjectType = ObjectType.QUEUE,
        partition_id: Guid | None = None,
    ) -> ops.ObjectRead:
        """Read an object."""
        return self.store.perform(
            ops.ReadObject(
                object_type=object_type,
                path_name=which if isinstance(which, str) else None,
                identifier=which if isinstance(which, Guid) else None,
                partition_id=partition_id,
            )
        )

    def values(self, which: Guid | str, object_type: ObjectType = ObjectType.QUEUE) -> dict[Propid, Any]:
        """The properties of an object that is there."""
        found = self.read(which, object_type)
        assert found.status == OK
        assert found.properties is not None
        return dict(found.properties)

    def changes(self, partition_id: Guid | None = None, **bounds: Any) -> tuple[DirectoryChange, ...]:
        """All that synchronization would carry of the partition."""
        return self.found(partition_id, **bounds).changes

    def found(self, partition_id: Guid | None = None, **bounds: Any) -> ops.ChangesFound:
        """Look changes up."""
        return self.store.perform(
            ops.LookupChanges(
                partition_id=self.site if partition_id is None else partition_id,
                after=number(bounds.get("after", 0)),
                up_to=number(bounds.get("up_to", MAX)),
                enterprise_scope=bounds.get("enterprise_scope", False),
                count_max=bounds.get("count_max", PLENTY),
                bytes_max=bounds.get("bytes_max", PLENTY),
            )
        )

    def apply(self, *changes: DirectoryChange) -> ops.Applied:
        """Apply changes of one partition to the replica."""
        partition_id = changes[0].partition_id if changes else self.site
        return self.store.perform(ops.ApplyChanges(partition_id=partition_id, changes=changes))

    def change(
        self, command: Command, which: Guid | str, at: int, properties: Properties, site: Guid | None = None
    ) -> DirectoryChange:
        """A change of the site, or of another one."""
        return DirectoryChange(
            command=command,
            path_name=which if isinstance(which, str) else None,
            guid_identifier=which if isinstance(which, Guid) else None,
            partition_id=self.site if site is None else site,
            seq_number=number(at),
            properties=properties,
        )

    def sync(self, which: Guid, at: int, properties: Properties, site: Guid | None = None) -> DirectoryChange:
        """A whole object, as synchronization carries it."""
        return self.change(Command.SYNC, which, at, properties, site)

    def deletion(
        self,
        which: Guid | str,
        at: int,
        object_type: ObjectType = ObjectType.QUEUE,
        site: Guid | None = None,
    ) -> DirectoryChange:
        """A deletion, as replication carries it."""
        said = ((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, int(object_type)))
        return self.change(Command.DELETE, which, at, said, site)

    def recover(self, partition_id: Guid | None = None) -> SequenceNumber:
        """Recover the partition."""
        return self.store.perform(ops.Recover(partition_id=partition_id or self.site)).highest


def brief(changes: Iterable[DirectoryChange]) -> list[tuple[Command, int, Guid | None]]:
    """Command, number and GUID of each."""
    return [(one.command, int(one.seq_number), one.guid_identifier) for one in changes]


def everywhere_crashing(
    harness: Harness,
    run: Callable[[World, Callable[[ops.Operation], Any]], None],
    *,
    whole: bool = False,
) -> int:
    """Run a scenario with a crash at each point of each write of one operation; how many points there are.

    Args:
        harness: of the store.
        run: prepares a world, calls its second argument with the operation, and says what has to be true.
            The operation is cut short, the store opened again, recovered, and the operation repeated.
        whole: once recovered, the operation has had all of its effect or none.
    """
    for point in count():
        world = World(harness)
        crashed: list[int] = []

        def perform(
            operation: ops.Operation, world: World = world, point: int = point, crashed: list[int] = crashed
        ) -> Any:
            before = world.changes()
            harness.arm(point)
            try:
                result = harness.store.perform(operation)
            except harness.crashes:
                crashed.append(point)
                harness.disarm()
                harness.reopen()
                world.recover()
                recovered = world.changes()
                result = harness.store.perform(operation)
                assert not whole or recovered in {before, world.changes()}
            harness.disarm()
            return result

        run(world, perform)
        if not crashed:
            return point
    raise AssertionError
