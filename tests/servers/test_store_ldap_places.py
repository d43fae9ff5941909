"""What the replication store does beside its objects: placeholders, places, settings; and a full database."""

from types import SimpleNamespace
from typing import Any, Final

import pytest
from support.store.fixtures import by_socket, cutter, directory, harness, server, world
from support.store.slapd_store import Cutter, LdapHarness
from support.store.world import NOT_FOUND, OK, World, brief, guid

import mqdssm
from mqdssm.directory.filters import Equal
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.succession import GAP
from mqdssm.errors import DirectoryError, MappingError, ObjectNotFound
from mqdssm.model.dn import DN
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange, Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.store.ldap import LdapStore
from mqdssm.store.ldap.places import DirectoryPlaces
from mqdssm.store.ldap.view import StoreSearches
from mqdssm.tables.places import computer_dn
from mqdssm.testing.openldap import OpenLdapServer

__all__ = ["cutter", "directory", "harness", "server", "world"]
"""The fixtures."""

MACHINE: Final = ObjectType.MACHINE


def found_in(harness: LdapHarness, wanted: Any) -> list[Any]:
    session = harness.session
    return [one for base in session.naming.guid_bases for one in session.find(base, wanted, ["*"])]


def dn_of(harness: LdapHarness, identifier: Guid) -> str:
    (found,) = found_in(harness, Equal("objectGUID", bytes(identifier)))
    return found.dn.lower()


def managers_of(directory: mqdssm.Directory, world: World) -> list[Any]:
    found = directory.search(mqdssm.QueueManager)
    return [one.identifier for one in found if (one.computer_name or "").startswith(world.prefix)]


class TestPlaceholders:
    """Decision R68."""

    def test_the_adapter_does_not_show_them(self, world: World, directory: mqdssm.Directory) -> None:
        machine, queue = guid(), guid()
        web = mqdssm.Filter("ComputerName", "==", world.name("web"))
        world.apply(world.sync(queue, 1, world.queue(queue)))
        assert managers_of(directory, world) == []
        with pytest.raises(ObjectNotFound):
            directory.read(mqdssm.QueueManager, web)
        world.apply(world.sync(machine, 2, world.machine(machine)))
        assert managers_of(directory, world) == [machine.uuid]
        assert directory.read(mqdssm.QueueManager, web).identifier == machine.uuid
        world.apply(world.deletion(machine, 3, MACHINE))
        assert managers_of(directory, world) == []
        assert world.values(queue)[Propid.Q_PATHNAME] == world.name(r"web\q")

    @pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
    def test_where_something_else_is_a_replica_stands_aside(self, world: World, harness: LdapHarness) -> None:
        machine, queue = guid(), guid()
        world.apply(world.sync(machine, 1, world.machine(machine)))
        place = DN.parse(dn_of(harness, machine)).child("CN", "q")
        harness.session.add(place, {"objectClass": (b"container",)})
        assert world.create(world.queue(queue), at=2).status == Hresult.MQ_ERROR_QUEUE_EXISTS
        assert world.apply(world.sync(queue, 2, world.queue(queue))) == ops.Applied(count=1, status=OK)
        assert world.values(queue)[Propid.Q_PATHNAME] == world.name(r"web\q")
        assert brief(world.changes()) == [(Command.SYNC, 1, machine), (Command.SYNC, 2, queue)]

    @pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
    @pytest.mark.parametrize("queue_first", [False, True])
    def test_what_has_a_computers_place_and_is_none_has_the_machine_below_it(
        self, world: World, harness: LdapHarness, directory: mqdssm.Directory, queue_first: bool
    ) -> None:
        """Decision R82."""
        machine, queue, other = guid(), guid(), guid()
        place = computer_dn(harness.session.naming.root, world.name("web"))
        harness.session.add(place, {"objectClass": (b"container",)})
        changes = [world.sync(machine, 1, world.machine(machine)), world.sync(queue, 2, world.queue(queue))]
        if queue_first:
            changes = [
                world.sync(queue, 1, world.queue(queue)),
                world.sync(machine, 2, world.machine(machine)),
            ]
        for change in changes:
            assert world.apply(change) == ops.Applied(count=1, status=OK)
        assert world.values(queue)[Propid.Q_PATHNAME] == world.name(r"web\q")
        assert dn_of(harness, queue) == f"cn=q,cn=msmq,{place}".lower()
        assert managers_of(directory, world) == [machine.uuid], "the adapter shows it"
        assert world.create(world.queue(other, r"web\r"), at=3).status == OK, "an authority does the same"
        deletions = [world.deletion(one, n) for n, one in enumerate((queue, other), 4)]
        world.apply(*deletions, world.deletion(machine, 6, MACHINE))
        assert harness.session.get(place, ["objectClass"]).all("objectClass") == [b"container"]
        assert managers_of(directory, world) == []


