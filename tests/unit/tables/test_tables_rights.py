"""The rights that events need: the table, the words of a refusal, and the check of a descriptor."""

from uuid import UUID

import pytest

from mqdssm.directory.profiles.active_directory import ActiveDirectory
from mqdssm.directory.responses import LdapResult
from mqdssm.errors import GenericDirectoryError
from mqdssm.tables import rights
from mqdssm.tables.access import is_granted
from mqdssm.tables.rights import NEEDS, Event, describe_missing_right, find_class_at, needs_of
from mqdssm.wire.acl import Ace, allow, allow_object, deny
from mqdssm.wire.dtyp import SecurityDescriptor, Sid

ME, OTHER = Sid("S-1-5-21-1-2-3-1000"), Sid("S-1-5-21-1-2-3-1001")
QUEUE = rights.CLASS_GUIDS["mSMQQueue"]
PLACES = {
    "CN=msmq,CN=a,CN=Computers,DC=r": "mSMQConfiguration",
    "CN=msmq,CN=DC1,OU=Domain Controllers,DC=r": "mSMQConfiguration",
    "CN=q,CN=MSMQ,CN=a,DC=r": "mSMQQueue",
    "CN=msmq,CN=msmq,CN=a,DC=r": "mSMQQueue",
    "CN=S,CN=Sites,CN=Configuration,DC=r": "site",
    "CN=msmq,CN=Sites,CN=Configuration,DC=r": "site",
    "CN=Servers,CN=S,CN=Sites,CN=Configuration,DC=r": "serversContainer",
    "CN=a,CN=Servers,CN=S,CN=Sites,CN=Configuration,DC=r": "server",
    "CN=MSMQ Settings,CN=a,CN=Servers,CN=S,CN=Sites,CN=Configuration,DC=r": "mSMQSettings",
    "CN=MsmqServices,CN=Services,CN=Configuration,DC=r": "mSMQEnterpriseSettings",
    "CN=ab,CN=MsmqServices,CN=Services,CN=Configuration,DC=r": "mSMQSiteLink",
    "CN=a,CN=Computers,DC=r": "",
    "CN=a,DC=r": "",
    "DC=r": "",
    "": "",
    "<GUID=00000000-0000-0000-0000-000000000000>": "",
}


@pytest.mark.parametrize(("dn", "ldap_class"), PLACES.items())
def test_places_tell_the_class(dn: str, ldap_class: str) -> None:
    assert find_class_at(dn) == ldap_class


def test_every_event_of_every_element_is_there() -> None:
    four = set(Event)
    expected = {"QueueManager": four, "Queue": four, "Site": four, "RoutingLink": four}
    expected |= {"Enterprise": {Event.READ, Event.WRITE}, "User": {Event.READ, Event.WRITE}}
    expected |= {"Queue alias": {Event.READ}, "Distribution list": {Event.READ}}
    found: dict[str, set[Event]] = {}
    for need in NEEDS:
        found.setdefault(need.element, set()).add(need.event)
        assert need.right.decides & ~need.right.mask == 0
        assert need in needs_of(need.element, need.event)
    assert found == expected


@pytest.mark.parametrize(
    ("operation", "dn", "text", "words"),
    [
        (
            "add",
            "CN=q,CN=msmq,CN=a,DC=r",
            "",
            f"CREATE_CHILD (0x1) for mSMQQueue {QUEUE} on CN=msmq,CN=a,DC=r",
        ),
        ("add", "CN=a,CN=Users,DC=r", "", "RIGHT_DS_CREATE_CHILD (0x1) on CN=Users,DC=r"),
        (
            "delete",
            "CN=q,CN=msmq,CN=a,DC=r",
            "",
            "RIGHT_DELETE (0x10000) on it, or RIGHT_DS_DELETE_CHILD (0x2)",
        ),
        ("modify", "CN=a,CN=Users,DC=r", "", "RIGHT_GENERIC_WRITE (0x20028) on it"),
        ("modify", "CN=q,CN=msmq,CN=a,DC=r", "", "(and RIGHT_WRITE_DAC (0x40000) if Security was given)"),
        (
            "modify",
            "CN=q,CN=msmq,CN=a,DC=r",
            "has no write dacl access",
            "it needs RIGHT_WRITE_DAC (0x40000)",
        ),
    ],
)
def test_a_refusal_names_the_right(operation: str, dn: str, text: str, words: str) -> None:
    error = ActiveDirectory().explain(LdapResult(50, "", text), operation, dn)
    assert isinstance(error, GenericDirectoryError)
    assert words in error.hint
    assert (error.ldap_code, error.server_text, error.dn) == (50, text, dn)


def test_other_operations_need_none_of_these() -> None:
    assert not describe_missing_right("rename", "CN=a,DC=r", "")
    assert describe_missing_right("add", "nonsense", "").endswith(" on its parent")


def built(*aces: Ace, owner: Sid | None = None) -> SecurityDescriptor:
    return SecurityDescriptor.build(owner=owner, dacl=aces)


@pytest.mark.parametrize(
    ("descriptor", "right", "object_type", "expected"),
    [
        (built(allow(ME, 0x3)), 0x1, None, True),
        (built(allow(ME, 0x2), allow(ME, 0x1)), 0x3, None, True),
        (built(allow(ME, 0x2)), 0x3, None, False),
        (built(allow(OTHER, 0x3)), 0x1, None, False),
        (built(deny(ME, 0x1), allow(ME, 0x3)), 0x1, None, False),
        (built(allow(ME, 0x3), deny(ME, 0x1)), 0x1, None, True),
        (built(deny(ME, 0x2), allow(ME, 0x3)), 0x1, None, True),
        (built(allow(ME, 0x3, 0x8)), 0x1, None, False),
        (built(allow(ME, 0x10000000)), 0x10000, None, True),
        (built(allow_object(ME, 0x1, QUEUE)), 0x1, QUEUE, True),
        (built(allow_object(ME, 0x1, QUEUE)), 0x1, None, False),
        (built(allow_object(ME, 0x1, QUEUE)), 0x1, UUID(int=1), False),
        (built(allow_object(ME, 0x1, None)), 0x1, QUEUE, True),
        (built(owner=ME), 0x40000, None, True),
        (built(owner=ME), 0x10000, None, False),
        (SecurityDescriptor.build(owner=OTHER), 0x10000, None, True),
    ],
)
def test_descriptors_grant(
    descriptor: SecurityDescriptor, right: int, object_type: UUID | None, *, expected: bool
) -> None:
    assert is_granted(descriptor, {ME}, right, {object_type} if object_type else ()) is expected
