"""The contract of stores: changes of a replica, names that it meets twice, and full synchronization."""

import pytest

from mqdssm.engines.replication import operations as ops
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.seqnum import MIN
from mqdssm.store.rules import IDENTITY
from mqdssm.tables.creation import DEFAULTS
from support.store.world import NOT_FOUND, NUMBERS, OK, SID, Harness, World, brief, guid, number


def _network(world: World, text: str) -> Properties:
    return ((Propid.CN_NAME, world.name(text)), (Propid.CN_PROTOCOLID, 1), (Propid.CN_SECURITY, b""))


def enterprise_objects(world: World) -> dict[ObjectType, tuple[Guid, Properties]]:
    """An object of each type of the enterprise's partition that there may be many of."""
    made = {one: guid() for one in (ObjectType.SITE, ObjectType.CN, ObjectType.USER, ObjectType.ROUTING_LINK)}
    ends = [guid(), guid()]
    return {
        ObjectType.SITE: (
            made[ObjectType.SITE],
            (
                (Propid.S_PATHNAME, world.name("site")),
                (Propid.S_PSC, world.name("psc")),
                (Propid.S_GATES, (ends[1], ends[0])),
                (Propid.S_PSC_SIGNPK, b"key"),
            ),
        ),
        ObjectType.CN: (made[ObjectType.CN], _network(world, "net")),
        ObjectType.USER: (
            made[ObjectType.USER],
            (
                (Propid.U_SID, SID[:-4] + next(NUMBERS).to_bytes(4, "little")),
                (Propid.U_DIGEST, (guid(), guid())),
                (Propid.U_SIGN_CERT, b"\x01\0\0\0certificate"),
            ),
        ),
        ObjectType.ROUTING_LINK: (
            made[ObjectType.ROUTING_LINK],
            ((Propid.L_COST, 7), (Propid.L_NEIGHBOR1, ends[0]), (Propid.L_NEIGHBOR2, ends[1])),
        ),
    }


