"""Which changes are held back until they are committed, by the numbers that can be read."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import GreaterOrEqual
from mqdssm.directory.watching import commits
from mqdssm.directory.watching.commits import Commits, find_csns
from mqdssm.directory.watching.hints import TouchedEntry
from mqdssm.directory.watching.link import Link

pytestmark = pytest.mark.spec("MS-MQCN 3.2.3")
ONE, TWO, THREE = (str(UUID(int=number)) for number in (1, 2, 3))


def csn(second: int, *, server: str = "000", ago: timedelta = timedelta(0)) -> str:
    made = datetime.now(UTC).replace(second=second) - ago
    return f"{made:%Y%m%d%H%M%S}.000000Z#000000#{server}#000000"


class Readable:
    """Stands for the server: the entries that can be read, with their numbers."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}
        self.searches = 0

    def find(self, _base: str, wanted: Any, _attributes: Any) -> Iterator[Entry]:
        self.searches += 1
        for key, version in self.entries.items():
            if isinstance(wanted, GreaterOrEqual) and version < wanted.value.decode():
                continue
            if isinstance(wanted, GreaterOrEqual) or key in str(wanted):
                yield Entry(key, {"entryuuid": [key.encode()], "entrycsn": [version.encode()]})


@pytest.fixture
def server() -> Readable:
    return Readable()


@pytest.fixture
def held(server: Readable, monkeypatch: pytest.MonkeyPatch) -> Commits:
    monkeypatch.setattr(commits, "_FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(commits, "_LONGEST_PAUSE_S", 0.0)
    monkeypatch.setattr(commits, "_COST_FACTOR", 0)
    return Commits(cast("Link", server), "dc=test")


def test_a_change_waits_until_it_can_be_read(server, held):
    server.entries[ONE] = csn(1)
    told = TouchedEntry(ONE, "CN=one", version=csn(2))
    held.tell([told])
    assert held.take() == ((), False)
    assert not held.is_clear
    server.entries[ONE] = csn(2)
    assert held.take() == ((told,), False)
    assert held.is_clear
    searches = server.searches
    assert held.take() == ((), False)
    assert server.searches == searches, "where nothing waits nobody is asked"


def test_a_deletion_waits_until_the_object_is_gone(server, held):
    server.entries[ONE] = csn(1)
    told = TouchedEntry(ONE, "CN=one", gone=True, version=csn(2))
    held.tell([told])
    assert held.take() == ((), False)
    del server.entries[ONE]
    assert held.take() == ((told,), False)


def test_a_transaction_is_over_when_something_newer_can_be_read(server, held):
    """It failed: what it told will never be there."""
    failed = (TouchedEntry(ONE, "CN=one", version=csn(2)), TouchedEntry(TWO, gone=True, version=csn(3)))
    server.entries[TWO] = csn(1)
    held.tell(failed)
    assert held.take() == ((), False)
    server.entries[THREE] = csn(5, server="001")
    assert held.take() == ((), False), "another server writes at the same time"
    server.entries[THREE] = csn(5)
    assert held.take() == (failed, False)
    assert held.is_clear


def test_a_number_of_the_future_is_no_proof(server, held):
    server.entries[THREE] = csn(5, ago=timedelta(hours=-1))
    held.tell([TouchedEntry(ONE, "CN=one", version=csn(2))])
    assert held.take() == ((), False)
    assert held.take() == ((), False)


def test_what_was_long_ago_before_anybody_connected_is_over(held):
    held.cover([csn(2, ago=timedelta(hours=1))])
    assert held.take() == ((), True)


@pytest.mark.parametrize("ago", [timedelta(hours=1), timedelta(hours=-1)], ids=["behind", "ahead"])
def test_a_server_with_another_time_is_waited_for(server, held, ago):
    server.entries[ONE] = csn(1, ago=ago)
    told = TouchedEntry(ONE, "CN=one", version=csn(2, ago=ago))
    held.tell([told])
    assert held.take() == ((), False)
    server.entries[TWO] = csn(2, ago=ago, server="001")
    assert held.take() == ((), False)
    server.entries[ONE] = csn(3, ago=ago)
    assert held.take() == ((told,), False)


@pytest.mark.parametrize("minutes", [1, 60])
@pytest.mark.parametrize("by", ["told", "covered"])
def test_numbers_from_before_the_clock_was_set_back_prove_nothing(
    server, held, minutes, by, monkeypatch: pytest.MonkeyPatch
):
    before = csn(7, ago=timedelta(minutes=-minutes))
    server.entries[ONE] = server.entries[TWO] = before
    if by == "told":
        held.tell([TouchedEntry(TWO, "CN=two", version=before)])
    else:
        held.cover([], [before])
    held.take()
    changed = TouchedEntry(ONE, "CN=one", version=csn(8))
    failed = TouchedEntry(TWO, "CN=two", version=csn(9))
    held.tell([changed, failed])
    for _ in range(3):
        assert held.take() == ((), False)
    server.entries[ONE] = csn(8)
    assert held.take() == ((changed,), False)
    assert held.take() == ((), False)
    monkeypatch.setattr(commits, "TRANSACTION_S_MAX", -1.0)
    assert held.take() == ((failed,), False)
    assert held.is_clear


def test_an_object_that_changes_all_the_time_waits_for_so_long_at_most(
    server, held, monkeypatch: pytest.MonkeyPatch
):
    server.entries[ONE] = csn(7, ago=timedelta(minutes=-1))
    held.cover([], [server.entries[ONE]])
    clock = [1000.0]
    monkeypatch.setattr("mqdssm.directory.watching.commits.time.monotonic", lambda: clock[0])
    for number in range(13):
        told = TouchedEntry(ONE, "CN=one", version=csn(number))
        held.tell([told])
        assert held.take() == (((told,), False) if number == 11 else ((), False)), number
        clock[0] += commits.TRANSACTION_S_MAX / 10


def test_what_cannot_be_dated_waits_for_so_long_at_most(held, monkeypatch: pytest.MonkeyPatch):
    told = TouchedEntry(ONE, "CN=one")
    held.tell([told])
    assert held.take() == ((), False)
    monkeypatch.setattr(commits, "TRANSACTION_S_MAX", -1.0)
    assert held.take() == ((told,), False)


def test_what_a_refresh_covers_is_compared_once_more(server, held):
    held.cover([csn(3), csn(4, server="001")])
    server.entries[ONE] = csn(3)
    assert held.take() == ((), False)
    assert not held.is_clear
    server.entries[TWO] = csn(4, server="001")
    assert held.take() == ((), True)
    assert held.take() == ((), False)
    assert held.is_clear


def test_of_too_many_only_the_last_is_remembered(server, held, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(commits, "HELD_MAX", 2)
    held.tell(TouchedEntry(str(UUID(int=number)), "CN=x", version=csn(number)) for number in range(1, 4))
    assert held.take() == ((), False)
    server.entries[THREE] = csn(3)
    assert held.take() == ((), True), "all ids are compared"


def test_numbers_in_a_cookie():
    first, second = csn(1), csn(2, server="001")
    assert find_csns(f"rid=000,csn={first}") == (first,)
    assert find_csns(f"rid=000,sid=001,csn={first};{second}") == (first, second)
    assert find_csns("nonsense") == find_csns("") == find_csns("rid=000,csn=") == ()
