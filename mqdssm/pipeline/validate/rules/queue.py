"""Rules about queues.

Rules about queue managers and their computers.
"""

from typing import Final

from mqdssm.pipeline.validate.rules.graphs import ROUTING_LISTS
from mqdssm.pipeline.validate.rules.rule import (
    EXTENSION,
    ORIGINAL,
    SERVICE,
    GraphRule,
    Judged,
    MissingReference,
    Repeated,
    Rule,
    Unequal,
    Wrong,
)
from mqdssm.tables.compute import SERVICE_BITS, ServiceBits

PARENT: Final = r"regexp_replace(FullPath, r'^(?:[^,\\]|\\.)*,', '')"
"""The DN of the parent: the text after the first unescaped comma."""

# computer, backslash, and a public queue name that [MS-MQMQ] 2.1.1 allows since version 4
_LEGAL: Final = r"^[^\\]+\\(?:[Pp][Rr][Ii][Vv][Aa][Tt][Ee]\$\\)?[!#-*\-./0-9:<-\[\]-\x7e]+\z"
# form of a name that was cut in two and lost its second part: only such names have 64 characters
_CUT: Final = r"^[^\\]+\\[^\\]{55}-[0-9a-f]{8}\z"
# some servers return path names in lower case
_RENAMED: Final = r"\n(?:CNF|DEL|cnf|del):"
_NAME: Final = r"substring_index(Pathname, '\\', -1)"
_MULTICAST: Final = (
    r"^(?:22[4-9]|23[0-9])(?:\.(?:[0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])){3}"
    r":(?:[0-9]|[1-9][0-9]{1,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])\z"
)

RULES: Final[tuple[Rule, ...]] = (
    Repeated(
        id="pathname-unique",
        types=("queue",),
        attribute="Pathname",
        section="[MS-MQMQ] 2.1.1",
        requirement="a machine has one queue of a name, in whatever case",
        message="{count} queues are called {value}",
        key="lower(Pathname)",
    ),
    MissingReference(
        id="queue-manager-exists",
        types=("queue",),
        attribute="FullPath",
        section="[MS-MQDSSM] 2.2.1",
        requirement="a queue lies directly below a queue manager",
        message=f"there is no queue manager at {{{PARENT}}}",
        value=f"lower({PARENT})",
        target="queue-manager",
        key="lower(FullPath)",
    ),
    MissingReference(
        id="queue-manager-exists",
        types=("queue",),
        attribute="Pathname",
        section="[MS-MQMQ] 2.1.1",
        requirement="a queue lies directly below a queue manager",
        message="there is no queue manager of {value}",
        value=r"lower(substring_index(Pathname, '\\', 1))",
        target="queue-manager",
        key="lower(ComputerName)",
        instead_of="FullPath",
    ),
    Wrong(
        id="queue-multicast-transactional",
        types=("queue",),
        attribute="MulticastAddress",
        section="[MS-MQDMPR] 3.1.1.2",
        requirement=(
            "a transactional queue has no multicast address: nothing is sent in a transaction to many"
        ),
        message="MulticastAddress is {MulticastAddress}, yet the queue is transactional",
        condition="Transactional and MulticastAddress <> ''",
    ),
    Wrong(
        id="queue-public-only",
        types=("queue",),
        attribute="Pathname",
        section="[MS-MQMQ] 2.1.1",
        requirement="a directory holds public queues alone",
        message="{Pathname} is the name of a private queue",
        condition=r"contains(Pathname, '$') and Pathname rlike r'^[^\\]+\\[Pp][Rr][Ii][Vv][Aa][Tt][Ee]\$\\'",
    ),
    Wrong(
        id="queue-name-form",
        severity="warning",
        types=("queue",),
        attribute="Pathname",
        section="[MS-MQMQ] 2.1.1",
        requirement=(
            'a queue name has 1 to 124 characters: no blank, control or non-ASCII one, none of " + , ; \\'
        ),
        message="{Pathname} has a name that no version of MSMQ since 4.0 would make",
        condition=(
            f"(not (Pathname rlike r'{_LEGAL}') or (length(Pathname) > 124 and length({_NAME}) > 124))"
            f" and not (Pathname rlike r'{_RENAMED}')"
        ),
    ),
    Judged(
        id="queue-name-hash",
        types=("queue",),
        attribute="Pathname",
        section="[MS-MQDSSM] 2.2.5, 3.1.6.1.2.5",
        requirement="cn, mSMQQueueNameExt and the hash between them belong to one name",
        examiner="queue-name",
        looks_at=("FullPath", EXTENSION),
        where=f"{EXTENSION} is not null or (length(Pathname) > 64 and Pathname rlike r'{_CUT}')",
    ),
    Wrong(
        id="queue-multicast-address",
        types=("queue",),
        attribute="MulticastAddress",
        section="[MS-MQMQ] 2.1.6",
        requirement="MulticastAddress is an IPv4 multicast address and a port",
        message="MulticastAddress is {MulticastAddress}, not an address as 234.1.1.1:8001",
        condition=f"MulticastAddress <> '' and not (MulticastAddress rlike r'{_MULTICAST}')",
        decodes=True,
    ),
    Wrong(
        id="queue-times",
        severity="warning",
        types=("queue", "queue-manager"),
        attribute="ModifyTime",
        section="[MS-MQDMPR] 3.1.1.1, 3.1.1.2",
        requirement="nothing was changed before it was made",
        message="changed at {ModifyTime}, yet made at {CreateTime}",
        condition="ModifyTime < CreateTime",
    ),
)