class ReplicaContract:
    """Apply changes, as a replica does."""

    @pytest.mark.parametrize("command", [Command.CREATE, Command.SYNC])
    def test_whole_objects(self, harness: Harness, command: Command) -> None:
        world = World(harness)
        machine = guid()
        given = world.machine(machine, OS=5, QUOTA=9)
        for at, properties in enumerate((given, world.machine(machine, "Web", MACHINE_TYPE="x")), 1):
            which = machine if command is Command.SYNC else world.name("web")
            assert world.apply(world.change(command, which, at, properties)).status == OK
            expected = {**DEFAULTS[ObjectType.MACHINE], **dict(properties[1:])}
            assert world.values(machine, ObjectType.MACHINE) == expected
        assert world.read(world.name("WEB"), ObjectType.MACHINE).seq_number == 2

    def test_what_synchronization_carries_makes_the_same_object(self, harness: Harness) -> None:
        world = World(harness)
        machine, queue = guid(), guid()
        world.create(world.machine(machine, CNS=(guid(), guid()), INFRS=(machine,), SIGN_PK=b"k"))
        world.create(world.queue(queue, LABEL="ä", SECURITY=b"\x01", HASHKEY=5, MODIFY_TIME=1))
        replica = World(harness)
        replica.site = guid()
        before = world.changes()
        copies = [_moved(one, replica.site) for one in before]
        assert replica.apply(*copies) == ops.Applied(count=2, status=OK)
        assert replica.changes() == tuple(copies)

    def test_every_type(self, harness: Harness) -> None:
        world = World(harness)
        base = int(world.recover(NULL_GUID))
        objects = enterprise_objects(world)
        changes = [
            world.sync(identifier, base + at, properties, NULL_GUID)
            for at, (identifier, properties) in enumerate(objects.values(), 1)
        ]
        assert world.apply(*changes) == ops.Applied(count=len(changes), status=OK)
        for object_type, (identifier, properties) in objects.items():
            values = world.values(identifier, object_type)
            assert values == {**DEFAULTS[object_type], **dict(properties)}
        assert brief(world.changes(NULL_GUID, after=base)) == brief(changes)
        by_name = world.read(world.name("SITE"), ObjectType.SITE)
        assert by_name.identifier == objects[ObjectType.SITE][0]
        sites = ops.ListObjects(object_type=ObjectType.SITE, partition_id=NULL_GUID)
        assert by_name in world.perform(sites).objects
        for at, (object_type, (identifier, _)) in enumerate(objects.items(), 1):
            after = base + len(objects)
            change = world.deletion(identifier, after + at, object_type, NULL_GUID)
            assert world.apply(change).status == OK
            assert world.read(identifier, object_type).status == NOT_FOUND
        tombstones = world.changes(NULL_GUID, after=base)
        assert [one.get(Propid.D_OBJTYPE) for one in tombstones] == [int(one) for one in objects]

    def test_updates(self, harness: Harness) -> None:
        world = World(harness)
        machine = guid()
        world.apply(world.sync(machine, 1, world.machine(machine, OS=5)))
        by_name = world.change(Command.UPDATE, world.name("WEB"), 2, ((Propid.QM_QUOTA, 2),))
        by_guid = world.change(Command.UPDATE, machine, 3, ((Propid.QM_MACHINE_TYPE, "t"),))
        for _ in range(2):
            assert world.apply(by_name, by_guid) == ops.Applied(count=2, status=OK)
            values = world.values(machine, ObjectType.MACHINE)
            assert (values[Propid.QM_OS], values[Propid.QM_QUOTA]) == (5, 2)
            assert values[Propid.QM_MACHINE_TYPE] == "t"
        assert world.read(machine, ObjectType.MACHINE).seq_number == 3

    def test_update_of_nothing_stops(self, harness: Harness) -> None:
        world = World(harness)
        one, two = guid(), guid()
        label = ((Propid.Q_LABEL, "x"),)
        for which in (two, world.name(r"web\two")):
            applied = world.apply(
                world.sync(one, 1, world.queue(one)), world.change(Command.UPDATE, which, 2, label)
            )
            assert applied == ops.Applied(count=1, status=NOT_FOUND)
        assert brief(world.changes()) == [(Command.SYNC, 1, one)]
        world.apply(world.deletion(two, 5))
        late = world.change(Command.UPDATE, two, 4, label)
        assert world.apply(late).status == OK, "older than the tombstone: dropped"
        assert world.apply(world.change(Command.UPDATE, two, 6, label)).status == NOT_FOUND

    def test_creation_without_an_identifier_stops(self, harness: Harness) -> None:
        world = World(harness)
        change = world.change(Command.CREATE, world.name(r"web\q"), 1, ((Propid.Q_LABEL, "x"),))
        assert world.apply(change) == ops.Applied(count=0, status=Hresult.MQ_ERROR_PROPERTY)

    def test_objects_of_no_type_stop(self, harness: Harness) -> None:
        world = World(harness)
        for propid, value in ((Propid.D_SCOPE, 1), (Propid.SET_NAME, "x")):
            applied = world.apply(world.sync(guid(), 1, ((propid, value),)))
            assert applied == ops.Applied(count=0, status=Hresult.MQDS_WRONG_OBJ_TYPE)

    @pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
    def test_links_that_lack_what_a_directory_demands(self, harness: Harness) -> None:
        """Decision R65: a replica has what its authority has, and stops at nothing."""
        world = World(harness)
        kind = ObjectType.ROUTING_LINK
        at = int(world.recover(NULL_GUID))
        full: Properties = ((Propid.L_COST, 7), (Propid.L_NEIGHBOR1, guid()), (Propid.L_NEIGHBOR2, guid()))
        links: dict[Guid, Properties] = {}
        some: tuple[Properties, ...] = (full[:1], full[1:2], full[1:], full[::2], ())
        for given in some:
            link = guid()
            links[link] = given
            at += 1
            change = world.sync(link, at, given or ((IDENTITY[kind], link),), NULL_GUID)
            assert world.apply(change) == ops.Applied(count=1, status=OK)
        for link, given in links.items():
            assert world.values(link, kind) == (dict(given) or {IDENTITY[kind]: link})
        for link, given in links.items():
            for cost in (0, 3):
                at += 1
                change = world.change(Command.UPDATE, link, at, ((Propid.L_COST, cost),), NULL_GUID)
                assert world.apply(change).status == OK
                assert world.values(link, kind) == {**dict(given), Propid.L_COST: cost}
        at += 1
        assert world.apply(world.sync(link, at, full[1:], NULL_GUID)).status == OK
        assert world.values(link, kind) == dict(full[1:]), "a whole object has nothing of the one before"

    @pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
    def test_an_identifier_that_has_another_type_now(self, harness: Harness) -> None:
        world = World(harness)
        one, below = guid(), guid()
        world.apply(world.sync(one, 1, world.machine(one)), world.sync(below, 2, world.queue(below)))
        assert world.apply(world.sync(one, 3, world.queue(one, r"web\two"))) == ops.Applied(
            count=1, status=OK
        )
        assert world.read(one, ObjectType.MACHINE).status == NOT_FOUND
        assert world.values(one)[Propid.Q_PATHNAME] == world.name(r"web\two")
        update = world.change(Command.UPDATE, one, 4, ((Propid.QM_OS, 5), (Propid.QM_PATHNAME, "x")))
        before = world.values(one)
        assert world.apply(update) == ops.Applied(count=1, status=OK)
        assert world.values(one) == before, "it has none of these properties"
        assert brief(world.changes()) == [(Command.SYNC, 2, below), (Command.SYNC, 4, one)]

    def test_nothing_to_apply(self, harness: Harness) -> None:
        assert World(harness).apply() == ops.Applied(count=0, status=OK)

    def test_deletions(self, harness: Harness) -> None:
        world = World(harness)
        machine, never = guid(), guid()
        world.apply(world.sync(machine, 1, world.machine(machine)))
        gone = world.deletion(world.name("WEB"), 2, ObjectType.MACHINE)
        unknown = world.deletion(never, 3, ObjectType.SITE)
        nameless = world.deletion(world.name(r"web\none"), 4)
        for _ in range(2):
            assert world.apply(gone, unknown, nameless) == ops.Applied(count=3, status=OK)
            assert brief(world.changes()) == [(Command.DELETE, 2, machine), (Command.DELETE, 3, never)]
        (_, tombstone) = world.changes()
        assert dict(tombstone.properties) == {Propid.D_SCOPE: 1, Propid.D_OBJTYPE: ObjectType.SITE}
        later = world.deletion(never, 9, ObjectType.SITE)
        world.apply(later)
        assert brief(world.changes())[1:] == [(Command.DELETE, 9, never)]

    def test_what_is_known_is_dropped(self, harness: Harness) -> None:
        world = World(harness)
        machine = guid()
        new = world.sync(machine, 5, world.machine(machine, OS=5))
        old = world.sync(machine, 4, world.machine(machine, OS=4))
        deleted = world.deletion(machine, 3, ObjectType.MACHINE)
        assert world.apply(new).status == OK
        assert world.apply(deleted, old) == ops.Applied(count=2, status=OK)
        assert world.apply(new).status == OK
        assert brief(world.changes()) == [(Command.SYNC, 5, machine)]
        assert world.values(machine, ObjectType.MACHINE)[Propid.QM_OS] == 5
        world.apply(world.deletion(machine, 6, ObjectType.MACHINE))
        assert world.apply(old, new).status == OK
        assert world.read(machine, ObjectType.MACHINE).status == NOT_FOUND
        assert brief(world.changes()) == [(Command.DELETE, 6, machine)]

    def test_an_empty_path_name_names_nothing(self, harness: Harness) -> None:
        """Decision R137: nobody could speak for a machine without a name."""
        world = World(harness)
        machine = guid()
        world.apply(world.sync(machine, 1, ((Propid.QM_MACHINE_ID, machine), (Propid.QM_PATHNAME, ""))))
        assert world.read(machine, ObjectType.MACHINE).status == OK
        assert world.read("", ObjectType.MACHINE).status == NOT_FOUND
        quota = ((Propid.QM_QUOTA, 7),)
        assert world.update("", quota, at=2, object_type=ObjectType.MACHINE).status == NOT_FOUND

    def test_two_objects_with_one_number_are_told_together(self, harness: Harness) -> None:
        """No authority numbers so; whoever did loses nothing by where a message ends."""
        world = World(harness)
        ones = [guid() for _ in range(4)]
        numbers = (1, 2, 2, 3)
        world.apply(*(world.sync(one, at, world.queue(one)) for one, at in zip(ones, numbers, strict=True)))
        told: list[int] = []
        after = 0
        while after < numbers[-1]:
            found = world.found(after=after, up_to=numbers[-1], count_max=2)
            told += [one.seq_number for one in found.changes]
            after = found.reached
        assert told == list(numbers)

    def test_a_queue_before_its_machine(self, harness: Harness) -> None:
        world = World(harness)
        machine, queue = guid(), guid()
        assert world.apply(world.sync(queue, 2, world.queue(queue, LABEL="x"))).status == OK
        assert world.values(world.name(r"WEB\Q"))[Propid.Q_LABEL] == "x"
        assert world.read(world.name("web"), ObjectType.MACHINE).status == NOT_FOUND, "a placeholder is none"
        listed = ops.ListObjects(object_type=ObjectType.MACHINE, partition_id=world.site)
        assert world.perform(listed).objects == ()
        assert world.apply(world.sync(machine, 5, world.machine(machine))).status == OK
        assert brief(world.changes()) == [(Command.SYNC, 2, queue), (Command.SYNC, 5, machine)]
        assert world.values(queue)[Propid.Q_LABEL] == "x"

    def test_a_machine_goes_before_its_queues(self, harness: Harness) -> None:
        world = World(harness)
        machine, queue = guid(), guid()
        world.apply(world.sync(machine, 1, world.machine(machine)), world.sync(queue, 2, world.queue(queue)))
        assert world.apply(world.deletion(machine, 3, ObjectType.MACHINE)).status == OK
        assert world.read(machine, ObjectType.MACHINE).status == NOT_FOUND
        assert world.values(queue)[Propid.Q_PATHNAME] == world.name(r"web\q")
        assert brief(world.changes()) == [(Command.SYNC, 2, queue), (Command.DELETE, 3, machine)]
        assert world.perform(ops.HasObjects(partition_id=world.site)).yes
        assert world.apply(world.deletion(queue, 4)).status == OK
        assert brief(world.changes()) == [(Command.DELETE, 3, machine), (Command.DELETE, 4, queue)]
        assert not world.perform(ops.HasObjects(partition_id=world.site)).yes


