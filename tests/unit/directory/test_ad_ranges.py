"""Attributes with more values than a server hands out at once."""

from collections.abc import Sequence

import pytest
from support.directory.search_requests import encode_search

from mqdssm.directory.entries import Entry, PartialValues, parse_attribute_key
from mqdssm.directory.ranges import ATTEMPTS, OneServer, RangeReader, Read
from mqdssm.directory.requests import SearchScope
from mqdssm.errors import DirectoryNotConnected, GenericDirectoryError, ObjectNotFound

VALUES_A_RANGE = 1500


class Server:
    """A group on Active Directory; `changes` happen before the requests of these numbers."""

    def __init__(self, count: int, changes: Sequence[int] = ()) -> None:
        self.members = [b"CN=%d" % number for number in range(count)]
        self.changes = changes
        self.requests: list[str] = []

    def part(self, start: int) -> list[bytes]:
        values = self.members[start : start + VALUES_A_RANGE]
        if start + VALUES_A_RANGE >= len(self.members):
            return values
        return PartialValues(values, start + VALUES_A_RANGE)

    def read(self, dn: str, attributes: Sequence[str]) -> Entry:
        if len(self.requests) in self.changes:
            del self.members[0]
            self.members.append(b"CN=new%d" % len(self.requests))
        self.requests.append(attributes[0])
        name, _, ends = attributes[0].partition(";range=")
        assert attributes[1] == "uSNChanged"
        counter = b"%d" % sum(change < len(self.requests) for change in self.changes)
        return Entry(dn, {name: self.part(int(ends.split("-")[0])), "usnchanged": [counter]})


def ranges_of(read: Read, counter: str | None = "uSNChanged") -> RangeReader:
    return RangeReader(lambda: OneServer("ldap://a", read), counter)


@pytest.mark.parametrize("count", [1501, 3000, 3001, 4501])
def test_all_values(count: int) -> None:
    server = Server(count)
    ranges = ranges_of(server.read)
    entry = ranges.complete(Entry("CN=g", {"member": server.part(0), "cn": [b"g"]}))
    assert entry.all("member") == server.members
    assert not isinstance(entry.all("member"), PartialValues)
    assert server.requests[0] == "member;range=0-*"
    assert len(server.requests) == -(-count // VALUES_A_RANGE)


@pytest.mark.parametrize("change", [0, 1, 2])
def test_changes_in_between(change: int) -> None:
    server = Server(4501, changes=[change])
    found = ranges_of(server.read).values("CN=g", "member", PartialValues([], 1))
    assert found == server.members


def test_it_ends_when_changes_do_not() -> None:
    server = Server(4501, changes=range(1000))
    with pytest.raises(GenericDirectoryError, match="changes faster"):
        ranges_of(server.read).values("CN=g", "member", PartialValues([], 1))
    assert len(server.requests) == 2 * ATTEMPTS


def test_an_object_that_is_gone_does_not_end_the_search() -> None:
    def gone(dn: str, attributes: Sequence[str]) -> Entry:
        raise ObjectNotFound("gone", dn=dn)

    found = ranges_of(gone).values("CN=g", "member", PartialValues([b"CN=a"], 1))
    assert found == [b"CN=a"]


def test_a_server_that_never_comes_to_an_end() -> None:
    def read(dn: str, attributes: Sequence[str]) -> Entry:
        start = int(attributes[0].partition("=")[2].split("-")[0])
        return Entry(dn, {"member": PartialValues([b"x"], start + 1)})

    with pytest.raises(GenericDirectoryError, match="do not come to an end"):
        ranges_of(read, None).values("CN=g", "member", PartialValues([], 1))


def test_a_server_that_goes_away_in_between() -> None:
    """Positions are a server's own: all is read anew on the next one."""
    first, second = Server(4501), Server(4501)
    second.members.reverse()

    def dying(dn: str, attributes: Sequence[str]) -> Entry:
        if len(first.requests) == 2:
            raise DirectoryNotConnected("gone")
        return first.read(dn, attributes)

    servers = iter([OneServer("ldap://a", dying), OneServer("ldap://b", second.read)])
    found = RangeReader(lambda: next(servers), "uSNChanged").values("CN=g", "member", PartialValues([], 1))
    assert found == second.members
    assert second.requests[0] == "member;range=0-*"


def test_a_server_that_stays_away_is_an_error() -> None:
    def dead(dn: str, attributes: Sequence[str]) -> Entry:
        raise DirectoryNotConnected("gone", dn=dn)

    with pytest.raises(DirectoryNotConnected):
        ranges_of(dead).values("CN=g", "member", PartialValues([b"CN=a"], 1))


def test_rows() -> None:
    server = Server(1501)
    rows = [("CN=a", b"1", [b"x"]), ("CN=b", None, server.part(0), {"told": []}), ("CN=c", b"3", None)]
    found = list(ranges_of(server.read).complete_rows(rows, ["cn", "member"], frozenset({"member"})))
    assert found[0] == rows[0]
    assert found[1] == ("CN=b", None, server.members, {"told": []})
    assert found[2] == rows[2]


def test_what_is_asked_for() -> None:
    wanted = encode_search(1, "CN=g", SearchScope.BASE, b"\x87\x02cn", ["member;range=1500-*", "uSNChanged"])
    assert b"member;range=1500-*" in wanted
    assert parse_attribute_key(b"member;range=0-1499") == ("member", 1500)
    for wrong in ("member;range=1500", "member;range=-*", "mem ber;range=0-*", "member;range=0-*;x=y"):
        with pytest.raises(ValueError, match="no attribute description"):
            encode_search(1, "CN=g", SearchScope.BASE, b"\x87\x02cn", [wrong])
