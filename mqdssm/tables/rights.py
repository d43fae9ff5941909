"""Rights that each event needs on Active Directory ([MS-MQDSSM] 5.1).

There is one row for each right.
Masks are Active Directory's ([MS-ADTS] 5.1.3.2). If 5.1 requires more than a domain controller compares, the
row has both: a GENERIC right has several bits, of which one decides. Deleting needs one of two
rights, not both ([MS-ADTS] 3.1.1.5.5.3); 5.1.1 has RIGHT_DS_CREATE_CHILD for one of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from mqdssm.model.dn import DN
from mqdssm.tables.access import AdRight
from mqdssm.tables.dependent_objects import SETTINGS_NAME
from mqdssm.wire import masks


class Right(NamedTuple):
    """A right by its name in [MS-ADTS] 5.1.3.2.

    Attributes:
        name: the name, as ``RIGHT_DS_CREATE_CHILD``.
        mask: its bits.
        decides: the bits without which the event fails.
    """

    name: str
    mask: int
    decides: int


CREATE_CHILD: Final = Right("RIGHT_DS_CREATE_CHILD", 0x1, 0x1)
DELETE_CHILD: Final = Right("RIGHT_DS_DELETE_CHILD", 0x2, 0x2)
DELETE: Final = Right("RIGHT_DELETE", masks.DELETE, masks.DELETE)
READ: Final = Right("RIGHT_GENERIC_READ", int(AdRight.GENERIC_READ), int(AdRight.READ_PROPERTY))
WRITE: Final = Right("RIGHT_GENERIC_WRITE", int(AdRight.GENERIC_WRITE), int(AdRight.WRITE_PROPERTY))
WRITE_DAC: Final = Right("RIGHT_WRITE_DAC", masks.WRITE_DAC, masks.WRITE_DAC)
CONTROL: Final = Right("RIGHT_DS_CONTROL_ACCESS", 0x100, 0x100)

ADD_GUID: Final = UUID("440820ad-65b4-11d1-a3da-0000f875ae0d")
"""The extended right Add-GUID, on the head of the naming context ([MS-ADTS] 3.1.1.5.2.2)."""

CLASS_GUIDS: Final[Mapping[str, UUID]] = {
    "mSMQConfiguration": UUID("9a0dc344-c100-11d1-bbc5-0080c76670c0"),
    "mSMQQueue": UUID("9a0dc343-c100-11d1-bbc5-0080c76670c0"),
    "mSMQSiteLink": UUID("9a0dc346-c100-11d1-bbc5-0080c76670c0"),
    "mSMQSettings": UUID("9a0dc347-c100-11d1-bbc5-0080c76670c0"),
    "site": UUID("bf967ab3-0de6-11d0-a285-00aa003049e2"),
    "server": UUID("bf967a92-0de6-11d0-a285-00aa003049e2"),
    "serversContainer": UUID("f780acc0-56f0-11d1-a9c6-0000f80367c1"),
}
"""schemaIDGUID of the classes that events create: the object type of entries for RIGHT_DS_CREATE_CHILD."""


class Event(StrEnum):
    """Event on an element ([MS-MQDSSM] 3.1.6)."""

    CREATE = "create"
    READ = "read"
    WRITE = "write"
    DELETE = "delete"


class Where(StrEnum):
    """Object on which a right is needed."""

    OBJECT = "the object"
    PARENT = "its parent"
    SETTINGS = "each mSMQSettings object"
    SERVER = "the server object in each site"
    SERVERS = "CN=Servers of each site"
    SITE = "each site"


@dataclass(frozen=True, slots=True)
class Need:
    """One right that an event needs.

    Attributes:
        element: name in the abstract model, or queue alias or distribution list.
        event: the event.
        where: the object on which the right is needed.
        holder: class of that object.
        right: the right.
        section: section that requires it.
        object_class: the class of child that the right is for, or empty.
        condition: when it is needed; empty: always.
        either: rows with equal words are alternatives: one right suffices.
    """

    element: str
    event: Event
    where: Where
    holder: str
    right: Right
    section: str
    object_class: str = ""
    condition: str = ""
    either: str = ""

    @property
    def object_type(self) -> UUID | None:
        """ObjectType of the entry in an access control list; None: no object type."""
        return CLASS_GUIDS[self.object_class] if self.object_class else None


_ROLE: Final = "RoutingServer, DirectoryServer or SupportingServer is TRUE"
_COMPUTER: Final = "PublicSigningKeyList is given"
_READ_COMPUTER: Final = (
    "QualifiedComputerName, PublicSigningKeyList, OperatingSystemVersion or Clustered is asked for"
)
_NO_SERVER: Final = f"{_ROLE}, and the server has no object in the site (decision M6)"
_SECURITY: Final = "Security is given"
_NEW, _LEFT, _STAYS = "a site is added", "a site is taken away", "a copied attribute is changed"
_ADTS_DACL: Final = "[MS-ADTS] 3.1.1.5.3.3"


def _list_creation_needs(element: str, ldap_class: str, parent: str, section: str) -> tuple[Need, ...]:
    return (
        Need(element, Event.CREATE, Where.PARENT, parent, CREATE_CHILD, section, ldap_class),
        Need(element, Event.DELETE, Where.OBJECT, ldap_class, DELETE, section, either="object"),
        Need(element, Event.DELETE, Where.PARENT, parent, DELETE_CHILD, section, ldap_class, either="object"),
    )


def _list_access_needs(
    element: str, ldap_class: str, section: str, *, security: bool = False
) -> tuple[Need, ...]:
    needs = (
        Need(element, Event.READ, Where.OBJECT, ldap_class, READ, section),
        Need(element, Event.WRITE, Where.OBJECT, ldap_class, WRITE, section),
    )
    if not security:
        return needs
    dac = Need(element, Event.WRITE, Where.OBJECT, ldap_class, WRITE_DAC, _ADTS_DACL, condition=_SECURITY)
    return (*needs, dac)


def _list_settings_needs(event: Event, new: str, old: str) -> tuple[Need, ...]:
    """Return the rights on settings objects of a queue manager.

    An event creates or deletes these settings objects.
    """
    qm, s = "QueueManager", "5.1.1"
    creations = (
        Need(qm, event, Where.SERVER, "server", CREATE_CHILD, s, "mSMQSettings", new),
        Need(qm, event, Where.SERVERS, "serversContainer", CREATE_CHILD, s, "server", _NO_SERVER),
        Need(qm, event, Where.SITE, "site", CREATE_CHILD, s, "serversContainer", _NO_SERVER),
    )
    deletions = (
        Need(qm, event, Where.SETTINGS, "mSMQSettings", DELETE, s, condition=old, either="settings"),
        Need(qm, event, Where.SERVER, "server", DELETE_CHILD, s, "mSMQSettings", old, "settings"),
    )
    return (*(creations if new else ()), *(deletions if old else ()))


def _list_queue_manager_needs() -> tuple[Need, ...]:
    qm, s = "QueueManager", "5.1.1"
    return (
        *_list_creation_needs(qm, "mSMQConfiguration", "computer", s),
        Need(qm, Event.CREATE, Where.PARENT, "computer", WRITE, s, condition=_COMPUTER),
        *_list_settings_needs(Event.CREATE, _ROLE, ""),
        *_list_settings_needs(Event.DELETE, "", "there are any"),
        *_list_access_needs(qm, "mSMQConfiguration", s, security=True),
        Need(qm, Event.READ, Where.PARENT, "computer", READ, s, condition=_READ_COMPUTER),
        Need(qm, Event.WRITE, Where.PARENT, "computer", WRITE, s, condition=_COMPUTER),
        Need(qm, Event.WRITE, Where.SETTINGS, "mSMQSettings", WRITE, s, condition=_STAYS),
        *_list_settings_needs(Event.WRITE, _NEW, _LEFT),
    )


NEEDS: Final[tuple[Need, ...]] = (
    *_list_queue_manager_needs(),
    *_list_creation_needs("Queue", "mSMQQueue", "mSMQConfiguration", "5.1.2"),
    *_list_access_needs("Queue", "mSMQQueue", "5.1.2", security=True),
    *_list_access_needs("Enterprise", "mSMQEnterpriseSettings", "5.1.3", security=True),
    *_list_creation_needs("Site", "site", "sitesContainer", "5.1.4"),
    *_list_access_needs("Site", "site", "5.1.4", security=True),
    *_list_creation_needs("RoutingLink", "mSMQSiteLink", "mSMQEnterpriseSettings", "5.1.5"),
    *_list_access_needs("RoutingLink", "mSMQSiteLink", "5.1.5"),
    *_list_access_needs("User", "user", "5.1.6"),
    Need("Queue alias", Event.READ, Where.OBJECT, "msMQ-Custom-Recipient", READ, "5.1.7"),
    Need("Distribution list", Event.READ, Where.OBJECT, "group", READ, "5.1.8"),
)
"""All rights of [MS-MQDSSM] 5.1."""


def needs_of(element: str, event: Event) -> tuple[Need, ...]:
    """Return the rights that an event needs, in the order of the table."""
    return tuple(need for need in NEEDS if (need.element, need.event) == (element, event))


# -- a refusal in words


def find_class_at(dn: str) -> str:
    """Return the class of the MSMQ object that belongs at a DN.

    The class is empty if no MSMQ object belongs there ([MS-MQDSSM] 2.2.1).

    Args:
        dn: any text; an invalid DN has no class.
    """
    try:
        name = DN.parse(dn)
        above, parent, own_name = name.parent.parent.name.casefold(), name.parent.name.casefold(), name.name
    except ValueError:
        return ""
    own_name = own_name.casefold()
    places = (
        (parent == "sites" and above == "configuration", "site"),
        (parent == "msmqservices" and above == "services", "mSMQSiteLink"),
        (own_name == "msmqservices" and parent == "services", "mSMQEnterpriseSettings"),
        (own_name == SETTINGS_NAME.casefold() and above == "servers", "mSMQSettings"),
        (parent == "servers", "server"),
        (own_name == "servers" and above == "sites", "serversContainer"),
        (parent == "msmq", "mSMQQueue"),
        (own_name == "msmq", "mSMQConfiguration"),
    )
    return next((ldap_class for holds, ldap_class in places if holds), "")


def describe_missing_right(operation: str, dn: str, server_text: str) -> str:
    """Describe the right that a refused operation needed.

    Args:
        operation: ``add``, ``modify`` or ``delete``.
        dn: the object.
        server_text: the server's own words; Samba's name the refused part.

    Returns:
        Text for people; empty for another operation.
    """
    ldap_class, parent = find_class_at(dn), _name_parent(dn)
    if operation == "add":
        of_class = f" for {ldap_class} {CLASS_GUIDS[ldap_class]}" if ldap_class in CLASS_GUIDS else ""
        return f"{_describe_right(CREATE_CHILD)}{of_class} on {parent}"
    if operation == "delete":
        return f"{_describe_right(DELETE)} on it, or {_describe_right(DELETE_CHILD)} on {parent}"
    if operation != "modify":
        return ""
    if "dacl" in server_text.lower():
        return f"{_describe_right(WRITE_DAC)} on it to change Security, and RIGHT_WRITE_OWNER for its owner"
    also = f" (and {_describe_right(WRITE_DAC)} if Security was given)" if ldap_class in _SECURED else ""
    return f"{_describe_right(WRITE)} on it{also}"


_SECURED: Final = frozenset(need.holder for need in NEEDS if need.right is WRITE_DAC)


HIDDEN: Final = (
    f"or this user may not see it: that needs {READ.name} ({READ.mask:#x}) on it and on what is above it"
)
"""Text about a possible reason why an existing object was not found."""


def _describe_right(right: Right) -> str:
    return f"{right.name} ({right.mask:#x})"


def _name_parent(dn: str) -> str:
    try:
        return str(DN.parse(dn).parent)
    except ValueError:
        return "its parent"