class NamesContract:
    """Names that several objects of a replica hold for a while (decision R51)."""

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    @pytest.mark.parametrize("kind", ["machine", "queue"])
    def test_a_name_given_on(self, harness: Harness, order: tuple[int, int], kind: str) -> None:
        """X is made with the name that Y had; of Y the replica will hear later, with a higher number."""
        world = World(harness)
        made = world.machine if kind == "machine" else world.queue
        object_type = ObjectType[kind.upper()]
        text = "web" if kind == "machine" else r"web\q"
        first, second = guid(), guid()
        changes = [world.sync(first, 1, made(first, text)), world.sync(second, 5, made(second, text.upper()))]
        for one in order:
            assert world.apply(changes[one]).status == OK
        assert brief(world.changes()) == [(Command.SYNC, 1, first), (Command.SYNC, 5, second)]
        assert world.read(world.name(text), object_type).identifier == second, "the newer holder counts"
        assert world.read(first, object_type).status == OK
        harness.reopen()
        assert world.recover() == 5
        renamed = made(first, text + "x")
        assert world.apply(world.sync(first, 7, renamed)).status == OK
        assert world.read(world.name(text + "x"), object_type).identifier == first
        assert world.read(world.name(text), object_type).identifier == second
        world.apply(world.deletion(second, 8, object_type))
        assert world.read(world.name(text), object_type).status == NOT_FOUND

    def test_the_older_holder_reads_by_name_again(self, harness: Harness) -> None:
        world = World(harness)
        first, second = guid(), guid()
        world.apply(world.sync(first, 1, world.queue(first)), world.sync(second, 5, world.queue(second)))
        world.apply(world.deletion(second, 6))
        assert world.read(world.name(r"web\q")).identifier == first
        assert brief(world.changes()) == [(Command.SYNC, 1, first), (Command.DELETE, 6, second)]

    def test_a_name_means_who_had_it_then(self, harness: Harness) -> None:
        world = World(harness)
        first, second = guid(), guid()
        world.apply(world.sync(first, 1, world.queue(first)), world.sync(second, 5, world.queue(second)))
        label = ((Propid.Q_LABEL, "of the first"),)
        world.apply(world.change(Command.UPDATE, world.name(r"web\q"), 3, label))
        assert world.values(first)[Propid.Q_LABEL] == "of the first"
        assert world.values(second)[Propid.Q_LABEL] == ""
        world.apply(world.deletion(world.name(r"web\q"), 4))
        assert brief(world.changes()) == [(Command.DELETE, 4, first), (Command.SYNC, 5, second)]

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_a_machine_that_moved_to_another_site(self, harness: Harness, order: tuple[int, int]) -> None:
        """What one partition says of a name or GUID does not touch the objects of another."""
        world, other = World(harness), World(harness)
        other.prefix = world.prefix
        machine, queue = guid(), guid()
        old = (world.sync(machine, 8, world.machine(machine)), world.sync(queue, 9, world.queue(queue)))
        new = (other.sync(machine, 2, other.machine(machine)), other.sync(queue, 3, other.queue(queue)))
        assert all(world.apply(*(old, new)[one]).status == OK for one in order)
        assert brief(world.changes()) == [(Command.SYNC, 8, machine), (Command.SYNC, 9, queue)]
        assert brief(other.changes()) == [(Command.SYNC, 2, machine), (Command.SYNC, 3, queue)]
        for where, at in ((None, 8), (world.site, 8), (other.site, 2), (guid(), None)):
            for one in (machine, world.name("web")):
                assert world.read(one, ObjectType.MACHINE, where).seq_number == at
        world.apply(world.deletion(queue, 10), world.deletion(machine, 11, ObjectType.MACHINE))
        assert brief(other.changes()) == [(Command.SYNC, 2, machine), (Command.SYNC, 3, queue)]
        by_name = world.read(world.name("web"), ObjectType.MACHINE)
        assert (by_name.identifier, by_name.partition_id) == (machine, other.site)
        assert world.read(queue).partition_id == other.site
        assert other.values(machine, ObjectType.MACHINE)[Propid.QM_SITE_ID] == other.site

    def test_three_machines_take_one_name_and_its_queue(self, harness: Harness) -> None:
        """Each stands aside for the next one, and the queue is below who has the name."""
        world = World(harness)
        machines, queue = [guid() for _ in range(3)], guid()
        world.apply(world.sync(machines[0], 1, world.machine(machines[0])))
        world.apply(world.sync(queue, 2, world.queue(queue)))
        for at, one in enumerate(machines[1:], 3):
            assert world.apply(world.sync(one, at, world.machine(one))) == ops.Applied(count=1, status=OK)
        expected = [(1, machines[0]), (2, queue), (3, machines[1]), (4, machines[2])]
        assert brief(world.changes()) == [(Command.SYNC, at, one) for at, one in expected]
        for at, one in enumerate(machines[::-1], 5):
            world.apply(world.deletion(one, at, ObjectType.MACHINE))
        assert brief(world.changes())[0] == (Command.SYNC, 2, queue)
        assert len(world.changes()) == 4

    @pytest.mark.parametrize("kind", ["queue", "machine"])
    @pytest.mark.parametrize("update", [False, True])
    def test_renamed_and_deleted_at_once(self, harness: Harness, kind: str, update: bool) -> None:
        """In one batch: what goes is what has the new name by then."""
        world = World(harness)
        one, old, new = guid(), r"web\q" if kind == "queue" else "web", r"web\r" if kind == "queue" else "new"
        make = world.queue if kind == "queue" else world.machine
        object_type = ObjectType.QUEUE if kind == "queue" else ObjectType.MACHINE
        world.apply(world.sync(one, 1, make(one, old)))
        renamed = world.change(Command.UPDATE if update else Command.SYNC, one, 2, make(one, new))
        gone = world.deletion(one, 3, object_type)
        assert world.apply(renamed, gone) == ops.Applied(count=2, status=OK)
        assert brief(world.changes()) == [(Command.DELETE, 3, one)]
        assert world.read(one, object_type).status == NOT_FOUND
        assert world.read(world.name(new), object_type).status == NOT_FOUND

    def test_a_machine_that_moved_with_another_name_to_where_its_queue_is(self, harness: Harness) -> None:
        """What waits for it has its place, and its GUID is still that of the object at the old site."""
        world = World(harness)
        machine, queue, new_site = guid(), guid(), guid()
        world.apply(world.sync(machine, 1, world.machine(machine)))
        world.apply(world.sync(queue, 1, world.queue(queue, r"new\q"), new_site))
        moved = world.sync(machine, 2, world.machine(machine, "new"), new_site)
        assert world.apply(moved) == ops.Applied(count=1, status=OK)
        for _ in range(2):
            assert brief(world.changes(new_site)) == [(Command.SYNC, 1, queue), (Command.SYNC, 2, machine)]
            assert brief(world.changes()) == [(Command.SYNC, 1, machine)]
            harness.reopen()
            world.recover()
            world.recover(new_site)
        world.apply(world.deletion(machine, 2, ObjectType.MACHINE))
        assert world.values(machine, ObjectType.MACHINE)[Propid.QM_PATHNAME] == world.name("new")
        assert brief(world.changes()) == [(Command.DELETE, 2, machine)]
        world.apply(world.change(Command.UPDATE, machine, 3, ((Propid.QM_OS, 6),), new_site))
        assert brief(world.changes(new_site)) == [(Command.SYNC, 1, queue), (Command.SYNC, 3, machine)]

    def test_an_enterprise_whose_identifier_another_partition_has(self, harness: Harness) -> None:
        world = World(harness)
        both = guid()
        world.apply(world.sync(both, 1, world.queue(both)))
        properties = ((Propid.E_NAME, world.name("all")), (Propid.E_PECNAME, "PEC"))
        other = guid()
        assert world.apply(world.sync(both, 1, properties, other)) == ops.Applied(count=1, status=OK)
        assert brief(world.changes(other)) == [(Command.SYNC, 1, both)]
        world.apply(world.deletion(both, 2, ObjectType.QUEUE))
        world.apply(world.deletion(both, 2, ObjectType.ENTERPRISE, other))
        assert brief(world.changes(other)) == [(Command.DELETE, 2, both)]

    @pytest.mark.parametrize(("first", "second"), [("i", "İ"), ("e\u0301", "\u00e9"), ("İ", "i")])
    def test_names_that_are_one_to_a_server(self, harness: Harness, first: str, second: str) -> None:
        """Computers, machines and queues whose names differ, and which a directory takes for the same."""
        world = World(harness)
        machine, other, one, two = guid(), guid(), guid(), guid()
        world.apply(world.sync(machine, 1, world.machine(machine, first)))
        for _ in range(2):
            world.apply(world.sync(one, 2, world.queue(one, rf"{first}\q{first}")))
            world.apply(world.sync(two, 3, world.queue(two, rf"{second}\q{second}")))
            world.apply(world.sync(other, 4, world.machine(other, second)))
        held = [(Command.SYNC, 1, machine), (Command.SYNC, 2, one)]
        held += [(Command.SYNC, 3, two), (Command.SYNC, 4, other)]
        assert brief(world.changes()) == held
        assert world.values(two, ObjectType.QUEUE)[Propid.Q_PATHNAME] == world.name(rf"{second}\q{second}")
        moved = world.queue(two, rf"{first}\q{second}")
        world.apply(world.sync(two, 5, moved), world.deletion(machine, 6, ObjectType.MACHINE))
        assert world.values(two, ObjectType.QUEUE)[Propid.Q_PATHNAME] == world.name(rf"{first}\q{second}")
        assert world.values(other, ObjectType.MACHINE)[Propid.QM_PATHNAME] == world.name(second)

    def test_a_name_is_one_of_the_partition(self, harness: Harness) -> None:
        """Changes by name, of the authority and of a replica, mean the partition's own object."""
        world, mine, kind = World(harness), guid(), ObjectType.MACHINE
        world.apply(world.sync(mine, 1, world.machine(mine)))
        others = {}
        for at in (5, 99):
            other, theirs = World(harness), guid()
            other.prefix = world.prefix
            other.apply(other.sync(theirs, at, other.machine(theirs)))
            others[other] = [(Command.SYNC, at, theirs)]
        name = world.name("web")
        world.apply(world.change(Command.UPDATE, name, 10, ((Propid.QM_OS, 2),)))
        assert world.values(mine, kind)[Propid.QM_OS] == 2
        assert world.update(name, ((Propid.QM_OS, 3),), at=11).identifier == mine
        assert world.values(mine, kind)[Propid.QM_OS] == 3
        assert world.delete(name, kind, at=12).identifier == mine
        assert world.apply(world.deletion(name, 13, kind)).status == OK
        assert world.delete(name, kind, at=14).status == NOT_FOUND
        assert brief(world.changes()) == [(Command.DELETE, 12, mine)]
        assert {other: brief(other.changes()) for other in others} == others


