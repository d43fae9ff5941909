"""What the replication store leaves in the directory: for the adapter, for indexes, after a crash."""

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from support.servers.edited_slapd import edited_slapd
from support.servers.sessions import options_for
from support.store.fixtures import by_socket, cutter, directory, harness, server, world
from support.store.slapd_store import Cutter, LdapHarness
from support.store.world import NOT_FOUND, OK, World, brief, guid

import mqdssm
from mqdssm.directory.filters import And, Equal, Present
from mqdssm.directory.profiles import PROFILES
from mqdssm.directory.session import Session
from mqdssm.engines.replication import operations as ops
from mqdssm.errors import ConfigError, DirectoryError, GenericDirectoryError, MappingError
from mqdssm.model.dn import DN
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, DirectoryChange
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, DirectoryPartition
from mqdssm.store.ldap import LdapStore
from mqdssm.store.ldap.change_batches import ChangeApplier
from mqdssm.store.ldap.change_planner import ChangePlan, PlannedChange, Planner
from mqdssm.store.ldap.places import DirectoryPlaces
from mqdssm.store.ldap.ranges import build_range_filter
from mqdssm.tables.numbering import BUCKET, NUMBER, PARTITION, split_range
from mqdssm.testing.openldap import OpenLdapServer

__all__ = ["cutter", "directory", "harness", "server", "world"]
"""The fixtures."""


def entry(session: Session, wanted: Any) -> Any:
    """The one entry that matches."""
    (found,) = [one for base in session.naming.guid_bases for one in session.find(base, wanted, ["*"])]
    return found


def queues_on(directory: mqdssm.Directory, world: World) -> list[mqdssm.Queue]:
    """The adapter's queues of the test's machines."""
    return [one for one in directory.search(mqdssm.Queue) if (one.pathname or "").startswith(world.prefix)]


def managers_of(directory: mqdssm.Directory, world: World) -> list[mqdssm.QueueManager]:
    found = directory.search(mqdssm.QueueManager)
    return [one for one in found if (one.computer_name or "").startswith(world.prefix)]


class TestWhichDirectories:
    def test_one_without_the_schema_is_refused(self, openldap_server: OpenLdapServer) -> None:
        with pytest.raises(ConfigError, match=r"schema lacks mqis.*load ldif/mqis\.schema.*index mqis"):
            LdapStore.open(options_for(openldap_server))

    def test_active_directory_is_refused_before_anything_is_sent(self) -> None:
        session: Any = SimpleNamespace(profile=PROFILES["activedirectory"])
        with pytest.raises(
            ConfigError, match=r"Active Directory cannot hold .*schema of the whole forest.*OpenLDAP"
        ):
            LdapStore(session)

    def test_a_closed_store_says_so(self, server: OpenLdapServer) -> None:
        store = LdapStore.open(by_socket(server))
        store.close()
        with pytest.raises(DirectoryError, match="closed"):
            store.perform(ops.LoadState())

    def test_a_server_that_is_gone_is_a_directory_error(self) -> None:
        with OpenLdapServer(durable=False, replication=True) as server:
            store = LdapStore.open(by_socket(server))
            server.kill()
            world = World(SimpleNamespace(store=store))  # type: ignore[arg-type]
            for operation in (
                ops.LoadState(),
                ops.SavePartition(partition=DirectoryPartition(partition_id=world.site, authority_name="A")),
                ops.ApplyChanges(partition_id=world.site, changes=[world.deletion(guid(), 1)]),
                ops.Recover(partition_id=world.site),
            ):
                with pytest.raises(DirectoryError):
                    store.perform(operation)
            store.close()


