"""As many queues and members as a page or a range of Windows holds, one less, one more, and many more.

All through the proxy that enforces the limits of Windows: a page of 1,000, 1,500 values at once.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from support.servers.ad_world import Domain, own_domain
from support.servers.limits_proxy import LimitsProxy

import mqdssm
from mqdssm.directory.filters import TRUE, Equal
from mqdssm.events.facade import Directory
from mqdssm.events.references import split_into_batches

pytestmark = pytest.mark.xdist_group("sizes")  # what is so large is made once
PAGE, RANGE = 1000, 1500
MEMBERS = 4501
ADDED_AT_ONCE = 1000


@pytest.fixture(scope="module")
def domain() -> Iterator[Domain]:
    with own_domain() as made:
        yield made


class Crowd:
    """A queue manager that queues are added to in bulk."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.computer, _ = domain.queue_manager()
        self.count = 0

    def dn(self, number: int) -> str:
        return f"CN=q{number},CN=msmq,CN={self.computer},CN=Computers,{self.domain.root}"

    def grow(self, count: int) -> None:
        """Make it so many."""
        blocks = [
            f"dn: {self.dn(number)}\nobjectClass: mSMQQueue\nmSMQLabelEx: crowd\n"
            for number in range(self.count, count)
        ]
        for some in split_into_batches(blocks, ADDED_AT_ONCE):  # each has its time, also on a busy machine
            self.domain.tools.add_text("\n".join(some))
        self.count = count


@pytest.fixture(scope="module")
def crowd(domain: Domain) -> Crowd:
    return Crowd(domain)


def numbers(directory: Directory) -> list[int]:
    """The queues as an ordinary search lists them."""
    found = directory.search(mqdssm.Queue, mqdssm.Filter("Label", "==", "crowd"), attributes=["Pathname"])
    return [int((queue.pathname or "").rpartition("\\q")[2]) for queue in found]


def all_listed(domain: Domain, folder: Path, count: int) -> None:
    with domain.behind_limits(folder) as (directory, proxy):
        found = numbers(directory)
        assert len(found) == count
        assert sorted(found) == list(range(count))
        assert not proxy.refused
        assert not proxy.cut


@pytest.mark.spec("MS-MQDSSM 3.1.6.5")
@pytest.mark.parametrize(  # in this order: the crowd only grows
    "count", [pytest.param(PAGE - 1, marks=pytest.mark.soak), PAGE, PAGE + 1]
)
def test_queues_around_one_page(domain: Domain, crowd: Crowd, tmp_path: Path, count: int) -> None:
    crowd.grow(count)
    all_listed(domain, tmp_path, count)


