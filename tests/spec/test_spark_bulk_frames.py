"""Frames of every type on every server show what the events read (3.1.6.11), and what went wrong."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from support.enterprises.hand_made import DESCRIPTOR, HandMade
from support.spark.element_batches import batches, columns_of

import mqdssm
from mqdssm.directory.filters import Equal, GreaterOrEqual, any_of
from mqdssm.errors import ObjectNotFound
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.frames.bulk import read_batches
from mqdssm.pipeline.frames.columns import FRAME_TYPES, TYPES
from mqdssm.pipeline.frames.partitions import divide_objects
from mqdssm.pipeline.validate.rules.examiners import Case, examine_descriptor, examine_stored_descriptor
from mqdssm.tables.access import AdRight
from mqdssm.wire.acl import AceFlags, allow
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import QueueAccess
from mqdssm.wire.sid import BUILTIN_ADMINISTRATORS, BUILTIN_USERS

EVERYONE = mqdssm.Sid("S-1-1-0")
ODD_NAMES = ["a,b", "x+y", "Größe", 'q"uote', "#hash", "back/slash", "a=b", "İstanbul", "  two  blanks", "é"]


def rows(found) -> list[dict]:
    return [row for batch in found for row in batch.to_pylist()]


def frame(world, name: str, **options) -> list[dict]:
    return rows(read_batches(world.directory, FRAME_TYPES[name], **options))


def fill(world) -> None:
    """Objects of every type, with names and values of every kind."""
    paris, oslo = world.site(), world.site(foreign_site=True)
    first = world.queue_manager(site_identifier_list=[paris, oslo], routing_server=True)
    other = world.queue_manager(
        site_identifier_list=[oslo],
        out_routing_server_identifier_list=[first],
        operating_system_type=mqdssm.OperatingSystemType.WIN_SERVER,
        queue_manager_quota=2**32 - 1,
    )
    world.directory.create(
        mqdssm.RoutingLink(
            site1_identifier=paris, site2_identifier=oslo, actual_cost=7, site_gate_identifier_list=[first]
        )
    )
    computer = world.computer_of(other)
    security = bytes(SecurityDescriptor.build(owner=None, dacl=[allow(EVERYONE, QueueAccess.GENERIC_READ)]))
    for n, level in enumerate(mqdssm.PrivacyLevel):
        world.queue(computer, label=f"Größe {n}", quota=2**32 - n - 1, privacy_level=level, type=uuid4())
    world.queue(computer, security=security, base_priority=-5, journaling=True)
    world.queue(computer, name="n" * 124)
    world.user()


@pytest.mark.spec("MS-MQDSSM 3.1.6.11")
def test_every_type_is_what_a_search_finds(world) -> None:
    fill(world)
    made = HandMade(world.ldap, world.root)
    computer = world.name("odd")
    world.computer(computer)
    made.add(made.machine_dn(computer), "mSMQConfiguration")
    for name in ODD_NAMES:
        escaped = "".join(f"\\{octet:02X}" for octet in name.encode())
        made.queue(computer, escaped, {"nTSecurityDescriptor": DESCRIPTOR})
    for name, element in TYPES.items():
        columns = columns_of(element)
        found = list(read_batches(world.directory, FRAME_TYPES[name]))
        expected = rows(batches(world.directory.search(element), columns))
        names = [column.name for column in columns]
        assert [{name: row[name] for name in names} for row in rows(found)] == expected, name
        assert expected
        assert not [row["Unreadable"] for row in rows(found) if row["Unreadable"]]
        for batch in found:
            assert batch.schema == make_arrow_schema(FRAME_TYPES[name].columns)
            batch.validate(full=True)


def test_only_the_columns_asked_for(world) -> None:
    fill(world)
    columns = FRAME_TYPES["queue"].select(["Quota", "Pathname"])
    found = frame(world, "queue", columns=columns)
    expected = rows(batches(world.directory.search(mqdssm.Queue), columns))
    assert found == expected
    assert list(found[0]) == ["Quota", "Pathname"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.1.3")
def test_settings_and_computers(world) -> None:
    site = world.name("site")
    guid = world.queue_manager(site_identifier_list=[world.site(site)], routing_server=True)
    (settings,) = frame(world, "settings")
    path = settings.pop("FullPath")
    assert UUID(settings.pop("Identifier"))
    assert settings == {
        "QueueManagerIdentifier": str(guid),
        "Services": 1,
        "RoutingServer": True,
        "DirectoryServer": False,
        "SupportingServer": False,
        "OriginalIdentifier": None,
        "Unreadable": None,
    }
    computer = world.computer_of(guid)
    assert path.lower() == world.settings_dn(site, computer).lower()
    found = {row["Name"].lower(): row for row in frame(world, "computer")}[computer.lower()]
    assert found["FullPath"].lower() == world.computer_dn(computer).lower()
    assert found["AccountName"].lower() == f"{computer}$".lower()
    assert found["DnsHostName"].lower().startswith(f"{computer}.".lower())
    assert f"HOST/{computer}".lower() in [name.lower() for name in found["ServicePrincipalNames"]]
    assert found["Sid"].startswith("S-1-5-21-")
    assert found["Unreadable"] is None


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2.1")
def test_the_stored_extension_of_a_long_name(world) -> None:
    computer = world.computer_of(world.queue_manager())
    world.queue(computer, name="short")
    world.queue(computer, name="n" * 124)
    found = {row["Pathname"].partition("\\")[2]: row["mSMQQueueNameExt"] for row in frame(world, "queue")}
    assert found == {"short": None, "n" * 124: "n" * 69}


def test_a_value_that_cannot_be_decoded_is_null_and_named(world) -> None:
    """What a domain controller stores, too: the number of no operating system."""
    guid = world.queue_manager()
    dn = f"CN=msmq,{world.computer_dn(world.computer_of(guid))}"
    world.ldap.modify(dn, "replace: mSMQOSType\nmSMQOSType: 4711")
    world.queue_manager()
    found = {row["Identifier"]: row for row in frame(world, "queue-manager")}
    assert found[str(guid)]["OperatingSystemType"] is None
    (problem,) = found[str(guid)]["Unreadable"]
    assert problem.startswith("OperatingSystemType: mSMQOSType is no OperatingSystemType: b'4711'")
    del found[str(guid)]
    assert [row["Unreadable"] for row in found.values()] == [None]


def test_without_the_column_for_it_a_warning_is_logged(world, caplog) -> None:
    guid = world.queue_manager()
    dn = f"CN=msmq,{world.computer_dn(world.computer_of(guid))}"
    world.ldap.modify(dn, "replace: mSMQOSType\nmSMQOSType: 4711")
    columns = FRAME_TYPES["queue-manager"].select(["OperatingSystemType"])
    assert frame(world, "queue-manager", columns=columns) == [{"OperatingSystemType": None}]
    assert "4711" in caplog.text


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.3")
def test_a_routing_server_that_is_gone_is_left_out_and_named(world) -> None:
    """Decision M40."""
    gone = world.queue_manager(routing_server=False)
    kept = world.queue_manager()
    guid = world.queue_manager(out_routing_server_identifier_list=[gone, kept])
    world.directory.delete(mqdssm.QueueManager(identifier=gone))
    found = {row["Identifier"]: row for row in frame(world, "queue-manager")}[str(guid)]
    assert found["OutRoutingServerIdentifierList"] == [str(kept)]
    (problem,) = found["Unreadable"]
    assert problem.startswith("OutRoutingServerIdentifierList: mSMQOutRoutingServers names ")
    assert problem.endswith("where no queue manager is")


def test_a_filter_of_ones_own(world) -> None:
    computer = world.computer_of(world.queue_manager())
    for n in range(4):
        world.queue(computer, label=f"l{n}", base_priority=n)
    where = any_of(Equal("mSMQLabelEx", b"l0"), GreaterOrEqual("mSMQBasePriority", b"3"))
    assert sorted(row["Label"] for row in frame(world, "queue", where=where)) == ["l0", "l3"]


def test_batches_end_by_rows_and_by_octets(world) -> None:
    computer = world.computer_of(world.queue_manager())
    for _ in range(7):
        world.queue(computer)
    type_, directory = FRAME_TYPES["queue"], world.directory
    assert [batch.num_rows for batch in read_batches(directory, type_, rows_max=3)] == [3, 3, 1]
    assert [batch.num_rows for batch in read_batches(directory, type_, bytes_max=1)] == [1] * 7


def test_an_iterator_that_is_closed_gives_its_connection_back(world) -> None:
    computer = world.computer_of(world.queue_manager())
    for _ in range(3):
        world.queue(computer)
    with world.connect(page_size=1) as directory:
        found = read_batches(directory, FRAME_TYPES["queue"], rows_max=1)
        assert next(found).num_rows == 1
        assert directory.session.references == 1
        found.close()
        assert directory.session.references == 0


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.soak), 7])
def test_slices_find_every_object_exactly_once(world, count: int) -> None:
    fill(world)
    for name in FRAME_TYPES:
        key = "dn" if name == "ldap" else "Identifier"
        columns = FRAME_TYPES[name].select([key])
        everything = sorted(row[key] for row in frame(world, name, columns=columns))
        found: list[str] = []
        parts = divide_objects(world.directory, FRAME_TYPES[name], count)
        assert len(parts) <= count
        sizes = []
        for part in parts:
            some = frame(world, name, columns=columns, where=part.ldap_filter)
            found += [row[key] for row in some]
            sizes.append(len(some))
        assert sorted(found) == everything, name
        if len(everything) >= 2 * count:
            assert len(parts) == count
            assert max(sizes) - min(sizes) <= 1


def test_raw_entries_are_what_other_programs_see(world) -> None:
    fill(world)
    found = {row["dn"].lower(): row for row in frame(world, "ldap")}
    bases = [world.root]
    if world.kind.contexts > 1:
        bases.append(f"CN=Configuration,{world.root}")
    expected = {}
    for base in bases:
        expected |= world.ldap.search(base, "(objectClass=*)", "*")
    assert sorted(found) == sorted(dn.lower() for dn in expected)
    for dn, entry in expected.items():
        shown = found[dn.lower()]
        classes = entry.pop("objectClass")
        assert [name.encode() for name in shown["objectClass"]] == classes
        attributes = dict(shown["attributes"])
        for changing in ("logonCount", "lastLogon", "lastLogonTimestamp"):
            attributes.pop(changing, None), entry.pop(changing, None)
        assert attributes == entry, dn


def test_raw_entries_by_filter_base_and_attributes(world) -> None:
    fill(world)
    queues = frame(world, "ldap", where=Equal("objectClass", b"mSMQQueue"), attributes=["cn"])
    assert {name for row in queues for name, _ in row["attributes"]} == {"cn"}
    assert len(queues) == len(list(world.directory.search(mqdssm.Queue)))
    below = frame(world, "ldap", base=world.sites_dn, columns=FRAME_TYPES["ldap"].select(["dn"]))
    assert below
    assert all(row["dn"].lower().endswith(world.sites_dn.lower()) for row in below)


def test_nothing_is_an_empty_frame(world) -> None:
    assert frame(world, "queue") == []
    assert len(divide_objects(world.directory, FRAME_TYPES["queue"], 4)) == 1


def test_a_place_that_somebody_named_and_that_is_not_there_is_no_empty_frame(world) -> None:
    nowhere = f"CN=nowhere,{world.root}"
    for name in ("ldap", "queue", "queue-manager"):  # entries, columns, rows
        with pytest.raises(ObjectNotFound, match=f"the base of the search is not there.*{nowhere}"):
            frame(world, name, base=nowhere)
        with pytest.raises(ObjectNotFound, match="the base of the search is not there"):
            divide_objects(world.directory, FRAME_TYPES[name], 4, base=nowhere)
    with world.connect(naming_context=nowhere) as other:
        for name in ("queue", "queue-manager"):
            with pytest.raises(ObjectNotFound, match=f"the naming context that was chosen .*{nowhere}"):
                rows(read_batches(other, FRAME_TYPES[name]))
            with pytest.raises(ObjectNotFound, match="the naming context that was chosen"):
                divide_objects(other, FRAME_TYPES[name], 4)
        world.site()
        assert rows(read_batches(other, FRAME_TYPES["site"]))  # which are not below it


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2")
def test_descriptors_as_they_are_stored(world) -> None:
    """Where Security is a translation, what was written without one is seen (decision M31)."""
    computer = world.computer_of(world.queue_manager())
    for name in ("right", "wrong"):
        world.queue(computer, name=name)
    mask = QueueAccess.GENERIC_WRITE
    raw = bytes(SecurityDescriptor.build(owner=None, dacl=[allow(EVERYONE, mask)]))
    wrong = f"CN=wrong,CN=msmq,{world.computer_dn(computer)}"
    world.directory.session.modify(wrong, {"nTSecurityDescriptor": [raw]})
    columns = FRAME_TYPES["queue"].select(["Pathname", "StoredSecurity"])
    found = {
        row["Pathname"].partition("\\")[2]: row["StoredSecurity"]
        for row in frame(world, "queue", columns=columns)
    }
    if not world.directory.session.profile.translates_security:
        assert found == {"right": None, "wrong": None}
        return
    cases = {name: Case("queue", (image,), datetime.now(UTC)) for name, image in found.items()}
    assert {name: [rule for rule, _ in examine_stored_descriptor(case)] for name, case in cases.items()} == {
        "right": [],
        "wrong": ["security-masks-untranslated"],
    }


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2")
def test_rights_that_a_queue_inherits(world) -> None:
    """Security has only the own entries; who may do everything by those of the queue manager is found."""
    computer = world.computer_of(world.queue_manager())
    below = AceFlags.CONTAINER_INHERIT | AceFlags.INHERIT_ONLY
    dacl = [
        allow(BUILTIN_ADMINISTRATORS, AdRight.GENERIC_ALL),
        allow(BUILTIN_USERS, AdRight.GENERIC_ALL, below),
    ]
    image = bytes(SecurityDescriptor.build(owner=None, dacl=dacl))
    manager = f"CN=msmq,{world.computer_dn(computer)}"
    world.directory.session.modify(manager, {"nTSecurityDescriptor": [image]})
    guid = world.queue(computer)
    columns = FRAME_TYPES["queue"].select(["Identifier", "Security", "StoredSecurity"])
    (row,) = (row for row in frame(world, "queue", columns=columns) if row["Identifier"] == str(guid))
    now = datetime.now(UTC)
    assert "everyone-full-control" not in dict(examine_descriptor(Case("queue", (row["Security"],), now)))
    if not world.directory.session.profile.translates_security:
        assert row["StoredSecurity"] is None
        return
    (found,) = examine_stored_descriptor(Case("queue", (row["StoredSecurity"],), now))
    words = "Users (S-1-5-32-545) may do everything, by entries that are inherited"
    assert found == ("everyone-inherits-control", words)
