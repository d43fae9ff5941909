"""Where to go on by the numbers of a domain controller's changes ([MS-ADTS] 3.1.1.1.9)."""

from uuid import UUID

import pytest

from mqdssm.directory.watching.usn import TOMBSTONES_S, UsnNumbers

SERVER = str(UUID(int=7))
NOW = 1_795_000_000.5


def place(number: int, *, server: str = SERVER, written: float = NOW) -> str:
    return UsnNumbers(server, "ldap://dc").place(number, written)


def number_in(place: str | None) -> int | None:
    return UsnNumbers(SERVER, "ldap://dc").number_in(place, NOW)


def test_a_place_is_gone_on_from():
    assert number_in(place(5)) == 5
    assert number_in(place(2**63)) == 2**63
    assert number_in(place(5, written=NOW - TOMBSTONES_S + 2)) == 5


@pytest.mark.parametrize(
    "lost",
    [
        None,
        place(5, server=str(UUID(int=8))),
        place(5, written=NOW - TOMBSTONES_S - 2),
        place(5, written=NOW + TOMBSTONES_S + 2),
        "",
        "nonsense",
        f"{SERVER}:5",
        f"{SERVER}:x:{int(NOW)}",
        f"{SERVER}:5:x",
        f"{SERVER}:-5:{int(NOW)}",
    ],
)
def test_a_place_that_says_nothing_leads_to_a_comparison(lost):
    assert number_in(lost) is None
