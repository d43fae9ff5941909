"""Values, names and arguments as they should not be, and values that are taken away ([MS-MQDSSM] 3.1.6)."""

import json
import re
from uuid import UUID

import pytest
from support.enterprises.hand_made import HandMade
from support.servers.proxy import Proxy
from support.wire.certificates import registered

import mqdssm
from mqdssm import Filter, Queue, QueueManager, RoutingLink, Site, SortKey, User


def by_guid(world, kind, guid: UUID, attributes=None):
    return world.directory.read(kind, Filter("Identifier", "==", guid), attributes=attributes)


def stored(world, guid: UUID) -> dict[str, list[bytes]]:
    escaped = "".join(f"\\{byte:02x}" for byte in guid.bytes_le)
    (entry,) = world.ldap.search(world.root, f"(objectGUID={escaped})").values()
    return entry


# -- unset, then write --------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.2.2")
@pytest.mark.parametrize("listed", [None, ["Label", "Quota", "Journaling"]], ids=["all", "listed"])
def test_what_was_unset_is_removed(world, listed) -> None:
    guid = world.queue(label="x", quota=5, base_priority=3)
    queue = by_guid(world, Queue, guid)
    queue.unset("Label")
    del queue.quota
    queue.unset("FullPath")  # cannot be written: it is only forgotten
    queue.journaling = True
    world.directory.write(queue, attributes=listed)
    entry = stored(world, guid)
    assert not {"mSMQLabelEx", "mSMQQueueQuota"} & set(entry)
    assert (entry["mSMQBasePriority"], entry["mSMQJournal"]) == ([b"3"], [b"TRUE"])
    assert queue.assigned == frozenset()


@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
def test_what_was_unset_in_an_object_that_was_never_read_is_left_alone(world) -> None:
    guid = world.queue(label="x")
    queue = Queue(identifier=guid, label="never mind", quota=1)
    queue.unset("Label")
    world.directory.write(queue)
    assert stored(world, guid)["mSMQLabelEx"] == [b"x"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.5")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.8")
def test_roles_references_and_keys_of_a_queue_manager_can_be_unset(world) -> None:
    other = world.queue_manager()
    guid = world.queue_manager(
        routing_server=True,
        remote_access_server=True,
        out_routing_server_identifier_list=[other],
        public_signing_key_list=bytes(registered("one")),
    )
    manager = by_guid(world, QueueManager, guid)
    for name in ("RoutingServer", "OutRoutingServerIdentifierList", "PublicSigningKeyList"):
        manager.unset(name)
    world.directory.write(manager)
    entry = stored(world, guid)
    assert not {"mSMQRoutingServices", "mSMQOutRoutingServers"} & set(entry)
    assert entry["mSMQServiceType"] == [b"16"]
    assert "mSMQSignCertificates" not in world.ldap.entry(world.computer_dn(world.computer_of(guid)))
    assert not world.ldap.search(world.root, "(objectClass=mSMQSettings)")


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.6.4")
def test_certificates_can_be_unset(world) -> None:
    dn, _ = world.user()
    keys = bytes(registered("one"))
    world.directory.write(User(full_path=dn, certificates=keys))
    user = world.directory.read(User, Filter("FullPath", "==", dn))
    user.unset("Certificates")
    world.directory.write(user)
    assert not {"mSMQSignCertificates", "mSMQDigests"} & set(world.ldap.entry(dn))


# -- JSON ---------------------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
@pytest.mark.parametrize("kind", [Queue, QueueManager, Site, RoutingLink, User, mqdssm.Enterprise])
def test_what_was_read_goes_through_json_is_changed_and_written(world, kind) -> None:
    """Only the change is sent (decision M45): what others wrote meanwhile stays."""
    world.directory.create(
        RoutingLink(site1_identifier=world.site(), site2_identifier=world.site(), actual_cost=3)
    )
    world.queue()
    world.user()
    (read, *_) = [one for one in world.directory.search(kind) if not _is_the_servers(world, one)]
    field, new, meanwhile = {
        Queue: ("label", "new", {"mSMQQueueQuota": "77"}),
        QueueManager: ("queue_manager_version", "7", {"mSMQQuota": "77"}),
        Site: ("inter_site_replication_interval", 7, {"mSMQInterval1": "77"}),
        RoutingLink: ("description", "new", {"mSMQCost": "77"}),
        User: ("certificates", bytes(registered("one")), {}),
        mqdssm.Enterprise: ("default_time_to_live", 7, {}),
    }[kind]
    for name, value in meanwhile.items():
        world.ldap.modify(read.full_path, f"replace: {name}\n{name}: {value}")
    carried = kind.from_json(read.to_json())
    assert carried == read
    assert (carried.was_read, carried.assigned) == (True, frozenset())
    setattr(carried, field, new)
    again = kind.from_json(carried.to_json())
    world.directory.write(again)
    assert getattr(by_guid(world, kind, read.identifier), field) == new
    entry = stored(world, read.identifier)
    assert {name: entry[name] for name in meanwhile} == {
        name: [value.encode()] for name, value in meanwhile.items()
    }


