"""Sites that are created before their first directory server (decision T157)."""

from mqdssm.drivers.replication.directory_server import DirectoryServer
from mqdssm.drivers.store_thread import list_objects, read_object
from mqdssm.engines.replication.operations import ObjectRead
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import GenericDirectoryError
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Properties
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.server.control_protocol import SiteRequest
from mqdssm.server.current_roles import role_of_running
from mqdssm.server.object_changes import RequestedChange, build_site_creation


def build_new_site(request: SiteRequest, server: DirectoryServer) -> RequestedChange:
    """Return the creation of a site without a PSC, which the PEC makes.

    Raises:
        ValueError: this server is not the PEC, or an attribute that a new site cannot have.
        GenericDirectoryError: the site exists, or the directory has no enterprise.
        DirectoryError: the directory cannot be read.
    """
    name, role = server.queue_manager.machine_name, role_of_running(server)
    if role is not Role.PEC:
        raise ValueError(f"{name} is a {role}: only the PEC adds a site")
    creation = build_site_creation(request.attributes)
    check_enterprise(server)
    if read_object(server.store.lookup, ObjectType.SITE, path_name=creation.path_name):
        raise GenericDirectoryError(f"site {creation.path_name} exists already: choose another name")
    return creation


def check_enterprise(server: DirectoryServer) -> None:
    """Refuse a new site in an empty directory (decision T110).

    Raises:
        GenericDirectoryError: the directory has no enterprise.
    """
    if not list_objects(server.store.lookup, ObjectType.ENTERPRISE):
        raise GenericDirectoryError(
            f"the directory of {server.queue_manager.machine_name} has no enterprise: see what the server "
            "has reported"
        )


def has_psc(site: ObjectRead) -> bool:
    """Return True if a site names a PSC."""
    return bool(dict(site.properties or ()).get(Propid.S_PSC))


def first_psc_of(site_id: Guid, properties: Properties) -> RequestedChange:
    """Return the change that gives a site without a PSC its first one.

    Args:
        site_id: identifier of the site.
        properties: its PSC, and the key of that.
    """
    return RequestedChange.of_existing(ObjectType.SITE, site_id, properties)
