"""Defects that programs leave in a directory are found on every kind of server, and nothing else."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

from support.enterprises import rules_world
from support.enterprises.planted import tables_of

import mqdssm
from mqdssm.wire.acl import Ace, allow
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import QueueAccess
from mqdssm.wire.sid import AUTHENTICATED_USERS, BUILTIN_GUESTS, BUILTIN_USERS, EVERYONE

Found = tuple[str, str, str | None]
"""Rule, type and GUID."""
Plant = Callable[[Any], Callable[[], Iterable[Found]]]
"""Make what is sound; then what makes it wrong, and tells what must be found."""

PRIMARY = mqdssm.DirectoryServerType.PRIMARY_ENTERPRISE_CONTROLLER


def findings(world: Any, folder: Path) -> set[Found]:
    """Judge all that the server holds."""
    source = rules_world.source(folder, tables_of(world.directory))
    return {(rule, kind, guid) for rule, kind, guid, _ in rules_world.found(source)}


def machine_dn(world: Any, guid: UUID) -> str:
    return f"CN=msmq,{world.computer_dn(world.computer_of(guid))}"


def replace(world: Any, dn: str, attribute: str, *values: str) -> None:
    lines = [f"{'replace' if values else 'delete'}: {attribute}"]  # not an empty replacement: Samba's bug
    world.ldap.modify(dn, "\n".join(lines + [f"{attribute}:{value}" for value in values]))


def computer_guid(world: Any, name: str) -> str:
    (raw,) = world.ldap.entry(world.computer_dn(name), "objectGUID")["objectGUID"]
    return str(UUID(bytes_le=raw))


def roles(bits: int, **values: object) -> Plant:
    """Stored roles that the flags of the entry do not say."""

    def make(world: Any) -> Callable[[], Iterable[Found]]:
        guid = world.queue_manager(**values)

        def spoil() -> Iterable[Found]:
            replace(world, machine_dn(world, guid), "mSMQServiceType", f" {bits}")
            return {("queue-manager-roles", "queue-manager", str(guid))}

        return spoil

    return make


def flag_without_bit(world: Any) -> Callable[[], Iterable[Found]]:
    """A routing server whose stored roles are none, which the settings object repeats."""
    site = world.name("site")
    guid = world.queue_manager(site_identifier_list=[world.site(site)], routing_server=True)

    def spoil() -> Iterable[Found]:
        replace(world, machine_dn(world, guid), "mSMQServiceType", " 0")
        replace(world, world.settings_dn(site, world.computer_of(guid)), "mSMQServices", " 0")
        return {("queue-manager-roles", "queue-manager", str(guid))}

    return spoil


def rights(rule: str, *aces: Ace, owner: mqdssm.Sid | None = None) -> Plant:
    """A queue with other rights."""

    def make(world: Any) -> Callable[[], Iterable[Found]]:
        computer = world.computer_of(world.queue_manager())

        def spoil() -> Iterable[Found]:
            full = allow(world.creator, QueueAccess.GENERIC_ALL)
            image = bytes(SecurityDescriptor.build(owner=owner or world.creator, dacl=[*aces, full]))
            return {(rule, "queue", str(world.queue(computer, security=image)))}

        return spoil

    return make


def full_control(world: Any) -> Callable[[], Iterable[Found]]:
    """Everything for the groups that nearly everybody is in."""
    domain = next(sid for sid in _sids(world)).rpartition("-")[0]
    groups = [BUILTIN_USERS, BUILTIN_GUESTS, AUTHENTICATED_USERS, mqdssm.Sid(f"{domain}-513")]
    spoilers = [rights("everyone-full-control", allow(sid, QueueAccess.GENERIC_ALL))(world) for sid in groups]
    send, users = QueueAccess.GENERIC_WRITE, groups[-1]
    for sid in (EVERYONE, users):  # no single entry grants everything
        together = allow(sid, send), allow(users, QueueAccess.GENERIC_ALL & ~send)
        spoilers.append(rights("everyone-full-control", *together)(world))
    return lambda: set().union(*(spoil() for spoil in spoilers))


def _sids(world: Any) -> Iterable[str]:
    world.computer()
    return (row["Sid"] for row in tables_of(world.directory)["computer"].to_pylist() if row["Sid"])


def two_controllers(world: Any) -> Callable[[], Iterable[Found]]:
    values = {"directory_server": True, "directory_server_type": PRIMARY}
    first = world.queue_manager(**values)
    return lambda: {
        ("primary-enterprise-controller-single", "queue-manager", str(guid))
        for guid in (first, world.queue_manager(site_identifier_list=_sites(world, first), **values))
    }


def _sites(world: Any, guid: UUID) -> list[UUID]:
    wanted = mqdssm.Filter("Identifier", "==", guid)
    return list(world.directory.read(mqdssm.QueueManager, wanted).site_identifier_list)


def routing_server_elsewhere(world: Any) -> Callable[[], Iterable[Found]]:
    router = world.queue_manager(routing_server=True)
    other = world.queue_manager()
    world.directory.create(
        mqdssm.RoutingLink(
            site1_identifier=_sites(world, router)[0], site2_identifier=_sites(world, other)[0], actual_cost=1
        )
    )

    def spoil() -> Iterable[Found]:
        replace(world, machine_dn(world, other), "mSMQOutRoutingServers", f" {machine_dn(world, router)}")
        return {("queue-manager-routing-server-site", "queue-manager", str(other))}

    return spoil


def multicast(world: Any) -> Callable[[], Iterable[Found]]:
    computer, name = world.computer_of(world.queue_manager()), world.name("q")
    guid = world.queue(computer, name, transactional=True)

    def spoil() -> Iterable[Found]:
        replace(world, world.queue_dn(computer, name), "MSMQ-MulticastAddress", " 234.1.1.1:8001")
        return {("queue-multicast-transactional", "queue", str(guid))}

    return spoil


def same_host(world: Any) -> Callable[[], Iterable[Found]]:
    names = [world.computer() for _ in range(2)]
    for name in names:  # a domain controller renames and compares the services of a host
        replace(world, world.computer_dn(name), "servicePrincipalName", f" MSMQ/{name}")

    def spoil() -> Iterable[Found]:
        for name in names:
            replace(world, world.computer_dn(name), "dNSHostName", " Same.Example.com")
        return {("computer-dns-name-unique", "computer", computer_guid(world, name)) for name in names}

    return spoil


def same_sid(world: Any) -> Callable[[], Iterable[Found]]:
    if not world.kind.keeps_guids:  # a domain controller gives SIDs itself, too, each one once
        return set
    names = [world.computer(), world.computer()]

    def spoil() -> Iterable[Found]:
        for name in names:
            replace(world, world.computer_dn(name), "objectSid", ": AQIAAAAAAAUgAAAAIgIAAA==")
        return {("computer-sid-unique", "computer", computer_guid(world, name)) for name in names}

    return spoil


def digests(world: Any) -> Callable[[], Iterable[Found]]:
    """A digest without a certificate on one computer, a certificate without its digest on another one."""
    image = rules_world.certificates()
    first, second = (world.computer_of(world.queue_manager(public_signing_key_list=image)) for _ in range(2))

    def spoil() -> Iterable[Found]:
        replace(world, world.computer_dn(first), "mSMQDigests", ": AAAAAAAAAAAAAAAAAAAAAA==")
        replace(world, world.computer_dn(second), "mSMQDigests")
        return {("digests-match", "computer", computer_guid(world, name)) for name in (first, second)}

    return spoil


def gate(world: Any) -> Callable[[], Iterable[Found]]:
    routers = [world.queue_manager(routing_server=True) for _ in range(2)]
    sites = [_sites(world, one)[0] for one in routers]
    client = world.queue_manager(site_identifier_list=sites[:1])
    link = mqdssm.RoutingLink(
        site1_identifier=sites[0], site2_identifier=sites[1], actual_cost=1, site_gate_identifier_list=routers
    )
    guid = world.directory.create(link)
    path = world.directory.read(mqdssm.RoutingLink, mqdssm.Filter("Identifier", "==", guid)).full_path

    def spoil() -> Iterable[Found]:
        gates = [f" {machine_dn(world, one)}" for one in (*routers, client)]
        replace(world, path, "mSMQSiteGates", *gates)
        return {("link-gate-role", "routing-link", str(guid))}

    return spoil


def services(world: Any) -> Callable[[], Iterable[Found]]:
    """The settings object answers for its value, not the queue manager."""
    site = world.name("site")
    guid = world.queue_manager(site_identifier_list=[world.site(site)], routing_server=True)
    dn = world.settings_dn(site, world.computer_of(guid))

    def spoil() -> Iterable[Found]:
        replace(world, dn, "mSMQServices", " 0")
        (raw,) = world.ldap.entry(dn, "objectGUID")["objectGUID"]
        return {("settings-equal", "settings", str(UUID(bytes_le=raw)))}

    return spoil


def plain_computer(world: Any) -> Callable[[], Iterable[Found]]:
    """A computer without MSMQ, of which nothing is known: no finding."""
    name = world.computer()

    def spoil() -> Iterable[Found]:
        replace(world, world.computer_dn(name), "dNSHostName")
        replace(world, world.computer_dn(name), "servicePrincipalName")
        return set()

    return spoil


PLANTS: dict[str, Plant] = {
    "routing bit without the flag": roles(1),
    "routing flag without the bit": flag_without_bit,
    "directory bit without the flag": roles(4),
    "everyone deletes": rights("everyone-changes", allow(EVERYONE, QueueAccess.DELETE_QUEUE)),
    "everyone sets properties": rights("everyone-changes", allow(EVERYONE, QueueAccess.SET_QUEUE_PROPERTIES)),
    "everyone owns": rights("everyone-owns", owner=EVERYONE),
    "full control": full_control,
    "second controller": two_controllers,
    "routing server of another site": routing_server_elsewhere,
    "transactional multicast": multicast,
    "shared SID": same_sid,
    "shared DNS name": same_host,
    "digests": digests,
    "gate that does not route": gate,
    "mSMQServices": services,
    "computer without MSMQ": plain_computer,
}


def test_planted_defects_are_found_and_nothing_else(world: Any, tmp_path: Path) -> None:
    spoilers = {name: plant(world) for name, plant in PLANTS.items()}
    before = findings(world, tmp_path)
    expected = {name: set(spoil()) for name, spoil in spoilers.items()}
    found = findings(world, tmp_path) - before
    assert {name: wanted - found for name, wanted in expected.items() if wanted - found} == {}
    assert found == set().union(*expected.values())
