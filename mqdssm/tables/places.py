"""Places of objects: distinguished names and search bases.

See [MS-MQDSSM] 2.2.1 and 3.1.6.15.
All names are below one root, the rootDomainNamingContext; canonical form without blanks (decision M3).
Computers may be elsewhere (decision M16): then their real DN replaces that of :func:`computer_dn`.
"""

from typing import Final

from mqdssm.model.dn import DN, first_values
from mqdssm.tables.dependent_objects import SETTINGS_NAME

QUEUE_MANAGER_NAME: Final = "msmq"
ENTERPRISE_NAME: Final = "MsmqServices"

DESCRIPTION: Final = "description"
PLACEHOLDER: Final = "Made by mqdssm to hold objects of MSMQ whose own one is not here"
"""Description of an entry that only holds other entries below it, and represents no object itself."""

_BASES: Final = {
    "mSMQConfiguration": (),  # the text has the configuration naming context, which has no such objects (M8)
    "mSMQQueue": (),
    "user": (),
    "mSMQEnterpriseSettings": ("Services",),
    "site": ("Sites",),
    "mSMQSiteLink": (ENTERPRISE_NAME, "Services"),
    # not elements, but objects that queue managers need
    "mSMQSettings": ("Sites",),
    "computer": (),
}

CONFLICT_MARK: Final = "\nCNF:"
"""Text before the GUID in the name of an object that Active Directory renamed: another one had the name."""
DELETED_MARK: Final = "\nDEL:"
"""Text before the GUID in the name of a deleted object of Active Directory ([MS-ADTS] 3.1.1.5.5)."""

_BESIDE_SITES: Final = frozenset({"subnets", "inter-site transports"})
"""Names of other objects that Active Directory allows below CN=Sites."""


def configuration_dn(root: DN) -> DN:
    """Return the DN of the configuration naming context, CN=Configuration."""
    return root.child("CN", "Configuration")


def lost_dn(domain: DN) -> DN:
    """Return the DN of CN=LostAndFound of a domain ([MS-ADTS] 6.1.1.4.1).

    A domain controller moves objects there whose parent was deleted on another one.
    """
    return domain.child("CN", "LostAndFound")


def lost_configuration_dn(configuration: DN) -> DN:
    """Return the DN of CN=LostAndFoundConfig, as `lost_dn` for the configuration."""
    return configuration.child("CN", "LostAndFoundConfig")


def name_before_conflict(name: str) -> str:
    """Return the name that an object had before a conflict; others keep theirs."""
    at = name.upper().find(CONFLICT_MARK)
    return name if at < 0 else name[:at]


def computers_dn(root: DN) -> DN:
    """Return the DN of CN=Computers, the default container of computers."""
    return root.child("CN", "Computers")


def users_dn(root: DN) -> DN:
    """Return the DN of CN=Users.

    CN=Users is the default container of users, groups and queue aliases.
    """
    return root.child("CN", "Users")


def user_dn(root: DN, name: str) -> DN:
    """Return the default DN of a user, a group or a queue alias ([MS-MQDSSM] 2.2.1)."""
    return users_dn(root).child("CN", name)


def computer_dn(root: DN, name: str) -> DN:
    """Return the default DN of a computer ([MS-MQDSSM] 2.2.1)."""
    return computers_dn(root).child("CN", name)


def queue_manager_of(computer: DN) -> DN:
    """Return the DN of the queue manager of the computer at a DN."""
    return computer.child("CN", QUEUE_MANAGER_NAME)


def queue_manager_dn(root: DN, computer: str) -> DN:
    """Return the DN of the mSMQConfiguration of a computer ([MS-MQDSSM] 2.2.1)."""
    return queue_manager_of(computer_dn(root, computer))


def sites_dn(root: DN) -> DN:
    """Return the DN of CN=Sites, the parent of all sites (decision M2)."""
    return configuration_dn(root).child("CN", "Sites")


