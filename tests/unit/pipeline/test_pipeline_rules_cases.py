# ruff: noqa: E501  a case is a line
"""Every rule finds its own defect in a small enterprise, and no other rule finds anything there."""

import re
import tracemalloc
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pyarrow as pa
import pytest
from support.enterprises.rules_world import (
    EVERYONE,
    LONG,
    MADE,
    NOW,
    OWNER,
    SOUND,
    World,
    certificates,
    computer,
    computer_dn,
    descriptor,
    found,
    guid,
    link,
    machine,
    machine_dn,
    queue,
    settings,
    settings_dn,
    site,
    site_dn,
    sound,
    source,
    tables,
    user,
)

from mqdssm.pipeline.validate.rules import RULES, graphs
from mqdssm.pipeline.validate.rules.rule import FRAMES
from mqdssm.tables.access import KINDS, AdRight, from_directory, to_directory
from mqdssm.wire.acl import Ace, AceFlags, AceType, allow, allow_object, deny
from mqdssm.wire.certificates import UserSignCert, UserSignCerts
from mqdssm.wire.dtyp import DescriptorControl, SecurityDescriptor
from mqdssm.wire.masks import GENERIC_ALL, WRITE_DAC, MachineAccess, QueueAccess, SiteAccess
from mqdssm.wire.sid import ANONYMOUS, AUTHENTICATED_USERS, BUILTIN_GUESTS, BUILTIN_USERS, Sid

Change = Callable[[World], object]
Found = tuple[str, str, str | None]
"""Rule, type and guid."""


def put(name: str, number: int, **changes: object) -> Change:
    """Change one object."""

    def change(world: World) -> None:
        (row,) = (row for row in world[name] if row["Identifier"] == guid(number))
        row.update(changes)

    return change


def add(name: str, *rows: dict) -> Change:
    return lambda world: world[name].extend(rows)


def drop(name: str, number: int) -> Change:
    return lambda world: world[name].remove(
        next(row for row in world[name] if row["Identifier"] == guid(number))
    )


def both(*changes: Change) -> Change:
    return lambda world: [change(world) for change in changes]


def lost(name: str, number: int, attribute: str, reason: str = "is no such value: 'x'") -> Change:
    """A value that could not be decoded, as the data source shows it."""
    return put(name, number, **{attribute: None, "Unreadable": [f"{attribute}: {reason}"]})


def at(rule: str, name: str, *numbers: int) -> set[Found]:
    return {(rule, name, guid(number)) for number in numbers}


def security(*aces: Ace, **more: object) -> Change:
    return put("queue", 60, Security=descriptor(*aces, **more))


def stored(*aces: Ace) -> Change:
    """A descriptor as Active Directory holds it, whose own entries `Security` shows."""
    image = SecurityDescriptor.build(owner=OWNER, dacl=[allow(OWNER, AdRight.GENERIC_ALL), *aces])
    own = from_directory(image, KINDS["mSMQQueue"])
    return put("queue", 60, StoredSecurity=bytes(image), Security=bytes(own))


def digest_image(digest: bytes) -> bytes:
    """A certificate whose stored digest is another one."""
    (one,) = UserSignCerts.from_bytes(certificates()).certificates
    return bytes(UserSignCerts((UserSignCert(digest=digest, identifier=one.identifier, der=one.der),)))


def renamed(mark: str) -> str:
    return rf"CN=orders\0A{mark}:{UUID(int=9)},{machine_dn('web01')}"


_DIGEST = UserSignCerts.from_bytes(certificates()).digests()[0]
_EXPIRED = certificates(days=1)
_EARLY = certificates(not_before=NOW + timedelta(days=1))
_RAW = bytes(SecurityDescriptor.build(owner=OWNER, dacl=[allow(EVERYONE, QueueAccess.GENERIC_WRITE)]))
_DOMAIN_USERS, _DOMAIN_GUESTS = Sid("S-1-5-21-1-2-3-513"), Sid("S-1-5-21-1-2-3-514")
_INHERITED = AceFlags.INHERITED | AceFlags.CONTAINER_INHERIT
_PARTS = (QueueAccess.GENERIC_WRITE, QueueAccess.GENERIC_ALL & ~QueueAccess.GENERIC_WRITE)
_TOGETHER = (
    *((sid, sid) for sid in (BUILTIN_USERS, BUILTIN_GUESTS, _DOMAIN_USERS, _DOMAIN_GUESTS)),
    *((EVERYONE, sid) for sid in (BUILTIN_USERS, BUILTIN_GUESTS, _DOMAIN_USERS, _DOMAIN_GUESTS)),
    (EVERYONE, ANONYMOUS),
    (AUTHENTICATED_USERS, _DOMAIN_USERS),
    (BUILTIN_USERS, _DOMAIN_USERS),
    (BUILTIN_GUESTS, _DOMAIN_GUESTS),
)
"""Pairs of groups: whoever is in the second is in the first, and has the parts of all rights from both."""
_SITE_FULL = descriptor(allow(EVERYONE, SiteAccess.GENERIC_ALL))

