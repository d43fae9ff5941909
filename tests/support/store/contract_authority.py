"""The contract of stores: the authority's operations, and reading."""

from itertools import pairwise
from typing import Any, Final

import pytest

from mqdssm.engines.replication import operations as ops
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Scope
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import DirectoryPartition
from mqdssm.tables.creation import DEFAULTS
from support.store.world import NOT_FOUND, OK, Harness, World, brief, guid, number

BAD_VALUES: Final = [
    (Propid.Q_LABEL, 5),
    (Propid.Q_LABEL, "NUL\0"),
    (Propid.Q_QUOTA, -1),
    (Propid.Q_QUOTA, 2**32),
    (Propid.Q_QUOTA, "1"),
    (Propid.Q_JOURNAL, True),
    (Propid.Q_TYPE, b"short"),
    (Propid.Q_SECURITY, "text"),
    (Propid.Q_PATHNAME, ""),
]
"""Values that are none of their property's."""


class AuthorityContract:
    """Create, Update and Delete Directory Object, as the authority performs them."""

    def test_create_then_read(self, harness: Harness) -> None:
        world = World(harness)
        machine, queue = guid(), guid()
        assert world.create(world.machine(machine, SERVICE=4)) == ops.ObjectOutcome(
            status=OK, identifier=machine
        )
        given = world.queue(queue, r"Web\Orders", LABEL="", QMID=machine, SECURITY=b"", JOURNAL=7, SCOPE=0)
        assert world.create(given).identifier == queue
        expected = {**DEFAULTS[ObjectType.QUEUE], **dict(given[1:])}
        for which in (queue, world.name(r"Web\Orders"), world.name(r"WEB\oRDERS")):
            found = world.read(which)
            assert (found.status, found.identifier, found.partition_id) == (OK, queue, world.site)
            assert found.seq_number == 2
            assert dict(found.properties or ()) == expected
        harness.reopen()
        world.recover()
        assert world.values(queue) == expected
        assert world.values(world.name("WEB"), ObjectType.MACHINE)[Propid.QM_SERVICE] == 4

    def test_properties_come_in_the_order_of_the_table(self, harness: Harness) -> None:
        world = World(harness)
        machine = guid()
        world.create(world.machine(machine))
        found = world.read(machine, ObjectType.MACHINE).properties or ()
        assert [propid.name for propid, _ in found] == [
            "QM_FOREIGN",
            "QM_QUOTA",
            "QM_JOURNAL_QUOTA",
            "QM_CNS",
            "QM_MACHINE_TYPE",
            "QM_OS",
            "QM_ADDRESS",
            "QM_ENCRYPT_PK",
            "QM_INFRS",
            "QM_OUTFRS",
            "QM_PATHNAME",
            "QM_SERVICE",
            "QM_SIGN_PK",
            "QM_SITE_ID",
            "QM_HASHKEY",
        ]

    def test_the_path_name_may_be_an_argument(self, harness: Harness) -> None:
        world = World(harness)
        machine = guid()
        without = tuple(one for one in world.machine(machine) if one[0] is not Propid.QM_PATHNAME)
        assert world.create(without).status == Hresult.MQ_ERROR_INSUFFICIENT_PROPERTIES
        assert world.create(without, path_name=world.name("Web")).status == OK
        assert world.values(machine, ObjectType.MACHINE)[Propid.QM_PATHNAME] == world.name("Web")

    def test_what_is_not_the_types_is_ignored(self, harness: Harness) -> None:
        world = World(harness)
        machine = guid()
        foreign = (
            (Propid.Q_LABEL, "a queue's"),
            (Propid.QM_SEQNUM, bytes(number(77))),
            (Propid.QM_PARTITIONID, guid()),
            (Propid.S_PSC, 5),
        )
        assert world.create(world.machine(machine) + foreign).status == OK
        found = world.read(machine, ObjectType.MACHINE)
        assert {propid for propid, _ in found.properties or ()}.isdisjoint(dict(foreign))
        assert (found.partition_id, found.seq_number) == (world.site, 1)

    def test_creation_needs_an_identifier(self, harness: Harness) -> None:
        world = World(harness)
        machine = guid()
        assert world.create(world.machine(machine)[1:]).status == Hresult.MQ_ERROR_PROPERTY
        assert world.read(world.name("web"), ObjectType.MACHINE).status == NOT_FOUND

    @pytest.mark.parametrize("missing", ["QM_SITE_ID", "QM_PATHNAME", "QM_CNS", "QM_ADDRESS"])
    def test_creation_needs_its_properties(self, harness: Harness, missing: str) -> None:
        world = World(harness)
        machine = guid()
        given = tuple(one for one in world.machine(machine) if one[0] is not Propid[missing])
        assert world.create(given).status == Hresult.MQ_ERROR_INSUFFICIENT_PROPERTIES
        assert world.read(machine, ObjectType.MACHINE).status == NOT_FOUND

    @pytest.mark.parametrize("bad", BAD_VALUES)
    def test_bad_values_are_refused(self, harness: Harness, bad: tuple[Propid, Any]) -> None:
        world = World(harness)
        machine, queue, other = guid(), guid(), guid()
        world.create(world.machine(machine))
        world.create(world.queue(queue))
        before = world.read(queue)
        assert world.update(queue, (bad,)).status == Hresult.MQ_ERROR_PROPERTY
        assert world.read(queue) == before
        given = tuple(one for one in world.queue(other, r"web\r") if one[0] is not bad[0])
        assert world.create((*given, bad)).status == Hresult.MQ_ERROR_PROPERTY
        assert world.read(other).status == NOT_FOUND

    def test_an_object_of_no_type_is_refused(self, harness: Harness) -> None:
        world = World(harness)
        properties = ((Propid.D_IDENTIFIER, guid()),)
        status = world.create(properties, object_type=ObjectType.DELETED_OBJECT).status
        assert status == Hresult.MQDS_WRONG_OBJ_TYPE

    @pytest.mark.spec("MC-MQDSRP 3.1.7.2.6")
    @pytest.mark.parametrize("twice_at_once", [True, False])
    def test_a_change_by_name_is_made_once(self, harness: Harness, twice_at_once: bool) -> None:
        """The object that has its number is the one that was meant, whatever else has that name."""
        world = World(harness)
        first, second = guid(), guid()
        world.apply(world.sync(first, 1, world.queue(first)), world.sync(second, 2, world.queue(second)))
        name = world.name(r"web\q")
        renamed = ((Propid.Q_LABEL, "new"), (Propid.Q_PATHNAME, world.name(r"web\new")))
        update, gone = world.change(Command.UPDATE, name, 5, renamed), world.deletion(name, 6)
        for change in (update, gone):
            for batch in [[change, change]] if twice_at_once else [[change], [change]]:
                assert world.apply(*batch) == ops.Applied(count=len(batch), status=OK)
            if change is update:
                assert world.values(first)[Propid.Q_LABEL] == ""
        assert world.values(second)[Propid.Q_LABEL] == "new"
        assert brief(world.changes()) == [(Command.SYNC, 5, second), (Command.DELETE, 6, first)]

    @pytest.mark.parametrize("deletes", [True, False])
    def test_an_authority_makes_a_change_by_name_once(self, harness: Harness, deletes: bool) -> None:
        """A repeated step says what it said, though another object of its partition has the name now."""
        world = World(harness)
        machine, first, second = guid(), guid(), guid()
        world.create(world.machine(machine))
        world.apply(world.sync(first, 2, world.queue(first)), world.sync(second, 3, world.queue(second)))
        name = world.name(r"web\q")
        for _ in range(2):
            if deletes:
                outcome = world.delete(name, at=4)
            else:
                outcome = world.update(name, ((Propid.Q_LABEL, "x"),), at=4)
            assert outcome == ops.ObjectOutcome(status=OK, identifier=second)
        assert world.read(first).seq_number == 2

    def test_names_and_identifiers_are_taken(self, harness: Harness) -> None:
        world, other = World(harness), World(harness)
        machine, queue = guid(), guid()
        world.create(world.machine(machine))
        world.create(world.queue(queue))
        other.prefix = world.prefix
        taken = Hresult.MQ_ERROR_QUEUE_EXISTS
        assert world.create(world.queue(guid(), r"WEB\Q")).status == taken
        assert world.create(world.queue(queue, r"web\else")).status == taken
        assert other.create(other.machine(guid(), "WEB")).status == Hresult.MQ_ERROR_MACHINE_EXISTS
        assert other.create(other.machine(machine, "else")).status == Hresult.MQ_ERROR_MACHINE_EXISTS
        assert brief(world.changes()) == [(Command.SYNC, 1, machine), (Command.SYNC, 2, queue)]
        assert other.changes() == ()

    def test_a_queue_needs_its_machine(self, harness: Harness) -> None:
        world, other = World(harness), World(harness)
        queue = guid()
        assert world.create(world.queue(queue)).status == Hresult.MQ_ERROR_MACHINE_NOT_FOUND
        other.prefix = world.prefix
        other.create(other.machine(guid()))
        assert world.create(world.queue(queue)).status == Hresult.MQ_ERROR_MACHINE_NOT_FOUND
        assert world.read(queue).status == NOT_FOUND

    def test_creating_again_changes_nothing(self, harness: Harness) -> None:
        world = World(harness)
        machine = guid()
        for at in (5, 5, 4):
            outcome = world.create(world.machine(machine, OS=at), at=at)
            assert outcome == ops.ObjectOutcome(status=OK, identifier=machine)
        assert world.values(machine, ObjectType.MACHINE)[Propid.QM_OS] == 5

    def test_what_was_deleted_can_be_created_again(self, harness: Harness) -> None:
        world = World(harness)
        machine = guid()
        world.create(world.machine(machine))
        world.delete(machine, ObjectType.MACHINE)
        assert world.create(world.machine(machine), at=2).status == OK, "dropped: older than the tombstone"
        assert world.read(machine, ObjectType.MACHINE).status == NOT_FOUND
        assert world.create(world.machine(machine), at=3).status == OK
        assert brief(world.changes()) == [(Command.SYNC, 3, machine)]

    def test_update_sets_what_is_given(self, harness: Harness) -> None:
        world = World(harness)
        machine, queue = guid(), guid()
        world.create(world.machine(machine))
        world.create(world.queue(queue, LABEL="old", QUOTA=5))
        outcome = world.update(queue, ((Propid.Q_LABEL, "new"), (Propid.QM_OS, 5)))
        assert outcome == ops.ObjectOutcome(status=OK, identifier=queue)
        assert world.update(world.name(r"WEB\q"), ((Propid.Q_JOURNAL, 1),)).identifier == queue
        values = world.values(queue)
        assert (values[Propid.Q_LABEL], values[Propid.Q_QUOTA], values[Propid.Q_JOURNAL]) == ("new", 5, 1)
        assert Propid.QM_OS not in values
        assert world.read(queue).seq_number == 4
        assert brief(world.changes()) == [(Command.SYNC, 1, machine), (Command.SYNC, 4, queue)]

    def test_update_drops_what_is_known(self, harness: Harness) -> None:
        world = World(harness)
        queue = guid()
        world.create(world.machine(guid()), at=1)
        world.create(world.queue(queue), at=2)
        world.update(queue, ((Propid.Q_LABEL, "five"),), at=5)
        for at in (5, 4):
            assert world.update(queue, ((Propid.Q_LABEL, "late"),), at=at).status == OK
            assert world.values(queue)[Propid.Q_LABEL] == "five"

    def test_update_of_nothing(self, harness: Harness) -> None:
        world = World(harness)
        machine = guid()
        world.create(world.machine(machine))
        label = ((Propid.Q_LABEL, "x"),)
        for which in (guid(), world.name(r"web\none"), machine):
            assert world.update(which, label) == ops.ObjectOutcome(status=NOT_FOUND)
        other = World(harness)
        other.site, site = world.site, other.site
        world.site = site
        assert world.update(machine, ((Propid.QM_OS, 1),)).status == NOT_FOUND, "of another partition"

    def test_update_of_a_name(self, harness: Harness) -> None:
        world = World(harness)
        first, second = guid(), guid()
        world.create(world.machine(guid()))
        world.create(world.queue(first, r"web\one"))
        world.create(world.queue(second, r"web\two"))
        taken = world.update(second, ((Propid.Q_PATHNAME, world.name(r"WEB\ONE")),))
        assert taken.status == Hresult.MQ_ERROR_QUEUE_EXISTS
        other_case = ((Propid.Q_PATHNAME, world.name(r"WEB\ONE")),)
        assert world.update(first, other_case).status == OK
        renaming = ((Propid.Q_PATHNAME, world.name(r"web\three")),)
        at = int(world.next())
        for _ in range(2):  # the second time the old name is gone
            assert world.update(world.name(r"web\two"), renaming, at=at).identifier == second
        assert world.read(world.name(r"web\two")).status == NOT_FOUND
        assert world.read(world.name(r"web\three")).identifier == second
        assert world.create(world.queue(guid(), r"web\two")).status == OK

    def test_an_object_keeps_its_identifier(self, harness: Harness) -> None:
        world = World(harness)
        machine = guid()
        world.create(world.machine(machine))
        refused = world.update(machine, ((Propid.QM_MACHINE_ID, guid()),))
        assert refused.status == Hresult.MQ_ERROR_PROPERTY
        same = world.update(machine, ((Propid.QM_MACHINE_ID, machine), (Propid.QM_OS, 9)))
        assert same == ops.ObjectOutcome(status=OK, identifier=machine)
        assert world.values(machine, ObjectType.MACHINE)[Propid.QM_OS] == 9

    @pytest.mark.parametrize("scope", list(Scope))
    def test_deletion_leaves_a_tombstone(self, harness: Harness, scope: Scope) -> None:
        world = World(harness)
        queue = guid()
        world.create(world.machine(guid()))
        world.create(world.queue(queue))
        which = world.name(r"WEB\Q") if scope is Scope.SITE else queue
        for _ in range(2):
            assert world.delete(which, at=9, scope=scope) == ops.ObjectOutcome(status=OK, identifier=queue)
        assert world.read(queue).status == NOT_FOUND
        assert world.read(world.name(r"web\q")).status == NOT_FOUND
        (_, deleted) = world.changes()
        assert (deleted.command, deleted.guid_identifier, deleted.seq_number) == (
            Command.DELETE,
            queue,
            9,
        )
        assert deleted.properties == ((Propid.D_SCOPE, scope), (Propid.D_OBJTYPE, ObjectType.QUEUE))

    def test_deletion_of_nothing(self, harness: Harness) -> None:
        world = World(harness)
        machine = guid()
        world.create(world.machine(machine))
        for which in (guid(), world.name(r"web\none"), machine):
            assert world.delete(which) == ops.ObjectOutcome(status=NOT_FOUND)
        assert world.read(machine, ObjectType.MACHINE).status == OK

    def test_late_deletion_is_dropped(self, harness: Harness) -> None:
        world = World(harness)
        machine = guid()
        world.create(world.machine(machine), at=7)
        assert world.delete(machine, ObjectType.MACHINE, at=6).status == OK
        assert brief(world.changes()) == [(Command.SYNC, 7, machine)]

    def test_a_machine_with_queues_stays(self, harness: Harness) -> None:
        world = World(harness)
        machine, queue = guid(), guid()
        world.create(world.machine(machine))
        world.create(world.queue(queue))
        for which in (machine, world.name("Web")):
            assert world.delete(which, ObjectType.MACHINE) == ops.ObjectOutcome(status=Hresult.MQ_ERROR)
        assert brief(world.changes()) == [(Command.SYNC, 1, machine), (Command.SYNC, 2, queue)]
        world.delete(queue)
        assert world.delete(machine, ObjectType.MACHINE).status == OK

    def test_a_machine_that_has_another_name_than_its_queues_goes(self, harness: Harness) -> None:
        """A controller may get another name (decision R38): its queues' path names stay as they are."""
        world = World(harness)
        machine, old, new = guid(), guid(), guid()
        world.create(world.machine(machine))
        world.create(world.queue(old))
        renaming = ((Propid.QM_PATHNAME, world.name("new")),)
        assert world.update(machine, renaming).status == OK
        assert world.create(world.queue(new, r"new\q")).status == OK
        assert world.delete(machine, ObjectType.MACHINE) == ops.ObjectOutcome(status=Hresult.MQ_ERROR)
        world.delete(new)
        before = world.read(old).properties
        assert world.delete(machine, ObjectType.MACHINE).status == OK
        for _ in range(2):
            assert world.read(machine, ObjectType.MACHINE).status == NOT_FOUND
            assert world.read(old).properties == before
            harness.reopen()
            world.recover()
        assert world.delete(old).status == OK


