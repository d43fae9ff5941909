"""What a search remembers of the objects that it has handed out."""

import sys
from uuid import uuid4

import pytest

from mqdssm.directory.seen_entries import KEY_BYTES, SeenEntries, add_identity, key_of


@pytest.mark.parametrize(
    ("wanted", "asked", "added"),
    [
        (("cn",), ("cn", "objectGUID"), True),
        (("cn", "OBJECTGUID"), ("cn", "OBJECTGUID"), False),
        (("objectGUID;binary",), ("objectGUID;binary",), False),
        (("*",), ("*",), False),
        ((), ("objectGUID",), True),
        (("1.1",), ("objectGUID",), True),
    ],
)
def test_identity_is_asked_for_once(wanted: tuple[str, ...], asked: tuple[str, ...], added: bool) -> None:
    assert add_identity(wanted) == (asked, added)


def test_a_guid_outlives_a_rename() -> None:
    guid = uuid4().bytes_le
    assert key_of("CN=old,DC=x", guid) == key_of("CN=new,DC=x", [guid]) == guid


@pytest.mark.parametrize("guid", [None, [], b"", b"short", [b"short"]])
def test_without_a_guid_the_name_counts_however_it_is_written(guid: object) -> None:
    names = [r"CN=a\3Db,DC=x", r"cn=A\=b, dc=X"]
    one, other = (key_of(name, guid) for name in names)
    assert one == other
    assert len(one) == KEY_BYTES
    assert key_of("CN=ab,DC=x", guid) != one
    # the extended names of Active Directory are no names of RFC 4514
    assert key_of("<GUID=1>;CN=a", guid) == key_of("<guid=1>;cn=A", guid) != key_of("<GUID=2>;CN=a", guid)


def test_one_by_one_or_many_at_once() -> None:
    dns = [f"CN={number}" for number in range(10)]
    guids = [uuid4().bytes_le if number % 2 else None for number in range(10)]
    delivered = SeenEntries()
    assert delivered.new(dns[:4], dns[:4], guids[:4]) == dns[:4]
    assert all(delivered.is_new(dn, guid) for dn, guid in zip(dns[4:6], guids[4:6], strict=True))
    assert delivered.count == 6
    delivered.begin_again()
    assert delivered.new(dns, dns, guids) == dns[6:]
    assert not delivered.is_new(dns[0], guids[0])
    assert delivered.is_new("CN=another", None)
    assert delivered.count == 11


def test_sixteen_octets_an_object() -> None:
    delivered = SeenEntries()
    count = 100_000
    guids = [number.to_bytes(KEY_BYTES, "big") for number in range(count)]
    delivered.new(guids, [""] * count, guids)
    assert sys.getsizeof(delivered._keys) < 1.2 * KEY_BYTES * count
