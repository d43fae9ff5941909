"""What goes wrong with directories of replicating servers: two on one, a full one, objects made by hand."""

import tempfile
from collections.abc import Iterator
from uuid import UUID

import pytest
from support.replication.queue_managers import guid_of
from support.servers.sessions import options_for
from support.store.world import OK, World, brief, number

import mqdssm
from mqdssm.directory.options import ConnectionOptions
from mqdssm.engines.replication import operations as ops
from mqdssm.errors import ConfigError
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, DirectoryPartition
from mqdssm.store.ldap import LdapStore, Owner
from mqdssm.testing.openldap import OpenLdapServer


def private(server: OpenLdapServer) -> ConnectionOptions:
    return options_for(server, server.ldapi_url, user=None, password=None, ca_file=None)


class Open:
    """A store, as the worlds of the contract want it."""

    crashes = KeyError

    def __init__(self, store: LdapStore) -> None:
        self.store = store

    def arm(self, point: int) -> None: ...

    def disarm(self) -> None: ...

    def reopen(self) -> None: ...


@pytest.fixture(scope="module")
def server() -> Iterator[OpenLdapServer]:
    with OpenLdapServer(durable=False, replication=True) as running:
        yield running


class TestWhoseDirectoryItIs:
    def test_another_server_is_refused_and_the_same_one_may_have_another_name(
        self, server: OpenLdapServer
    ) -> None:
        one = Owner(machine_id=guid_of("one"), machine_name="ONE")
        with LdapStore.open(private(server), owner=one) as store:
            mine = DirectoryPartition(partition_id=PEC_PARTITION_ID, authority_name="ONE", owned=True)
            store.perform(ops.SavePartition(partition=mine))
        other = Owner(machine_id=guid_of("other"), machine_name="ONE")
        with pytest.raises(
            ConfigError, match=r"that of the replicating server ONE.*delete CN=Server,CN=MQIS"
        ):
            LdapStore.open(private(server), owner=other)
        renamed = Owner(machine_id=guid_of("one"), machine_name="NEW")
        for _ in range(2):
            with LdapStore.open(private(server), owner=renamed) as store:
                assert store.perform(ops.LoadState()) == ops.PersistedState(partitions=(mine,))
        with pytest.raises(ConfigError, match="replicating server NEW, not of ONE"):
            LdapStore.open(private(server), owner=other)
        with LdapStore.open(private(server)) as store:
            assert store.perform(ops.HasObjects(partition_id=PEC_PARTITION_ID)) == ops.Answer(yes=False)


class TestAFullDirectory:
    SMALL = 2_500_000
    """Octets; a few hundred queues fit."""

    def test_what_was_acknowledged_is_there_and_the_rest_comes_when_there_is_room(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with (
                OpenLdapServer(
                    folder, durable=False, replication=True, database_bytes_max=self.SMALL
                ) as server,
                LdapStore.open(private(server)) as store,
            ):
                world = World(Open(store))
                log = [
                    world.sync(world_guid(n), n, world.queue(world_guid(n), f"web\\q{n}", LABEL="x" * 3000))
                    for n in range(1, 1001)
                ]
                done, applied = 0, ops.Applied(count=0, status=OK)
                while applied.status == OK:
                    applied = world.apply(*log[done : done + 50])
                    done += applied.count
                assert applied.status in {Hresult.MQ_ERROR_DS_IS_FULL, Hresult.MQ_ERROR_DS_ERROR}
                # a reader that has ended since may have left room for a few more
                done += world.apply(*log[done : done + 50]).count
                assert 0 < done < len(log)
                assert {int(one.seq_number) for one in world.changes(bytes_max=1 << 30)} >= set(
                    range(1, done + 1)
                )
            with (
                OpenLdapServer(folder, durable=False, replication=True) as server,
                LdapStore.open(private(server)) as store,
            ):
                world.harness = Open(store)
                world.recover()
                assert world.apply(*log[done:]) == ops.Applied(count=len(log) - done, status=OK)
                assert brief(world.changes(bytes_max=1 << 30)) == [
                    (Command.SYNC, n, world_guid(n)) for n in range(1, len(log) + 1)
                ]


def world_guid(value: int) -> Guid:
    return guid_of(f"full {value}")


class TestObjectsMadeByHand:
    """The adapter made objects where replicated ones belong; it may, and neither side loses anything."""

    @pytest.fixture
    def by_hand(self, server: OpenLdapServer) -> Iterator[tuple[World, mqdssm.Directory]]:
        with (
            LdapStore.open(private(server)) as store,
            mqdssm.connect(server.ldapi_url, allow_replicated=True) as directory,
        ):
            world = World(Open(store))
            server.add_computer(world.name("web"))
            site = directory.create(mqdssm.Site(name=world.name("site")))
            directory.create(
                mqdssm.QueueManager(computer_name=world.name("web"), site_identifier_list=(site,))
            )
            directory.create(mqdssm.Queue(pathname=world.name(r"web\q"), label="by hand"))
            yield world, directory

    @staticmethod
    def labels(world: World, directory: mqdssm.Directory) -> dict[UUID | None, str | None]:
        found = directory.search(mqdssm.Queue)
        return {one.identifier: one.label for one in found if (one.pathname or "").startswith(world.prefix)}

    def test_a_replica_takes_what_it_is_told_and_leaves_them_alone(
        self, by_hand: tuple[World, mqdssm.Directory]
    ) -> None:
        world, directory = by_hand
        before = self.labels(world, directory)
        machine, queue = world_guid(-1), world_guid(-2)
        changes = (
            world.sync(machine, 1, world.machine(machine)),
            world.sync(queue, 2, world.queue(queue, LABEL="replicated")),
        )
        assert world.apply(*changes) == ops.Applied(count=2, status=OK)
        assert brief(world.changes()) == [(Command.SYNC, 1, machine), (Command.SYNC, 2, queue)]
        assert world.values(world.name(r"web\q"))[Propid.Q_LABEL] == "replicated"
        after = self.labels(world, directory)
        assert {one: after[one] for one in before} == before == {next(iter(before)): "by hand"}
        world.apply(world.deletion(queue, 3), world.deletion(machine, 4, ObjectType.MACHINE))
        assert self.labels(world, directory) == before

    def test_an_authority_refuses_names_that_are_taken(self, by_hand: tuple[World, mqdssm.Directory]) -> None:
        world, directory = by_hand
        before = self.labels(world, directory)
        made = world.create(world.machine(world_guid(-3)))
        assert made.status == Hresult.MQ_ERROR_MACHINE_EXISTS
        assert world.changes() == ()
        assert self.labels(world, directory) == before

    def test_what_was_deleted_by_hand_comes_back_with_its_next_change(
        self, by_hand: tuple[World, mqdssm.Directory]
    ) -> None:
        world, directory = by_hand
        machine, queue = world_guid(-4), world_guid(-5)
        log = (
            world.sync(machine, 1, world.machine(machine, "own")),
            world.sync(queue, 2, world.queue(queue, r"own\q", LABEL="one")),
        )
        world.apply(*log)
        directory.delete(mqdssm.Queue(identifier=queue.uuid))
        assert brief(world.changes()) == [(Command.SYNC, 1, machine)]
        assert world.update(queue, ((Propid.Q_LABEL, "two"),), at=3).status == Hresult.MQDS_OBJECT_NOT_FOUND
        world.apply(world.sync(queue, 3, world.queue(queue, r"own\q", LABEL="two")))
        assert world.values(queue)[Propid.Q_LABEL] == "two"
        assert world.recover() == number(3)