def _is_the_servers(world, found) -> bool:
    return isinstance(found, Site) and found.name in world.kind.own_sites


@pytest.mark.spec("MS-MQDSSM 3.1.6.11")
def test_what_no_assignment_accepts_is_carried_in_json(world) -> None:
    computer = world.computer_of(world.queue_manager())
    dn = world.queue_dn(computer, "odd")
    made = HandMade(world.ldap, world.root).queue(
        computer,
        "odd",
        {"mSMQLabelEx": "x" * 1000, "mSMQBasePriority": "99999", "MSMQ-MulticastAddress": "nowhere"},
    )
    queue = Queue.from_json(by_guid(world, Queue, made.guid).to_json())
    assert (len(queue.label), queue.base_priority, queue.multicast_address) == (1000, 99999, "nowhere")
    queue.quota = 5
    world.directory.write(Queue.from_json(queue.to_json()))
    entry = world.ldap.entry(dn)
    assert (entry["mSMQQueueQuota"], entry["mSMQLabelEx"]) == ([b"5"], [b"x" * 1000])
    changed = json.loads(queue.to_json()) | {"Label": "y" * 1000, "Assigned": ["Label"]}
    with pytest.raises(ValueError, match="Label is 1000"):
        Queue.from_json(json.dumps(changed))


@pytest.mark.parametrize(
    "text",
    [
        '{"Assigned": 1}',
        '{"Assigned": [1]}',
        '{"Assigned": ["Lable"]}',
        '{"Assigned": [], "OriginalIdentifier": "x"}',
        '{"Assigned": ' + "[" * 100_000,
    ],
    ids=["number", "numbers", "unknown", "no GUID", "deep"],
)
def test_a_memory_that_is_none_is_refused(text) -> None:
    with pytest.raises(ValueError):
        Queue.from_json(text)


# -- values that servers hold -------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2")
@pytest.mark.parametrize(
    "time",
    ["20260101130000+0100", "202601011200Z", "2026010112Z", "20260101070000.5-0500", "202601011230+0030"],
)
def test_times_are_read_as_they_are_matched(world, time) -> None:
    """All forms of [RFC4517] 3.3.13."""
    computer = world.computer_of(world.queue_manager())
    made = HandMade(world.ldap, world.root).queue(computer, "q", {"whenCreated": time})
    read = by_guid(world, Queue, made.guid, ["CreateTime"]).create_time
    assert read == 1767268800  # noon
    (found,) = world.directory.search(Queue, Filter("CreateTime", "==", read), attributes=["CreateTime"])
    assert found.create_time == read


@pytest.mark.spec("MS-MQDSSM 3.1.6.7.1.5")
def test_a_damaged_role_is_named_by_a_write(world) -> None:
    name, value = "mSMQServiceType", "4294967296"
    guid = world.queue_manager(routing_server=True, journal_quota=1)
    dn = f"CN=msmq,{world.computer_dn(world.computer_of(guid))}"
    world.ldap.modify(dn, f"replace: {name}\n{name}: {value}")
    with pytest.raises(mqdssm.DirectoryError, match=name) as failed:
        world.directory.write(QueueManager(identifier=guid, remote_access_server=True))
    assert failed.value.dn.lower() == dn.lower()
    assert stored(world, guid)[name] == [value.encode()]
    world.directory.write(QueueManager(identifier=guid, journal_quota=2))
    assert stored(world, guid)["mSMQJournalQuota"] == [b"2"]


