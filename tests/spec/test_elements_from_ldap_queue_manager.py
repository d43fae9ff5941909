"""Create ADM Element From LDAP Values: QueueManager ([MS-MQDSSM] 3.1.6.11.1), from entries made by hand."""

import logging
from uuid import UUID

import pytest
from support.enterprises.hand_made import CREATED, CREATED_S, DESCRIPTOR, HandMade, Made

import mqdssm
from mqdssm import DirectoryServerType, OperatingSystemType

QM = mqdssm.QueueManager


@pytest.fixture
def made(world) -> HandMade:
    return HandMade(world.ldap, world.root)


@pytest.fixture(params=[True, False], ids=["brought along", "looked up"])
def references(request, monkeypatch, world) -> str:
    """Both ways to follow references: the server brings them with a page, or cannot."""
    if not request.param:
        profile = type(world.directory.session.profile)
        monkeypatch.setattr(profile, "build_references_control", lambda *_: ())
    return "brought along" if request.param else "looked up"


def by_guid(guid) -> mqdssm.Filter:
    return mqdssm.Filter("Identifier", "==", guid)


def full(made, name: str, out: str, sites: list[UUID]) -> Made:
    """A queue manager with everything."""
    return made.queue_manager(
        name,
        {
            "whenCreated": CREATED,
            "mSMQComputerTypeEx": "Windows Büro 10.0",
            "mSMQOSType": "1280",
            "mSMQQuota": "1048575",
            "mSMQJournalQuota": "-2",
            "mSMQForeign": "TRUE",
            "mSMQSites": [site.bytes_le for site in sites],
            "mSMQOutRoutingServers": out,
            "mSMQInRoutingServers": out,
            "mSMQRoutingServices": "TRUE",
            "mSMQDsServices": "TRUE",
            "mSMQServiceType": "21",
            "mSMQDependentClientServices": "TRUE",
            "mSMQEncryptKey": b"\x01\x00\xffkeys",
            "nTSecurityDescriptor": DESCRIPTOR,
        },
        operatingSystemVersion="10.0 (17763)",
        servicePrincipalName=[f"HOST/{name}", f"MSClusterVirtualServer/{name}"],
        mSMQSignCertificates=b"\x00certificates\xff",
    )


def everything_of(world, name: str, made: Made, out: Made) -> dict[str, object]:
    """What it is read as, without its place, its sites and the time of the last change."""
    return {
        "Identifier": made.guid,
        "ComputerName": name,
        "QueueManagerVersion": "Windows Büro 10.0",
        "OperatingSystemType": OperatingSystemType.WIN_ENT,
        "QualifiedComputerName": f"{name}.Example.COM",
        "CreateTime": world.created(made.dn),
        "QueueManagerQuota": 1048575,
        "JournalQuota": 0xFFFF_FFFE,
        "ForeignSystem": True,
        "OutRoutingServerIdentifierList": (out.guid,),
        "InRoutingServerIdentifierList": (out.guid,),
        "RoutingServer": True,
        "DirectoryServer": True,
        "DirectoryServerType": DirectoryServerType.PRIMARY_SITE_CONTROLLER,
        "RemoteAccessServer": True,
        "SupportingServer": True,
        "PublicEncryptionKeyList": b"\x01\x00\xffkeys",
        "PublicSigningKeyList": b"\x00certificates\xff",
        "Security": DESCRIPTOR,
        "Clustered": True,
        "OperatingSystemVersion": "10.0 (17763)",
    }