def test_the_proxy_cuts_who_does_not_page(domain: Domain, crowd: Crowd, tmp_path: Path) -> None:
    # without this the tests above would prove nothing
    crowd.grow(PAGE + 1)
    with domain.behind_limits(tmp_path, page_entries=PAGE // 2) as (directory, proxy):
        assert sorted(numbers(directory)) == list(range(PAGE + 1))
        pages = [one for one in proxy.operations("search") if b"crowd" in _text(one)]
        assert len(pages) >= 3


def _text(request: object) -> bytes:
    return repr(request).encode()


@pytest.mark.soak
def test_ten_thousand_queues(domain: Domain, crowd: Crowd, tmp_path: Path) -> None:
    crowd.grow(10_000)
    all_listed(domain, tmp_path, 10_000)


class Group:
    """A group of many users' aliases; a member stands for a format name of its own."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.name = domain.name("g")
        self.unit = f"OU={domain.name('ou')},{domain.root}"
        self.dn = f"CN={self.name},{self.unit}"
        session = domain.directory.session
        session.add(self.unit, {"objectClass": [b"organizationalUnit"]})
        blocks = [
            f"dn: {self.member(number)}\nobjectClass: msMQ-Custom-Recipient\n"
            f"msMQ-Recipient-FormatName: {self.format_name(number)}\n"
            for number in range(MEMBERS)
        ]
        for begin in range(0, MEMBERS, 500):  # one call is one transaction, slower the larger it is
            domain.tools.add_text("\n".join(blocks[begin : begin + 500]))
        session.add(self.dn, {"objectClass": [b"group"], "sAMAccountName": [self.name.encode()]})
        self.guid = UUID(bytes_le=session.get(self.dn, ["objectGUID"]).all("objectGUID")[0])

    def member(self, number: int) -> str:
        return f"CN=a{number},{self.unit}"

    def format_name(self, number: int) -> str:
        return f"PUBLIC={UUID(int=number + 1)}"

    def change(self, members: range) -> None:
        values = [self.member(number).encode() for number in members]
        self.domain.directory.session.modify(self.dn, {"member": values})

    def expected(self, members: range) -> set[str]:
        return {self.format_name(number).lower() for number in members}


@pytest.fixture(scope="module")
def group(domain: Domain) -> Iterator[Group]:
    made = Group(domain)
    yield made
    # the time of dbcheck grows with the square of a group's members: minutes
    domain.directory.session.delete(made.dn)


@pytest.mark.soak
@pytest.mark.spec("MS-MQDSSM 3.1.6.9")
@pytest.mark.parametrize("count", [RANGE - 1, RANGE + 1, MEMBERS])
def test_members_around_the_ranges(domain: Domain, group: Group, tmp_path: Path, count: int) -> None:
    group.change(range(count))
    with domain.behind_limits(tmp_path) as (directory, proxy):
        found = directory.resolve_distribution_list(f"DL={group.guid}")
        assert len(found) == count
        assert {line.lower() for line in found} == group.expected(range(count))
        (entry,) = directory.session.find(group.dn, TRUE, ["member"])
        assert len(set(entry.all("member"))) == count
        asked = sum(b";range=" in _text(one) for one in proxy.operations("search"))
        assert bool(asked) is (count > RANGE)
        assert not proxy.refused


@contextmanager
def changing(proxy: LimitsProxy, change: list[range], group: Group) -> Iterator[threading.Event]:
    """Change the group as soon as somebody has asked for its second range."""
    done, stop = threading.Event(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            if any(b";range=" in _text(one) for one in list(proxy.requests)):
                for members in change:
                    group.change(members)
                done.set()
                return
            stop.wait(0.001)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join(60)


@pytest.mark.soak
def test_members_that_change_in_between(domain: Domain, group: Group, tmp_path: Path) -> None:
    """What is in the group all the time is found; nothing is found that was never in it; nothing twice."""
    stays = range(500, MEMBERS - 500)
    group.change(range(MEMBERS - 200))
    with (
        domain.behind_limits(tmp_path) as (directory, proxy),
        changing(proxy, [range(500, MEMBERS), range(MEMBERS - 500), range(500, MEMBERS)], group) as done,
    ):
        for _ in range(20):
            (entry,) = directory.session.find(group.dn, TRUE, ["member"])
            found = [value.decode().lower() for value in entry.all("member")]
            assert len(found) == len(set(found))
            assert {group.member(number).lower() for number in stays} <= set(found)
            if done.is_set():
                break
        assert done.wait(30)
        found_names = directory.resolve_distribution_list(f"DL={group.guid}")
        assert {line.lower() for line in found_names} == group.expected(range(500, MEMBERS))


@pytest.mark.soak
def test_a_queue_found_among_many(domain: Domain, crowd: Crowd, tmp_path: Path) -> None:
    crowd.grow(PAGE + 1)
    with domain.behind_limits(tmp_path) as (directory, _):
        path = rf"{crowd.computer}\q{PAGE}"
        queue = directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", path))
        (entry,) = directory.session.find(str(queue.full_path), Equal("objectClass", b"mSMQQueue"), ["cn"])
        assert entry.first("cn") == f"q{PAGE}".encode()