_QUEUE_MANAGER: Final = ("queue-manager",)
_COMPUTER: Final = ("computer",)
_ADM: Final = "[MS-MQDMPR] 3.1.1.1"
_COMPUTERS: Final = {
    "computer": ("Identifier", "FullPath", "DnsHostName", "ServicePrincipalNames"),
    "queue-manager": ("FullPath",),
}


def _make_server_rules(direction: str) -> tuple[Rule, Rule]:
    attribute = f"{direction}RoutingServerIdentifierList"
    exists = MissingReference(
        id=f"queue-manager-{direction.lower()}-servers-exist",
        types=_QUEUE_MANAGER,
        attribute=attribute,
        section=f"{_ADM}, [MS-MQDSSM] 3.1.6.11.1.3",
        requirement=f"every server in {attribute} exists",
        message="there is no queue manager {value}",
        value=attribute,
        target="queue-manager",
        decodes=True,
    )
    routes = Unequal(
        id="queue-manager-routing-server-role",
        types=_QUEUE_MANAGER,
        attribute=attribute,
        section=_ADM,
        requirement="who is named as a routing server is one",
        message="{value} is no routing server",
        value=attribute,
        target="queue-manager",
        condition="not other.RoutingServer",
    )
    return exists, routes


def _make_key_list_rule(attribute: str, section: str) -> Judged:
    return Judged(
        id="queue-manager-public-key-form",
        types=_QUEUE_MANAGER,
        attribute=attribute,
        section=section,
        requirement="lists of public keys and certificates can be decoded",
        examiner="public-keys",
        looks_at=(attribute,),
        where=f"length({attribute}) > 0",
        decodes=True,
    )


def _make_duplicate_rule(key: str, **more: str) -> Repeated:
    return Repeated(
        id="queue-manager-duplicate",
        types=_QUEUE_MANAGER,
        attribute="ComputerName",
        section="[MS-MQDSSM] 2.2.1",
        requirement="a computer has one queue manager",
        message="the computer has {count} queue managers",
        key=key,
        instead_of=more.get("instead_of", ""),
    )


def _make_cloned_rule(key: str) -> Repeated:
    return Repeated(
        id="queue-manager-cloned",
        types=_QUEUE_MANAGER,
        attribute=key,
        section="[MS-MQDMPR] 3.1.1",
        requirement="no two machines say that they are the same queue manager, as copies of a disk do",
        message=f"{key} {{value}} belongs to {{count}} machines",
        key=key,
    )


def _make_computer_rule(name: str, attribute: str, section: str, ldap: str) -> GraphRule:
    return GraphRule(
        id=name,
        severity="warning",
        types=_COMPUTER,
        attribute=attribute,
        section=f"[MS-MQDSSM] {section}",
        requirement=f"a computer with a queue manager has a {ldap}",
        drawing="computers",
        reads=_COMPUTERS,
    )