class TestQueuesOfMachinesThatStandAside:
    def play(self, world: World, harness: LdapHarness, cutter: Cutter | None, point: int) -> bool:
        """A name that is given on, and comes back; with a crash at one point. Whether it came to that."""
        old, new, first, second = (guid() for _ in range(4))
        steps = [
            world.sync(new, 3, world.machine(new)),
            world.sync(second, 4, world.queue(second, r"web\r")),
            world.deletion(new, 5, MACHINE),
        ]
        world.apply(world.sync(old, 1, world.machine(old)), world.sync(first, 2, world.queue(first)))
        manager = dn_of(harness, old)
        crashed = False
        if cutter is not None:
            harness.arm(point)
        for step in steps:
            try:
                assert world.apply(step) == ops.Applied(count=1, status=OK)
            except DirectoryError:
                crashed = True
                harness.disarm()
                harness.reopen()
                world.recover()
                assert world.apply(step) == ops.Applied(count=1, status=OK)
            if step is steps[0] and not crashed:
                assert dn_of(harness, new) == manager
                assert "@" in dn_of(harness, old)
            if step is not steps[2]:
                assert dn_of(harness, first) == f"cn=q,{manager}", "the queue is found by its path name"
        harness.disarm()
        assert dn_of(harness, old) == manager, "it has its name back"
        assert dn_of(harness, first) == f"cn=q,{manager}"
        assert dn_of(harness, second) == f"cn=r,{manager}"
        expected = [(Command.SYNC, 1, old), (Command.SYNC, 2, first), (Command.SYNC, 4, second)]
        assert brief(world.changes()) == [*expected, (Command.DELETE, 5, new)]
        return crashed

    @pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
    def test_they_are_where_their_path_names_say(
        self, world: World, harness: LdapHarness, directory: mqdssm.Directory
    ) -> None:
        self.play(world, harness, None, 0)
        paths = {one.pathname for one in directory.search(mqdssm.Queue)}
        assert {world.name(r"web\q"), world.name(r"web\r")} <= paths
        assert len(managers_of(directory, world)) == 1

    def test_a_crash_at_any_write(self, harness: LdapHarness, cutter: Cutter) -> None:
        point = 0
        while self.play(World(harness), harness, cutter, point):
            point += 1
        assert point >= 16

    def test_a_queue_whose_name_the_new_machine_has_too(self, world: World, harness: LdapHarness) -> None:
        old, new, first, second = (guid() for _ in range(4))
        other = guid()
        world.apply(world.sync(new, 1, world.machine(new), other))
        world.apply(world.sync(second, 2, world.queue(second), other))
        world.apply(world.sync(old, 1, world.machine(old)), world.sync(first, 2, world.queue(first)))
        assert world.values(second)[Propid.Q_PATHNAME] == world.values(first)[Propid.Q_PATHNAME]
        world.apply(world.deletion(second, 3, site=other), world.deletion(new, 4, MACHINE, other))
        assert "@" not in dn_of(harness, old) + dn_of(harness, first)