class TestWhatTheAdapterSees:
    @pytest.mark.spec("MC-MQDSRP 3.1.7.2.5")
    def test_replicated_objects(self, world: World, directory: mqdssm.Directory) -> None:
        machine, queue = guid(), guid()
        world.apply(
            world.sync(machine, 1, world.machine(machine, OS=3, QUOTA=77, SERVICE=4)),
            world.sync(queue, 2, world.queue(queue, r"web\q", LABEL="old", JOURNAL=1)),
            world.change(Command.UPDATE, queue, 3, ((Propid.Q_LABEL, "new"),)),
        )
        manager = directory.read(mqdssm.QueueManager, mqdssm.Filter("ComputerName", "==", world.name("web")))
        assert (manager.identifier, manager.queue_manager_quota) == (machine.uuid, 77)
        assert manager.directory_server_type is mqdssm.DirectoryServerType.PRIMARY_SITE_CONTROLLER
        (found,) = queues_on(directory, world)
        assert (found.identifier, found.label, found.journaling) == (queue.uuid, "new", True)
        assert found.pathname == world.name(r"web\q")
        world.apply(world.deletion(queue, 4), world.deletion(machine, 5, ObjectType.MACHINE))
        assert not queues_on(directory, world)
        assert not managers_of(directory, world)

    def test_a_queue_before_its_machine(self, world: World, directory: mqdssm.Directory) -> None:
        machine, queue = guid(), guid()
        world.apply(world.sync(queue, 1, world.queue(queue)))
        assert [one.pathname for one in queues_on(directory, world)] == [world.name(r"web\q")]
        assert not managers_of(directory, world), "a placeholder is no object"
        assert world.read(world.name("web"), ObjectType.MACHINE).status == NOT_FOUND
        listed = ops.ListObjects(object_type=ObjectType.MACHINE, partition_id=world.site)
        assert world.perform(listed).objects == ()
        world.apply(world.sync(machine, 2, world.machine(machine)))
        (manager,) = managers_of(directory, world)
        assert manager.identifier == machine.uuid
        assert brief(world.changes()) == [(Command.SYNC, 1, queue), (Command.SYNC, 2, machine)]

    def test_a_machine_that_goes_before_its_queues_is_a_placeholder(
        self, world: World, directory: mqdssm.Directory
    ) -> None:
        machine, queue = guid(), guid()
        world.apply(
            world.sync(machine, 1, world.machine(machine)),
            world.sync(queue, 2, world.queue(queue)),
            world.deletion(machine, 3, ObjectType.MACHINE),
        )
        assert not managers_of(directory, world)
        assert len(queues_on(directory, world)) == 1
        assert brief(world.changes()) == [(Command.SYNC, 2, queue), (Command.DELETE, 3, machine)]

    @pytest.mark.spec("MC-MQDSRP 3.3.7.11")
    def test_a_name_that_was_given_on_before_its_object_was_swept(
        self, world: World, directory: mqdssm.Directory
    ) -> None:
        old, new = guid(), guid()
        world.apply(world.sync(old, 1, world.queue(old)))
        world.perform(ops.MarkPartition(partition_id=world.site))
        world.apply(world.sync(new, 2, world.queue(new)))
        found = directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", world.name(r"web\q")))
        assert found.identifier == new.uuid, "the older one stands aside"
        world.perform(ops.SweepPartition(partition_id=world.site))
        assert [one.identifier for one in queues_on(directory, world)] == [new.uuid]

    def test_who_stood_aside_gets_his_name_and_guid_back(
        self, world: World, harness: LdapHarness, directory: mqdssm.Directory
    ) -> None:
        machine, other = guid(), guid()
        world.apply(world.sync(machine, 1, world.machine(machine)))
        world.apply(world.sync(machine, 7, world.machine(machine, OS=4), other))
        assert world.values(machine, ObjectType.MACHINE)[Propid.QM_OS] == 4
        assert brief(world.changes()) == [(Command.SYNC, 1, machine)]
        world.apply(world.deletion(machine, 2, ObjectType.MACHINE))
        manager = directory.read(mqdssm.QueueManager, mqdssm.Filter("ComputerName", "==", world.name("web")))
        assert manager.identifier == machine.uuid
        assert brief(world.changes(other)) == [(Command.SYNC, 7, machine)]
        assert not entry(harness.session, Equal("objectGUID", bytes(machine))).all("mqisObjectID")

    def test_a_crash_before_a_name_was_given_back(
        self, world: World, harness: LdapHarness, directory: mqdssm.Directory, cutter: Cutter
    ) -> None:
        machine, other = guid(), guid()
        web = mqdssm.Filter("ComputerName", "==", world.name("web"))
        for point in range(9):
            world.apply(world.sync(machine, 3 * point + 1, world.machine(machine)))
            world.apply(world.sync(machine, 3 * point + 1, world.machine(machine), other))
            deletion = world.deletion(machine, 3 * point + 2, ObjectType.MACHINE)
            harness.arm(point)
            try:
                world.apply(deletion)
            except DirectoryError:
                harness.disarm()
                harness.reopen()
                world.recover()
                world.apply(deletion)
            harness.disarm()
            assert directory.read(mqdssm.QueueManager, web).identifier == machine.uuid
            assert brief(world.changes(other)) == [(Command.SYNC, 3 * point + 1, machine)]
            world.apply(world.deletion(machine, 3 * point + 2, ObjectType.MACHINE, other))

    def test_names_that_the_directory_cannot_hold(self, world: World) -> None:
        names = ["m" * 300, " web ", "a  b", "\ud800", "", r"\q", "x" * 300 + r"\q", "\U0001f4a9" * 64]
        machines = {guid(): name for name in names}
        changes = [
            world.sync(one, n, (*world.machine(one)[2:], (Propid.QM_PATHNAME, name)))
            for n, (one, name) in enumerate(machines.items(), 1)
        ]
        assert world.apply(*changes) == ops.Applied(count=len(changes), status=OK)
        queues = {guid(): name for name in (*names, *(rf"web\{name}" for name in names))}
        changes = [
            world.sync(one, n, ((Propid.Q_PATHNAME, name),))
            for n, (one, name) in enumerate(queues.items(), 50)
        ]
        assert world.apply(*changes) == ops.Applied(count=len(changes), status=OK)
        for one, name in machines.items():
            assert world.values(one, ObjectType.MACHINE)[Propid.QM_PATHNAME] == name
        for one, name in queues.items():
            assert world.values(one)[Propid.Q_PATHNAME] == name
        assert len(world.changes()) == len(machines) + len(queues)

    @pytest.mark.spec("MC-MQDSRP 3.1.7.2.8")
    def test_references_to_what_comes_later(
        self, world: World, harness: LdapHarness, directory: mqdssm.Directory
    ) -> None:
        def enterprise(which: Guid, at: int, *properties: tuple[Propid, Any]) -> DirectoryChange:
            return world.sync(which, at, properties, PEC_PARTITION_ID)

        link, one, other, web, gate = (guid() for _ in range(5))
        last = 1000 * int(time.time())
        world.apply(
            enterprise(
                link, last, (Propid.L_NEIGHBOR1, one), (Propid.L_NEIGHBOR2, other), (Propid.L_COST, 7)
            ),
            enterprise(one, last + 1, (Propid.S_PATHNAME, world.name("rome")), (Propid.S_PSC, "A")),
        )
        world.apply(world.sync(web, 1, world.machine(web, OUTFRS=(gate,))))
        missing = DirectoryPlaces(harness.session).missing
        waiting = entry(harness.session, Equal("objectGUID", bytes(link))).first("mSMQSite2")
        assert DN.parse(waiting.decode()).parent == missing
        world.apply(enterprise(other, last + 2, (Propid.S_PATHNAME, world.name("oslo")), (Propid.S_PSC, "B")))
        world.apply(world.sync(gate, 2, world.machine(gate, "gate")))
        links = {one.identifier: one for one in directory.search(mqdssm.RoutingLink)}
        found = links[link.uuid]
        assert (found.site1_identifier, found.site2_identifier, found.actual_cost) == (
            one.uuid,
            other.uuid,
            7,
        )
        manager = directory.read(mqdssm.QueueManager, mqdssm.Filter("ComputerName", "==", world.name("web")))
        assert manager.out_routing_server_identifier_list == (gate.uuid,)
        site = world.change(
            Command.UPDATE, one, last + 3, ((Propid.S_PATHNAME, world.name("roma")),), PEC_PARTITION_ID
        )
        world.apply(site)
        assert (
            directory.read(mqdssm.Site, mqdssm.Filter("Name", "==", world.name("roma"))).identifier
            == one.uuid
        )
        links = {one.identifier: one for one in directory.search(mqdssm.RoutingLink)}
        assert links[link.uuid].site1_identifier == one.uuid, "names in references follow"


