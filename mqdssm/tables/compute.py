"""Pure computations of [MS-MQDSSM]: bits, names and paths.

No single attribute holds them.
"""

import re
from collections.abc import Iterable, Mapping
from enum import IntFlag
from typing import Final, NamedTuple
from uuid import UUID

from mqdssm.model.dn import DN, first_values
from mqdssm.model.enums import DirectoryServerType
from mqdssm.model.queuenames import lower_each, name_of

CLUSTER_SERVICE: Final = "MSClusterVirtualServer"
_GUID_DIGITS: Final = 32
_LDAP_URL: Final = re.compile(r"ldap://(?:(?P<server>[^/=]*)/)?(?P<dn>.*)", re.IGNORECASE | re.DOTALL)


class ServiceBits(IntFlag):
    """Bits of mSMQServiceType and mSMQServices ([MS-MQDSSM] 3.1.6.1.1.5)."""

    ROUTING_SERVER = 0x01
    BACKUP_SITE_CONTROLLER = 0x02
    PRIMARY_SITE_CONTROLLER = 0x04
    PRIMARY_ENTERPRISE_CONTROLLER = 0x08
    REMOTE_ACCESS_SERVER = 0x10


_CONTROLLER: Final = (
    ServiceBits.BACKUP_SITE_CONTROLLER
    | ServiceBits.PRIMARY_SITE_CONTROLLER
    | ServiceBits.PRIMARY_ENTERPRISE_CONTROLLER
)
SERVICE_BITS: Final[Mapping[str, ServiceBits]] = {
    "RoutingServer": ServiceBits.ROUTING_SERVER,
    "RemoteAccessServer": ServiceBits.REMOTE_ACCESS_SERVER,
    "DirectoryServer": _CONTROLLER,
    "DirectoryServerType": _CONTROLLER,
}
"""Attributes of QueueManager -> the bits of mSMQServiceType that they determine."""

_SERVER_TYPES: Final = (  # if several bits are set, the highest role counts
    (ServiceBits.PRIMARY_ENTERPRISE_CONTROLLER, DirectoryServerType.PRIMARY_ENTERPRISE_CONTROLLER),
    (ServiceBits.PRIMARY_SITE_CONTROLLER, DirectoryServerType.PRIMARY_SITE_CONTROLLER),
    (ServiceBits.BACKUP_SITE_CONTROLLER, DirectoryServerType.BACKUP_SITE_CONTROLLER),
)
_BIT_OF_TYPE: Final = {server_type: bit for bit, server_type in _SERVER_TYPES}


def compute_service_type(
    *,
    routing_server: bool | None,
    remote_access_server: bool | None,
    directory_server: bool | None,
    directory_server_type: DirectoryServerType | None,
) -> int:
    """Compute mSMQServiceType of a queue manager.

    See [MS-MQDSSM] 3.1.6.1.1.5 and 3.1.6.7.1.5.

    Args:
        routing_server: QueueManager.RoutingServer; here and below, None if not populated.
        remote_access_server: QueueManager.RemoteAccessServer.
        directory_server: QueueManager.DirectoryServer.
        directory_server_type: QueueManager.DirectoryServerType; used only for directory servers.
    """
    value = 0
    if routing_server:
        value |= ServiceBits.ROUTING_SERVER
    if remote_access_server:
        value |= ServiceBits.REMOTE_ACCESS_SERVER
    if directory_server and directory_server_type is not None:
        value |= _BIT_OF_TYPE.get(directory_server_type, 0)
    return int(value)


def is_remote_access_server(service: int) -> bool:
    """Return QueueManager.RemoteAccessServer from a mSMQServiceType.

    See [MS-MQDSSM] 3.1.6.11.1.
    """
    return bool(service & ServiceBits.REMOTE_ACCESS_SERVER)


def compute_directory_server_type(*, directory_server: bool, service: int) -> DirectoryServerType | None:
    """Return QueueManager.DirectoryServerType ([MS-MQDSSM] 3.1.6.11.1.5).

    Args:
        directory_server: mSMQDsServices, False if it is not set.
        service: mSMQServiceType, 0 if it is not set.

    Returns:
        None (stays unpopulated) for queue managers that are no directory servers.
    """
    if not directory_server:
        return None
    for bit, server_type in _SERVER_TYPES:
        if service & bit:
            return server_type
    return DirectoryServerType.STANDALONE


