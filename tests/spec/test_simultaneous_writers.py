"""Many programs change queue managers at the same time: entry and settings agree when all are done.

[MS-MQDSSM] 3.1.6.1.1.3, 3.1.6.2.1.3, 3.1.6.7.1.5, 3.1.6.7.1.9; decision M92.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import pytest

import mqdssm
from mqdssm import Filter, QueueManager
from mqdssm.directory.filters import Equal
from mqdssm.directory.loading.items import Action, Effect, Item, LoadOptions
from mqdssm.directory.loading.tasks import ChangeTask

THREADS = 20
DIRECTORIES = 4
COMPUTERS = 3
SITES = 3
FLAGS = ("mSMQRoutingServices", "mSMQDsServices", "mSMQDependentClientServices")
COPIES = {
    "mSMQQMID": "objectGUID",
    "mSMQServices": "mSMQServiceType",
    "mSMQRoutingService": "mSMQRoutingServices",
    "mSMQDsService": "mSMQDsServices",
    "mSMQDependentClientService": "mSMQDependentClientServices",
}
ROLES: tuple[dict[str, object], ...] = (
    {"routing_server": True},
    {"routing_server": False},
    {"remote_access_server": True},
    {"remote_access_server": False},
    {"directory_server": True},
    {"directory_server": False},
    {"directory_server": True, "directory_server_type": "PrimarySiteController"},
    {"directory_server_type": "BackupSiteController"},
    {"supporting_server": True},
    {"supporting_server": False},
    {"routing_server": False, "directory_server": False, "supporting_server": False},
)


class Contest:
    """Threads that create, write and delete queue managers of a few computers in a few sites."""

    def __init__(self, world: Any, directories: list[mqdssm.Directory]) -> None:
        self.world = world
        self.directories = directories
        self.sites = [world.site() for _ in range(SITES)]
        self.computers = [world.computer() for _ in range(COMPUTERS)]
        self.errors: list[str] = []

    def round(self, seed: str) -> None:
        """Let each thread make one change, all at once, and compare what they leave."""
        start = threading.Barrier(THREADS)

        def work(number: int) -> None:
            chance = random.Random(f"{seed} {number}")
            directory = self.directories[number % len(self.directories)]
            change = self.change(chance, directory)
            start.wait(60)
            try:
                change()
            except mqdssm.ObjectNotFound:
                pass  # another thread has deleted it
            except Exception as error:  # noqa: BLE001  a thread must not die silently
                self.errors.append(f"{type(error).__name__}: {error}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
        assert not self.errors, seed
        assert list(differences(self.world)) == [], seed

    def change(self, chance: random.Random, directory: mqdssm.Directory) -> Callable[[], object]:
        """A change of one queue manager, ready to be made."""
        computer = chance.choice(self.computers)
        sites = chance.sample(self.sites, chance.randint(1, SITES))
        event = chance.choices(("write", "sites", "create", "delete"), (10, 3, 5, 2))[0]
        if event == "create":
            roles = chance.choice(ROLES)
            manager = QueueManager(computer_name=computer, site_identifier_list=sites, **roles)
            return lambda: directory.create(manager)
        key: dict[str, object] = {"computer_name": computer}
        if chance.random() < 0.5 and (guid := self.identifier(directory, computer)) is not None:
            key = {"identifier": guid}
        if event == "delete":
            return lambda: directory.delete(QueueManager(**key))
        values = chance.choice(ROLES) if event == "write" else {"site_identifier_list": sites}
        return lambda: directory.write(QueueManager(**key, **values))

    @staticmethod
    def identifier(directory: mqdssm.Directory, computer: str) -> UUID | None:
        """The queue manager that a computer has before the round, if it has one."""
        wanted = Filter("ComputerName", "==", computer)
        try:
            return directory.read(QueueManager, wanted, attributes=["Identifier"]).identifier
        except mqdssm.ObjectNotFound:
            return None


def differences(world: Any) -> Iterator[str]:
    """What of the settings objects is not as the entries say (3.1.6.20.1), and roles without their bits."""
    session = world.directory.session
    managers = {
        entry.first("objectGUID"): entry
        for entry in session.find(
            world.root,
            Equal("objectClass", b"mSMQConfiguration"),
            ["objectGUID", "mSMQSites", "mSMQServiceType", *FLAGS],
        )
    }
    names = {guid.bytes_le: name for guid, name in world._names.items()}
    needed = set()
    for guid, entry in managers.items():
        bits = int(entry.first("mSMQServiceType") or b"0")
        if bool(bits & 1) != (entry.first("mSMQRoutingServices") == b"TRUE"):
            yield f"{entry.dn}: routing server, service type {bits}"
        if bits & 0xE and entry.first("mSMQDsServices") != b"TRUE":
            yield f"{entry.dn}: no directory server, service type {bits}"
        if any(entry.first(flag) == b"TRUE" for flag in FLAGS):
            computer = entry.dn.split(",")[1].split("=")[1]
            for site in entry.all("mSMQSites"):
                needed.add((guid, world.settings_dn(names[site], computer).lower()))
    found = set()
    for entry in session.find(world.sites_dn, Equal("objectClass", b"mSMQSettings"), tuple(COPIES)):
        owner = managers.get(entry.first("mSMQQMID"))
        if owner is None:
            yield f"{entry.dn}: its queue manager is gone"
            continue
        found.add((entry.first("mSMQQMID"), entry.dn.lower()))
        for own, copied in COPIES.items():
            if entry.first(own) != owner.first(copied):
                yield f"{entry.dn}: {own} {entry.first(own)!r}, {copied} {owner.first(copied)!r}"
    yield from (f"missing {one}" for one in needed - found)
    yield from (f"superfluous {one}" for one in found - needed)


def contest(world: Any, rounds: int) -> None:
    with ExitStack() as stack:
        directories = [stack.enter_context(world.connect()) for _ in range(DIRECTORIES)]
        players = Contest(world, directories)
        for number in range(rounds):
            players.round(f"round {number}")


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
@pytest.mark.spec("MS-MQDSSM 3.1.6.2.1.3")
@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.3")
def test_entry_and_settings_agree_when_all_writers_are_done(world) -> None:
    contest(world, 5)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.9")
def test_a_thousand_rounds_of_writers(world) -> None:
    contest(world, 1000)


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.5")
def test_no_role_of_simultaneous_writers_is_lost(world) -> None:
    roles: list[dict[str, object]] = [
        {"routing_server": True},
        {"remote_access_server": True},
        {"directory_server": True, "directory_server_type": "PrimarySiteController"},
        {"supporting_server": True},
    ]
    site = world.site()
    with ExitStack() as stack:
        directories = [stack.enter_context(world.connect()) for _ in roles]
        for _ in range(5):
            guid = world.queue_manager(site_identifier_list=[site])
            start = threading.Barrier(len(roles))

            def write(
                directory: mqdssm.Directory,
                role: dict[str, object],
                guid: UUID = guid,
                start: threading.Barrier = start,
            ) -> None:
                start.wait(30)
                directory.write(QueueManager(identifier=guid, **role))

            threads = [
                threading.Thread(target=write, args=(directory, role))
                for directory, role in zip(directories, roles, strict=True)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            found = world.directory.read(QueueManager, Filter("Identifier", "==", guid))
            assert (found.routing_server, found.remote_access_server, found.supporting_server) == (
                True,
                True,
                True,
            )
            assert found.directory_server_type is mqdssm.DirectoryServerType.PRIMARY_SITE_CONTROLLER
            assert list(differences(world)) == []


# -- changes that were planned before: migration, Spark's writer ------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.5")
@pytest.mark.parametrize(
    ("others", "effect"), [(b"1", Effect.UPDATED), (b"16", Effect.CONFLICT), (b"17", Effect.EQUAL)]
)
def test_a_planned_change_is_not_made_over_one_that_came_in_between(
    world, monkeypatch, others, effect
) -> None:
    """Decision M92: the look at what is there and the change are one."""
    dn = f"CN=msmq,{world.computer_dn(world.computer_of(world.queue_manager()))}"
    session = world.directory.session
    session.modify(dn, {"mSMQServiceType": [b"1"], "mSMQQuota": [b"5"]})
    plain, once = ChangeTask.encode, iter([True])

    def encode(task: ChangeTask, *arguments: Any) -> bytes:
        if next(once, False):
            session.modify(dn, {"mSMQServiceType": [others], "mSMQQuota": [b"7"]})
        return plain(task, *arguments)

    monkeypatch.setattr(ChangeTask, "encode", encode)
    item = Item(
        row=1,
        action=Action.MODIFY,
        dn=dn,
        attributes={"mSMQServiceType": [b"17"]},
        before={"mSMQServiceType": [b"1"]},
    )
    (outcome,) = session.loader.load([item], LoadOptions())
    assert outcome.effect is effect
    kept = others if effect is Effect.CONFLICT else b"17"
    assert world.ldap.entry(dn)["mSMQServiceType"] == [kept]


@pytest.mark.spec("MS-MQDSSM 3.1.6.2.2.2")
@pytest.mark.parametrize("action", [Action.MODIFY, Action.DELETE])
def test_a_planned_change_is_not_made_to_another_object_of_the_name(world, monkeypatch, action) -> None:
    computer = world.computer_of(world.queue_manager())
    world.queue(computer, "q", label="old")
    dn = world.queue_dn(computer, "q")
    plain, once = ChangeTask.encode, iter([True])

    def encode(task: ChangeTask, *arguments: Any) -> bytes:
        if next(once, False):
            world.ldap.delete(dn)
            world.queue(computer, "q", label="new")
        return plain(task, *arguments)

    monkeypatch.setattr(ChangeTask, "encode", encode)
    change = {} if action is Action.DELETE else {"mSMQLabelEx": [b"planned"]}
    item = Item(row=1, action=action, dn=dn, attributes=change, before={"mSMQLabelEx": [b"old"]})
    (outcome,) = world.directory.session.loader.load([item], LoadOptions())
    assert outcome.effect in {Effect.CONFLICT, Effect.MISSING}
    assert world.ldap.entry(dn)["mSMQLabelEx"] == [b"new"]