class TestWritesAndSearches:
    def test_an_object_and_its_number_are_one_write(self, world: World, cutter: Cutter) -> None:
        machine = guid()
        world.apply(world.sync(machine, 1, world.machine(machine)))
        for change in (
            world.change(Command.UPDATE, machine, 2, ((Propid.QM_OS, 3), (Propid.QM_QUOTA, 1))),
            world.sync(machine, 3, world.machine(machine, OS=4)),
        ):
            before = cutter.writes
            assert world.apply(change) == ops.Applied(count=1, status=OK)
            assert cutter.writes - before == 1

    def test_a_batch_costs_a_write_for_each_object(self, world: World, cutter: Cutter) -> None:
        machine = guid()
        queues = [(guid(), n) for n in range(2, 202)]
        changes = [world.sync(one, n, world.queue(one, rf"web\q{n}")) for one, n in queues]
        world.apply(world.sync(machine, 1, world.machine(machine)))
        writes, searches = cutter.writes, cutter.searches
        assert world.apply(*changes) == ops.Applied(count=200, status=OK)
        assert cutter.writes - writes == 200
        assert cutter.searches - searches < 40
        again = cutter.writes
        assert world.apply(*changes) == ops.Applied(count=200, status=OK)
        assert cutter.writes == again, "what is known is not written again"

    def test_changes_are_planned_while_the_server_works(
        self, world: World, cutter: Cutter, monkeypatch: Any
    ) -> None:
        """[replica-apply]: the first changes of a message are sent before the last ones are planned."""
        queues = [(guid(), n) for n in range(2, 202)]
        changes = [world.sync(one, n, world.queue(one, rf"web\q{n}")) for one, n in queues]
        machine = guid()
        world.apply(world.sync(machine, 1, world.machine(machine)))
        plan, begin, sent = Planner.plan, cutter.writes, []

        def noted(self: Planner, wanted: PlannedChange) -> ChangePlan:
            sent.append(cutter.writes - begin)
            return plan(self, wanted)

        monkeypatch.setattr(Planner, "plan", noted)
        assert world.apply(*changes) == ops.Applied(count=200, status=OK)
        assert len(sent) == 200
        assert sent[0] == 0
        assert sent[100] >= 32
        assert sent[-1] >= 100

    def test_what_cannot_be_planned_ends_a_message_behind_what_is_sent(
        self, world: World, monkeypatch: Any
    ) -> None:
        """A damaged entry is told when all answers to what was sent before have come."""
        queues = [(guid(), n) for n in range(2, 102)]
        changes = [world.sync(one, n, world.queue(one, rf"web\p{n}")) for one, n in queues]
        machine = guid()
        world.apply(world.sync(machine, 1, world.machine(machine)))
        plan = Planner.plan

        def damaged(self: Planner, wanted: PlannedChange) -> ChangePlan:
            if wanted.row == 70:
                raise MappingError("damaged")
            return plan(self, wanted)

        with monkeypatch.context() as patched:
            patched.setattr(Planner, "plan", damaged)
            assert world.apply(*changes).status == Hresult.MQ_ERROR_DS_ERROR
        assert len(world.changes()) == 71
        assert world.apply(*changes) == ops.Applied(count=100, status=OK)

    def test_an_authority_reads_once_what_a_change_concerns(self, world: World, cutter: Cutter) -> None:
        queue = guid()
        assert world.create(world.machine(guid())).status == OK
        assert world.create(world.queue(guid(), r"web\first")).status == OK  # the ceiling is there
        counts = []
        for change in (
            lambda: world.create(world.queue(queue)),
            lambda: world.update(queue, ((Propid.Q_LABEL, "x"),)),
            lambda: world.delete(queue),
        ):
            searches, writes = cutter.searches, cutter.writes
            assert change().status == OK
            counts.append((cutter.searches - searches, cutter.writes - writes))
        # a deletion is a tombstone and a removal, and looks for those who wait for its name
        assert counts == [(5, 1), (3, 1), (4, 2)]

    def test_another_writer_is_noticed_by_an_authority(
        self, world: World, harness: LdapHarness, monkeypatch: Any
    ) -> None:
        """What was read to see whether a change may be made is read again where it has changed since."""
        queue = guid()
        assert world.create(world.machine(guid())).status == OK
        assert world.create(world.queue(queue)).status == OK
        view, others = ChangeApplier.view, [world.sync(queue, 9, world.queue(queue, LABEL="theirs"))]
        second = LdapStore(harness.session)

        def overtaken(self: ChangeApplier, changes: Any) -> Any:
            found = view(self, changes)
            if others:
                second.perform(ops.ApplyChanges(partition_id=world.site, changes=[others.pop()]))
            return found

        monkeypatch.setattr(ChangeApplier, "view", overtaken)
        assert world.update(queue, ((Propid.Q_LABEL, "ours"),), at=10).status == OK
        assert not others
        assert world.values(queue)[Propid.Q_LABEL] == "ours"
        assert world.changes()[-1].seq_number == 10

    def test_another_writer_is_noticed(self, world: World, harness: LdapHarness, monkeypatch: Any) -> None:
        """Two stores of one directory: what was planned on an old number is planned again."""
        machine = guid()
        world.apply(world.sync(machine, 1, world.machine(machine)))
        view, others = ChangeApplier.view, [world.sync(machine, 5, world.machine(machine, OS=5))]
        second = LdapStore(harness.session)

        def overtaken(self: ChangeApplier, changes: Any) -> Any:
            found = view(self, changes)
            if others:
                second.perform(ops.ApplyChanges(partition_id=world.site, changes=[others.pop()]))
            return found

        monkeypatch.setattr(ChangeApplier, "view", overtaken)
        assert world.apply(world.sync(machine, 2, world.machine(machine, OS=2))).status == OK
        assert brief(world.changes()) == [(Command.SYNC, 5, machine)]
        assert world.values(machine, ObjectType.MACHINE)[Propid.QM_OS] == 5

    def test_an_entry_that_somebody_has_damaged_is_named(self, world: World, harness: LdapHarness) -> None:
        machine = guid()
        world.apply(world.sync(machine, 1, world.machine(machine)))
        dn = entry(harness.session, Equal("objectGUID", bytes(machine))).dn
        harness.session.modify(dn, {"mqisSeqNumber": (b"-5",)})
        with pytest.raises(MappingError, match=f"{dn}.*no sequence number"):
            world.read(machine, ObjectType.MACHINE)

    @pytest.mark.spec("MC-MQDSRP 3.2.7.8")
    def test_the_highest_number_is_found_by_the_ceiling(self, world: World, cutter: Cutter) -> None:
        machine = guid()
        world.apply(world.sync(machine, 5_000_000, world.machine(machine)))
        before = cutter.searches
        assert world.recover() == 5_000_000
        assert cutter.searches - before < 10
        world.harness.reopen()
        world.perform(ops.RemovePartition(partition_id=world.site))
        assert world.recover() == 5_000_000, "without a ceiling, too"

    def test_a_range_of_many_numbers_that_nothing_has(self, world: World, cutter: Cutter) -> None:
        first, last = guid(), guid()
        world.apply(world.deletion(first, 3), world.deletion(last, 2**40))
        before = cutter.searches
        assert brief(world.changes()) == [(Command.DELETE, 3, first), (Command.DELETE, 2**40, last)]
        assert cutter.searches - before < 80