class TestSettings:
    """[MS-MQDSSM] 3.1.6.1.1.3 for replicated machines, decision R69."""

    def sites(self, world: World, harness: LdapHarness, *names: str) -> list[Guid]:
        """New sites of the enterprise."""
        last = int(world.recover(PEC_PARTITION_ID))
        made = [guid() for _ in names]
        for n, (one, name) in enumerate(zip(made, names, strict=True), 1):
            site: Properties = ((Propid.S_PATHNAME, world.name(name)), (Propid.S_PSC, "A"))
            world.apply(world.sync(one, last + n, site, PEC_PARTITION_ID))
        return made

    def settings(self, harness: LdapHarness, machine: Guid) -> list[Any]:
        return found_in(harness, Equal("mSMQQMID", bytes(machine)))

    def machine(
        self, world: World, identifier: Guid, site: Guid, service: int, name: str = "web"
    ) -> Properties:
        world.site, before = site, world.site
        made = world.machine(identifier, name, SERVICE=service)
        world.site = before
        return made

    @pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.3")
    def test_they_come_and_go_with_the_server(self, world: World, harness: LdapHarness) -> None:
        (site,) = self.sites(world, harness, "rome")
        machine = guid()
        world.apply(world.sync(machine, 1, self.machine(world, machine, site, 4)))
        (one,) = self.settings(harness, machine)
        assert one.dn.lower().startswith(f"cn=msmq settings,cn={world.name('web')},cn=servers,cn=".lower())
        assert (one.first("mSMQServices"), one.first("mSMQDsService")) == (b"4", b"TRUE")
        world.apply(world.change(Command.UPDATE, machine, 2, ((Propid.QM_SERVICE, 1),)))
        (one,) = self.settings(harness, machine)
        assert (one.first("mSMQServices"), one.first("mSMQRoutingService")) == (b"1", b"TRUE")
        world.apply(world.change(Command.UPDATE, world.name("web"), 3, ((Propid.QM_SERVICE, 0),)))
        assert self.settings(harness, machine) == []
        world.apply(world.sync(machine, 4, self.machine(world, machine, site, 4)))
        assert len(self.settings(harness, machine)) == 1
        world.apply(world.deletion(machine, 5, MACHINE))
        assert self.settings(harness, machine) == []

    def test_a_site_that_comes_later_is_renamed_and_goes(self, world: World, harness: LdapHarness) -> None:
        (first,) = self.sites(world, harness, "oslo")
        machine, site = guid(), guid()
        world.apply(world.sync(machine, 1, self.machine(world, machine, site, 8)))
        assert self.settings(harness, machine) == []
        last = int(world.recover(PEC_PARTITION_ID))
        named: Properties = ((Propid.S_PATHNAME, world.name("bonn")), (Propid.S_PSC, "A"))
        renamed: Properties = ((Propid.S_PATHNAME, world.name("kiel")),)
        world.apply(world.sync(site, last + 1, named, PEC_PARTITION_ID))
        (one,) = self.settings(harness, machine)
        assert f"cn={world.name('bonn')}," in one.dn.lower()
        world.apply(world.change(Command.UPDATE, site, last + 2, renamed, PEC_PARTITION_ID))
        (one,) = self.settings(harness, machine)
        assert f"cn={world.name('kiel')}," in one.dn.lower()
        world.apply(world.deletion(site, last + 3, ObjectType.SITE, PEC_PARTITION_ID))
        assert self.settings(harness, machine) == []
        assert found_in(harness, Equal("cn", world.name("kiel").encode())) == []
        assert world.read(first, ObjectType.SITE).status == OK
        world.apply(world.deletion(machine, 2, MACHINE))

    def test_swept_machines_have_none(self, world: World, harness: LdapHarness) -> None:
        (site,) = self.sites(world, harness, "bari")
        machine = guid()
        world.apply(world.sync(machine, 1, self.machine(world, machine, site, 4)))
        world.perform(ops.MarkPartition(partition_id=world.site))
        assert len(self.settings(harness, machine)) == 1
        world.perform(ops.SweepPartition(partition_id=world.site))
        assert self.settings(harness, machine) == []

    @pytest.mark.parametrize("crashing", [Command.SYNC, Command.DELETE])
    def test_a_crash_at_any_write(self, world: World, harness: LdapHarness, crashing: Command) -> None:
        (site,) = self.sites(world, harness, "lyon")
        for point in range(100):
            machine, at = guid(), 3 * point
            created = world.sync(machine, at + 1, self.machine(world, machine, site, 4))
            deleted = world.deletion(machine, at + 2, MACHINE)
            crashes = [
                self.crash(world, harness, change, point if change.command is crashing else None)
                for change in (created, deleted)
            ]
            if not any(crashes):
                assert point >= 4
                return
        raise AssertionError

    def crash(self, world: World, harness: LdapHarness, change: DirectoryChange, point: int | None) -> bool:
        """Make a change with a crash at a point; whether it came to that."""
        machine = change.guid_identifier
        assert machine is not None
        crashed = False
        if point is not None:
            harness.arm(point)
        try:
            world.apply(change)
        except DirectoryError:
            crashed = True
            harness.disarm()
            harness.reopen()
            world.recover()  # the change may have been made, and nobody repeats it
            alive = world.read(machine, MACHINE).status == OK
            assert len(self.settings(harness, machine)) == int(alive)
            world.apply(change)
        harness.disarm()
        assert len(self.settings(harness, machine)) == int(change.command is Command.SYNC)
        return crashed


