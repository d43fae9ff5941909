"""Wrong values for planted defects, and changes of whole entries."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from mqdssm.events.new_entry import NewEntry
from mqdssm.model.elements import User
from mqdssm.model.queuenames import rdn_of
from mqdssm.samples import security
from mqdssm.samples.certificates import make_certificate, sign_certificates
from mqdssm.samples.faults import CLIENT, Extra, FaultStage
from mqdssm.samples.seeded_random import compute_octets
from mqdssm.tables import compute, places
from mqdssm.wire.acl import Ace
from mqdssm.wire.certificates import UserSignCerts, digest_of
from mqdssm.wire.dtyp import EVERYONE, SecurityDescriptor, allow
from mqdssm.wire.masks import DescriptorControl, QueueAccess

Entries = dict[str, NewEntry]
"""The entries of one planted object, by type."""
CERTIFICATES_BYTES_MAX: Final = 2**20
"""Upper range of mSMQSignCertificates in Active Directory's schema."""

# -- wrong values


def _extras_of_type(stage: FaultStage, kind: str) -> list[Extra]:
    return [extra for extra in stage.extras if extra.type == kind]


def shared(stage: FaultStage) -> UUID:
    """Return the GUID that two objects share."""
    return stage.ghost("shared")


def descriptor(*aces: Ace) -> Callable[[FaultStage], bytes]:
    """Make descriptors with an administrator as owner and some more entries."""

    def make(stage: FaultStage) -> bytes:
        admins = stage.plan.make_sid(security.DOMAIN_ADMINS_RID)
        full = allow(admins, QueueAccess.GENERIC_ALL)
        return security.make_descriptor(admins, [*aces, full])

    return make


def open_to_all(stage: FaultStage) -> bytes:
    """Return a descriptor that lets everybody do everything.

    In the next copy no single entry grants all rights: those for two groups do together.
    """
    if not stage.copy % 2:
        return descriptor(allow(EVERYONE, QueueAccess.GENERIC_ALL))(stage)
    send = QueueAccess.GENERIC_WRITE
    users = stage.plan.make_sid(security.DOMAIN_USERS_RID)
    return descriptor(allow(EVERYONE, send), allow(users, QueueAccess.GENERIC_ALL & ~send))(stage)


def without_owner(stage: FaultStage) -> bytes:
    """Return a descriptor without an owner."""
    admins = stage.plan.make_sid(security.DOMAIN_ADMINS_RID)
    return security.make_descriptor(None, [allow(admins, QueueAccess.GENERIC_ALL)])


def owned_by_everyone(stage: FaultStage) -> bytes:
    """Return a descriptor with Everyone as owner."""
    admins = stage.plan.make_sid(security.DOMAIN_ADMINS_RID)
    return security.make_descriptor(EVERYONE, [allow(admins, QueueAccess.GENERIC_ALL)])


def without_dacl(stage: FaultStage) -> bytes:
    """Return a descriptor without a DACL, or in the next copy with a NULL DACL."""
    admins = stage.plan.make_sid(security.DOMAIN_ADMINS_RID)
    control = DescriptorControl.DACL_PRESENT if stage.copy % 2 else 0
    return bytes(SecurityDescriptor.build(owner=admins, control=control))


def image(begin: datetime, end: datetime) -> Callable[[FaultStage], bytes]:
    """Make certificates with another validity."""

    def make(stage: FaultStage) -> bytes:
        identifier = stage.ghost("certificate")
        return bytes(sign_certificates({identifier: make_certificate("out of date", identifier, begin, end)}))

    return make


def digests(make: Callable[[FaultStage], bytes]) -> Callable[[FaultStage], tuple[bytes, ...]]:
    """Make the digests of certificates, so that a wrong date is their only defect."""
    return lambda stage: UserSignCerts.from_bytes(make(stage)).digests()


EXPIRED: Final = image(datetime(2001, 1, 1, tzinfo=UTC), datetime(2006, 1, 1, tzinfo=UTC))
EARLY: Final = image(datetime(2090, 1, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC))


def no_certificate(stage: FaultStage) -> bytes:
    """Return a list of certificates that can be decoded; its certificate cannot."""
    return bytes(sign_certificates({stage.ghost("certificate"): compute_octets(300, "junk", stage.serial)}))


def one_digest_more(stage: FaultStage) -> tuple[bytes, ...]:
    """Return the digests of a user, and one without a certificate."""
    user = stage.extras[0].obj
    digests = user.certificate_digest_list if isinstance(user, User) else ()
    return (*digests, digest_of(compute_octets(300, "gone", stage.serial)))


def same_certificate(stage: FaultStage) -> bytes:
    """Return a certificate that two users share."""
    identifier = stage.ghost("certificate")
    return bytes(sign_certificates({identifier: make_certificate("shared", identifier)}))