def site_dn(root: DN, name: str) -> DN:
    """Return the DN of a site ([MS-MQDSSM] 2.2.1)."""
    return sites_dn(root).child("CN", name)


def servers_dn(root: DN, site: str) -> DN:
    """Return the DN of CN=Servers of a site.

    CN=Servers is the parent of the site's server objects (decision M6).
    """
    return site_dn(root, site).child("CN", "Servers")


def server_dn(root: DN, site: str, computer: str) -> DN:
    """Return the DN of a computer's server object in a site.

    The server object is the parent of the computer's settings (decision M6).
    """
    return servers_dn(root, site).child("CN", computer)


def settings_dn(root: DN, site: str, computer: str) -> DN:
    """Return the DN of the mSMQSettings of a computer in a site ([MS-MQDSSM] 2.2.1)."""
    return server_dn(root, site, computer).child("CN", SETTINGS_NAME)


def services_dn(root: DN, configuration: DN | None = None) -> DN:
    """Return the DN of CN=Services, the parent of the enterprise object.

    Args:
        root: the root domain.
        configuration: the configuration naming context; CN=Configuration of the root if not given.
    """
    return (configuration or configuration_dn(root)).child("CN", "Services")


def enterprise_dn(root: DN, configuration: DN | None = None) -> DN:
    """Return the DN of CN=MsmqServices ([MS-MQDSSM] 2.2.1, 2.2.3).

    Arguments are as for `services_dn`.
    """
    return services_dn(root, configuration).child("CN", ENTERPRISE_NAME)


def replication_dn(root: DN, configuration: DN | None = None) -> DN:
    """Return the DN of CN=MQIS, a replica's state ([MC-MQDSRP] 3.1.1.2).

    Arguments are as for `services_dn`.
    """
    return enterprise_dn(root, configuration).child("CN", "MQIS")


def replication_server_dn(root: DN, configuration: DN | None = None) -> DN:
    """Return the DN of the entry that names a directory's replica.

    Arguments are as for `services_dn`.
    """
    return replication_dn(root, configuration).child("CN", "Server")


def link_dn(root: DN, name: str) -> DN:
    """Return the DN of a routing link ([MS-MQDSSM] 2.2.1).

    ``compute.link_name`` makes the name.
    """
    return enterprise_dn(root).child("CN", name)


def search_base(ldap_class: str, root: DN, configuration: DN | None = None) -> DN:
    """Return the base of a search for objects of a class.

    See [MS-MQDSSM] 3.1.6.15 and decision M8.

    Args:
        ldap_class: the class, in the schema's spelling.
        root: the root domain, or the naming context to search instead.
        configuration: the configuration naming context; CN=Configuration of the root if not given.

    Raises:
        ValueError: no element is kept in objects of this class.
    """
    rdns = _BASES.get(ldap_class)
    if rdns is None:
        raise ValueError(f"no element is kept in objects of class {ldap_class!r}")
    base = (configuration or configuration_dn(root)) if rdns else root
    for value in reversed(rdns):
        base = base.child("CN", value)
    return base


def is_in_configuration(ldap_class: str) -> bool:
    """Return True if objects of a class are in the configuration, not in a domain."""
    return bool(_BASES.get(ldap_class))


def is_in_usual_place(ldap_class: str, dn: str) -> bool:
    """Return True if a DN alone shows that an object has a class.

    The places are those of 2.2.1 and Active Directory's schema.

    Args:
        ldap_class: ``site`` or ``mSMQConfiguration``; references to other classes do not occur.
        dn: in the form of the server.
    """
    try:
        name, parent = (part.casefold() for part in first_values(dn, 2))
    except ValueError:
        return False
    if ldap_class == "site":
        return parent == "sites" and name not in _BESIDE_SITES
    return ldap_class == "mSMQConfiguration" and name == QUEUE_MANAGER_NAME
