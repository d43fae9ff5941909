"""Whether an object that was added is there: that name, that GUID and those values, and no other."""

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from mqdssm.directory.entries import Entry
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.write_operations import WriteOperations
from mqdssm.errors import ObjectAlreadyExists, ObjectNotFound

GUID = uuid4()
SENT = {"objectClass": [b"mSMQQueue"], "objectGUID": [GUID.bytes_le], "mSMQLabelEx": [b"mine"]}
OURS = "CN=new,CN=msmq,CN=w1,CN=Computers,DC=example,DC=com"


class Shelf:
    """A directory that holds one object at most."""

    def __init__(
        self, dn: str | None, guid: UUID = GUID, other: dict[str, list[bytes]] | None = None
    ) -> None:
        self._dn = dn
        self._guid = guid
        own = {"objectclass": [b"top", b"msmqqueue"], "msmqlabelex": [b"mine"], "objectguid": [guid.bytes_le]}
        self._values = own | (other or {})

    def get_all(self, target: Any, attributes: Sequence[str], **_: object) -> list[Entry]:
        shown = {
            name.lower(): self._values[name.lower()] for name in attributes if name.lower() in self._values
        }
        here = [] if self._dn is None else [Entry(self._dn, shown)]
        if isinstance(target, UUID):
            return here if target == self._guid else []
        if self._dn is None or target.lower() != self._dn.lower():
            raise ObjectNotFound("no")
        return here


def was_added(shelf: Shelf) -> bool:
    options = ConnectionOptions.of("ldap://127.0.0.1")
    changing = WriteOperations(cast("Any", None), options, cast("Any", None), cast("Any", shelf))
    return changing.was_added(OURS, SENT, 0.0, None)


def test_our_object_at_our_name_however_the_server_writes_it() -> None:
    assert was_added(Shelf("cn=New, cn=msmq,cn=w1,cn=Computers,dc=example,dc=com"))
    assert not was_added(Shelf(None))


def test_another_object_with_the_guid_that_we_brought_is_not_ours() -> None:
    """A queue that was read, renamed and created again: the server refused it, so it is not made."""
    with pytest.raises(ObjectAlreadyExists, match=r"same objectGUID.*CN=old,CN=msmq"):
        was_added(Shelf("CN=old,CN=msmq,CN=w1,CN=Computers,DC=example,DC=com"))


def test_another_object_at_our_name_is_not_ours() -> None:
    with pytest.raises(ObjectAlreadyExists, match="that name"):
        was_added(Shelf(OURS, uuid4()))


@pytest.mark.parametrize(
    "other", [{"msmqlabelex": [b"older"]}, {"msmqlabelex": []}, {"objectclass": [b"top"]}]
)
def test_an_older_object_with_name_and_guid_that_we_brought_is_not_ours(
    other: dict[str, list[bytes]],
) -> None:
    """Migrated a second time: the server refused it, and its answer was lost."""
    with pytest.raises(ObjectAlreadyExists, match=r"other values.*was there before"):
        was_added(Shelf(OURS, other=other))
