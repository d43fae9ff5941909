"""Filters of Read Directory Begin ([MS-MQDSSM] 3.1.6.4): every attribute with every operator.

What a filter finds is compared with a plain evaluation in Python of the objects that a search without
filters returned: `reference_filters`. The objects are made by hand; some have an attribute, some do not.
"""

from uuid import UUID, uuid4

import pytest
from support.directory.reference_filters import OPERATORS, matching, names
from support.enterprises.hand_made import DESCRIPTOR, HandMade

import mqdssm
from mqdssm import Enterprise, Filter, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.tables import table_of


@pytest.fixture(params=[2, pytest.param(4, marks=pytest.mark.soak)], ids=["few values", "more values"])
def samples_max(request) -> int:
    """How many values of an attribute are tried, each with each operator."""
    return request.param


@pytest.fixture
def made(world) -> HandMade:
    return HandMade(world.ldap, world.root)


def samples(kind, objects, attribute, count: int) -> list[object]:
    """Values of an attribute that some object has, and what an object has that has none."""
    values = [getattr(obj, kind.field_name(attribute)) for obj in objects if obj.is_populated(attribute)]
    row = table_of(kind).row(attribute)
    if row.has_default:
        values.insert(0, row.default)
    found: list[object] = []
    for value in values:
        if value not in found:
            found.append(value)
    single = [each for value in found if isinstance(value, tuple) for each in value]
    return [*found[:count], *single[:count]]


