"""Rules about queue managers and their computers."""

from typing import Final

from mqdssm.pipeline.validate.rules.graphs import ROUTING_LISTS
from mqdssm.pipeline.validate.rules.queue import PARENT
from mqdssm.pipeline.validate.rules.rule import (
    GraphRule,
    Judged,
    MissingReference,
    Repeated,
    Rule,
    Unequal,
    Wrong,
)
from mqdssm.pipeline.validate.rules.vocabulary import ORIGINAL, SERVICE
from mqdssm.tables.compute import SERVICE_BITS, ServiceBits

_QUEUE_MANAGER: Final = ("queue-manager",)
_COMPUTER: Final = ("computer",)
_ADM: Final = "[MS-MQDMPR] 3.1.1.1"
_COMPUTERS: Final = {
    "computer": ("Identifier", "FullPath", "DnsHostName", "ServicePrincipalNames"),
    "queue-manager": ("FullPath",),
}


def _server(direction: str) -> tuple[Rule, Rule]:
    attribute = f"{direction}RoutingServerIdentifierList"
    exists = MissingReference(
        id=f"queue-manager-{direction.lower()}-servers-exist",
        severity="error",
        types=_QUEUE_MANAGER,
        attribute=attribute,
        section=f"{_ADM}, [MS-MQDSSM] 3.1.6.11.1.3",
        what=f"every server in {attribute} exists",
        message="there is no queue manager {value}",
        value=attribute,
        target="queue-manager",
        key="Identifier",
        decodes=True,
    )
    routes = Unequal(
        id="queue-manager-routing-server-role",
        severity="error",
        types=_QUEUE_MANAGER,
        attribute=attribute,
        section=_ADM,
        what="who is named as a routing server is one",
        message="{value} is no routing server",
        value=attribute,
        target="queue-manager",
        key="Identifier",
        bad="not other.RoutingServer",
    )
    return exists, routes


def _key_list(attribute: str, section: str) -> Judged:
    return Judged(
        id="queue-manager-public-key-form",
        severity="error",
        types=_QUEUE_MANAGER,
        attribute=attribute,
        section=section,
        what="lists of public keys and certificates can be decoded",
        examiner="public-keys",
        looks_at=(attribute,),
        where=f"length({attribute}) > 0",
        decodes=True,
    )


def _duplicate(key: str, **more: str) -> Repeated:
    return Repeated(
        id="queue-manager-duplicate",
        severity="error",
        types=_QUEUE_MANAGER,
        attribute="ComputerName",
        section="[MS-MQDSSM] 2.2.1",
        what="a computer has one queue manager",
        message="the computer has {count} queue managers",
        key=key,
        instead_of=more.get("instead_of", ""),
    )


def _cloned(key: str) -> Repeated:
    return Repeated(
        id="queue-manager-cloned",
        severity="error",
        types=_QUEUE_MANAGER,
        attribute=key,
        section="[MS-MQDMPR] 3.1.1",
        what="no two machines say that they are the same queue manager, as copies of a disk do",
        message=f"{key} {{value}} belongs to {{count}} machines",
        key=key,
    )


def _computer(name: str, attribute: str, section: str, ldap: str) -> GraphRule:
    return GraphRule(
        id=name,
        severity="warning",
        types=_COMPUTER,
        attribute=attribute,
        section=f"[MS-MQDSSM] {section}",
        what=f"a computer with a queue manager has a {ldap}",
        drawing="computers",
        reads=_COMPUTERS,
    )


def _shared(name: str, attribute: str, key: str, what: str) -> Repeated:
    return Repeated(
        id=name,
        severity="error",
        types=_COMPUTER,
        attribute=attribute,
        section="[MS-MQDSSM] 2.2.1, 3.1.6.11.1",
        what=what,
        message=f"{attribute} {{value}} belongs to {{count}} computers",
        key=key,
    )


RULES: Final[tuple[Rule, ...]] = (
    MissingReference(
        id="queue-manager-sites-exist",
        severity="error",
        types=_QUEUE_MANAGER,
        attribute="SiteIdentifierList",
        section=_ADM,
        what="every site of a queue manager exists",
        message="there is no site {value}",
        value="SiteIdentifierList",
        target="site",
        key="Identifier",
        decodes=True,
    ),
    Wrong(
        id="queue-manager-has-site",
        severity="warning",
        types=_QUEUE_MANAGER,
        attribute="SiteIdentifierList",
        section=_ADM,
        what="a queue manager is in a site",
        message="SiteIdentifierList is empty",
        bad="SiteIdentifierList is null or size(SiteIdentifierList) = 0",
    ),
    MissingReference(
        id="queue-manager-computer-exists",
        severity="error",
        types=_QUEUE_MANAGER,
        attribute="FullPath",
        section="[MS-MQDSSM] 2.2.1",
        what="a queue manager lies directly below its computer",
        message="there is no computer at {value}",
        value=f"lower({PARENT})",
        target="computer",
        key="lower(FullPath)",
    ),
    _duplicate(f"lower({PARENT})"),
    _duplicate("lower(ComputerName)", instead_of="FullPath"),
    _cloned("Identifier"),
    _cloned(ORIGINAL),
    *_server("Out"),
    *_server("In"),
    Wrong(
        id="queue-manager-roles",
        severity="error",
        types=_QUEUE_MANAGER,
        attribute=SERVICE,
        section=f"{_ADM}, [MS-MQDSSM] 3.1.6.1.1.5, 3.1.6.11.1.5",
        what="mSMQServiceType agrees with the roles",
        message=(
            f"{SERVICE} is {{{SERVICE}}}, yet RoutingServer is {{RoutingServer}} and "
            "DirectoryServer is {DirectoryServer}"
        ),
        bad=(
            f"(({SERVICE} & {int(ServiceBits.ROUTING_SERVER)}) <> 0) <> RoutingServer"
            f" or ({SERVICE} & {int(SERVICE_BITS['DirectoryServer'])}) <> 0 and not DirectoryServer"
        ),
    ),
    GraphRule(
        id="primary-enterprise-controller-single",
        severity="error",
        types=_QUEUE_MANAGER,
        attribute="DirectoryServerType",
        section="[MC-MQDSRP] 3.1.1, [MS-MQDMPR] 3.1.1.1",
        what="an enterprise has one primary enterprise controller",
        drawing="controllers",
        reads={"queue-manager": ("Identifier", "DirectoryServerType")},
    ),
    GraphRule(
        id="queue-manager-routing-server-site",
        severity="warning",
        types=_QUEUE_MANAGER,
        attribute="OutRoutingServerIdentifierList",
        section=_ADM,
        what="the routing servers of a queue manager are in one of its sites",
        drawing="routing-servers",
        reads={"queue-manager": ("Identifier", "SiteIdentifierList", *ROUTING_LISTS)},
    ),
    _key_list("PublicEncryptionKeyList", "[MS-MQMQ] 2.2.2"),
    _key_list("PublicSigningKeyList", "[MS-MQMQ] 2.2.21"),
    _computer("computer-dns-name", "DnsHostName", "3.1.6.11.1", "dNSHostName"),
    _computer(
        "computer-service-principal-names", "ServicePrincipalNames", "3.1.6.11.1.6", "servicePrincipalName"
    ),
    _shared("computer-sid-unique", "Sid", "Sid", "a security identifier belongs to one computer"),
    _shared(
        "computer-dns-name-unique", "DnsHostName", "lower(DnsHostName)", "a DNS name belongs to one computer"
    ),
)
