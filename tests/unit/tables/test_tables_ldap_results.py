"""What LDAP results mean beyond their names."""

import pytest

from mqdssm.tables.ldap_results import is_full


@pytest.mark.parametrize(
    ("code", "text", "full"),
    [
        (80, "entry store failed", True),  # slapd 2.5 with a small maxsize says these three
        (80, "entry update failed", True),
        (80, "txn_commit failed", True),
        (80, "commit failed", True),  # seldom, of a deletion
        (80, "MDB_MAP_FULL: Environment mapsize limit reached", True),
        (11, "", True),
        (11, "entry too big", False),
        (80, "", False),
        (80, "internal error", False),
        (65, "entry store failed", False),
        (None, "entry store failed", False),
    ],
)
def test_a_database_is_full(code: int | None, text: str, full: bool) -> None:
    assert is_full(code, text) is full