@pytest.mark.usefixtures("references")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1")
@pytest.mark.spec("MS-MQDSSM 3.1.6.20.1")
def test_every_attribute_of_a_queue_manager_made_by_hand(world, made) -> None:
    name, router = world.name("Web"), world.name("Router")
    out = made.queue_manager(router)
    sites = [made.site(world.name("site")).guid for _ in range(2)]
    queue_manager = full(made, name, out.dn, sites)
    expected = everything_of(world, name, queue_manager, out)
    handle = world.directory.read_begin(QM, by_guid(queue_manager.guid))
    for found in (
        world.directory.read(QM, by_guid(queue_manager.guid)),
        world.directory.read(QM, mqdssm.Filter("ComputerName", "==", name)),
        world.directory.read_next(handle),
    ):
        values = world.values(found)
        stamp = world.kind.modify_time
        stored = world.ldap.entry(queue_manager.dn, stamp)[stamp][0]
        assert values.pop("ModifyTime") > CREATED_S
        again = world.directory.read(QM, mqdssm.Filter("FullPath", "==", queue_manager.dn))
        assert again.modify_time == seconds(stored)
        assert values.pop("FullPath").lower() == queue_manager.dn.lower()
        assert set(values.pop("SiteIdentifierList")) == set(sites)
        assert values == expected
        assert found.was_read
        assert not found.assigned


def seconds(stamp: bytes) -> int:
    import calendar
    import time

    return calendar.timegm(time.strptime(stamp.decode().replace(".0Z", "Z"), "%Y%m%d%H%M%SZ"))


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1")
def test_a_bare_queue_manager_has_the_defaults(world, made) -> None:
    """The right-hand column of the table, notes <10> to <12>; decisions M26, M38 and M41."""
    name = world.name("bare")
    queue_manager = made.queue_manager(name, dNSHostName=None, servicePrincipalName=None)
    found = world.values(world.directory.read(QM, by_guid(queue_manager.guid)))
    assert found.pop("CreateTime") > CREATED_S  # slapd's own time, where the entry has none
    assert found.pop("ModifyTime") > CREATED_S
    assert found.pop("FullPath")
    assert found == {
        "Identifier": queue_manager.guid,
        "ComputerName": name,
        "QueueManagerVersion": "",
        "OperatingSystemType": OperatingSystemType.OTHER,
        "QueueManagerQuota": 0x0010_0000,
        "JournalQuota": 0xFFFF_FFFF,
        "ForeignSystem": False,
        "SiteIdentifierList": (),
        "OutRoutingServerIdentifierList": (),
        "InRoutingServerIdentifierList": (),
        "RoutingServer": False,
        "DirectoryServer": False,
        "RemoteAccessServer": False,
        "SupportingServer": False,
        "PublicEncryptionKeyList": b"",
        "PublicSigningKeyList": b"",
        "OperatingSystemVersion": "",
    }


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1")
@pytest.mark.parametrize("attribute", ["QualifiedComputerName", "Clustered", "Security"])
@pytest.mark.parametrize("way", ["Identifier", "ComputerName"])
def test_what_must_be_there_when_asked_for_by_name(world, made, attribute, way) -> None:
    """Decisions M26 and M41: an error of a read, however the object was found; never of a list."""
    name = world.name("bare")
    queue_manager = made.queue_manager(name, dNSHostName=None, servicePrincipalName=None)
    wanted = mqdssm.Filter(way, "==", queue_manager.guid if way == "Identifier" else name)
    if attribute == "Security" and world.kind.makes_descriptors:
        assert world.directory.read(QM, wanted, attributes=[attribute]).security
        return
    with pytest.raises(mqdssm.GenericDirectoryError, match=attribute) as failed:
        world.directory.read(QM, wanted, attributes=[attribute])
    assert failed.value.result is mqdssm.DirectoryOperationResult.GENERIC_ERROR
    assert name in str(failed.value)
    (found,) = world.directory.search(QM, wanted, attributes=[attribute])
    assert not found.is_populated(attribute)
    assert world.directory.read(QM, wanted, attributes=["Identifier"]).identifier == queue_manager.guid


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1")
def test_no_identifier_is_an_error_of_a_read_and_a_gap_in_a_list(world, made, caplog) -> None:
    name = world.name("noguid")
    dn = made.queue_manager(name, {"objectGUID": None}).dn
    with pytest.raises(mqdssm.GenericDirectoryError, match="Identifier"):
        world.directory.read(QM, mqdssm.Filter("FullPath", "==", dn))
    with pytest.raises(mqdssm.GenericDirectoryError, match="Identifier"):
        world.directory.read(QM, mqdssm.Filter("ComputerName", "==", name))
    with caplog.at_level(logging.WARNING, logger="mqdssm"):
        (found,) = world.directory.search(QM)
    assert "Identifier" not in found.populated
    assert found.computer_name == name
    assert dn.lower() in caplog.text.lower()


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.1")
@pytest.mark.parametrize(
    ("written", "name"),
    [("Plain", "Plain"), ("with\\, comma", "with, comma"), ("a\\2Bb\\=c", "a+b=c"), ("Zoë", "Zoë")],
)
def test_computer_name_is_the_second_name_of_the_dn(world, made, written, name) -> None:
    queue_manager = made.queue_manager(written, sAMAccountName=f"{world.name('account')}$")
    found = world.directory.read(QM, by_guid(queue_manager.guid))
    assert found.computer_name == name
    assert found.qualified_computer_name == f"{written}.Example.COM"


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.1")
def test_the_computer_is_above_wherever_it_is(world, made) -> None:
    """Decision M16: computers are in organizational units, too."""
    unit = world.ldap.add(f"OU=Lab\\, {world.name()},{world.root}", {"objectClass": "organizationalUnit"})
    made.add(
        f"CN=moved,{unit}", "computer", {"dNSHostName": "moved.lab.example.com", "sAMAccountName": "moved$"}
    )
    queue_manager = made.add(f"CN=msmq,CN=moved,{unit}", "mSMQConfiguration")
    found = world.directory.read(QM, by_guid(queue_manager.guid))
    assert (found.computer_name, found.qualified_computer_name) == ("moved", "moved.lab.example.com")
    assert (
        world.directory.read(QM, mqdssm.Filter("ComputerName", "==", "MOVED")).identifier == found.identifier
    )


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.2")
@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("0", OperatingSystemType.OTHER),
        ("256", OperatingSystemType.FOREIGN),
        ("512", OperatingSystemType.WIN95),
        ("768", OperatingSystemType.WIN_CLIENT),
        ("1024", OperatingSystemType.WIN_SERVER),
        ("1280", OperatingSystemType.WIN_ENT),
    ],
)
def test_operating_systems(world, made, stored, expected) -> None:
    queue_manager = made.queue_manager(world.name("os"), {"mSMQOSType": stored})
    assert world.directory.read(QM, by_guid(queue_manager.guid)).operating_system_type is expected


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.2")
def test_a_number_that_is_no_operating_system(world, made, caplog) -> None:
    queue_manager = made.queue_manager(world.name("os"), {"mSMQOSType": "1536"})
    with pytest.raises(mqdssm.GenericDirectoryError, match=r"OperatingSystemType.*1536"):
        world.directory.read(QM, by_guid(queue_manager.guid))
    with caplog.at_level(logging.WARNING, logger="mqdssm"):
        (found,) = world.directory.search(QM)
    assert not found.is_populated("OperatingSystemType")
    assert "1536" in caplog.text