# fmt: off
CASES: list[tuple[str, Change, set[Found]]] = [
    # -- identity and names
    ("guid-unique", put("queue", 60, Identifier=guid(10)), at("guid-unique", "queue", 10) | at("guid-unique", "site", 10)),
    ("guid-unique", put("queue", 60, Identifier=guid(63)), at("guid-unique", "queue", 63)),
    ("guid-unique", both(put("computer", 52, Identifier=guid(32)), add("queue-manager")), at("guid-unique", "computer", 32) | at("guid-unique", "queue-manager", 32)),
    ("guid-required", put("queue", 60, Identifier=None), {("guid-required", "queue", None)}),
    ("guid-required", put("user", 70, Identifier=guid(0)), at("guid-required", "user", 0)),
    ("guid-required", lost("queue", 60, "Identifier"), {("guid-required", "queue", None)}),
    ("name-required", put("site", 10, Name=None), at("name-required", "site", 10)),
    ("name-required", put("queue-manager", 32, ComputerName=""), at("name-required", "queue-manager", 32)),
    ("name-required", put("computer", 52, Name=None), at("name-required", "computer", 52)),
    ("tombstone-name", put("queue", 60, FullPath=renamed("DEL")), at("tombstone-name", "queue", 60)),
    ("conflict-name", put("queue", 60, FullPath=renamed("CNF")), at("conflict-name", "queue", 60)),
    ("tombstone-name", put("queue", 60, FullPath=renamed("DEL").replace(r"\0A", "\n")), at("tombstone-name", "queue", 60)),  # as slapd shows it
    (
        "conflict-name",  # the queue below such a computer has its own name still
        both(
            put("computer", 52, FullPath=computer_dn(r"web01\0ACNF:x")),
            put("queue-manager", 32, FullPath=machine_dn(r"web01\0ACNF:x")),
            put("queue", 60, FullPath=f"CN=orders,{machine_dn(chr(92).join(['web01', '0ACNF:x']))}"),
            drop("queue", 61),
        ),
        at("conflict-name", "computer", 52),
    ),
    ("reference-dangling", lost("queue-manager", 32, "OutRoutingServerIdentifierList", rf"CN=msmq,CN=a\0ADEL:{guid(9)},DC=x"), at("reference-dangling", "queue-manager", 32)),
    ("reference-dangling", lost("queue-manager", 32, "OutRoutingServerIdentifierList", f"mSMQOutRoutingServers names {f'cn=msmq{chr(10)}DEL:{guid(9)},dc=x'!r}"), at("reference-dangling", "queue-manager", 32)),  # slapd
    ("reference-dangling", lost("routing-link", 20, "SiteGateIdentifierList", f"cn=msmq\nDEL:{guid(9)},dc=x"), at("reference-dangling", "routing-link", 20)),
    ("attribute-unreadable", lost("queue", 60, "Journaling", "is no BOOLEAN: b'yes'"), at("attribute-unreadable", "queue", 60)),
    ("attribute-unreadable", lost("computer", 52, "Sid"), at("attribute-unreadable", "computer", 52)),
    # -- attributes
    ("queue-quota-range", put("queue", 60, Quota=2**32), at("queue-quota-range", "queue", 60)),
    ("queue-quota-range", lost("queue", 60, "Quota"), at("queue-quota-range", "queue", 60)),
    ("queue-journal-quota-range", put("queue", 60, JournalQuota=-1), at("queue-journal-quota-range", "queue", 60)),
    ("queue-base-priority-range", put("queue", 60, BasePriority=32768), at("queue-base-priority-range", "queue", 60)),
    ("queue-base-priority-range", put("queue", 60, BasePriority=-32769), at("queue-base-priority-range", "queue", 60)),
    ("queue-privacy-level", put("queue", 60, PrivacyLevel="7"), at("queue-privacy-level", "queue", 60)),
    ("queue-privacy-level", lost("queue", 60, "PrivacyLevel"), at("queue-privacy-level", "queue", 60)),
    ("queue-label-length", put("queue", 60, Label="ü" * 125), at("queue-label-length", "queue", 60)),
    ("queue-label-length", put("queue", 60, Label="😀" * 63), at("queue-label-length", "queue", 60)),
    ("queue-type-form", lost("queue", 60, "Type"), at("queue-type-form", "queue", 60)),
    ("queue-create-time-required", put("queue", 60, CreateTime=None), at("queue-create-time-required", "queue", 60)),
    ("queue-modify-time-required", put("queue", 60, ModifyTime=None), at("queue-modify-time-required", "queue", 60)),
    ("queue-pathname-required", put("queue", 60, Pathname=None), at("queue-pathname-required", "queue", 60)),
    ("security-parses", put("queue", 60, Security=SOUND + bytes(132_096)), at("security-parses", "queue", 60)),  # too long
    ("queue-manager-quota-range", put("queue-manager", 32, QueueManagerQuota=2**33), at("queue-manager-quota-range", "queue-manager", 32)),
    ("queue-manager-journal-quota-range", put("queue-manager", 32, JournalQuota=-5), at("queue-manager-journal-quota-range", "queue-manager", 32)),
    ("queue-manager-os-type", put("queue-manager", 32, OperatingSystemType="1792"), at("queue-manager-os-type", "queue-manager", 32)),
    ("queue-manager-create-time-required", put("queue-manager", 32, CreateTime=None), at("queue-manager-create-time-required", "queue-manager", 32)),
    ("queue-manager-modify-time-required", put("queue-manager", 32, ModifyTime=None), at("queue-manager-modify-time-required", "queue-manager", 32)),
    ("queue-manager-qualified-computer-name-length", put("queue-manager", 32, QualifiedComputerName="a" * 2049), at("queue-manager-qualified-computer-name-length", "queue-manager", 32)),
    ("enterprise-interval-range", put("enterprise", 1, DefaultTimeToLive=0), at("enterprise-interval-range", "enterprise", 1)),
    ("enterprise-version", lost("enterprise", 1, "OldDirectory"), at("enterprise-version", "enterprise", 1)),
    ("enterprise-name-style", put("enterprise", 1, WeakenedSecurity=True), at("enterprise-name-style", "enterprise", 1)),
    ("enterprise-name-style", lost("enterprise", 1, "WeakenedSecurity"), at("enterprise-name-style", "enterprise", 1)),
    ("site-intervals-range", put("site", 10, IntraSiteReplicationInterval=0), at("site-intervals-range", "site", 10)),
    ("site-intervals-range", put("site", 10, InterSiteReplicationInterval=2**32), at("site-intervals-range", "site", 10)),
    ("site-name-length", put("site", 10, Name="n" * 65), at("site-name-length", "site", 10)),
    ("link-cost-range", put("routing-link", 20, ActualCost=0), at("link-cost-range", "routing-link", 20)),
    ("link-cost-range", put("routing-link", 20, ActualCost=None), at("link-cost-range", "routing-link", 20)),
    ("link-cost-range", put("routing-link", 20, ActualCost=1_000_000), at("link-cost-range", "routing-link", 20)),
    ("routing-link-description-length", put("routing-link", 20, Description="d" * 1025), at("routing-link-description-length", "routing-link", 20)),
    # -- queues
    ("pathname-unique", add("queue", queue(80, "web01", "Orders", Pathname=r"WEB01\ORDERS")), at("pathname-unique", "queue", 60, 80)),
    ("queue-manager-exists", add("queue", queue(80, "gone", "q")), at("queue-manager-exists", "queue", 80)),
    ("queue-manager-exists", put("queue", 60, FullPath=f"CN=q,OU=x,{machine_dn('web01')}"), at("queue-manager-exists", "queue", 60)),
    ("queue-public-only", put("queue", 60, Pathname=r"web01\PRIVATE$\orders"), at("queue-public-only", "queue", 60)),
    ("queue-name-form", put("queue", 60, Pathname="web01\\or ders"), at("queue-name-form", "queue", 60)),
    ("queue-name-form", put("queue", 60, Pathname="web01\\größe"), at("queue-name-form", "queue", 60)),
    ("queue-name-form", add("queue", queue(80, "web01", "y" * 125)), at("queue-name-form", "queue", 80)),
    ("queue-name-hash", put("queue", 61, mSMQQueueNameExt=LONG[55:] + "x"), at("queue-name-hash", "queue", 61)),
    ("queue-name-hash", put("queue", 61, mSMQQueueNameExt=None, Pathname="web01\\" + LONG[:55] + "-0123abcd"), at("queue-name-hash", "queue", 61)),
    ("queue-name-hash", put("queue", 60, mSMQQueueNameExt="rest"), at("queue-name-hash", "queue", 60)),
    ("queue-multicast-address", put("queue", 60, MulticastAddress="10.0.0.1:80"), at("queue-multicast-address", "queue", 60)),
    ("queue-multicast-address", put("queue", 60, MulticastAddress="239.0.0.1:65536"), at("queue-multicast-address", "queue", 60)),
    ("queue-times", put("queue", 60, ModifyTime=MADE - timedelta(seconds=1)), at("queue-times", "queue", 60)),
    # -- queue managers
    ("queue-manager-sites-exist", put("queue-manager", 32, SiteIdentifierList=[guid(10), guid(99)]), at("queue-manager-sites-exist", "queue-manager", 32)),
    ("queue-manager-has-site", put("queue-manager", 32, SiteIdentifierList=[]), at("queue-manager-has-site", "queue-manager", 32)),
    ("queue-manager-computer-exists", drop("computer", 52), at("queue-manager-computer-exists", "queue-manager", 32)),
    ("queue-manager-duplicate", add("queue-manager", machine(80, "web01", [10], FullPath=f"CN=msmq2,{computer_dn('WEB01')}")), at("queue-manager-duplicate", "queue-manager", 32, 80)),
    ("queue-manager-cloned", put("queue-manager", 34, Identifier=guid(32)), at("queue-manager-cloned", "queue-manager", 32)),
    ("queue-manager-cloned", both(put("queue-manager", 32, OriginalIdentifier=guid(99)), put("queue-manager", 33, OriginalIdentifier=guid(99))), at("queue-manager-cloned", "queue-manager", 32, 33)),
    ("queue-manager-out-servers-exist", put("queue-manager", 32, OutRoutingServerIdentifierList=[guid(99)]), at("queue-manager-out-servers-exist", "queue-manager", 32)),
    ("queue-manager-out-servers-exist", lost("queue-manager", 32, "OutRoutingServerIdentifierList", "no object CN=gone"), at("queue-manager-out-servers-exist", "queue-manager", 32)),
    ("queue-manager-in-servers-exist", put("queue-manager", 32, InRoutingServerIdentifierList=[guid(99)]), at("queue-manager-in-servers-exist", "queue-manager", 32)),
    ("queue-manager-routing-server-role", put("queue-manager", 32, InRoutingServerIdentifierList=[guid(32), guid(30)]), at("queue-manager-routing-server-role", "queue-manager", 32)),
    *(("queue-manager-roles", put("queue-manager", 32, mSMQServiceType=bits), at("queue-manager-roles", "queue-manager", 32)) for bits in (1, 2, 4, 8, 0x15)),
    ("queue-manager-roles", put("queue-manager", 32, DirectoryServer=True, SupportingServer=None, mSMQServiceType=9), at("queue-manager-roles", "queue-manager", 32) | at("settings-exist", "queue-manager", 32)),
    ("queue-manager-roles", both(put("queue-manager", 30, mSMQServiceType=0), put("settings", 40, Services=0)), at("queue-manager-roles", "queue-manager", 30)),  # the copy is one
    ("settings-equal", put("settings", 40, Services=0), at("settings-equal", "settings", 40)),  # not its queue manager
    ("settings-equal", put("settings", 40, Services=9), at("settings-equal", "settings", 40)),
    ("primary-enterprise-controller-single", both(*(put("queue-manager", number, DirectoryServerType="PrimaryEnterpriseController", DirectoryServer=True, mSMQServiceType=9) for number in (30, 31)), *(put("settings", number, Services=9, DirectoryServer=True) for number in (40, 41, 42))), at("primary-enterprise-controller-single", "queue-manager", 30, 31)),
    ("queue-manager-routing-server-site", put("queue-manager", 32, OutRoutingServerIdentifierList=[guid(30), guid(31)]), at("queue-manager-routing-server-site", "queue-manager", 32)),
    ("queue-manager-routing-server-site", put("queue-manager", 32, InRoutingServerIdentifierList=[guid(31)]), at("queue-manager-routing-server-site", "queue-manager", 32)),
    ("computer-sid-unique", put("computer", 52, Sid="S-1-5-21-1-2-3-51"), at("computer-sid-unique", "computer", 51, 52)),
    ("computer-dns-name-unique", put("computer", 52, DnsHostName="OSLO01.example.com"), at("computer-dns-name-unique", "computer", 51, 52)),
    ("queue-multicast-transactional", put("queue", 60, Transactional=True), at("queue-multicast-transactional", "queue", 60)),
    ("link-gate-role", put("routing-link", 20, SiteGateIdentifierList=[guid(30), guid(31), guid(32)]), at("link-gate-role", "routing-link", 20)),
    ("everyone-changes", security(allow(EVERYONE, QueueAccess.DELETE_QUEUE)), at("everyone-changes", "queue", 60)),
    ("everyone-changes", security(allow(EVERYONE, QueueAccess.SET_QUEUE_PROPERTIES)), at("everyone-changes", "queue", 60)),
    ("everyone-owns", security(allow(OWNER, 0x20), owner=EVERYONE), at("everyone-owns", "queue", 60)),
    ("everyone-owns", security(allow(OWNER, 0x20), owner=BUILTIN_USERS), at("everyone-owns", "queue", 60)),
    *(("everyone-full-control", security(allow(sid, GENERIC_ALL)), at("everyone-full-control", "queue", 60)) for sid in (BUILTIN_USERS, BUILTIN_GUESTS, _DOMAIN_USERS, AUTHENTICATED_USERS)),
    *(("everyone-full-control", security(*(allow(sid, right) for sid, right in zip(sids, _PARTS, strict=True))), at("everyone-full-control", "queue", 60)) for sids in _TOGETHER),
    ("everyone-full-control", security(Ace(AceType.ACCESS_ALLOWED_OBJECT, 0, GENERIC_ALL, BUILTIN_USERS)), at("everyone-full-control", "queue", 60)),  # of no type: as without
    ("queue-manager-public-key-form", put("queue-manager", 32, PublicEncryptionKeyList=b"\1\2"), at("queue-manager-public-key-form", "queue-manager", 32)),
    ("computer-dns-name", put("computer", 52, DnsHostName=None), at("computer-dns-name", "computer", 52)),
    ("computer-service-principal-names", put("computer", 52, ServicePrincipalNames=[]), at("computer-service-principal-names", "computer", 52)),
    # -- topology
    ("enterprise-single", drop("enterprise", 1), {("enterprise-single", "enterprise", None)}),
    ("enterprise-single", lambda world: world["enterprise"].append(world["enterprise"][0] | {"Identifier": guid(2)}), at("enterprise-single", "enterprise", 1, 2)),
    ("site-name-unique", put("site", 10, Name="OSLO"), at("site-name-unique", "site", 10, 11)),
    ("site-unreachable", both(add("site", site(13, "Alone")), add("queue-manager", machine(80, "lone01", [13])), add("computer", computer(81, "lone01"))), at("site-unreachable", "site", 13)),
    ("site-foreign-consistent", put("site", 10, ForeignSite=True), at("site-foreign-consistent", "site", 10)),
    ("site-foreign-consistent", put("queue-manager", 32, ForeignSystem=True), at("site-foreign-consistent", "site", 10)),
    ("site-foreign-consistent", lost("site", 10, "ForeignSite"), at("site-foreign-consistent", "site", 10)),
    ("link-sites-exist", put("routing-link", 21, Site1Identifier=guid(99)), at("link-sites-exist", "routing-link", 21) | at("site-unreachable", "site", 12)),
    ("link-sites-exist", add("routing-link", link(80, 10, 99)), at("link-sites-exist", "routing-link", 80)),
    ("link-sites-exist", add("routing-link", link(80, 10, 99, SiteGateIdentifierList=[guid(30)])), at("link-sites-exist", "routing-link", 80)),  # MQIS gives it the gates of its sites
    ("link-sites-exist", add("routing-link", link(80, 10, 11, Site2Identifier=None)), at("link-sites-exist", "routing-link", 80)),
    ("link-ends-differ", add("routing-link", link(80, 10, 10)), at("link-ends-differ", "routing-link", 80)),
    ("link-duplicate", add("routing-link", link(80, 12, 11)), at("link-duplicate", "routing-link", 21, 80)),
    ("link-gates-exist", put("routing-link", 20, SiteGateIdentifierList=[guid(30), guid(31), guid(99)]), at("link-gates-exist", "routing-link", 20)),
    ("link-gate-site", both(put("routing-link", 20, SiteGateIdentifierList=[guid(30), guid(31), guid(34)]), put("queue-manager", 34, RoutingServer=True, mSMQServiceType=1), add("settings", settings(43, "ibm01", "Mainframe", 34))), at("link-gate-site", "routing-link", 20)),
    ("link-one-way", put("routing-link", 20, SiteGateIdentifierList=[guid(30)]), at("link-one-way", "routing-link", 20)),
    ("settings-exist", drop("settings", 42), at("settings-exist", "queue-manager", 31)),
    ("settings-superfluous", add("settings", settings(80, "web01", "Paris", 32)), at("settings-superfluous", "settings", 80)),
    ("settings-superfluous", add("settings", settings(80, "paris01", "Oslo", 30)), at("settings-superfluous", "settings", 80)),
    ("settings-equal", put("settings", 40, QueueManagerIdentifier=guid(31)), at("settings-equal", "settings", 40)),
    ("settings-equal", put("settings", 40, SupportingServer=True), at("settings-equal", "settings", 40)),
    ("settings-queue-manager-exists", put("settings", 40, QueueManagerIdentifier=guid(99)), at("settings-queue-manager-exists", "settings", 40)),
    ("settings-queue-manager-exists", put("settings", 40, QueueManagerIdentifier=None), at("settings-queue-manager-exists", "settings", 40)),
    # -- users
    ("user-sid-form", put("user", 70, SecurityIdentifier=None), at("user-sid-form", "user", 70)),
    ("user-sid-form", put("user", 70, SecurityIdentifier="S-1-5-021"), at("user-sid-form", "user", 70)),
    ("user-sid-unique", put("user", 70, SecurityIdentifier="S-1-5-21-1-2-3-71"), at("user-sid-unique", "user", 70, 71)),
    ("digest-unique", put("user", 70, Certificates=certificates(), CertificateDigestList=[_DIGEST]), at("digest-unique", "user", 70, 71)),
    ("digests-match", put("user", 70, CertificateDigestList=[bytes(16)]), at("digests-match", "user", 70)),
    ("digests-match", put("user", 71, CertificateDigestList=[]), at("digests-match", "user", 71)),
    ("digests-match", put("user", 71, Certificates=digest_image(bytes(16))), at("digests-match", "user", 71)),
    ("digests-match", put("computer", 52, CertificateDigestList=[bytes(16)]), at("digests-match", "computer", 52)),
    ("digests-match", put("computer", 52, Certificates=certificates()), at("digests-match", "computer", 52)),
    ("digests-match", put("computer", 52, Certificates=digest_image(bytes(16)), CertificateDigestList=[_DIGEST]), at("digests-match", "computer", 52)),
    ("user-certificate-digest-list-form", put("user", 70, CertificateDigestList=[b"short"]), at("user-certificate-digest-list-form", "user", 70) | at("digests-match", "user", 70)),
    ("user-certificates-length", put("user", 70, Certificates=certificates() + bytes(2**20)), at("user-certificates-length", "user", 70) | at("certificate-parses", "user", 70)),
    ("certificate-parses", put("user", 71, Certificates=b"\1\0\0"), at("certificate-parses", "user", 71)),
    ("certificate-parses", put("user", 71, Certificates=bytes(UserSignCerts.from_certificates([b"no X.509"])), CertificateDigestList=list(UserSignCerts.from_certificates([b"no X.509"]).digests())), at("certificate-parses", "user", 71)),
    ("certificate-expired", add("user", user(80, "eve", _EXPIRED)), at("certificate-expired", "user", 80)),
    ("certificate-not-yet-valid", add("user", user(80, "eve", _EARLY)), at("certificate-not-yet-valid", "user", 80)),
    # -- security
    ("security-required", put("site", 10, Security=None), at("security-required", "site", 10)),
    ("security-required", put("queue", 60, Security=b""), at("security-required", "queue", 60)),
    ("security-parses", put("enterprise", 1, Security=SOUND[:-1]), at("security-parses", "enterprise", 1)),
    ("security-parses", lost("queue-manager", 32, "Security", "truncated"), at("security-parses", "queue-manager", 32)),
    ("security-owner", security(allow(OWNER, 0x20), owner=None), at("security-owner", "queue", 60)),
    ("security-dacl", security(dacl=False), at("security-dacl", "queue", 60)),
    ("security-dacl", security(dacl=False, control=DescriptorControl.DACL_PRESENT), at("security-dacl", "queue", 60)),
    ("security-dacl-order", security(allow(OWNER, 0x20), deny(ANONYMOUS, 0x4)), at("security-dacl-order", "queue", 60)),
    ("security-dacl-order", security(allow(OWNER, 0x20, AceFlags.INHERITED), allow(ANONYMOUS, 0x4)), at("security-dacl-order", "queue", 60)),
    ("everyone-full-control", security(allow(EVERYONE, GENERIC_ALL)), at("everyone-full-control", "queue", 60)),
    ("everyone-full-control", put("site", 10, Security=_SITE_FULL), at("everyone-full-control", "site", 10)),
    ("everyone-takes-ownership", security(allow(AUTHENTICATED_USERS, WRITE_DAC)), at("everyone-takes-ownership", "queue", 60)),
    ("everyone-receives", security(allow(ANONYMOUS, QueueAccess.PEEK_MESSAGE)), at("everyone-receives", "queue", 60)),
    ("everyone-receives", put("queue-manager", 32, Security=descriptor(allow(EVERYONE, MachineAccess.PEEK_DEADLETTER_MESSAGE))), at("everyone-receives", "queue-manager", 32)),
    ("security-masks-untranslated", put("queue", 60, StoredSecurity=_RAW), at("security-masks-untranslated", "queue", 60)),
    ("everyone-inherits-control", stored(allow(BUILTIN_USERS, AdRight.GENERIC_ALL, _INHERITED)), at("everyone-inherits-control", "queue", 60)),
    ("everyone-inherits-control", stored(allow(BUILTIN_USERS, 0xF0000), allow(EVERYONE, 0x1FF, _INHERITED)), at("everyone-inherits-control", "queue", 60)),
    ("everyone-inherits-control", stored(allow_object(_DOMAIN_USERS, AdRight.GENERIC_ALL, None, UUID(int=1), _INHERITED)), at("everyone-inherits-control", "queue", 60)),
]
# fmt: on


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "change", "expected"), CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_defect_is_found_by_its_rule_alone(
    tmp_path, rule: str, change: Change, expected: set[Found]
) -> None:
    world = sound()
    change(world)
    findings = found(source(tmp_path, tables(world)))
    assert {(one, name, who) for one, name, who, _ in findings} == expected
    assert rule in {one for one, *_ in expected}
    assert all(message and not re.search(r"\{\w+\}", message) for *_, message in findings)