NAME = re.compile(rb",(cn)=(Computers)", re.IGNORECASE)


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
def test_names_that_are_damaged_on_the_way(world) -> None:
    """No event lets a ValueError out for what the server sent."""
    other = world.queue_manager()
    guid = world.queue_manager(out_routing_server_identifier_list=[other], routing_server=True)
    computer = world.computer_of(guid)
    queue = world.queue(computer, "q", label="x")
    before = stored(world, queue), stored(world, guid)
    server = world.server
    with (
        Proxy("127.0.0.1", server.port) as proxy,
        mqdssm.connect(proxy.url, user=server.user, password=server.password, tls="none") as directory,
    ):
        proxy.damage = lambda data: NAME.sub(rb",\1;\2", data)
        events = {
            "list": lambda: list(directory.search(Queue)),
            "managers": lambda: list(directory.search(QueueManager, sort=SortKey("FullPath"))),
            "residual": lambda: list(directory.search(Queue, Filter("FullPath", "!=", "CN=x"))),
            "url": lambda: list(directory.search(Queue, Filter("DirectoryPath", "!=", "LDAP://CN=x"))),
            "read": lambda: directory.read(Queue, Filter("Identifier", "==", queue)),
            "manager": lambda: directory.read(QueueManager, Filter("Identifier", "==", guid)),
            "pathname": lambda: directory.read(Queue, Filter("Pathname", "==", f"{computer}\\q")),
            "computer": lambda: directory.read(QueueManager, Filter("ComputerName", "==", computer)),
            "create": lambda: directory.create(Queue(pathname=f"{computer}\\new")),
            "write": lambda: directory.write(Queue(identifier=queue, pathname=f"{computer}\\q", label="y")),
            "roles": lambda: directory.write(QueueManager(identifier=guid, routing_server=False)),
            "references": lambda: directory.write(
                QueueManager(computer_name=computer, out_routing_server_identifier_list=[other])
            ),
            "delete": lambda: directory.delete(QueueManager(identifier=guid), recursive=True),
        }
        answers = {}
        for name, event in events.items():
            try:
                answers[name] = event()
            except mqdssm.DirectoryError as error:
                answers[name] = error
        assert len(answers["list"]) == 1
        assert len(answers["managers"]) == 2
        for name in ("pathname", "computer", "create", "write", "roles", "references", "delete"):
            assert isinstance(answers[name], mqdssm.DirectoryError), name
    assert (stored(world, queue), stored(world, guid)) == before


# -- arguments ----------------------------------------------------------------------------------------


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
def test_wrong_arguments_are_told_as_such(world) -> None:
    directory = world.directory
    wrong = {
        "sort": lambda: directory.search(Queue, sort="Label"),
        "sort list": lambda: directory.search(Queue, sort=["Label"]),
        "filter": lambda: directory.search(Queue, "(cn=*)"),
        "filter list": lambda: directory.read(Queue, ["Label", "==", "x"]),
        "no filter": lambda: directory.read(Queue, None),
        "below": lambda: directory.search(Queue, below=5),
        "attributes": lambda: directory.search(Queue, attributes=[1]),
        "begin": lambda: directory.read_begin(Queue, b"(cn=*)"),
        "alias": lambda: directory.resolve_queue_alias(None),
        "list": lambda: directory.resolve_distribution_list(5),
        "change": lambda: directory.notice_of("Queue"),
    }
    for name, event in wrong.items():
        with pytest.raises(TypeError, match=r"give a"):
            pytest.fail(f"{name}: {event()}")
    done = {"created": directory.create, "written": directory.write, "deleted": directory.delete}
    for verb, event in done.items():
        for what, name in ((None, "NoneType"), (5, "int"), ({}, "dict")):
            with pytest.raises(
                mqdssm.GenericDirectoryError, match=f"^{name} objects cannot be {verb}: Queue"
            ):
                event(what)
        with pytest.raises(mqdssm.GenericDirectoryError) as failed:
            event(Queue)
        assert str(failed.value) == f"the class Queue cannot be {verb}: give an object of it, Queue(…)"
    for verb, event in {"read": directory.search, "watched": directory.watch}.items():
        for kind, name in (
            ("Queue", "'Queue'"),
            (None, "None"),
            (5, "5"),
            (dict, "dict"),
            ([Queue], ".*Queue.*"),
        ):
            with pytest.raises(
                mqdssm.GenericDirectoryError, match=f"^{name} objects cannot be {verb}: Queue"
            ):
                event(kind)
        with pytest.raises(mqdssm.GenericDirectoryError) as failed:
            event(Queue(label="a"))
        assert str(failed.value) == f"objects are {verb} by their class: give Queue, not an object of it"
    with pytest.raises(mqdssm.GenericDirectoryError, match="give Queue, not an object"):
        directory.read(Queue(label="a"), Filter("Label", "==", "a"))


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (Filter("Quota", "==", "many"), "Quota must be a whole number, not 'many'"),
        (Filter("Label", "<", 5), "Label must be text, not int"),
        (Filter("Label", "==", "x" * 125), "Label is 125 UTF-16 code units long: the limit is 124"),
        (Filter("Identifier", "!=", "web01"), "Identifier must be a GUID"),
    ],
)
def test_a_value_that_an_attribute_cannot_have_is_told_in_one_line(world, expression, words) -> None:
    for event in (world.directory.read, world.directory.search, world.directory.read_begin):
        with pytest.raises(ValueError) as refused:
            event(Queue, expression)
        assert str(refused.value).startswith(words)
        assert "\n" not in str(refused.value)
