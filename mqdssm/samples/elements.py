"""Objects of a sample enterprise, as elements of the abstract model.

Each is computed from its number.
"""

from typing import Any, Final, NamedTuple
from uuid import UUID

from mqdssm.model.elements import QUOTA_UNLIMITED, Enterprise, QueueManager, RoutingLink, Site, User
from mqdssm.model.enums import OperatingSystemType
from mqdssm.samples import sample_names, security
from mqdssm.samples.certificates import make_certificate, make_encryption_keys, sign_certificates
from mqdssm.samples.plan import EnterprisePlan, MachineRole
from mqdssm.samples.seeded_random import SeededRandom
from mqdssm.tables.ldif import list_base_tree_entries
from mqdssm.wire.masks import EnterpriseAccess, SiteAccess

FIRST_TIME: Final = 852_076_800  # 1997-01-01, the year of MSMQ 1.0
CREATED_WITHIN_S: Final = 15 * 365 * 86_400
CHANGED_WITHIN_S: Final = 3 * 365 * 86_400
QUOTAS: Final = (QUOTA_UNLIMITED, 1_048_576, 8_388_608)
COSTS: Final = (1, 1, 2, 5, 5, 10, 10, 25, 50, 100)
CERTIFICATES: Final = (1, 1, 0, 2)


class MachineRoles(NamedTuple):
    """A queue manager with its role and operating system.

    Attributes:
        number: of the machine.
        manager: the element.
        role: the tasks of the machine.
        system: its operating system.
    """

    number: int
    manager: QueueManager
    role: MachineRole
    system: sample_names.System


def draw_times(rng: SeededRandom) -> dict[str, int]:
    """Draw the times of an object's creation and last change."""
    created = FIRST_TIME + rng.draw_below(CREATED_WITHIN_S)
    return {"create_time": created, "modify_time": created + rng.draw_below(CHANGED_WITHIN_S)}


def make_enterprise(plan: EnterprisePlan, identifier: UUID | None = None) -> Enterprise:
    """Make the enterprise object, with the GUID of the base tree or with another one."""
    values: dict[str, Any] = {
        "identifier": identifier or _read_enterprise_guid(plan),
        "name": plan.root,
        "weakened_security": False,
        "default_time_to_live": 345_600,
        "old_directory": False,
        "security": security.make_public_security(plan, EnterpriseAccess),
    }
    return Enterprise.from_directory(values)


def _read_enterprise_guid(plan: EnterprisePlan) -> UUID:
    raw = dict(list_base_tree_entries(plan.root)[-1])["objectGUID"]
    return UUID(bytes_le=raw if isinstance(raw, bytes) else raw.encode())


def make_site(plan: EnterprisePlan, number: int) -> Site:
    """Make a site."""
    rng = plan.make_rng("site", number)
    values: dict[str, Any] = {
        "identifier": plan.compute_guid("site", number),
        "name": plan.name_site(number).name,
        "intra_site_replication_interval": rng.of((2, 2, 5, 10)),
        "inter_site_replication_interval": rng.of((10, 10, 30, 60)),
        "foreign_site": plan.is_foreign(number),
        "migrated_from_msmq10": rng.draw_one_in(4),
        "security": security.make_public_security(plan, SiteAccess),
    }
    return Site.from_directory(values)


def make_link(plan: EnterprisePlan, first: int, second: int) -> RoutingLink:
    """Make the routing link of two sites.

    The gates of the link are the routing servers at both ends.
    """
    values: dict[str, Any] = {
        "identifier": plan.compute_guid("link", first, second),
        "site1_identifier": plan.compute_guid("site", first),
        "site2_identifier": plan.compute_guid("site", second),
        "actual_cost": plan.make_rng("cost", first, second).of(COSTS),
        "description": f"{plan.name_site(first).name} - {plan.name_site(second).name}",
        "site_gate_identifier_list": tuple(
            plan.compute_guid("machine", plan.find_gate(end)) for end in (first, second)
        ),
    }
    return RoutingLink.from_directory(values)


