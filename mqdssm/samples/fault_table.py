"""Table of every defect that can be planted: its rule, its scene and the forms of enterprise that allow it.

Scenes, wrong values and changes are defined in `faults` and `fault_values`. `NOT_PLANTED` names the rules
whose defects no generated enterprise can have.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mqdssm.samples import elements
from mqdssm.samples import fault_values as wrong
from mqdssm.samples.faults import CLIENT, DROP, LDIF, MQIS, ROUTER, SLAPADD, Fault
from mqdssm.samples.plan import MachineRole
from mqdssm.wire.dtyp import EVERYONE, allow, deny
from mqdssm.wire.masks import WRITE_DAC, WRITE_OWNER, QueueAccess
from mqdssm.wire.sid import ANONYMOUS, AUTHENTICATED_USERS, BUILTIN_GUESTS

FAR_FUTURE: Final = 2**31 - 1  # 2038, the last time that MSMQ can store
TOO_MUCH: Final = 5_000_000_000  # does not fit in 32 bits
SUPPORTING: Final = MachineRole(supporting=True, server=True)
LONG_LABEL: Final = "x" * 130
LONG_TEXT: Final = "x" * 1025
JUNK: Final = b"this is none"

NOT_PLANTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "primary-enterprise-controller-single": "the finding would name the sound controller, too",
        "schema-drift": "it is about a server's schema, not about objects",
        "security-masks-untranslated": "only Active Directory holds descriptors in a form of its own",
    }
)
"""Rules without a planted fault, with the reasons."""

# fmt: off
FAULTS: Final[tuple[Fault, ...]] = (
    # -- identity and names
    Fault(rule="guid-unique", type="queue", scene=lambda s: (s.queue(), s.queue()), forms=MQIS | SLAPADD,
          fields={"identifier": wrong.shared}),
    Fault(rule="guid-required", type="queue", scene=lambda s: s.queue(),
          fields={"identifier": DROP}, ldap={"objectGUID": None}),
    Fault(rule="name-required", type="site", scene=lambda s: s.site(), forms=MQIS, fields={"name": DROP}),
    Fault(rule="name-required", type="queue-manager", scene=lambda s: s.machine(), forms=MQIS,
          fields={"computer_name": DROP}),
    Fault(rule="tombstone-name", type="queue", scene=lambda s: s.queue(), forms=LDIF,
          ldif=wrong.rename("planted.{serial}\nDEL:{guid}")),
    Fault(rule="conflict-name", type="queue", scene=lambda s: s.queue(), forms=LDIF,
          ldif=wrong.rename("planted.{serial}\nCNF:{guid}")),
    Fault(rule="attribute-unreadable", type="site", scene=lambda s: s.site(),
          ldap={"mSMQNt4Stub": b"7"}, mqis={"PROPID_S_NT4_STUB": 7}),
    Fault(rule="reference-dangling", type="queue-manager", scene=lambda s: s.machine(), forms=LDIF,
          ldap={"mSMQOutRoutingServers": wrong.deleted_dn}),

    # -- queues
    Fault(rule="pathname-unique", type="queue", scene=lambda s: (s.queue(), s.queue()), forms=MQIS,
          fields={"pathname": wrong.first_path}),
    Fault(rule="queue-manager-exists", type="queue", scene=lambda s: s.queue(),
          fields={"pathname": lambda s: f"nomsmq-{s.serial}\\planted"},
          ldap={}, ldif=wrong.no_queue_manager),
    Fault(rule="queue-public-only", type="queue", scene=lambda s: s.queue(), forms=MQIS,
          fields={"pathname": wrong.path("private$\\planted.{}")}),
    Fault(rule="queue-name-form", type="queue", scene=lambda s: s.queue(),
          fields={"pathname": wrong.odd_path}, ldap={}, ldif=wrong.name_form),
    Fault(rule="queue-name-hash", type="queue", scene=lambda s: s.queue(), forms=LDIF, ldif=wrong.wrong_hash),
    Fault(rule="queue-label-length", type="queue", scene=lambda s: s.queue(),
          fields={"label": LONG_LABEL}, ldap={"mSMQLabelEx": LONG_LABEL.encode()}),
    Fault(rule="queue-privacy-level", type="queue", scene=lambda s: s.queue(),
          fields={"privacy_level": 7}, ldap={"mSMQPrivacyLevel": b"7"}),
    Fault(rule="queue-quota-range", type="queue", scene=lambda s: s.queue(),
          fields={"quota": TOO_MUCH}, ldap={"mSMQQueueQuota": b"%d" % TOO_MUCH}),
    Fault(rule="queue-journal-quota-range", type="queue", scene=lambda s: s.queue(),
          fields={"journal_quota": TOO_MUCH}, ldap={"mSMQQueueJournalQuota": b"%d" % TOO_MUCH}),
    Fault(rule="queue-base-priority-range", type="queue", scene=lambda s: s.queue(),
          fields={"base_priority": 40_000}),
    Fault(rule="queue-multicast-address", type="queue", scene=lambda s: s.queue(),
          fields={"multicast_address": "10.0.0.1:8001", "transactional": False}),
    Fault(rule="queue-multicast-transactional", type="queue", scene=lambda s: s.queue(),
          fields={"multicast_address": "234.1.1.1:8001", "transactional": True}),
    Fault(rule="queue-type-form", type="queue", scene=lambda s: s.queue(),
          ldap={"mSMQQueueType": bytes(15)}, mqis={"PROPID_Q_TYPE": "no GUID at all"}),
    Fault(rule="queue-pathname-required", type="queue", scene=lambda s: s.queue(), forms=MQIS,
          fields={"pathname": DROP}),
    Fault(rule="queue-create-time-required", type="queue", scene=lambda s: s.queue(), forms=MQIS,
          fields={"create_time": DROP}),
    Fault(rule="queue-modify-time-required", type="queue", scene=lambda s: s.queue(), forms=MQIS,
          fields={"modify_time": DROP}),
    Fault(rule="queue-times", type="queue", scene=lambda s: s.queue(), fields={"create_time": FAR_FUTURE}),

    # -- queue managers, computers and their settings
    Fault(rule="queue-manager-sites-exist", type="queue-manager", scene=lambda s: s.machine(),
          fields={"site_identifier_list": lambda s: (s.plan.guid("site", s.home), s.ghost("site"))}),
    Fault(rule="queue-manager-has-site", type="queue-manager", scene=lambda s: s.machine(),
          fields={"site_identifier_list": ()}),
    Fault(rule="queue-manager-computer-exists", type="queue-manager", scene=lambda s: s.machine(), forms=LDIF,
          ldif=wrong.no_computer),
    Fault(rule="queue-manager-duplicate", type="queue-manager", scene=lambda s: (s.machine(), s.machine()),
          fields={"computer_name": wrong.first_name}, ldap={}, ldif=wrong.second_manager),
    Fault(rule="queue-manager-cloned", type="queue-manager", scene=lambda s: (s.machine(), s.machine()),
          forms=MQIS | SLAPADD, fields={"identifier": wrong.shared}),
    Fault(rule="queue-manager-out-servers-exist", type="queue-manager", scene=lambda s: s.machine(),
          fields={"out_routing_server_identifier_list": lambda s: (s.ghost("router"),)},
          ldap={"mSMQOutRoutingServers": wrong.ghost_dn}),
    Fault(rule="queue-manager-in-servers-exist", type="queue-manager", scene=lambda s: s.machine(),
          fields={"in_routing_server_identifier_list": lambda s: (s.ghost("router"),)},
          ldap={"mSMQInRoutingServers": wrong.ghost_dn}),
    Fault(rule="queue-manager-routing-server-role", type="queue-manager",
          scene=lambda s: (s.machine(CLIENT, faulty=False), s.machine()),
          fields={"out_routing_server_identifier_list": lambda s: (s.extras[0].guid,)}),
    Fault(rule="queue-manager-quota-range", type="queue-manager", scene=lambda s: s.machine(),
          fields={"queue_manager_quota": TOO_MUCH}, ldap={"mSMQQuota": b"%d" % TOO_MUCH}),
    Fault(rule="queue-manager-journal-quota-range", type="queue-manager", scene=lambda s: s.machine(),
          fields={"journal_quota": TOO_MUCH}, ldap={"mSMQJournalQuota": b"%d" % TOO_MUCH}),
    Fault(rule="queue-manager-os-type", type="queue-manager", scene=lambda s: s.machine(),
          fields={"operating_system_type": 0x900}, ldap={"mSMQOSType": b"2304"}),
    Fault(rule="queue-manager-roles", type="queue-manager", scene=lambda s: s.machine(),
          ldap={"mSMQServiceType": lambda s: b"%d" % wrong.other_role(s)},
          mqis={"PROPID_QM_SERVICE": wrong.other_role}),
    Fault(rule="digests-match", type="computer", scene=lambda s: s.machine(), forms=LDIF,
          ldif=wrong.digest_of_nothing),
    Fault(rule="queue-manager-routing-server-site", type="queue-manager",
          scene=lambda s: (s.site(faulty=False), s.machine()),
          fields={"out_routing_server_identifier_list": lambda s: (wrong.gate_elsewhere(s),)}),
    Fault(rule="queue-manager-create-time-required", type="queue-manager", scene=lambda s: s.machine(),
          forms=MQIS, fields={"create_time": DROP}),
    Fault(rule="queue-manager-modify-time-required", type="queue-manager", scene=lambda s: s.machine(),
          forms=MQIS, fields={"modify_time": DROP}),
    Fault(rule="queue-manager-qualified-computer-name-length", type="queue-manager",
          scene=lambda s: s.machine(), forms=LDIF, ldif=wrong.long_host),
    Fault(rule="queue-manager-public-key-form", type="queue-manager", scene=lambda s: s.machine(),
          fields={"public_encryption_key_list": JUNK}),
    Fault(rule="computer-dns-name", type="computer", scene=lambda s: s.machine(), forms=LDIF,
          ldif=wrong.without("computer", "dNSHostName")),
    Fault(rule="computer-service-principal-names", type="computer", scene=lambda s: s.machine(), forms=LDIF,
          ldif=wrong.without("computer", "servicePrincipalName")),
    Fault(rule="computer-sid-unique", type="computer", scene=lambda s: (s.machine(), s.machine()), forms=LDIF,
          ldif=wrong.same_sid),
    Fault(rule="computer-dns-name-unique", type="computer", scene=lambda s: (s.machine(), s.machine()),
          forms=LDIF, ldif=wrong.same_host),
    Fault(rule="settings-exist", type="queue-manager", scene=lambda s: s.machine(SUPPORTING, settings=False),
          forms=LDIF),
    Fault(rule="settings-superfluous", type="settings", scene=lambda s: s.machine(settings=True), forms=LDIF),
    Fault(rule="settings-equal", type="settings", scene=lambda s: s.machine(SUPPORTING), forms=LDIF,
          ldif=wrong.unlike("mSMQDependentClientService", b"FALSE")),
    Fault(rule="settings-equal", type="settings", scene=lambda s: s.machine(ROUTER), forms=LDIF,
          ldif=wrong.unlike("mSMQServices", b"0")),
    Fault(rule="settings-queue-manager-exists", type="settings", scene=lambda s: s.machine(SUPPORTING),
          forms=LDIF, ldif=wrong.settings_of_nobody),

    # -- the enterprise: one object has one defect, chosen by the seed
    Fault(rule="enterprise-single", type="enterprise", whole=True, ldap={}, ldif=wrong.second_enterprise,
          scene=lambda s: (s.enterprise(elements.enterprise(s.plan)),
                           s.enterprise(elements.enterprise(s.plan, s.ghost("enterprise"))))),
    Fault(rule="enterprise-name-style", type="enterprise", whole=True,
          scene=lambda s: s.enterprise(elements.enterprise(s.plan)), fields={"weakened_security": True}),
    Fault(rule="enterprise-interval-range", type="enterprise", whole=True,
          scene=lambda s: s.enterprise(elements.enterprise(s.plan)), fields={"default_time_to_live": 0}),
    Fault(rule="enterprise-version", type="enterprise", whole=True,
          scene=lambda s: s.enterprise(elements.enterprise(s.plan)),
          ldap={"mSMQVersion": b"77"}, mqis={"PROPID_E_VERSION": 77}),

    # -- sites and links
    Fault(rule="site-name-unique", type="site", scene=lambda s: (s.site(), s.site()), forms=MQIS,
          fields={"name": lambda s: f"Twice-{s.serial}"}),
    Fault(rule="site-name-length", type="site", scene=lambda s: s.site(), forms=MQIS,
          fields={"name": lambda s: f"Long-{s.serial}".ljust(65, "x")}),
    Fault(rule="site-intervals-range", type="site", scene=lambda s: s.site(),
          fields={"intra_site_replication_interval": 0}),
    Fault(rule="site-foreign-consistent", type="site",
          scene=lambda s: s.machine(CLIENT, s.site().number, faulty=False), fields={"foreign_site": True}),
    Fault(rule="site-unreachable", type="site", scene=lambda s: s.site(linked=False)),
    Fault(rule="link-cost-range", type="routing-link",
          scene=lambda s: s.link(s.home, s.site(faulty=False, linked=False)), fields={"actual_cost": 0}),
    Fault(rule="routing-link-description-length", type="routing-link",
          scene=lambda s: s.link(s.home, s.site(faulty=False, linked=False)),
          fields={"description": LONG_TEXT}, ldap={"description": LONG_TEXT.encode()}),
    Fault(rule="link-sites-exist", type="routing-link", scene=lambda s: s.link(s.home, s.site(faulty=False)),
          fields={"site2_identifier": lambda s: s.ghost("site"), "site_gate_identifier_list": ()},
          ldap={"mSMQSite2": wrong.ghost_site_dn, "mSMQSiteGates": None}, ldif=wrong.other_link),
    Fault(rule="link-ends-differ", type="routing-link", scene=lambda s: s.link(s.home, s.site(faulty=False)),
          fields={"site1_identifier": wrong.planted_site, "site2_identifier": wrong.planted_site}),
    Fault(rule="link-duplicate", type="routing-link", scene=wrong.two_links),
    Fault(rule="link-one-way", type="routing-link",
          scene=lambda s: s.link(s.home, s.site(faulty=False, linked=False)),
          fields={"site_gate_identifier_list": wrong.gate_on_one_side}),
    Fault(rule="link-gates-exist", type="routing-link",
          scene=lambda s: s.link(s.home, s.site(faulty=False, linked=False)),
          fields={"site_gate_identifier_list": wrong.gates(lambda s: s.ghost("gate"))},
          ldap={"mSMQSiteGates": wrong.ghost_gates}),
    Fault(rule="link-gate-role", type="routing-link",
          scene=lambda s: (s.machine(CLIENT, faulty=False),
                           s.link(s.home, s.site(faulty=False, linked=False))),
          fields={"site_gate_identifier_list": wrong.gates(lambda s: s.extras[0].guid)}),
    Fault(rule="link-gate-site", type="routing-link", scene=wrong.link_beside_a_site,
          fields={"site_gate_identifier_list": wrong.gates(wrong.gate_elsewhere)}),

    # -- users
    Fault(rule="user-sid-form", type="user", scene=lambda s: s.user(),
          fields={"security_identifier": DROP}, ldap={"objectSid": None}),
    Fault(rule="user-sid-unique", type="user", scene=lambda s: (s.user(), s.user()),
          fields={"security_identifier": lambda s: str(s.plan.user_sid(s.extras[0].number))}),
    Fault(rule="user-certificate-digest-list-form", type="user", scene=lambda s: s.user(),
          fields={"certificates": DROP, "certificate_digest_list": DROP},
          ldap={"mSMQDigests": bytes(15), "mSMQSignCertificates": None},
          mqis={"PROPID_U_DIGEST": ("no GUID at all",)}),
    Fault(rule="user-certificates-length", type="user", scene=lambda s: s.user(),
          fields={"certificates": wrong.large, "certificate_digest_list": wrong.digests(wrong.large)},
          ldap={"mSMQSignCertificates": wrong.large, "mSMQDigests": wrong.digests(wrong.large)}),
    Fault(rule="digests-match", type="user", scene=lambda s: s.user(),
          fields={"certificate_digest_list": wrong.one_digest_more}),
    Fault(rule="digest-unique", type="user", scene=lambda s: (s.user(), s.user()),
          fields={"certificates": wrong.same_certificate,
                  "certificate_digest_list": wrong.digests(wrong.same_certificate)}),
    Fault(rule="certificate-parses", type="user", scene=lambda s: s.user(),
          fields={"certificates": wrong.no_certificate,
                  "certificate_digest_list": wrong.digests(wrong.no_certificate)}),
    Fault(rule="certificate-expired", type="user", scene=lambda s: s.user(),
          fields={"certificates": wrong.EXPIRED, "certificate_digest_list": wrong.digests(wrong.EXPIRED)}),
    Fault(rule="certificate-not-yet-valid", type="user", scene=lambda s: s.user(),
          fields={"certificates": wrong.EARLY, "certificate_digest_list": wrong.digests(wrong.EARLY)}),

    # -- security
    Fault(rule="security-required", type="queue", scene=lambda s: s.queue(),
          fields={"security": DROP}, ldap={"nTSecurityDescriptor": None}),
    Fault(rule="security-parses", type="queue", scene=lambda s: s.queue(),
          fields={"security": JUNK}, ldap={"nTSecurityDescriptor": JUNK}),
    Fault(rule="security-owner", type="queue", scene=lambda s: s.queue(),
          fields={"security": wrong.without_owner}),
    Fault(rule="security-dacl", type="queue", scene=lambda s: s.queue(),
          fields={"security": wrong.without_dacl}),
    Fault(rule="security-dacl-order", type="queue", scene=lambda s: s.queue(),
          fields={"security": wrong.descriptor(allow(EVERYONE, QueueAccess.GENERIC_WRITE),
                                               deny(BUILTIN_GUESTS, QueueAccess.GENERIC_ALL))}),
    Fault(rule="everyone-full-control", type="queue", scene=lambda s: s.queue(),
          fields={"security": wrong.descriptor(allow(EVERYONE, QueueAccess.GENERIC_ALL))}),
    Fault(rule="everyone-takes-ownership", type="queue", scene=lambda s: s.queue(),
          fields={"security": wrong.descriptor(allow(AUTHENTICATED_USERS, WRITE_DAC | WRITE_OWNER))}),
    Fault(rule="everyone-changes", type="queue", scene=lambda s: s.queue(),
          fields={"security": wrong.descriptor(allow(EVERYONE, QueueAccess.DELETE_QUEUE))}),
    Fault(rule="everyone-owns", type="queue", scene=lambda s: s.queue(),
          fields={"security": wrong.owned_by_everyone}),
    Fault(rule="everyone-receives", type="queue", scene=lambda s: s.queue(),
          fields={"security": wrong.descriptor(allow(ANONYMOUS, QueueAccess.RECEIVE_MESSAGE))}),
)
# fmt: on