def check_routing_servers(world, made, ldap_name: str, attribute: str, caplog) -> None:
    names = [world.name("router") for _ in range(3)]
    routers = [made.queue_manager(name) for name in names]
    gone = made.queue_manager(world.name("gone"))
    elsewhere = made.queue(names[0], "noserver")
    written = [
        routers[0].dn,
        routers[1].dn.upper().replace(",", " , "),
        gone.dn,
        f"CN=msmq\\0ADEL:{gone.guid},CN=Deleted Objects,{world.root}",
        elsewhere.dn,
        world.root,
        routers[2].dn,
    ]
    queue_manager = made.queue_manager(world.name("qm"), {ldap_name: written})
    world.ldap.delete(gone.dn)
    with caplog.at_level(logging.WARNING, logger="mqdssm"):
        found = world.directory.read(QM, by_guid(queue_manager.guid))
        listed = next(each for each in world.directory.search(QM) if each.identifier == queue_manager.guid)
    expected = {router.guid for router in routers}
    for each in (found, listed):
        value = getattr(each, QM.field_name(attribute))
        assert set(value) == expected
        assert len(value) == 3
    assert world.kind.left_behind(gone.dn, gone.guid).lower() in caplog.text.lower()


@pytest.mark.usefixtures("references")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.3")
def test_out_routing_servers_that_are_gone_are_skipped(world, made, caplog) -> None:
    """Decision M40; an object that is no queue manager is no routing server either."""
    check_routing_servers(world, made, "mSMQOutRoutingServers", "OutRoutingServerIdentifierList", caplog)


