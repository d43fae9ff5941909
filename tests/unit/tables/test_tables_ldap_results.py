"""What LDAP results mean beyond their names."""

import pytest

from mqdssm.tables.ldap_results import RDN_VALUE_BYTES_MAX, is_full, is_name_too_long


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
        (80, "", True),  # back-mdb, where the index of names has no room (mdb_add after mdb_dn2id_add)
        (80, "internal error", False),
        (65, "entry store failed", False),
        (None, "entry store failed", False),
    ],
)
def test_a_database_is_full(code: int | None, text: str, full: bool) -> None:
    assert is_full(code, text, "cn=web,dc=example,dc=com") is full


@pytest.mark.parametrize(
    ("dn", "full", "long"),
    [
        (f"cn={'n' * RDN_VALUE_BYTES_MAX},dc=example,dc=com", True, False),
        (f"cn={'n' * (RDN_VALUE_BYTES_MAX + 1)},dc=example,dc=com", False, True),
        (f"cn={'é' * (RDN_VALUE_BYTES_MAX // 2 + 1)},dc=example,dc=com", False, True),
        ("no name", False, False),
        (None, False, False),
    ],
)
def test_a_refusal_without_a_text(dn: str | None, full: bool, long: bool) -> None:
    """slapd says nothing both where the database is full and where the name of the entry is too long."""
    assert is_full(80, "", dn) is full
    assert is_name_too_long(80, "", dn) is long
    assert not is_name_too_long(80, "entry store failed", dn)
    assert not is_name_too_long(65, "", dn)