def make_machine(
    plan: EnterprisePlan, number: int, role: MachineRole | None = None, site_number: int | None = None
) -> MachineRoles:
    """Make a queue manager, with the values that its computer needs.

    Args:
        plan: the enterprise.
        number: of the machine.
        role: its role; None: the role of the plan.
        site_number: its site; None: the site of the plan. With a number it has no routing server.
    """
    router = plan.find_routing_server(number) if site_number is None else None
    sites = plan.sites_of(number) if site_number is None else (site_number,)
    role = role or plan.choose_role(number)
    name = plan.name_machine(number, role, sites[-1])
    rng = plan.make_rng("machine", number)
    system = _draw_system(rng, role)
    is_foreign = plan.is_foreign_machine(number)
    if is_foreign:
        system = sample_names.FOREIGN_SYSTEM
    identifier = plan.compute_guid("machine", number)
    routers = () if router is None else (plan.compute_guid("machine", router),)
    values: dict[str, Any] = {
        "identifier": identifier,
        "computer_name": name,
        "queue_manager_version": system.text,
        "operating_system_type": OperatingSystemType(system.type),
        **draw_times(rng),
        "remote_access_server": role.remote,
        "queue_manager_quota": rng.of(QUOTAS),
        "journal_quota": rng.of(QUOTAS),
        "foreign_system": is_foreign,
        "site_identifier_list": tuple(plan.compute_guid("site", site) for site in sites),
        "out_routing_server_identifier_list": routers,
        "in_routing_server_identifier_list": routers,
        "routing_server": role.routing,
        "directory_server": role.directory is not None,
        "supporting_server": role.supporting,
        "public_encryption_key_list": b"" if is_foreign else make_encryption_keys(identifier),
        "public_signing_key_list": _make_signing_key(plan, number, name) if role.routing else b"",
        "security": security.make_machine_security(plan, number),
    }
    if role.directory is not None:
        values["directory_server_type"] = role.directory
    return MachineRoles(number, QueueManager.from_directory(values), role, system)


def _draw_system(rng: SeededRandom, role: MachineRole) -> sample_names.System:
    """Draw the operating system of a machine; it must be the first choice from `rng`."""
    return rng.of(sample_names.SERVER_SYSTEMS if role.server else sample_names.CLIENT_SYSTEMS)


def has_windows_nt(plan: EnterprisePlan, number: int) -> bool:
    """Return True if a machine runs Windows NT 4.0.

    MSMQ 1.0, on Windows NT 4.0, wrote computer names in upper case.
    """
    if plan.is_foreign_machine(number):
        return False
    return (
        _draw_system(plan.make_rng("machine", number), plan.choose_role(number)).version == sample_names.NT4
    )


def _make_signing_key(plan: EnterprisePlan, number: int, name: str) -> bytes:
    identifier = plan.compute_guid("signing", number)
    return bytes(sign_certificates({identifier: make_certificate(name, identifier)}))


def make_user_name(plan: EnterprisePlan, number: int) -> str:
    """Return the name of a user, unique by its number."""
    rng = plan.make_rng("user name", number)
    return f"{rng.of(sample_names.FIRST_NAMES)}.{rng.of(sample_names.LAST_NAMES)}{number}"


def make_user(plan: EnterprisePlan, number: int, certificates: int | None = None) -> User:
    """Make a user, with certificates and their digests.

    Args:
        plan: the enterprise.
        number: of the user.
        certificates: their number; None: the number of the plan.
    """
    count = plan.make_rng("user", number).of(CERTIFICATES) if certificates is None else certificates
    identifiers = [plan.compute_guid("certificate", number, which) for which in range(count)]
    name = make_user_name(plan, number)
    signed = sign_certificates({identifier: make_certificate(name, identifier) for identifier in identifiers})
    values: dict[str, Any] = {
        "identifier": plan.compute_guid("user", number),
        "security_identifier": str(plan.make_user_sid(number)),
        "certificate_digest_list": signed.digests(),
        "certificates": bytes(signed) if count else b"",
    }
    return User.from_directory(values)