def test_every_rule_has_a_case() -> None:
    elsewhere = {"schema-drift"}  # needs a server: test_spark_validate_sources.py
    assert {rule.id for rule in RULES} - elsewhere == {rule for rule, *_ in CASES}


def test_a_sound_enterprise_has_no_finding(tmp_path) -> None:
    assert found(source(tmp_path, tables(sound()))) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "harmless",
    [
        security(deny(EVERYONE, GENERIC_ALL), allow(EVERYONE, GENERIC_ALL)),
        security(allow(EVERYONE, GENERIC_ALL, AceFlags.INHERIT_ONLY | AceFlags.CONTAINER_INHERIT)),
        security(Ace(AceType.ACCESS_ALLOWED_OBJECT, 0, 0x100, EVERYONE, UUID(int=1))),
        security(Ace(AceType.ACCESS_ALLOWED_OBJECT, 0, GENERIC_ALL, BUILTIN_USERS, UUID(int=1))),
        security(allow(BUILTIN_USERS, _PARTS[0]), allow(BUILTIN_USERS, _PARTS[1], AceFlags.INHERIT_ONLY)),
        security(allow(EVERYONE, _PARTS[0]), allow(OWNER, _PARTS[1])),
        security(allow(BUILTIN_GUESTS, _PARTS[0]), allow(BUILTIN_USERS, _PARTS[1])),  # nobody is in both
        security(allow(_DOMAIN_GUESTS, _PARTS[1]), allow(AUTHENTICATED_USERS, _PARTS[0])),
        *(
            security(deny(sid, QueueAccess.DELETE_QUEUE), allow(_DOMAIN_USERS, GENERIC_ALL))
            for sid in (EVERYONE, AUTHENTICATED_USERS, BUILTIN_USERS, _DOMAIN_USERS)
        ),
        security(deny(EVERYONE, GENERIC_ALL), allow(AUTHENTICATED_USERS, GENERIC_ALL)),
        put("queue", 60, StoredSecurity=bytes(to_directory(SecurityDescriptor.from_bytes(SOUND), KINDS["mSMQQueue"]))),
        stored(allow(BUILTIN_USERS, AdRight.GENERIC_READ, _INHERITED)),
        stored(allow(BUILTIN_USERS, AdRight.GENERIC_ALL, _INHERITED | AceFlags.INHERIT_ONLY)),
        stored(deny(EVERYONE, 0x20, _INHERITED), allow(BUILTIN_USERS, AdRight.GENERIC_ALL, _INHERITED)),
        stored(allow_object(BUILTIN_USERS, AdRight.GENERIC_ALL, UUID(int=1), None, _INHERITED)),
        security(Ace(AceType.ACCESS_ALLOWED_OBJECT, 0, GENERIC_ALL, BUILTIN_USERS, None, UUID(int=1))),
        put("queue", 60, Label="ü" * 124),
        put("queue", 60, Quota=0, BasePriority=32767, MulticastAddress=None, Type=None),
        put("queue", 60, Pathname="WEB01\\orders", FullPath=f"cn=orders,{machine_dn('WEB01').lower()}"),
        add("site", site(13, "NobodyIsHere")),
        add("computer", computer(90, "plain", DnsHostName=None, ServicePrincipalNames=None)),  # without MSMQ
        both(put("user", 70, Certificates=None, CertificateDigestList=None)),
        put("user", 71, CertificateDigestList=2 * list(UserSignCerts.from_bytes(certificates()).digests())),
        put("computer", 52, Certificates=certificates(), CertificateDigestList=[_DIGEST]),
        put("queue-manager", 32, mSMQServiceType=0x10, RemoteAccessServer=True),
        put("queue-manager", 32, mSMQServiceType=None),
        both(  # without a bit a directory server is Standalone
            put("queue-manager", 30, DirectoryServer=True, DirectoryServerType="Standalone"),
            put("settings", 40, DirectoryServer=True),
        ),
        put("settings", 40, FullPath=settings_dn("PARIS01", "paris").lower()),
        put("site", 10, FullPath=site_dn("Paris").replace("CN=Sites", "cn=sites")),
    ],
)  # fmt: skip
def test_what_is_odd_but_right_is_no_finding(tmp_path, harmless: Change) -> None:
    world = sound()
    harmless(world)
    assert found(source(tmp_path, tables(world))) == []