class SyncZeroContract:
    """Purging, and the full synchronization of a partition."""

    def test_purging(self, harness: Harness) -> None:
        world = World(harness)
        live, *gone = (guid() for _ in range(4))
        world.apply(world.sync(live, 1, world.queue(live)))
        world.apply(*(world.deletion(one, at) for at, one in enumerate(gone, 2)))
        for _ in range(2):
            world.perform(ops.PurgeDeletedObjects(partition_id=world.site, up_to=number(3)))
            assert brief(world.changes()) == [(Command.SYNC, 1, live), (Command.DELETE, 4, gone[2])]

    def test_mark_and_sweep(self, harness: Harness) -> None:
        world = World(harness)
        stays, goes, buried, deleted = (guid() for _ in range(4))
        world.apply(
            world.sync(stays, 1, world.queue(stays, r"web\stays")),
            world.sync(goes, 2, world.queue(goes, r"web\goes")),
            world.deletion(buried, 3),
            world.sync(deleted, 4, world.queue(deleted, r"web\deleted")),
        )
        other = World(harness)
        machine = guid()
        other.apply(other.sync(machine, 1, other.machine(machine)))
        for _ in range(2):
            world.perform(ops.MarkPartition(partition_id=world.site))
            assert world.changes() == ()
            assert world.read(goes).seq_number == MIN
            assert world.values(world.name(r"web\goes"))[Propid.Q_LABEL] == ""
        assert world.recover() == MIN
        assert world.perform(ops.HasObjects(partition_id=world.site)).yes
        applied = world.apply(
            world.sync(stays, 1, world.queue(stays, r"web\stays", LABEL="again")), world.deletion(deleted, 9)
        )
        assert applied == ops.Applied(count=2, status=OK)
        for _ in range(2):
            world.perform(ops.SweepPartition(partition_id=world.site))
            assert brief(world.changes()) == [(Command.SYNC, 1, stays), (Command.DELETE, 9, deleted)]
            assert world.read(goes).status == NOT_FOUND
        assert world.values(stays)[Propid.Q_LABEL] == "again"
        revived = world.sync(buried, 2, world.queue(buried, r"web\buried"))
        world.apply(revived)
        assert world.read(buried).status == OK, "its tombstone is gone"
        assert brief(other.changes()) == [(Command.SYNC, 1, machine)]

    def test_sweeping_a_machine_with_queues(self, harness: Harness) -> None:
        world = World(harness)
        machine, queue = guid(), guid()
        world.apply(world.sync(machine, 1, world.machine(machine)), world.sync(queue, 2, world.queue(queue)))
        world.perform(ops.MarkPartition(partition_id=world.site))
        world.apply(world.sync(queue, 2, world.queue(queue)))
        world.perform(ops.SweepPartition(partition_id=world.site))
        assert brief(world.changes()) == [(Command.SYNC, 2, queue)]
        world.perform(ops.MarkPartition(partition_id=world.site))
        world.perform(ops.SweepPartition(partition_id=world.site))
        assert not world.perform(ops.HasObjects(partition_id=world.site)).yes


def _moved(change: DirectoryChange, site: Guid) -> DirectoryChange:
    """The same change in another partition, of another object of another name."""
    given = [
        (propid, f"x{value!s}" if propid in {Propid.QM_PATHNAME, Propid.Q_PATHNAME} else value)
        for propid, value in change.properties
    ]
    return DirectoryChange(
        command=change.command,
        guid_identifier=guid(),
        partition_id=site,
        seq_number=change.seq_number,
        properties=tuple(given),
    )