def large(stage: FaultStage) -> bytes:
    """Return two certificates that exceed the upper range of Active Directory."""
    half = CERTIFICATES_BYTES_MAX // 2
    identifiers = (stage.ghost("certificate"), stage.ghost("other certificate"))
    ders = {identifier: make_certificate("large", identifier, ballast=half) for identifier in identifiers}
    return bytes(sign_certificates(ders))


def ghost_dn(stage: FaultStage) -> tuple[bytes, ...]:
    """Return the DN of a queue manager that does not exist."""
    name = f"GONE-{stage.serial}"
    return (str(places.queue_manager_dn(stage.plan.root_dn, name)).encode(),)


def deleted_dn(stage: FaultStage) -> tuple[bytes, ...]:
    """Return the DN of a deleted object, as references in AD have it.

    See [MS-ADTS] 3.1.1.5.5.1.
    """
    deleted = stage.plan.root_dn.child("CN", "Deleted Objects")
    return (str(deleted.child("CN", f"msmq\nDEL:{stage.ghost('deleted')}")).encode(),)


def ghost_site_dn(stage: FaultStage) -> tuple[bytes, ...]:
    """Return the DN of a site that does not exist."""
    return (str(places.site_dn(stage.plan.root_dn, f"Nowhere-{stage.serial}")).encode(),)


def gates(*more: Callable[[FaultStage], UUID]) -> Callable[[FaultStage], tuple[UUID, ...]]:
    """Make the gates of the faulty link: the right ones, and some more."""

    def make(stage: FaultStage) -> tuple[UUID, ...]:
        (link,) = (extra for extra in _extras_of_type(stage, "routing-link") if extra.faulty)
        return (*stage.sites_of(link), *(function(stage) for function in more))

    return make


def gate_of_third_site(stage: FaultStage) -> UUID:
    """Return a gate in a third site."""
    return stage.gate_of(_extras_of_type(stage, "site")[0])


def gate_on_one_side(stage: FaultStage) -> tuple[UUID, ...]:
    """Return the gates of one side only."""
    return (stage.gate_of(_extras_of_type(stage, "site")[0]),)


def planted_site(stage: FaultStage) -> UUID:
    """Return the GUID of the planted site."""
    return _extras_of_type(stage, "site")[0].obj.identifier or UUID(int=0)


def first_name(stage: FaultStage) -> str:
    """Return the name of the first of two machines."""
    return stage.plan.name_machine(stage.extras[0].number, CLIENT, stage.home)


def first_path(stage: FaultStage) -> str:
    """Return a path name that two queues share."""
    return path("planted.twice.{}")(stage)


def path(form: str) -> Callable[[FaultStage], str]:
    """Make path names on the machine of the planted queue."""
    return lambda stage: f"{stage.plan.name_machine(stage.host).lower()}\\{form.format(stage.serial)}"


def other_role(stage: FaultStage) -> int:
    """Return the bit of a server role, which alternates between copies.

    The bit is a routing server's in one copy, a primary site controller's in the next one.
    """
    return 4 if stage.copy % 2 else 1


def odd_path(stage: FaultStage) -> str:
    """Return a path name with characters that are not usual.

    The name has a blank in one copy; in the next one characters that only MSMQ 1.0 allowed.
    """
    return path("planted+no,{}" if stage.copy % 2 else "planted name {}")(stage)


# -- changes of entries


def rename(form: str) -> Callable[[FaultStage, Entries], None]:
    """Make a change that gives the queue another name."""

    def change(stage: FaultStage, entries: Entries) -> None:
        entry = entries["queue"]
        name = form.format(serial=stage.serial, guid=stage.ghost("conflict"))
        entry.dn = entry.dn.parent.child("CN", name)

    return change


def wrong_hash(stage: FaultStage, entries: Entries) -> None:
    """Give the queue a long name with a wrong hash."""
    head = f"planted.{stage.serial}.".ljust(55, "x")
    entries["queue"].dn = entries["queue"].dn.parent.child("CN", f"{head}-00000000")
    entries["queue"].values["mSMQQueueNameExt"] = (b"and.so.on",)


def too_long(stage: FaultStage, entries: Entries) -> None:
    """Give the queue a name of more than 124 characters."""
    name = rdn_of(f"planted.{stage.serial}.".ljust(140, "x"))
    entries["queue"].dn = entries["queue"].dn.parent.child("CN", name.cn)
    entries["queue"].values["mSMQQueueNameExt"] = ((name.extension or "").encode(),)


def name_form(stage: FaultStage, entries: Entries) -> None:
    """Put a blank in the name of one copy, too many characters in the next one."""
    if stage.copy % 2:
        too_long(stage, entries)
    else:
        rename("planted name {serial}")(stage, entries)