def read_computer_name(queue_manager: str) -> str:
    """Return QueueManager.ComputerName, the second value of the DN.

    See [MS-MQDSSM] 3.1.6.11.1.1.

    Args:
        queue_manager: DN of an mSMQConfiguration.

    Raises:
        ValueError: no DN, or one too short.
    """
    return _read_values(queue_manager, 2)[1]


class QueuePlace(NamedTuple):
    """Names in the DN of a queue ([MS-MQDSSM] 2.2.1).

    Attributes:
        cn: value of the queue's own RDN.
        computer: name of the computer.
    """

    cn: str
    computer: str


def read_queue_place(queue: str) -> QueuePlace:
    """Return the queue's and the computer's RDN values in the DN of a mSMQQueue.

    Raises:
        ValueError: no DN, or one too short.
    """
    values = _read_values(queue, 3)
    return QueuePlace(values[0], values[2])


def build_pathname(computer: str, cn: str, extension: str | None) -> str:
    r"""Return Queue.Pathname, ``computer\queue`` in lower case.

    See [MS-MQDSSM] 3.1.6.11.2.1 and decision M7.

    Args:
        computer: name of the computer, from the DN.
        cn: value of the queue's RDN.
        extension: mSMQQueueNameExt, if it is set.
    """
    return f"{lower_each(computer)}\\{name_of(cn, extension)}"


def build_qualified_pathname(dns_host_name: str | None, cn: str, extension: str | None) -> str:
    """Return Queue.QualifiedPathname ([MS-MQDSSM] 3.1.6.11.2.2, decision M7).

    Args:
        dns_host_name: dNSHostName of the computer, if it is set.
        cn: value of the queue's RDN.
        extension: mSMQQueueNameExt, if it is set.

    Returns:
        An empty text for a computer without dNSHostName ([MS-MQDSSM] 3.1.6.11.2 step 5).
    """
    return build_pathname(dns_host_name, cn, extension) if dns_host_name else ""


def is_clustered(service_principal_names: Iterable[str]) -> bool:
    """Return QueueManager.Clustered ([MS-MQDSSM] 3.1.6.11.1.6).

    Args:
        service_principal_names: all values of servicePrincipalName.
    """
    return any(CLUSTER_SERVICE in name for name in service_principal_names)


def build_directory_path(dn: str) -> str:
    """Return Queue.DirectoryPath: ``LDAP://`` and the DN.

    The path has no third slash (decision M15).
    """
    return f"LDAP://{dn}"


def dn_of_directory_path(path: str) -> DN:
    """Return the DN in a DirectoryPath (decision M15).

    The forms are ``LDAP://DN``, ``LDAP:///DN`` and ``LDAP://server/DN``.

    Raises:
        ValueError: another form, or no DN in it.
    """
    match = _LDAP_URL.fullmatch(path)
    if match is None or not match["dn"]:
        raise ValueError(f"{path!r} is no DirectoryPath: LDAP://<DN> is expected")
    return DN.parse(match["dn"])


def link_sites(name: str) -> tuple[UUID, UUID]:
    """Return the GUIDs of the sites in the name of a routing link (`link_name`).

    Raises:
        ValueError: the link has another name.
    """
    return UUID(name[:_GUID_DIGITS]), UUID(name[_GUID_DIGITS : 2 * _GUID_DIGITS])


def link_name(site1: UUID, site2: UUID) -> str:
    """Return the RDN value of a routing link ([MS-MQDSSM] 3.1.6.1.4.2).

    The name has both GUIDs as 32 hexadecimal digits.

    Args:
        site1: RoutingLink.Site1Identifier.
        site2: RoutingLink.Site2Identifier.
    """
    return f"{site1.hex}{site2.hex}"


def _read_values(dn: str, count: int) -> tuple[str, ...]:
    values = first_values(dn, count)
    if len(values) < count:
        raise ValueError(f"{dn!r} has {len(values)} names, {count} are expected")
    return values