def check_filters(directory, kind, count: int) -> None:
    """Compare every attribute x value x operator with the reference."""
    objects = list(directory.search(kind))
    assert len(objects) > 3 or kind is Enterprise
    for attribute in table_of(kind).names():
        for value in samples(kind, objects, attribute, count):
            for sign in OPERATORS:
                expression = Filter(attribute, sign, value)
                expected = matching(objects, [expression])
                found = list(directory.search(kind, expression))
                assert names(found) == names(expected), expression
                assert all(obj in expected for obj in found)


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.4.2.2")
def test_queues(world, made, samples_max) -> None:
    kinds = [uuid4(), uuid4()]
    for i, name in enumerate([world.name("A"), world.name("b")]):
        made.queue_manager(name, dNSHostName=f"{name}.x" if i else None)
        made.queue(name, "bare")
        made.queue(
            name,
            "Full",
            {
                "whenCreated": "20200101000000.0Z",
                "mSMQLabelEx": "Zeta" if i else "beta",
                "mSMQQueueType": kinds[i].bytes_le,
                "mSMQJournal": "TRUE",
                "mSMQQueueQuota": "-2" if i else "2147483647",
                "mSMQQueueJournalQuota": "4294967295" if i else "7",
                "mSMQAuthenticate": "TRUE" if i else "FALSE",
                "mSMQPrivacyLevel": "2" if i else "0",
                "mSMQTransactional": "TRUE",
                "MSMQ-MulticastAddress": "234.1.2.3:8001",
                "mSMQBasePriority": "-5" if i else "32767",
                "nTSecurityDescriptor": DESCRIPTOR + bytes([i]),
            },
        )
        made.queue(
            name,
            "x\\, y\\+z",
            {
                "whenCreated": "20210101000000Z",
                "mSMQLabelEx": "ZETA",
                "mSMQQueueType": UUID(int=0).bytes_le,
                "mSMQJournal": "FALSE",
                "mSMQQueueQuota": "-1" if i else "4294967295",
                "mSMQQueueJournalQuota": "-2147483648",
                "mSMQPrivacyLevel": "1",
                "mSMQBasePriority": "0",
            },
        )
    check_filters(world.directory, Queue, samples_max)


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.1.2")
def test_queue_managers(world, made, samples_max) -> None:
    sites = [uuid4(), uuid4(), uuid4()]
    routers = [made.queue_manager(world.name("r")).dn for _ in range(2)]
    made.queue_manager(world.name("bare"), dNSHostName=None, servicePrincipalName=None)
    for i, name in enumerate([world.name("A"), world.name("b")]):
        made.queue_manager(
            name,
            {
                "whenCreated": f"202{i}0101000000.0Z",
                "mSMQComputerTypeEx": "Windows 10" if i else "windows 9",
                "mSMQOSType": "1024" if i else "0",
                "mSMQQuota": "-1" if i else "1048576",
                "mSMQJournalQuota": "5",
                "mSMQForeign": "TRUE" if i else "FALSE",
                "mSMQSites": [site.bytes_le for site in sites[i : i + 2]],
                "mSMQOutRoutingServers": routers[i:],
                "mSMQInRoutingServers": routers[:1],
                "mSMQRoutingServices": "TRUE",
                "mSMQDsServices": "TRUE" if i else "FALSE",
                "mSMQServiceType": "24" if i else "16",
                "mSMQDependentClientServices": "TRUE" if i else "FALSE",
                "mSMQEncryptKey": b"\x00*)(\\" + bytes([i]),
                "nTSecurityDescriptor": DESCRIPTOR,
            },
            operatingSystemVersion="10.0",
            servicePrincipalName=[f"HOST/{name}", *(["MSClusterVirtualServer/x"] if i else [])],
            mSMQSignCertificates=b"\xff\x00",
        )
    check_filters(world.directory, QueueManager, samples_max)


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.4.2")
def test_sites(world, made, samples_max) -> None:
    made.site(world.name("native"))
    made.site(world.name("Old"), {"mSMQNt4Stub": "1", "mSMQSiteForeign": "TRUE", "mSMQInterval1": "-1"})
    made.site(world.name("old"), {"mSMQNt4Stub": "0", "mSMQSiteForeign": "FALSE", "mSMQInterval2": "10"})
    damaged = None if world.kind.makes_descriptors else b"x"
    values = {"mSMQInterval1": "2", "mSMQInterval2": "5", "nTSecurityDescriptor": damaged}
    made.site("Z\\C3\\BCrich\\, W", values)
    check_filters(world.directory, Site, samples_max)


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.5.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.4.5.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.4.5.5")
def test_routing_links(world, made, samples_max) -> None:
    sites = [made.site(world.name("s")) for _ in range(3)]
    gone = made.site(world.name("gone"))
    gates = [made.queue_manager(world.name("g")).dn for _ in range(2)]
    made.link(sites[0].dn, sites[1].dn, {"mSMQCost": "1", "mSMQSiteGates": gates})
    made.link(sites[1].dn, sites[2].dn, {"mSMQCost": "999999", "mSMQSiteGates": gates[:1]})
    made.link(sites[2].dn.upper(), sites[0].dn, {"description": "Überland"})
    made.link(sites[0].dn, gone.dn, {"description": "to nowhere"})
    made.link(gone.dn, sites[0].dn)
    world.ldap.delete(gone.dn)
    check_filters(world.directory, RoutingLink, samples_max)


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.6.2")
def test_users(world, made, samples_max) -> None:
    digests = [bytes([i]) * 16 for i in range(3)]
    sid = bytes.fromhex("010500000000000515000000010000000200000003000000")
    for i in range(3):
        values = {"mSMQDigests": digests[i:], "mSMQSignCertificates": b"image" * i or None}
        made.user(world.name("u"), {"objectSid": sid + bytes([i, 4, 0, 0]), **values})
    made.user(world.name("bare"), {"objectSid": sid + bytes(4)})
    made.user(world.name("nosid"))
    check_filters(world.directory, User, samples_max)


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.3.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.4.3.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.4.3.5")
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"mSMQNameStyle": [b"TRUE"], "mSMQCSPName": [b"N"], "mSMQLongLived": [b"-1"], "mSMQVersion": [b"3"]},
        {
            "mSMQNameStyle": [b"FALSE"],
            "mSMQCSPName": [b"Y"],
            "mSMQLongLived": [b"5"],
            "mSMQVersion": [b"200"],
        },
    ],
    ids=["bare", "one", "other"],
)
def test_enterprise(world, values, samples_max) -> None:
    bare = {name: [] for name in ("mSMQNameStyle", "mSMQCSPName", "mSMQLongLived", "mSMQVersion")}
    world.directory.session.modify(world.services_dn, bare | values)
    check_filters(world.directory, Enterprise, samples_max)
    (found,) = world.directory.search(Enterprise)
    for attribute in ("WeakenedSecurity", "NonLDAPCapableQueueManagerNotification", "OldDirectory"):
        actual = getattr(found, Enterprise.field_name(attribute))
        for value in (True, False):
            hits = list(world.directory.search(Enterprise, Filter(attribute, "==", value)))
            assert len(hits) == (actual is value)


