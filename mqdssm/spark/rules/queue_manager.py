"""Rules of queue managers and their computers."""

from typing import Final

from mqdssm.spark.rules.queue import PARENT
from mqdssm.spark.rules.rule import Judged, MissingReference, Repeated, Rule, Unequal, Wrong
from mqdssm.spark.rules.vocabulary import ORIGINAL

_QUEUE_MANAGER: Final = ("queue-manager",)
_ADM: Final = "[MS-MQDMPR] 3.1.1.1"


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
        attribute="DirectoryServer",
        section=f"{_ADM}, [MS-MQDSSM] 3.1.6.11.1.5",
        what="DirectoryServerType and mSMQServiceType agree with the roles",
        message="DirectoryServerType is {DirectoryServerType}, yet DirectoryServer is {DirectoryServer}",
        bad="not DirectoryServer and DirectoryServerType is not null",
    ),
    Unequal(
        id="queue-manager-roles",
        severity="error",
        types=_QUEUE_MANAGER,
        attribute="RoutingServer",
        section=f"{_ADM}, [MS-MQDSSM] 3.1.6.1.1.5",
        what="DirectoryServerType and mSMQServiceType agree with the roles",
        message="mSMQServiceType is {other.Services}, yet RoutingServer is {RoutingServer}",
        value="Identifier",
        target="settings",
        key="QueueManagerIdentifier",
        bad="((other.Services & 1) = 1) <> RoutingServer and other.RoutingServer = RoutingServer",
    ),
    _key_list("PublicEncryptionKeyList", "[MS-MQMQ] 2.2.2"),
    _key_list("PublicSigningKeyList", "[MS-MQMQ] 2.2.21"),
    Wrong(
        id="computer-dns-name",
        severity="warning",
        types=("computer",),
        attribute="DnsHostName",
        section="[MS-MQDSSM] 3.1.6.11.1",
        what="a computer has a dNSHostName",
        message="dNSHostName is missing: the whole name of its queue manager and queues is not known",
        bad="DnsHostName is null or DnsHostName = ''",
    ),
    Wrong(
        id="computer-service-principal-names",
        severity="warning",
        types=("computer",),
        attribute="ServicePrincipalNames",
        section="[MS-MQDSSM] 3.1.6.11.1.6",
        what="a computer has a servicePrincipalName",
        message="servicePrincipalName is missing: whether it is a cluster is not known, Kerberos fails",
        bad="ServicePrincipalNames is null or size(ServicePrincipalNames) = 0",
    ),
)