@pytest.mark.spec("MC-MQDSRP 3.2.7.8")
class TestDamage:
    """Decision R67."""

    def test_what_cannot_be_read_is_none_and_the_others_go_on(
        self, world: World, harness: LdapHarness, caplog: pytest.LogCaptureFixture
    ) -> None:
        machine, queue = guid(), guid()
        world.apply(
            world.sync(machine, 1, world.machine(machine, QUOTA=7, OS=3)),
            world.sync(queue, 2, world.queue(queue)),
        )
        dn = dn_of(harness, machine)
        (entry,) = found_in(harness, Equal("objectGUID", bytes(machine)))
        exact = (*entry.all("mqisExact"), b"\xff\xff\xff\xffx")
        harness.session.modify(dn, {"mSMQQuota": (b"99999999999",), "mqisExact": exact})
        assert brief(world.changes()) == [(Command.SYNC, 1, machine), (Command.SYNC, 2, queue)]
        said = [one.message.lower() for one in caplog.records if one.levelname == "ERROR"]
        assert any(dn in one and "qm_quota" in one for one in said)
        assert any(dn in one and "mqisexact" in one for one in said)
        values = world.values(machine, MACHINE)
        assert Propid.QM_QUOTA not in values
        assert values[Propid.QM_OS] == 3
        assert world.update(machine, ((Propid.QM_QUOTA, 8),), at=3).status == OK, "a client mends it"
        assert world.values(machine, MACHINE)[Propid.QM_QUOTA] == 8

    def test_a_tombstone_of_a_type_that_there_is_not(self, world: World, harness: LdapHarness) -> None:
        gone = guid()
        world.apply(world.deletion(gone, 1))
        (one,) = found_in(harness, Equal("mqisDeletedID", bytes(gone)))
        harness.session.modify(one.dn, {"mqisObjectType": (b"77",)})
        assert brief(world.changes()) == [(Command.DELETE, 1, gone)]


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.3")
class TestDamagedNumbers:
    """Decision R83: an entry that is no object any more stops what needs it, and nothing else."""

    def damage(self, harness: LdapHarness, identifier: Guid, **values: bytes) -> str:
        dn = dn_of(harness, identifier)
        harness.session.modify(dn, {name: (raw,) for name, raw in values.items()})
        return dn

    @pytest.mark.parametrize(
        ("name", "wrong"),
        [("mqisSeqNumber", b"99999999999999999999999"), ("mqisPartitionID", b"xx"), ("mqisObjectID", b"xx")],
    )
    def test_other_partitions_and_other_objects_go_on(
        self,
        world: World,
        harness: LdapHarness,
        caplog: pytest.LogCaptureFixture,
        name: str,
        wrong: bytes,
    ) -> None:
        hurt, sound, other, elsewhere = guid(), guid(), guid(), guid()
        world.apply(world.sync(hurt, 1, world.machine(hurt)))
        world.apply(world.sync(sound, 2, world.machine(sound, "sound")))
        good = StoreSearches(harness.session, DirectoryPlaces(harness.session))
        (before,) = good.find_objects([hurt])
        dn = self.damage(harness, hurt, **{name: wrong})
        caplog.clear()
        again = world.sync(hurt, 3, world.machine(hurt, QUOTA=8))
        for _ in range(3):
            assert world.apply(again) == ops.Applied(count=0, status=Hresult.MQ_ERROR_DS_ERROR)
        outcome = world.update(hurt, ((Propid.QM_QUOTA, 8),), at=3)
        assert outcome.status == Hresult.MQ_ERROR_DS_ERROR
        said = [one.message.lower() for one in caplog.records if one.levelname == "ERROR"]
        assert 1 <= len(said) <= 2, "not each time"
        assert all(dn in one for one in said)
        assert world.apply(world.sync(sound, 4, world.machine(sound, "sound", QUOTA=9))).status == OK
        assert world.apply(world.sync(other, 1, world.machine(other, "there"), elsewhere)).status == OK
        assert brief(world.changes(elsewhere)) == [(Command.SYNC, 1, other)]
        world.recover()
        harness.session.modify(dn, {name: before.entry.get(name, ())})
        assert world.apply(again) == ops.Applied(count=1, status=OK)
        assert brief(world.changes()) == [(Command.SYNC, 3, hurt), (Command.SYNC, 4, sound)]

    def test_what_cannot_be_told_is_an_error_that_names_it(self, world: World, harness: LdapHarness) -> None:
        hurt = guid()
        world.apply(world.sync(hurt, 1, world.machine(hurt)))
        dn = self.damage(harness, hurt, mqisPartitionID=b"xx")
        with pytest.raises(MappingError, match="(?i)" + dn):
            world.changes()

    @pytest.mark.parametrize("wrong", [b"-5", b"99999999999999999999999", b"70000"])
    def test_a_number_that_cannot_be_read_is_neither_left_out_nor_given_again(
        self, world: World, harness: LdapHarness, wrong: bytes
    ) -> None:
        """Decision R110: the bucket still says about which number it was."""
        first, hurt = guid(), guid()
        world.apply(world.sync(first, 1, world.machine(first)))
        world.apply(world.sync(hurt, 300, world.machine(hurt, "hurt")))
        dn = self.damage(harness, hurt, mqisSeqNumber=wrong)
        with pytest.raises(MappingError, match="(?i)" + dn):
            world.changes()
        recovered = world.perform(ops.Recover(partition_id=world.site))
        assert recovered == ops.Recovered(highest=SequenceNumber(1), doubtful=SequenceNumber(511))
        self.damage(harness, hurt, mqisSeqNumber=b"300")
        assert world.perform(ops.Recover(partition_id=world.site)) == ops.Recovered(
            highest=SequenceNumber(300)
        )
        assert brief(world.changes()) == [(Command.SYNC, 1, first), (Command.SYNC, 300, hurt)]

    def test_a_damaged_tombstone_does_not_hinder_a_start(self, world: World, harness: LdapHarness) -> None:
        gone, machine = guid(), guid()
        world.apply(world.deletion(gone, 1), world.sync(machine, 2, world.machine(machine)))
        (tombstone,) = found_in(harness, Equal("mqisDeletedID", bytes(gone)))
        harness.session.modify(tombstone.dn, {"mqisObjectID": (b"xx",)})
        harness.reopen()
        assert world.recover() == 2