@pytest.fixture
def computer(world, made) -> str:
    name = world.name("Web")
    made.queue_manager(name)
    return name


def labels(world, *filters: Filter) -> list[str]:
    return sorted(queue.label for queue in world.directory.search(Queue, filters))


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.2.2")
def test_unset_is_the_default(world, made, computer) -> None:
    """Decision M33."""
    made.queue(computer, "a", {"mSMQLabelEx": "unset"})
    made.queue(computer, "b", {"mSMQLabelEx": "true", "mSMQJournal": "TRUE", "mSMQQueueQuota": "5"})
    made.queue(computer, "c", {"mSMQLabelEx": "false", "mSMQJournal": "FALSE", "mSMQQueueQuota": "-1"})
    assert labels(world, Filter("Journaling", "==", False)) == ["false", "unset"]
    assert labels(world, Filter("Journaling", "!=", False)) == ["true"]
    assert labels(world, Filter("Journaling", "==", True)) == ["true"]
    assert labels(world, Filter("Journaling", "!=", True)) == ["false", "unset"]
    assert labels(world, Filter("Quota", "==", 0xFFFF_FFFF)) == ["false", "unset"]
    assert labels(world, Filter("Quota", "!=", 5)) == ["false", "unset"]
    assert labels(world, Filter("MulticastAddress", "==", "")) == ["false", "true", "unset"]
    assert labels(world, Filter("MulticastAddress", "!=", "")) == []
    assert labels(world, Filter("Type", "==", UUID(int=0))) == ["false", "true", "unset"]
    assert labels(world, Filter("PrivacyLevel", "==", "Optional")) == ["false", "true", "unset"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.2.2")
def test_quotas_above_two_to_the_31_are_large(world, made, computer) -> None:
    """Decision M34: as LDAP stores them they are negative."""
    for stored in ("0", "7", "2147483647", "-2147483648", "-1", "4294967294"):
        made.queue(computer, f"q{stored}", {"mSMQLabelEx": stored, "mSMQQueueQuota": stored})
    assert labels(world, Filter("Quota", ">", 7)) == ["-1", "-2147483648", "2147483647", "4294967294"]
    assert labels(world, Filter("Quota", "<=", 2**31)) == ["-2147483648", "0", "2147483647", "7"]
    assert labels(world, Filter("Quota", "<", 2**31)) == ["0", "2147483647", "7"]
    assert labels(world, Filter("Quota", ">=", 2**32 - 1)) == ["-1"]
    assert labels(world, Filter("Quota", "==", 2**32 - 2)) == ["4294967294"]
    assert labels(world, Filter("Quota", "!=", 2**32 - 2), Filter("Quota", ">", 7)) == [
        "-1",
        "-2147483648",
        "2147483647",
    ]


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.2.2")
def test_times_are_compared_to_the_second(world, made, computer) -> None:
    """Decision M35; 1709210096 is 2024-02-29T12:34:56Z."""
    for stamp in ("20240229123455.0Z", "20240229123456.0Z", "20240229123456.9Z", "20240229123457Z"):
        made.queue(computer, stamp, {"mSMQLabelEx": stamp, "whenCreated": stamp})
    every = labels(world)
    assert labels(world, Filter("CreateTime", "==", 1709210096)) == every[1:3]
    assert labels(world, Filter("CreateTime", "!=", 1709210096)) == [every[0], every[3]]
    assert labels(world, Filter("CreateTime", "<", 1709210096)) == every[:1]
    assert labels(world, Filter("CreateTime", "<=", 1709210096)) == every[:3]
    assert labels(world, Filter("CreateTime", ">", 1709210096)) == every[3:]
    assert labels(world, Filter("CreateTime", ">=", 1709210096)) == every[1:]
    assert labels(world, Filter("CreateTime", ">", 253_402_300_799)) == []
    assert labels(world, Filter("CreateTime", "<=", 253_402_300_799)) == every
    # ModifyTime is slapd's own: just now
    assert labels(world, Filter("ModifyTime", ">", 1709210097)) == every
    assert labels(world, Filter("ModifyTime", "<", 1709210097)) == []


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.2.2")
def test_text_is_compared_without_case_and_nothing_in_it_is_special(world, made, computer) -> None:
    texts = ["Straße", "ÄÖÜ", "*", "a*b", ")(objectClass=*", "\\2a", "a,b", "#x", "x y", "日本"]
    for i, text in enumerate(texts):
        made.queue(computer, f"q{i}", {"mSMQLabelEx": text})
    for text in texts:
        assert labels(world, Filter("Label", "==", text)) == [text]
        assert len(labels(world, Filter("Label", "!=", text))) == len(texts) - 1
        assert text in labels(world, Filter("Label", "<=", text))
        assert text not in labels(world, Filter("Label", "<", text))
    assert labels(world, Filter("Label", "==", "äöü")) == ["ÄÖÜ"]
    assert labels(world, Filter("Label", "==", "STRAßE")) == ["Straße"]
    assert labels(world, Filter("Label", "==", "X  Y ")) == ["x y"]
    assert labels(world, Filter("Label", ">=", "Y")) == ["ÄÖÜ", "日本"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.2.2")
def test_path_names_and_their_sisters_are_looked_up_not_ignored(world, made, computer) -> None:
    """Decision M17, where the text ignores the expression and returns every object."""
    made.queue(computer, "other")
    stem = "n" * 55
    long = made.queue(computer, f"{stem}-0a1b2c3d", {"mSMQQueueNameExt": "rest"})
    queue = made.queue(computer, "x\\, y", {"mSMQLabelEx": "it"})
    (found,) = world.directory.search(Queue, Filter("Identifier", "==", queue.guid))
    for expression in (
        Filter("Pathname", "==", f"{computer.upper()}\\X, Y"),
        Filter("FullPath", "==", queue.dn.upper().replace(",CN", " , CN")),
        Filter("DirectoryPath", "==", f"LDAP://{queue.dn.lower()}"),
        Filter("DirectoryPath", "==", f"LDAP:///{queue.dn}"),
        Filter("DirectoryPath", "==", f"LDAP://dc1.example.com/{queue.dn}"),
        Filter("QualifiedPathname", "==", f"{computer}.EXAMPLE.com\\x, Y"),
    ):
        assert list(world.directory.search(Queue, expression)) == [found]
        assert list(world.directory.search(Queue, [expression, Filter("Label", "==", "IT")])) == [found]
        assert list(world.directory.search(Queue, [Filter("Quota", ">", 5), expression, expression])) == [
            found
        ]
        assert not list(world.directory.search(Queue, [expression, Filter("Label", "==", "not it")]))
        assert not list(world.directory.search(Queue, [expression, Filter("Quota", "<", 5)]))
        others = list(world.directory.search(Queue, Filter(expression.attribute, "!=", expression.value)))
        assert len(others) == 2
        assert found not in others
    by_extension = Filter("QualifiedPathname", "==", f"{computer}.example.com\\{stem}rest")
    assert [each.identifier for each in world.directory.search(Queue, by_extension)] == [long.guid]


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.2.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.4.1.2")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Queue, "Pathname"),
        (Queue, "FullPath"),
        (Queue, "DirectoryPath"),
        (QueueManager, "ComputerName"),
        (QueueManager, "FullPath"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_what_is_looked_up_by_name_is_at_or_below_the_place_too(world, kind, name) -> None:
    world.queue(here := world.computer_of(world.queue_manager()))
    elsewhere = world.computer_of(world.queue_manager())
    (found,) = world.directory.search(kind, below=world.computer_dn(here))
    wanted = Filter(name, "==", getattr(found, kind.field_name(name)))
    for place in (world.root, f"CN=Computers,{world.root}", world.computer_dn(here), found.full_path.upper()):
        assert list(world.directory.search(kind, wanted, below=place)) == [found]
    for place in (world.computer_dn(elsewhere), f"CN=none,{world.root}", f"CN=x,{found.full_path}"):
        assert not list(world.directory.search(kind, wanted, below=place))


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.1.2")
def test_computer_names_are_looked_up(world, made, computer) -> None:
    other = world.name("other")
    made.queue_manager(other)
    by_name = Filter("ComputerName", "==", computer.swapcase())
    (found,) = world.directory.search(QueueManager, by_name)
    assert found.computer_name == computer
    (rest,) = world.directory.search(QueueManager, Filter("ComputerName", "!=", computer.swapcase()))
    assert rest.computer_name == other
    assert not list(world.directory.search(QueueManager, [by_name, Filter("ComputerName", "==", other)]))
    assert not list(world.directory.search(QueueManager, [by_name, Filter("RoutingServer", "==", True)]))


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.1.2")
def test_one_value_is_in_a_list_and_a_list_is_the_list(world, made) -> None:
    one, other = uuid4(), uuid4()
    guids = {
        "both": made.queue_manager(world.name("m"), {"mSMQSites": [one.bytes_le, other.bytes_le]}).guid,
        "one": made.queue_manager(world.name("m"), {"mSMQSites": one.bytes_le}).guid,
        "none": made.queue_manager(world.name("m")).guid,
    }

    def found(sign, value) -> list[str]:
        hits = world.directory.search(QueueManager, Filter("SiteIdentifierList", sign, value))
        return sorted(name for each in hits for name, guid in guids.items() if guid == each.identifier)

    assert found("==", one) == ["both", "one"]
    assert found("==", other) == ["both"]
    assert found("!=", other) == ["none", "one"]
    assert found("==", [one]) == ["one"]
    assert found("!=", [one]) == ["both", "none"]
    assert found("==", [other, one]) == ["both"]
    assert found("!=", [other, one]) == ["none", "one"]
    assert found("==", []) == ["none"]
    assert found("!=", []) == ["both", "one"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.5.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.4.5.5")
@pytest.mark.parametrize("attribute", ["Site1Identifier", "Site2Identifier"])
def test_a_site_that_does_not_exist_is_a_generic_error(world, made, attribute) -> None:
    site = made.site(world.name("s"))
    made.link(site.dn, site.dn)
    stranger = made.queue_manager(world.name("pc"))
    for unknown in (uuid4(), stranger.guid):
        for sign in ("==", "!="):
            with pytest.raises(mqdssm.GenericDirectoryError) as failed:
                world.directory.search(RoutingLink, Filter(attribute, sign, unknown))
            assert failed.value.result is mqdssm.DirectoryOperationResult.GENERIC_ERROR
            assert not isinstance(failed.value, mqdssm.ObjectNotFound)


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.5.4")
@pytest.mark.spec("MS-MQDSSM 3.1.6.4.5.5")
def test_links_are_found_by_either_end(world, made) -> None:
    sites = [made.site(name) for name in (world.name("s"), f"a\\, {world.name()}", world.name("z"))]
    links = {(i, j): made.link(sites[i].dn, sites[j].dn).guid for i, j in [(0, 1), (1, 2), (2, 0)]}
    for (i, j), guid in links.items():
        for filters in (
            [Filter("Site1Identifier", "==", sites[i].guid)],
            [Filter("Site2Identifier", "==", sites[j].guid)],
            [Filter("Site1Identifier", "==", sites[i].guid), Filter("Site2Identifier", "==", sites[j].guid)],
        ):
            assert [link.identifier for link in world.directory.search(RoutingLink, filters)] == [guid]
        assert world.directory.read(RoutingLink, filters).identifier == guid


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Queue, "Lable"),
        (Queue, "Scope"),
        (QueueManager, "ConnectedNetworkIdentifierList"),
        (Site, "PrimarySiteController"),
        (Site, "PublicSigningKey"),
        (Enterprise, "FullPath"),
    ],
)
def test_filters_on_attributes_that_are_none(world, kind, name) -> None:
    with pytest.raises(mqdssm.GenericDirectoryError, match=name):
        world.directory.search(kind, Filter(name, "==", "x"))


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
def test_what_a_filter_needs_is_not_returned(world, made, computer) -> None:
    made.queue(computer, "q", {"mSMQQueueQuota": "5"})
    filters = [Filter("Quota", "<", 6), Filter("QualifiedPathname", ">", "a\\a")]
    (found,) = world.directory.search(
        Queue, filters, attributes=["Label"], sort=mqdssm.SortKey("JournalQuota")
    )
    assert found.populated == {"Label"}
