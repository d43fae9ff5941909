"""Looking for the fate of a change: how long, and what is believed."""

import time
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from mqdssm.directory.recovery import Fate, ReadBack, has_values, is_as_sent
from mqdssm.errors import DirectoryNotConnected, GenericDirectoryError, ObjectAlreadyExists, ObjectNotFound

QUICK = ReadBack(settle_s=0.1, limit_s=0.5)


def looks(*found: bool | Exception) -> Callable[[float], bool]:
    """Look as scripted; the last one for ever."""
    script: Iterator[bool | Exception] = iter(found)
    last = found[-1]

    def look(deadline: float) -> bool:
        assert deadline > time.monotonic() - 0.5
        outcome = next(script, last)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return look


GONE = DirectoryNotConnected("nobody there")


def test_made_at_once() -> None:
    assert QUICK.find_out(looks(True)) == (Fate.MADE, None)


def test_made_a_little_later() -> None:
    """The server may still be at work when it is looked at first."""
    assert QUICK.find_out(looks(False, False, True)) == (Fate.MADE, None)


def test_made_and_the_server_comes_back_later() -> None:
    assert QUICK.find_out(looks(GONE, GONE, True)) == (Fate.MADE, None)


def test_not_made_is_believed_after_a_while() -> None:
    started = time.monotonic()
    assert QUICK.find_out(looks(False)) == (Fate.NOT_MADE, None)
    assert 0.1 <= time.monotonic() - started < 0.5


def test_a_busy_server_gets_time_to_finish() -> None:
    """Half a second is too short for a commit that waits for others: the ordinary limit is far above it."""
    assert 1.5 <= ReadBack().settle_s <= ReadBack().limit_s / 5


def test_nobody_to_ask() -> None:
    started = time.monotonic()
    fate, why = QUICK.find_out(looks(GONE))
    assert (fate, why) == (Fate.UNKNOWN, GONE)
    assert time.monotonic() - started < 0.7


def test_reading_is_refused() -> None:
    denied = GenericDirectoryError("no right")
    assert QUICK.find_out(looks(denied)) == (Fate.UNKNOWN, denied)


@pytest.mark.parametrize("verdict", [ObjectNotFound("no"), ObjectAlreadyExists("yes")])
def test_a_verdict_is_the_answer(verdict: Exception) -> None:
    with pytest.raises(type(verdict)):
        QUICK.find_out(looks(verdict))


class TestHasValues:
    def test_octet_by_octet_in_any_order(self) -> None:
        found = {"description": [b"b", b"a"], "msmqlabelex": [b"Label"]}
        assert has_values(found, {"description": [b"a", b"b"]})
        assert has_values(found, {"mSMQLabelEx": [b"Label"]})
        assert not has_values(found, {"mSMQLabelEx": [b"label"]})
        assert not has_values(found, {"description": [b"a"]})
        assert not has_values(found, {"description": [b"a", b"b", b"b"]})

    def test_removed(self) -> None:
        assert has_values({}, {"description": []})
        assert not has_values({"description": [b"a"]}, {"description": []})

    def test_servers_respell_distinguished_names(self) -> None:
        found = {"msmqsite1": [b"cn=S1,cn=Sites,dc=x"], "msmqlabelex": [b"cn=a,dc=x"]}
        assert has_values(found, {"mSMQSite1": [b"CN=S1, CN=Sites,DC=x"]})
        assert not has_values(found, {"mSMQSite1": [b"CN=S2,CN=Sites,DC=x"]})
        assert not has_values(found, {"mSMQSite1": [b"no name"]})
        assert not has_values(found, {"mSMQLabelEx": [b"CN=a,DC=x"]})  # a text that looks like one


class TestIsAsSent:
    SENT: ClassVar[dict[str, list[bytes]]] = {
        "objectClass": [b"mSMQQueue"],
        "nTSecurityDescriptor": [b"ours"],
        "mSMQLabelEx": [b"label"],
    }

    def test_what_servers_complete(self) -> None:
        found = {
            "objectclass": [b"top", b"msmqQueue"],
            "ntsecuritydescriptor": [b"ours and more"],
            "msmqlabelex": [b"label"],
        }
        assert is_as_sent(found, self.SENT)
        assert is_as_sent(found | {"description": [b"not sent"]}, self.SENT)
        assert not is_as_sent(found | {"objectclass": [b"top"]}, self.SENT)
        assert not is_as_sent(found | {"msmqlabelex": [b"other"]}, self.SENT)

    def test_what_is_missing(self) -> None:
        assert not is_as_sent({}, self.SENT)
        assert not is_as_sent({"objectclass": [b"mSMQQueue"]}, self.SENT)