def test_a_full_database_is_said_to_be_full() -> None:
    """Decision R66: nothing that was acknowledged is lost, and the status says what to do."""
    with OpenLdapServer(durable=False, replication=True, database_bytes_max=3 * 2**20) as server:
        store = LdapStore.open(by_socket(server))
        world = World(SimpleNamespace(store=store))  # type: ignore[arg-type]
        machine = guid()
        world.apply(world.sync(machine, 1, world.machine(machine)))
        at, status, done = 1, int(OK), 1
        while status == OK and at < 2000:
            queues = [guid() for _ in range(20)]
            changes = [
                world.sync(one, at + n, world.queue(one, rf"web\q{at + n}", SECURITY=b"x" * 3000))
                for n, one in enumerate(queues, 1)
            ]
            applied = world.apply(*changes)
            at, status, done = at + 20, applied.status, done + applied.count
        assert status == Hresult.MQ_ERROR_DS_IS_FULL
        assert len(world.changes(bytes_max=10**9)) >= done
        for n in range(100):  # slapd finds some room again when its readers are through
            more = world.queue(guid(), rf"web\more{n}", SECURITY=b"x" * 100_000)
            outcome = world.create(more, at=at + 1 + n)
            if outcome.status != OK:
                break
        assert outcome.status == Hresult.MQ_ERROR_DS_IS_FULL
        assert world.read(world.name(rf"web\more{n}")).status == NOT_FOUND
        store.close()