class ReadingContract:
    """Reading, and looking up by number."""

    def test_read_by_identifier_or_name_of_the_type(self, harness: Harness) -> None:
        world = World(harness)
        machine = guid()
        world.create(world.machine(machine))
        nothing = ops.ObjectRead(status=NOT_FOUND)
        for which in (guid(), machine, world.name("web")):
            assert world.read(which) == nothing
        assert world.read(world.name("none"), ObjectType.MACHINE) == nothing

    def test_list_objects(self, harness: Harness) -> None:
        world = World(harness)
        machines = {service: guid() for service in (0, 2, 4, 3)}
        for service, machine in machines.items():
            world.create(world.machine(machine, f"m{service}", SERVICE=service))
        world.create(world.queue(guid(), r"m2\q"))

        def listed(service: int, partition_id: Guid = world.site) -> set[Guid | None]:
            asked = ops.ListObjects(
                object_type=ObjectType.MACHINE, partition_id=partition_id, service=service
            )
            return {one.identifier for one in world.perform(asked).objects}

        assert listed(0) == set(machines.values())
        assert listed(2) == {machines[2], machines[3]}
        assert listed(4 | 2) == {machines[2], machines[3], machines[4]}
        assert listed(8) == set()
        assert listed(0, guid()) == set()

    def test_has_objects(self, harness: Harness) -> None:
        world = World(harness)
        asked = ops.HasObjects(partition_id=world.site)
        machine = guid()
        assert world.perform(asked) == ops.Answer(yes=False)
        world.create(world.machine(machine))
        assert world.perform(asked) == ops.Answer(yes=True)
        world.delete(machine, ObjectType.MACHINE)
        assert world.perform(asked) == ops.Answer(yes=False), "a tombstone is no object"

    def test_has_queues(self, harness: Harness) -> None:
        world = World(harness)
        machine, other, queue = guid(), guid(), guid()
        asked = ops.HasObjects(partition_id=world.site, queues_of=machine)
        assert world.perform(asked) == ops.Answer(yes=False)
        world.create(world.machine(machine, "WEB1"))
        world.create(world.machine(other, "WEB2"))
        world.create(world.queue(queue, "web2\\orders"))
        assert world.perform(asked) == ops.Answer(yes=False)
        assert world.perform(ops.HasObjects(partition_id=world.site, queues_of=other)) == ops.Answer(yes=True)
        assert world.perform(ops.HasObjects(partition_id=guid(), queues_of=other)) == ops.Answer(yes=False)
        world.delete(queue, ObjectType.QUEUE)
        assert world.perform(ops.HasObjects(partition_id=world.site, queues_of=other)) == ops.Answer(
            yes=False
        )

    def test_lookup_by_number(self, harness: Harness) -> None:
        world = World(harness)
        ids = [guid() for _ in range(6)]
        world.apply(*(world.sync(one, at, world.machine(one, f"m{at}")) for at, one in enumerate(ids, 1)))
        world.apply(world.deletion(ids[2], 300), world.sync(ids[0], 2**40, world.machine(ids[0])))
        every = [(Command.SYNC, at, ids[at - 1]) for at in (2, 4, 5, 6)]
        every += [(Command.DELETE, 300, ids[2]), (Command.SYNC, 2**40, ids[0])]
        assert brief(world.changes()) == every
        assert brief(world.changes(after=4, up_to=300)) == every[2:5]
        assert brief(world.changes(after=300, up_to=2**40 - 1)) == []
        assert brief(world.changes(after=2**40)) == []
        assert world.found(up_to=17).reached == 17
        assert world.changes(guid()) == ()

    @pytest.mark.slow
    def test_lookup_by_numbers_that_lie_far_apart(self, harness: Harness) -> None:
        """A take-over skips a million numbers; the objects may be anywhere among them."""
        world = World(harness)
        numbers = [7, 20_000, 2**20 + 5, 2**20 + 6, 2**20 + 300_000, 3 * 2**20, 6 * 2**20, 6 * 2**20 + 1]
        ids = [guid() for _ in numbers]
        for at, one in zip(numbers, ids, strict=True):
            world.apply(world.sync(one, at, world.machine(one, f"m{at}")))
        every = [(Command.SYNC, at, one) for at, one in zip(numbers, ids, strict=True)]
        assert brief(world.changes()) == every
        for count, (first, last) in enumerate(pairwise(numbers), start=1):
            assert brief(world.changes(after=first)) == every[count:]
            assert brief(world.changes(after=first, up_to=last - 1)) == []
            assert brief(world.changes(after=first, up_to=last)) == every[count : count + 1]
            found = world.found(after=first - 1, count_max=1)
            assert (brief(found.changes), found.reached) == (every[count - 1 : count], first)
        assert world.recover() == numbers[-1]
        end = numbers[-1]
        for one in ids[2:]:
            end += 1
            world.apply(world.deletion(one, end, ObjectType.MACHINE))
        world.perform(ops.PurgeDeletedObjects(partition_id=world.site, up_to=number(end)))
        assert brief(world.changes()) == every[:2]
        assert world.recover() == numbers[1]

    def test_lookup_carries_whole_objects(self, harness: Harness) -> None:
        world = World(harness)
        machine = guid()
        state = DirectoryPartition(partition_id=world.site, authority_name="P", purged=number(3))
        world.perform(ops.SavePartition(partition=state))
        world.create(world.machine(machine), at=4)
        (change,) = world.changes()
        found = world.read(machine, ObjectType.MACHINE)
        assert change == DirectoryChange(
            command=Command.SYNC,
            guid_identifier=machine,
            partition_id=world.site,
            seq_number=number(4),
            purged_seq_number=number(3),
            properties=found.properties or (),
        )
        assert change.object_type is ObjectType.MACHINE
        world.delete(machine, ObjectType.MACHINE, at=5)
        (tombstone,) = world.changes()
        assert tombstone.purged_seq_number == 3

    def test_changes_carry_the_purged_number_of_now(self, harness: Harness) -> None:
        world = World(harness)
        world.create(world.machine(guid()))
        for purged in (0, 5, 9):
            state = DirectoryPartition(partition_id=world.site, authority_name="P", purged=number(purged))
            world.perform(ops.SavePartition(partition=state))
            (change,) = world.changes()
            assert change.purged_seq_number == purged

    @pytest.mark.parametrize("limit", [{"count_max": 1}, {"count_max": 3}, {"bytes_max": 1}])
    def test_lookup_in_pieces(self, harness: Harness, limit: dict[str, Any]) -> None:
        world = World(harness)
        ids = [guid() for _ in range(7)]
        changes = [world.sync(one, 3 * at, world.machine(one, f"m{at}")) for at, one in enumerate(ids, 1)]
        world.apply(*changes, world.deletion(ids[3], 50))
        pieces: list[DirectoryChange] = []
        after, up_to = 0, 60
        while after < up_to:
            found = world.found(after=after, up_to=up_to, **limit)
            assert found.changes or found.reached == up_to
            assert len(found.changes) <= limit.get("count_max", 1)
            assert all(after < one.seq_number <= found.reached for one in found.changes)
            assert after < found.reached <= up_to
            pieces += found.changes
            after = int(found.reached)
        assert pieces == list(world.changes())

    def test_lookup_of_enterprise_scope(self, harness: Harness) -> None:
        world = World(harness)
        machine, wide, narrow, gone = (guid() for _ in range(4))
        world.apply(
            world.sync(machine, 1, world.machine(machine)),
            world.sync(wide, 2, world.queue(wide, r"web\wide")),
            world.sync(narrow, 3, world.queue(narrow, r"web\narrow", SCOPE=0)),
            world.deletion(gone, 4),
        )
        assert [at for _, at, _ in brief(world.changes(enterprise_scope=True))] == [1, 2, 4]
        assert [at for _, at, _ in brief(world.changes())] == [1, 2, 3, 4]
        assert world.found(enterprise_scope=True, up_to=3).reached == 3
        assert world.found(enterprise_scope=True, after=2, count_max=1).reached >= 4
