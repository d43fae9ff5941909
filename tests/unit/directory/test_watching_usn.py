"""Where to go on by the numbers of a domain controller's changes ([MS-ADTS] 3.1.1.1.9)."""

import itertools
import logging
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest

from mqdssm.directory.entries import Entry
from mqdssm.directory.watching import usn
from mqdssm.directory.watching.hints import Hints, Rhythm, Touched
from mqdssm.directory.watching.usn import TOMBSTONES_S, UpdateNumbers
from mqdssm.errors import GenericDirectoryError
from mqdssm.model.dn import DN

SERVER = UUID(int=7)
OBJECT = UUID(int=9)
NOW = 1_795_000_000


class Controller:
    """What is asked of a controller; its answers are those of the test."""

    url = "ldap://dc"

    class naming:  # noqa: N801  an attribute of the link
        default = DN.parse("DC=test")
        configuration = DN.parse("CN=Configuration,DC=test")

    def __init__(self, *numbers: int) -> None:
        self.numbers = itertools.chain(numbers, itertools.repeat(numbers[-1]))
        self.asked: list[str] = []
        self.found: list[Entry] = []

    def get(self, dn: str, attributes: Sequence[str], controls: Sequence[Any] = ()) -> Entry:
        answers = {
            "highestCommittedUSN": lambda: str(next(self.numbers)).encode(),
            "dsServiceName": lambda: b"CN=NTDS Settings",
            "invocationId": lambda: SERVER.bytes_le,
            "objectClass": lambda: b"container",
        }
        return Entry(dn, {name.lower(): [answers[name]()] for name in attributes})

    def find(self, base: str, wanted: Any, attributes: Sequence[str], controls: Any) -> Iterator[Entry]:
        self.asked.append(str(wanted))
        yield from self.found
        self.found = []

    @property
    def profile(self) -> Any:
        return self

    def search_controls(self) -> tuple[()]:
        return ()


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(usn._Bell, "hang", lambda _: None)
    monkeypatch.setattr(usn._Bell, "wait", lambda *_: iter(()))
    monkeypatch.setattr(usn.time, "time", lambda: NOW)

    def make(*numbers: int) -> tuple[UpdateNumbers, Controller]:
        controller = Controller(*numbers)
        return UpdateNumbers(controller, ["mSMQQueue"], Rhythm()), controller  # type: ignore[arg-type]

    return make


def place(number: int, *, server: UUID = SERVER, written: float = NOW) -> str:
    return f"{server}:{number}:{int(written)}"


@pytest.mark.parametrize(
    "lost",
    [
        None,
        place(5, server=UUID(int=8)),
        place(5, written=NOW - TOMBSTONES_S - 1),
        place(5, written=NOW + TOMBSTONES_S + 1),
        "nonsense",
        f"{SERVER}:5",
        f"{SERVER}:x:{NOW}",
    ],
)
def test_a_place_that_says_nothing_leads_to_a_comparison(source, lost):
    watching, _ = source(100)
    assert next(watching.hints(lost)) == Hints(full=True, place=place(100))


def test_what_is_newer_is_looked_up(source):
    watching, controller = source(7)
    classes = [b"top", b"mSMQQueue"]
    controller.found = [
        Entry("CN=q", {"objectguid": [OBJECT.bytes_le], "objectclass": classes}),
        Entry("CN=q\\0ADEL:x", {"objectguid": [SERVER.bytes_le], "isdeleted": [b"TRUE"]}),
        Entry("CN=hidden", {}),
    ]
    hints = watching.hints(place(5))
    assert next(hints) == Hints(place=place(5))
    assert next(hints) == Hints(
        touched=(
            Touched(str(OBJECT), "CN=q", frozenset({"top", "msmqqueue"})),
            Touched(str(SERVER), None, frozenset(), gone=True),
        ),
        place=place(7),
    )
    assert "b'6'" in controller.asked[0]
    assert next(hints).is_empty


def test_a_controller_that_was_set_back_is_compared(source, caplog: pytest.LogCaptureFixture):
    watching, _ = source(3)
    hints = watching.hints(place(5))
    next(hints)
    with caplog.at_level(logging.WARNING):
        assert next(hints) == Hints(full=True, place=place(3))
    assert "set back" in caplog.text


def test_who_sees_no_deletions_is_refused(source, monkeypatch: pytest.MonkeyPatch):
    def nothing(_: Controller, dn: str, *_rest: Any) -> Entry:
        return Entry(dn, {})

    monkeypatch.setattr(Controller, "get", nothing)
    with pytest.raises(GenericDirectoryError, match="deletions would go unnoticed"):
        source(1)