def test_a_million_skipped_numbers_cost_few_searches(world: World, harness: LdapHarness) -> None:
    """A take-over skips them (`mqdssm.engines.replication.succession.GAP`): they were 68 searches."""
    machine, far = guid(), guid()
    world.apply(world.sync(machine, 4, world.machine(machine)))
    world.apply(world.sync(far, 4 + GAP, world.machine(far, "far")))
    for after, count in ((4, 1), (0, 2)):
        before = harness.session.round_trips
        assert len(world.changes(after=after)) == count
        assert harness.session.round_trips - before <= 24
    world.apply(world.deletion(far, 5 + GAP, MACHINE))
    world.perform(ops.PurgeDeletedObjects(partition_id=world.site, up_to=SequenceNumber(5 + GAP)))
    before = harness.session.round_trips
    assert world.recover() == 4
    assert harness.session.round_trips - before <= 50


def test_the_longest_lists_and_largest_values(world: World, harness: LdapHarness) -> None:
    """What a message can carry does not stop a replica."""
    machine, user, site = guid(), guid(), guid()
    many = tuple(Guid(n.to_bytes(16, "little")) for n in range(1, 65_536))
    last = int(world.recover(PEC_PARTITION_ID))
    digest: Properties = ((Propid.U_DIGEST, many[:20_000]), (Propid.U_SIGN_CERT, b"x" * 2**20))
    gates: Properties = ((Propid.S_PATHNAME, world.name("site")), (Propid.S_PSC, "A"), (Propid.S_GATES, many))
    given = world.machine(machine, OUTFRS=many, INFRS=(), SECURITY=b"s" * 2**21)
    assert world.apply(world.sync(machine, 1, given)) == ops.Applied(count=1, status=OK)
    assert world.values(machine, MACHINE)[Propid.QM_OUTFRS] == many
    enterprise = [
        world.sync(user, last + 1, digest, PEC_PARTITION_ID),
        world.sync(site, last + 2, gates, PEC_PARTITION_ID),
    ]
    assert world.apply(*enterprise) == ops.Applied(count=2, status=OK)
    assert world.values(user, ObjectType.USER)[Propid.U_DIGEST] == many[:20_000]
    assert world.values(site, ObjectType.SITE)[Propid.S_GATES] == many