@pytest.mark.usefixtures("references")
@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.4")
def test_in_routing_servers_that_are_gone_are_skipped(world, made, caplog) -> None:
    check_routing_servers(world, made, "mSMQInRoutingServers", "InRoutingServerIdentifierList", caplog)


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.5")
@pytest.mark.parametrize(
    ("serves", "bits", "expected"),
    [
        ("TRUE", "2", DirectoryServerType.BACKUP_SITE_CONTROLLER),
        ("TRUE", "4", DirectoryServerType.PRIMARY_SITE_CONTROLLER),
        ("TRUE", "8", DirectoryServerType.PRIMARY_ENTERPRISE_CONTROLLER),
        ("TRUE", "25", DirectoryServerType.PRIMARY_ENTERPRISE_CONTROLLER),
        ("TRUE", "17", DirectoryServerType.STANDALONE),
        ("TRUE", None, DirectoryServerType.STANDALONE),
        ("FALSE", "8", None),
        (None, "8", None),
        (None, None, None),
    ],
)
def test_directory_server_types(world, made, serves, bits, expected) -> None:
    values = {"mSMQDsServices": serves, "mSMQServiceType": bits}
    queue_manager = made.queue_manager(world.name("ds"), values)
    found = world.directory.read(QM, by_guid(queue_manager.guid), attributes=["DirectoryServerType"])
    assert found.is_populated("DirectoryServerType") is (expected is not None)
    assert found.directory_server_type is expected
    assert found.directory_server is (serves == "TRUE")


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1")
@pytest.mark.parametrize(("bits", "expected"), [("16", True), ("31", True), ("15", False), (None, False)])
def test_remote_access_server(world, made, bits, expected) -> None:
    queue_manager = made.queue_manager(world.name("ras"), {"mSMQServiceType": bits})
    assert world.directory.read(QM, by_guid(queue_manager.guid)).remote_access_server is expected


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1.6")
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["HOST/c", "MSClusterVirtualServer/c"], True),
        (["x/MSClusterVirtualServer/c.example.com:1"], True),
        (["HOST/c", "MSServerCluster/c"], False),
    ],
)
def test_clustered(world, made, names, expected) -> None:
    queue_manager = made.queue_manager(world.name("c"), servicePrincipalName=names)
    assert world.directory.read(QM, by_guid(queue_manager.guid)).clustered is expected


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.1")
def test_sixty_queue_managers_with_three_routing_servers_each_in_a_handful_of_requests(
    world, made, references
) -> None:
    """Decision M29: round trips grow with pages, not with objects."""
    names = [world.name("many") for _ in range(60)]
    made.add_many((made.computer_dn(name), "computer", {"dNSHostName": f"{name}.x"}) for name in names)
    dns = [made.machine_dn(name) for name in names]
    queue_managers = made.add_many((dn, "mSMQConfiguration", {}) for dn in dns)
    servers = {"mSMQOutRoutingServers": (1, 2, 3), "mSMQInRoutingServers": (4, 5, 6)}
    for name, steps in servers.items():
        world.ldap.modify_many(
            (dn, f"add: {name}\n" + "".join(f"{name}: {dns[(i + step) % 60]}\n" for step in steps))
            for i, dn in enumerate(dns)
        )
    before = world.directory.session.round_trips
    found = {each.identifier: each for each in world.directory.search(QM)}
    # the list, their computers; if need be their routers
    limit = {"brought along": 2, "looked up": 3}[references]
    assert world.directory.session.round_trips - before <= limit
    assert len(found) == 60
    for i, made_one in enumerate(queue_managers):
        each = found[made_one.guid]
        assert each.qualified_computer_name == f"{names[i]}.x"
        assert set(each.out_routing_server_identifier_list) == {
            queue_managers[(i + step) % 60].guid for step in (1, 2, 3)
        }
        assert set(each.in_routing_server_identifier_list) == {
            queue_managers[(i + step) % 60].guid for step in (4, 5, 6)
        }