UNCHECKED: Final = "size.unchecked=600"
"""What slapd lets an ordinary user's search look at in the server below."""


class TestIndexes:
    """slapd itself counts the entries that a search has to look at, and refuses it when they are many."""

    @pytest.mark.spec("MC-MQDSRP 3.2.7.8")
    def test_a_range_looks_at_what_it_finds(self) -> None:
        with OpenLdapServer(durable=False, replication=True) as server:
            _, password = server.add_user("limited")
            with LdapStore.open(by_socket(server)) as store:
                world = World(SimpleNamespace(store=store))  # type: ignore[arg-type]
                for first in range(0, 2000, 500):
                    world.apply(*(world.deletion(guid(), first + n) for n in range(1, 501)))
            server.stop()
            dn = f"CN=limited,CN=Users,{server.base_dn}"
            add = f'limits    dn.exact="{dn}" size.prtotal=unlimited {UNCHECKED}\n'
            limits = "limits    users"  # the first limits of a user count
            with edited_slapd(Path(server.folder), limits, add=add) as url:
                options = options_for(server, url, user=dn, password=password, tls="none")
                with Session.open(options) as session:
                    self._check_ranges(session, world.site)

    @staticmethod
    def _check_ranges(session: Session, site: Guid) -> None:
        (part,) = split_range(site, 901, 1000)
        wanted = build_range_filter(site, 901, 1000, part.buckets)
        assert len(list(session.find(session.naming.configuration, wanted, [NUMBER]))) == 100
        for costly in (
            build_range_filter(site, 901, 1000),
            And((Equal(PARTITION, bytes(site)), Present(BUCKET))),
        ):
            with pytest.raises(GenericDirectoryError, match="LDAP result 11"):
                list(session.find(session.naming.configuration, costly, [NUMBER]))


