"""Read Directory Begin ([MS-MQDSSM] 3.1.6.4): preconditions, attributes, sort orders; and search."""

from collections.abc import Iterable
from itertools import pairwise, product
from uuid import uuid4

import pytest
from support.directory.reference_filters import ordered
from support.enterprises.hand_made import DESCRIPTOR, HandMade

import mqdssm
from mqdssm import Enterprise, Filter, Queue, QueueManager, RoutingLink, Site, SortKey, User
from mqdssm.tables import table_of
from mqdssm.tables.row import Access

RESULT = mqdssm.DirectoryOperationResult


@pytest.fixture
def made(world) -> HandMade:
    return HandMade(world.ldap, world.root)


def begun(world, kind, **arguments) -> list[mqdssm.DirectoryObject]:
    """What Begin, Next and End give."""
    handle = world.directory.read_begin(kind, **arguments)
    found = []
    while True:
        try:
            found.append(world.directory.read_next(handle))
        except mqdssm.EndOfData:
            world.directory.read_end(handle)
            return found


def check_begin(world, kind, count: int, ask: str, nothing: Filter) -> None:
    """What the read-begin of one kind has to do: all attributes, some, none; nothing found is no error."""
    before = world.ldap.search(world.root, "(objectClass=*)", "*", "+")
    found = begun(world, kind)
    assert len(found) == count
    everything = set(table_of(kind).names()) - {"DirectoryServerType"}
    for each in found:
        assert type(each) is kind
        assert everything <= each.populated | ({"Security"} if kind is Enterprise else set())
    assert [each.populated for each in begun(world, kind, attributes=[ask])] == [{ask}] * count
    assert [each.populated for each in begun(world, kind, attributes=[])] == [set()] * count
    assert begun(world, kind, filters=nothing) == []
    contradiction = [Filter("Identifier", sign, found[0].identifier) for sign in ("==", "!=")]
    assert begun(world, kind, filters=contradiction) == [], "all filters must hold"
    assert world.ldap.search(world.root, "(objectClass=*)", "*", "+") == before


def check_sort(world, kind, attributes: Iterable[str]) -> None:
    """Compare orders by one attribute and by two, up and down, with Python's own sort."""
    objects = list(world.directory.search(kind))
    names = list(attributes)
    for name, ascending in product(names, (True, False)):
        keys = [SortKey(name, priority=7, ascending=ascending)]
        assert begun(world, kind, sort=keys) == ordered(objects, keys), keys
    for (one, other), up, down in product(pairwise(names), (True, False), (True, False)):
        keys = [SortKey(one, 1, up), SortKey(other, 2, down), SortKey("Identifier", 0, ascending=False)]
        assert begun(world, kind, sort=keys) == ordered(objects, keys), keys