def _make_shared_rule(name: str, attribute: str, key: str, description: str) -> Repeated:
    return Repeated(
        id=name,
        types=_COMPUTER,
        attribute=attribute,
        section="[MS-MQDSSM] 2.2.1, 3.1.6.11.1",
        requirement=description,
        message=f"{attribute} {{value}} belongs to {{count}} computers",
        key=key,
    )


QUEUE_MANAGER_RULES: Final[tuple[Rule, ...]] = (
    MissingReference(
        id="queue-manager-sites-exist",
        types=_QUEUE_MANAGER,
        attribute="SiteIdentifierList",
        section=_ADM,
        requirement="every site of a queue manager exists",
        message="there is no site {value}",
        value="SiteIdentifierList",
        target="site",
        decodes=True,
    ),
    Wrong(
        id="queue-manager-has-site",
        severity="warning",
        types=_QUEUE_MANAGER,
        attribute="SiteIdentifierList",
        section=_ADM,
        requirement="a queue manager is in a site",
        message="SiteIdentifierList is empty",
        condition="SiteIdentifierList is null or size(SiteIdentifierList) = 0",
    ),
    MissingReference(
        id="queue-manager-computer-exists",
        types=_QUEUE_MANAGER,
        attribute="FullPath",
        section="[MS-MQDSSM] 2.2.1",
        requirement="a queue manager lies directly below its computer",
        message="there is no computer at {value}",
        value=f"lower({PARENT})",
        target="computer",
        key="lower(FullPath)",
    ),
    _make_duplicate_rule(f"lower({PARENT})"),
    _make_duplicate_rule("lower(ComputerName)", instead_of="FullPath"),
    _make_cloned_rule("Identifier"),
    _make_cloned_rule(ORIGINAL),
    *_make_server_rules("Out"),
    *_make_server_rules("In"),
    Wrong(
        id="queue-manager-roles",
        types=_QUEUE_MANAGER,
        attribute=SERVICE,
        section=f"{_ADM}, [MS-MQDSSM] 3.1.6.1.1.5, 3.1.6.11.1.5",
        requirement="mSMQServiceType agrees with the roles",
        message=(
            f"{SERVICE} is {{{SERVICE}}}, yet RoutingServer is {{RoutingServer}} and "
            "DirectoryServer is {DirectoryServer}"
        ),
        condition=(
            f"(({SERVICE} & {int(ServiceBits.ROUTING_SERVER)}) <> 0) <> RoutingServer"
            f" or ({SERVICE} & {int(SERVICE_BITS['DirectoryServer'])}) <> 0 and not DirectoryServer"
        ),
    ),
    GraphRule(
        id="primary-enterprise-controller-single",
        types=_QUEUE_MANAGER,
        attribute="DirectoryServerType",
        section="[MC-MQDSRP] 3.1.1, [MS-MQDMPR] 3.1.1.1",
        requirement="an enterprise has one primary enterprise controller",
        drawing="controllers",
        reads={"queue-manager": ("Identifier", "DirectoryServerType")},
    ),
    GraphRule(
        id="queue-manager-routing-server-site",
        severity="warning",
        types=_QUEUE_MANAGER,
        attribute="OutRoutingServerIdentifierList",
        section=_ADM,
        requirement="the routing servers of a queue manager are in one of its sites",
        drawing="routing-servers",
        reads={"queue-manager": ("Identifier", "SiteIdentifierList", *ROUTING_LISTS)},
    ),
    _make_key_list_rule("PublicEncryptionKeyList", "[MS-MQMQ] 2.2.2"),
    _make_key_list_rule("PublicSigningKeyList", "[MS-MQMQ] 2.2.21"),
    _make_computer_rule("computer-dns-name", "DnsHostName", "3.1.6.11.1", "dNSHostName"),
    _make_computer_rule(
        "computer-service-principal-names", "ServicePrincipalNames", "3.1.6.11.1.6", "servicePrincipalName"
    ),
    _make_shared_rule("computer-sid-unique", "Sid", "Sid", "a security identifier belongs to one computer"),
    _make_shared_rule(
        "computer-dns-name-unique", "DnsHostName", "lower(DnsHostName)", "a DNS name belongs to one computer"
    ),
)