def test_a_wrong_value_that_could_not_be_decoded_is_reported_once(tmp_path) -> None:
    world = sound()
    lost("routing-link", 20, "ActualCost", "is no UINT32: b'x'")(world)
    ((rule, name, who, words),) = found(source(tmp_path, tables(world)))
    assert (rule, name, who) == ("link-cost-range", "routing-link", guid(20))
    assert words == "ActualCost cannot be decoded: is no UINT32: b'x'"


def test_tables_of_mqis_have_neither_dns_nor_technical_columns(tmp_path) -> None:
    world = sound()
    world["queue"][0]["Pathname"] = r"gone\orders"
    world["queue-manager"].append(machine(80, "WEB01", [10]))
    del world["settings"], world["computer"]
    made = tables(world, technical=False)
    kept = {
        name: table.select([one for one in table.column_names if one not in {"FullPath", "mSMQQueueNameExt"}])
        for name, table in made.items()
    }
    assert {(rule, who) for rule, _, who, _ in found(source(tmp_path, kept))} == {
        ("queue-manager-exists", guid(60)),
        ("queue-manager-duplicate", guid(32)),
        ("queue-manager-duplicate", guid(80)),
    }


def test_all_columns_that_rules_speak_of_exist() -> None:
    for rule in RULES:
        for name in rule.types:
            if name in FRAMES:
                known = {column.name for column in FRAMES[name]}
                assert rule.columns() <= known, rule.id
                assert rule.attribute in known | {"Unreadable"}, rule.id
        for name, columns in rule.others().items():
            assert columns <= {column.name for column in FRAMES[name]}, rule.id


def test_queue_managers_with_routing_servers_do_not_fill_the_memory(monkeypatch) -> None:
    """Each of them becomes a Python object, but not all at a time."""
    monkeypatch.setattr(graphs, "BATCH_ROWS", 200)
    peaks = []
    for rows in (500, 2_000):
        world = sound()
        managers = tables(world)["queue-manager"]
        served = managers.slice(2, 1)  # web01, which has one
        wrong = served.set_column(
            served.schema.get_field_index("SiteIdentifierList"),
            "SiteIdentifierList",
            pa.array([[guid(11)]], served.schema.field("SiteIdentifierList").type),
        )
        many = pa.concat_tables([managers, *[served] * rows, wrong]).combine_chunks()
        tracemalloc.start()
        found = list(graphs.DRAWINGS["routing-servers"]({"queue-manager": many}))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert [(one.rule, one.row["SiteIdentifierList"]) for one in found] == [
            ("queue-manager-routing-server-site", [guid(11)])
        ]
    assert peaks[1] < 1.2 * peaks[0]