@pytest.fixture
def queues(world, made) -> str:
    """The computer of some queues."""
    name = world.name("Pc")
    made.queue_manager(name)
    labels, quotas = ("b", "A", "ä", "a", "B", ""), ("-1", "7", "2147483647", "7", "-2", None)
    for i, (label, quota) in enumerate(zip(labels, quotas, strict=True)):
        values = {"mSMQLabelEx": label or None, "mSMQQueueQuota": quota, "nTSecurityDescriptor": DESCRIPTOR}
        made.queue(name, f"{'zyxwvu'[i]}\\, {i}", {**values, "mSMQQueueType": uuid4().bytes})
    return name


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.2.2")
def test_queues(world, queues) -> None:
    check_begin(world, Queue, 6, "Pathname", Filter("Label", "==", "nobody's"))


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.2.3")
def test_queues_sorted(world, queues) -> None:
    sortable = [row.adm for row in table_of(Queue).rows if row.access & Access.SORT]
    assert set(sortable) == set(table_of(Queue).names())
    check_sort(world, Queue, sortable)
    by_label = [queue.label for queue in world.directory.search(Queue, sort=SortKey("Label"))]
    assert [label.lower() for label in by_label] == ["", "a", "a", "b", "b", "ä"]
    by_quota = world.directory.search(Queue, sort=SortKey("Quota", ascending=False))
    assert [queue.quota for queue in by_quota] == [2**32 - 1, 2**32 - 1, 2**32 - 2, 2**31 - 1, 7, 7]


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
def test_higher_priorities_decide_first_and_zero_never(world, queues) -> None:
    """SortPriority and SortAscending; [MS-MQDMPR] 3.1.7.1.21."""

    def pairs(*keys: SortKey) -> list[tuple[int, str]]:
        return [(q.quota, q.label.lower()) for q in world.directory.search(Queue, sort=keys)]

    keys = SortKey("Quota", 1), SortKey("Label", 2)
    assert [label for _, label in pairs(*keys)] == ["", "a", "a", "b", "b", "ä"]
    assert pairs(*keys)[3:5] == [(2**32 - 2, "b"), (2**32 - 1, "b")]
    assert pairs(*keys) == pairs(*reversed(keys))
    swapped = pairs(SortKey("Quota", 9), SortKey("Label", 8, ascending=False))
    assert swapped[:3] == [(7, "a"), (7, "a"), (2**31 - 1, "ä")]
    assert swapped[4:] == [(2**32 - 1, "b"), (2**32 - 1, "")]
    assert pairs(SortKey("Label", 0)) == pairs()
    with pytest.raises(ValueError, match="priority"):
        SortKey("Label", -1)


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.1.2")
def test_queue_managers(world, made) -> None:
    for _ in range(3):
        made.queue_manager(world.name("qm"), {"nTSecurityDescriptor": DESCRIPTOR})
    check_begin(world, QueueManager, 3, "QueueManagerQuota", Filter("QueueManagerQuota", "==", 1))
    for asked, more in (("Clustered", "FullPath"), ("DirectoryServerType", "DirectoryServer")):
        found = begun(world, QueueManager, attributes=[asked])
        assert [each.populated - {asked} for each in found] == [{more}] * 3  # steps 2 and 3


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.1.3")
def test_queue_managers_sorted(world, made) -> None:
    routers = [made.queue_manager(world.name(stem)).dn for stem in "bA"]
    for i, stem in enumerate("Dc"):
        values = {"mSMQQuota": str(-1 - i), "mSMQOSType": str(256 * i), "mSMQOutRoutingServers": routers[i:]}
        made.queue_manager(world.name(stem), {**values, "mSMQDsServices": "TRUE", "mSMQSites": uuid4().bytes})
    sortable = [row.adm for row in table_of(QueueManager).rows if row.access & Access.SORT]
    check_sort(world, QueueManager, sortable)
    by_name = [each.computer_name[0] for each in begun(world, QueueManager, sort=SortKey("ComputerName"))]
    assert by_name == ["A", "b", "c", "D"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.1.2")
@pytest.mark.parametrize(
    "name", ["QualifiedComputerName", "PublicSigningKeyList", "Clustered", "OperatingSystemVersion"]
)
def test_sort_keys_without_an_attribute_of_the_entry_are_removed(world, made, name) -> None:
    """Step 6: what is read from the computer sorts nothing."""
    for stem, host in (("a", "z.x"), ("b", "y.x"), ("c", "x.x")):
        made.queue_manager(world.name(stem), dNSHostName=host, operatingSystemVersion=host)
    plain = begun(world, QueueManager)
    assert begun(world, QueueManager, sort=SortKey(name, ascending=False)) == plain
    assert begun(world, QueueManager, sort=SortKey(name, ascending=True)) == plain


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.1.1")
def test_connected_networks_of_queue_managers_cannot_be_asked_for(world, made) -> None:
    made.queue_manager(world.name("qm"))
    for begin in (world.directory.read_begin, world.directory.search):
        with pytest.raises(
            mqdssm.GenericDirectoryError, match="ConnectedNetworkIdentifierList is not kept"
        ) as failed:
            begin(QueueManager, attributes=["ComputerName", "ConnectedNetworkIdentifierList"])
        assert failed.value.result is RESULT.GENERIC_ERROR


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.3.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.4.3.3")
def test_enterprise(world) -> None:
    check_begin(world, Enterprise, 1, "OldDirectory", Filter("DefaultTimeToLive", "==", 1))
    sortable = [row.adm for row in table_of(Enterprise).rows if row.access & Access.SORT]
    assert "Name" not in sortable
    check_sort(world, Enterprise, [*sortable, "Name"])


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.3.3")
def test_enterprises_sorted(world, made) -> None:
    """A directory holds one; another program may have made a second entry of the class."""
    services = f"CN=Services,CN=Configuration,{world.root}"
    values = {
        "mSMQLongLived": "5",
        "mSMQVersion": "3",
        "mSMQCSPName": "N",
        "nTSecurityDescriptor": DESCRIPTOR,
    }
    made.add(f"CN={world.name('second')},{services}", "mSMQEnterpriseSettings", values)
    check_sort(world, Enterprise, [row.adm for row in table_of(Enterprise).rows if row.access & Access.SORT])
    for ascending in (True, False):
        key = SortKey("DefaultTimeToLive", ascending=ascending)
        times = [one.default_time_to_live for one in begun(world, Enterprise, sort=key)]
        assert times == sorted(times, reverse=not ascending)
        assert len(set(times)) == 2


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.4.2")
def test_sites(world, made) -> None:
    for _ in range(2):
        made.site(world.name("s"), {"nTSecurityDescriptor": DESCRIPTOR})
    check_begin(world, Site, 2 + len(world.kind.own_sites), "Name", Filter("Name", "==", "nowhere"))


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.4.3")
def test_sites_sorted(world, made) -> None:
    for stem, interval in (("b", "-1"), ("C", "5"), ("A", None)):
        made.site(world.name(stem), {"mSMQInterval1": interval, "mSMQNt4Stub": "1" if interval else None})
    check_sort(world, Site, [row.adm for row in table_of(Site).rows if row.access & Access.SORT])
    names = [site.name for site in begun(world, Site, sort=SortKey("Name"))]
    assert [name[0] for name in names if name not in world.kind.own_sites] == ["A", "b", "C"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.4.1")
@pytest.mark.parametrize("name", ["PrimarySiteController", "PublicSigningKey", "PublicSigningKeyList"])
def test_what_no_site_has_cannot_be_asked_for(world, made, name) -> None:
    """Decision M27."""
    made.site(world.name("s"))
    for begin in (world.directory.read_begin, world.directory.search):
        with pytest.raises(mqdssm.GenericDirectoryError, match=f"{name} is not kept") as failed:
            begin(Site, attributes=["Name", name])
        assert failed.value.result is RESULT.GENERIC_ERROR


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.5.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.4.5.3")
def test_routing_links(world, made) -> None:
    sites = [made.site(world.name("s")).dn for _ in range(3)]
    gates = [made.queue_manager(world.name("g")).dn for _ in range(2)]
    for i in range(3):
        values = {"mSMQCost": str(10 - i), "description": "bAc"[i], "mSMQSiteGates": gates[i:] or None}
        made.link(sites[i], sites[i - 1], values)
    check_begin(world, RoutingLink, 3, "Site1Identifier", Filter("ActualCost", "==", 1))
    check_sort(
        world, RoutingLink, [row.adm for row in table_of(RoutingLink).rows if row.access & Access.SORT]
    )
    costs = [link.actual_cost for link in begun(world, RoutingLink, sort=SortKey("ActualCost"))]
    assert costs == [8, 9, 10]


@pytest.mark.spec("MS-MQDSSM 3.1.6.4.6.2")
@pytest.mark.spec("MS-MQDSSM 3.1.6.4.6.3")
def test_users(world, made) -> None:
    sid = bytes.fromhex("010500000000000515000000010000000200000003000000")
    for i in (2, 0, 1):
        values = {"mSMQDigests": [bytes([i]) * 16], "mSMQSignCertificates": b"\xff" * i or None}
        made.user(world.name("u"), {"objectSid": sid + bytes([i, 4, 0, 0]), **values})
    count, nobody = 3 + world.kind.own_users, Filter("SecurityIdentifier", "==", "S-1-5-32-544")
    check_begin(world, User, count, "SecurityIdentifier", nobody)
    check_sort(world, User, [row.adm for row in table_of(User).rows if row.access & Access.SORT])


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
@pytest.mark.parametrize("kind", [Queue, QueueManager, User])
def test_a_place_that_does_not_exist_holds_nothing(world, kind) -> None:
    """ObjectNotFound from the search is an empty list (3.1.6.4.x.2)."""
    nowhere = f"OU=nowhere,{world.root}"
    with world.connect(naming_context=nowhere) as directory:
        assert list(directory.search(kind)) == []
        with pytest.raises(mqdssm.EndOfData):
            directory.read_next(directory.read_begin(kind))


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
def test_connected_networks_cannot_be_searched_for(world) -> None:
    """Decision M44."""
    for begin in (world.directory.read_begin, world.directory.search):
        with pytest.raises(mqdssm.GenericDirectoryError) as failed:
            begin(mqdssm.ConnectedNetwork)
        assert failed.value.result is RESULT.GENERIC_ERROR


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
def test_a_search_that_is_not_read_to_its_end_gives_its_connection_back(world, queues) -> None:
    with world.connect(page_size=2) as directory:
        for sort in ((), SortKey("Label")):
            found = directory.search(Queue, sort=sort)
            assert next(found)
            found.close()
            assert directory.session.references == 0
        assert len(list(directory.search(Queue))) == 6


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
def test_names_of_attributes_are_a_list(world) -> None:
    with pytest.raises(TypeError, match="list"):
        world.directory.search(Queue, attributes="Label")