def no_queue_manager(stage: FaultStage, entries: Entries) -> None:
    """Put a queue below an object that takes the place of the queue manager."""
    root, name = stage.plan.root_dn, f"NOMSMQ-{stage.serial}"
    computer = entries["queue"]
    above = NewEntry(
        "computer",
        places.computer_dn(root, name),
        "computer",
        {
            "objectGUID": (stage.ghost("computer").bytes_le,),
            "sAMAccountName": (f"{name}$".encode(),),
            "dNSHostName": (f"{name.lower()}.{stage.plan.domain}".encode(),),
            "servicePrincipalName": (f"HOST/{name}".encode(),),
        },
    )
    folder = places.queue_manager_of(above.dn)
    queue = entries.pop("queue")
    entries["nothing"] = above
    entries["folder"] = NewEntry("", folder, "container", {"objectGUID": (stage.ghost("folder").bytes_le,)})
    queue.dn = folder.child("CN", computer.dn.name)
    entries["queue"] = queue


def no_computer(stage: FaultStage, entries: Entries) -> None:
    """Put a plain container in the place of the computer."""
    computer = entries["computer"]
    computer.type, computer.ldap_class = "", "container"
    computer.values = {"objectGUID": (stage.ghost("container").bytes_le,)}


def second_manager(stage: FaultStage, entries: Entries) -> None:
    """Move the second of two machines to the computer of the first one."""
    root, name = stage.plan.root_dn, first_name(stage)
    if entries["computer"].dn.name == name:
        return
    del entries["computer"]
    entries["queue-manager"].dn = places.computer_dn(root, name).child("CN", "msmq-2")


def unlike(attribute: str, value: bytes) -> Callable[[FaultStage, Entries], None]:
    """Make a change that lets a settings object differ from its queue manager."""

    def change(stage: FaultStage, entries: Entries) -> None:
        del stage
        entries["settings"].values[attribute] = (value,)

    return change


def settings_without_manager(stage: FaultStage, entries: Entries) -> None:
    """Let the settings object name a queue manager that does not exist."""
    entries["settings"].values["mSMQQMID"] = (stage.ghost("nobody").bytes_le,)


def same_sid(stage: FaultStage, entries: Entries) -> None:
    """Give all computers of a stage one SID, which no other computer has."""
    sid = stage.plan.make_computer_sid(_extras_of_type(stage, "queue-manager")[0].number)
    entries["computer"].values["objectSid"] = (bytes(sid),)


def same_host(stage: FaultStage, entries: Entries) -> None:
    """Give all computers of a stage one DNS name."""
    entries["computer"].values["dNSHostName"] = (f"planted-{stage.serial}.{stage.plan.domain}".encode(),)


def digest_of_nothing(stage: FaultStage, entries: Entries) -> None:
    """Give the computer a digest without a certificate."""
    entries["computer"].values["mSMQDigests"] = (digest_of(compute_octets(300, "gone", stage.serial)),)


def without(kind: str, attribute: str) -> Callable[[FaultStage, Entries], None]:
    """Make a change that removes an attribute."""

    def change(stage: FaultStage, entries: Entries) -> None:
        del stage
        del entries[kind].values[attribute]

    return change


def long_host(stage: FaultStage, entries: Entries) -> None:
    """Give the computer too long a host name."""
    labels = f"{'x' * 60}." * 40
    entries["computer"].values["dNSHostName"] = (f"{labels}{stage.serial}.{stage.plan.domain}".encode(),)


def second_enterprise(stage: FaultStage, entries: Entries) -> None:
    """Move the planted one of two enterprise objects away from its place."""
    entry = entries["enterprise"]
    if entry.values["objectGUID"] == (stage.ghost("enterprise").bytes_le,):
        entry.dn = entry.dn.parent.child("CN", "MsmqServices-2")


def other_link(stage: FaultStage, entries: Entries) -> None:
    """Name a link to a missing site.

    The name differs from that of the link to the planted site.
    """
    entry = entries["routing-link"]
    name = compute.link_name(stage.plan.compute_guid("site", stage.home), stage.ghost("site"))
    entry.dn = entry.dn.parent.child("CN", name)


def ghost_gates(stage: FaultStage) -> tuple[bytes, ...]:
    """Return the right gates of the faulty link, and a missing queue manager.

    The queue manager is given by its DN.
    """
    plan, root = stage.plan, stage.plan.root_dn
    names = [plan.name_machine(plan.find_gate(stage.home))]
    names += [str(site.gate.computer_name) for site in _extras_of_type(stage, "site") if site.gate]
    return (*(str(places.queue_manager_dn(root, name)).encode() for name in names), *ghost_dn(stage))


def two_links(stage: FaultStage) -> None:
    """Plant two links between the same two sites."""
    site = stage.site(faulty=False, linked=False)
    stage.link(stage.home, site)
    stage.link(stage.home, site, turned=True)


def link_beside_a_site(stage: FaultStage) -> None:
    """Plant a link, and a third site with a routing server."""
    stage.site(faulty=False)
    stage.link(stage.home, stage.site(faulty=False, linked=False))