@pytest.mark.soak
def test_a_server_that_is_killed_loses_nothing_that_was_reported() -> None:
    """kill -9 of slapd in the middle of batches, default durability; what is repeated completes them."""
    with OpenLdapServer(replication=True) as server:
        store = LdapStore.open(by_socket(server))
        world = World(SimpleNamespace(store=store))  # type: ignore[arg-type]
        machine = guid()
        known: list[Guid] = [machine]
        world.apply(world.sync(machine, 1, world.machine(machine)))
        at, kills = 1, 0
        while kills < 10:
            batch = [guid() for _ in range(200)]
            changes = [
                world.sync(one, at + n, world.queue(one, rf"web\q{at + n}")) for n, one in enumerate(batch, 1)
            ]
            changes += [world.deletion(one, at + 200 + n) for n, one in enumerate(batch[:20], 1)]
            killer = threading.Timer(0.05 + 0.03 * kills, server.kill)
            killer.start()
            try:
                applied = world.apply(*changes)
                assert applied == ops.Applied(count=len(changes), status=OK)
            except DirectoryError:
                pass
            killer.join()
            kills += 1
            server.start()
            store.close()
            store = LdapStore.open(by_socket(server))
            world.harness = SimpleNamespace(store=store)  # type: ignore[assignment]
            world.recover()
            assert world.apply(*changes) == ops.Applied(count=len(changes), status=OK)
            known += batch[20:]
            at += 220
            alive = {one.guid_identifier for one in world.changes() if one.command == Command.SYNC}
            assert alive == set(known)
        store.close()
