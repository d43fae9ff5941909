"""The directory that is measured on: 2,000 queue managers and 50,000 queues on a private slapd."""

import base64
import random
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import ldap3

import mqdssm
from mqdssm.model.enums import PrivacyLevel
from mqdssm.testing.openldap import OpenLdapServer
from mqdssm.wire.acl import allow
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import QueueAccess
from mqdssm.wire.sid import Sid

SEED: Final = 3
QUEUES: Final = 50_000
QUEUE_MANAGERS: Final = 2_000
HOSTS: Final = 500
"""Queue managers that have queues."""
PAGE: Final = 1000
ROUTING_SERVERS: Final = 3

OWN_ATTRIBUTES: Final = (
    "objectGUID",
    "mSMQLabelEx",
    "createTimestamp",
    "modifyTimestamp",
    "mSMQQueueType",
    "mSMQQueueNameExt",
    "mSMQJournal",
    "mSMQQueueQuota",
    "mSMQQueueJournalQuota",
    "mSMQAuthenticate",
    "mSMQPrivacyLevel",
    "mSMQTransactional",
    "MSMQ-MulticastAddress",
    "nTSecurityDescriptor",
    "mSMQBasePriority",
)
"""What a queue's own attributes are read from."""
OWN_NAMES: Final = (
    "Identifier",
    "Label",
    "CreateTime",
    "ModifyTime",
    "Type",
    "Pathname",
    "Journaling",
    "Quota",
    "JournalQuota",
    "Authentication",
    "PrivacyLevel",
    "Transactional",
    "MulticastAddress",
    "Security",
    "BasePriority",
    "FullPath",
    "DirectoryPath",
)
"""The same as the specification names them: all but QualifiedPathname, which needs the computer."""
QUEUE_FILTER: Final = "(objectClass=mSMQQueue)"
TYPE: Final = uuid.UUID("5a2f0e0c-9f3b-4c87-8ac2-6a0f3f3a7d10")


@dataclass(frozen=True, slots=True)
class Size:
    """How large the directory is."""

    queues: int = QUEUES
    queue_managers: int = QUEUE_MANAGERS
    hosts: int = HOSTS


@dataclass(frozen=True, slots=True)
class World:
    """A filled directory, our connection to it and ldap3's."""

    server: OpenLdapServer
    directory: mqdssm.Directory
    raw: Any
    size: Size
    guids: tuple[uuid.UUID, ...]

    @property
    def root(self) -> str:
        """The DN of the domain."""
        return self.server.base_dn

    def connect(self) -> mqdssm.Directory:
        """One more connection of ours."""
        return mqdssm.connect(
            self.server.url, user=self.server.user, password=self.server.password, tls="none"
        )

    def queue_dn(self, host: int, name: str) -> str:
        """Where a queue is."""
        return f"CN={name},{_manager_dn(host, self.root)}"

    def pathname(self, host: int, name: str) -> str:
        """The path name of a queue."""
        return f"{_computer(host)}\\{name}"


def raw_connection(server: OpenLdapServer) -> Any:
    """ldap3 as fast as it gets: no schema, no checks; the same clear loopback connection as ours."""
    target = ldap3.Server(server.url, get_info=ldap3.NONE)
    return ldap3.Connection(
        target, server.user, server.password, auto_bind=True, check_names=False, raise_exceptions=True
    )


def raw_read(raw: Any, dn: str, attribute: str) -> None:
    """Read one attribute with ldap3."""
    found = raw.search(dn, "(objectClass=*)", ldap3.BASE, attributes=[attribute])
    if not found or not raw.response[0]["raw_attributes"][attribute]:
        raise AssertionError(f"{dn} has no {attribute}: this is no measurement")


@contextmanager
def filled(size: Size) -> Iterator[World]:
    """A slapd of our own with default durability and all indexes, filled by slapadd."""
    with OpenLdapServer() as server:
        server.stop()
        ldif = server.folder / "bench.ldif"
        guids = _write(str(ldif), server.base_dn, size)
        subprocess.run(
            ["/usr/sbin/slapadd", "-q", "-f", str(server.folder / "conf/slapd.conf"), "-l", str(ldif)],
            check=True,
            capture_output=True,
        )
        ldif.unlink()
        server.start()
        raw = raw_connection(server)
        with mqdssm.connect(server.url, user=server.user, password=server.password, tls="none") as directory:
            yield World(server, directory, raw, size, guids)
        raw.unbind()


def queue_values(number: int) -> dict[str, Any]:
    """The attributes of a queue, by the names of the model: all that a create persists."""
    return {
        "label": f"Queue number {number} of the benchmark",
        "type": TYPE,
        "journaling": number % 2 == 0,
        "quota": 10_000 + number,
        "journal_quota": 5_000,
        "authentication": number % 3 == 0,
        "privacy_level": PrivacyLevel.OPTIONAL,
        "transactional": number % 5 == 0,
        "multicast_address": "234.1.1.1:8001",
        "base_priority": number % 7,
    }


def _computer(number: int) -> str:
    return f"pc{number:05}"


def _manager_dn(number: int, root: str) -> str:
    return f"CN=msmq,CN={_computer(number)},CN=Computers,{root}"


def _write(path: str, root: str, size: Size) -> tuple[uuid.UUID, ...]:
    chance = random.Random(SEED)
    guids = []
    with open(path, "w", encoding="ascii") as out:  # noqa: PTH123  a million small writes
        out.writelines(_computer_entry(number, root, chance) for number in range(size.queue_managers))
        out.writelines(_manager_entry(number, root, chance, size) for number in range(size.queue_managers))
        for number in range(size.queues):
            guid = uuid.UUID(int=chance.getrandbits(128))
            guids.append(guid)
            out.write(_queue_entry(number, chance.randrange(size.hosts), guid, root))
    return tuple(guids)


def _b64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _sid(rid: int) -> Sid:
    return Sid(f"S-1-5-21-111-222-333-{rid}")


def _computer_entry(number: int, root: str, chance: random.Random) -> str:
    name, guid = _computer(number), chance.randbytes(16)
    host = f"{name}.example.com"
    return (
        f"dn: CN={name},CN=Computers,{root}\nobjectClass: top\nobjectClass: user\nobjectClass: computer\n"
        f"cn: {name}\nobjectGUID:: {_b64(guid)}\nobjectSid:: {_b64(bytes(_sid(number + 2000)))}\n"
        f"sAMAccountName: {name}$\ndNSHostName: {host}\nservicePrincipalName: HOST/{name}\n"
        f"servicePrincipalName: HOST/{host}\nuserAccountControl: 4096\noperatingSystemVersion: 10.0\n\n"
    )


def _manager_entry(number: int, root: str, chance: random.Random, size: Size) -> str:
    servers = chance.sample(range(size.queue_managers), ROUTING_SERVERS)
    routing = "".join(f"mSMQOutRoutingServers: {_manager_dn(one, root)}\n" for one in servers)
    return (
        f"dn: {_manager_dn(number, root)}\nobjectClass: top\nobjectClass: mSMQConfiguration\ncn: msmq\n"
        f"objectGUID:: {_b64(chance.randbytes(16))}\nmSMQSites:: {_b64(chance.randbytes(16))}\n"
        f"mSMQOSType: 1024\nmSMQQuota: 1048576\nmSMQJournalQuota: -1\nmSMQForeign: FALSE\n"
        f"mSMQRoutingServices: FALSE\nmSMQDsServices: FALSE\nmSMQServiceType: 0\n"
        f"mSMQDependentClientServices: FALSE\nmSMQComputerTypeEx: bench\n{routing}\n"
    )


def _queue_entry(number: int, host: int, guid: uuid.UUID, root: str) -> str:
    values = queue_values(number)
    descriptor = bytes(SecurityDescriptor.build(dacl=[allow(_sid(number), QueueAccess.GENERIC_ALL)]))
    return (
        f"dn: CN=q{number},{_manager_dn(host, root)}\nobjectClass: top\nobjectClass: mSMQQueue\n"
        f"cn: q{number}\nobjectGUID:: {_b64(guid.bytes_le)}\nmSMQLabelEx: {values['label']}\n"
        f"mSMQQueueType:: {_b64(TYPE.bytes_le)}\nmSMQJournal: {_bool(values['journaling'])}\n"
        f"mSMQQueueQuota: {values['quota']}\nmSMQQueueJournalQuota: {values['journal_quota']}\n"
        f"mSMQAuthenticate: {_bool(values['authentication'])}\nmSMQPrivacyLevel: 1\n"
        f"mSMQTransactional: {_bool(values['transactional'])}\nMSMQ-MulticastAddress: 234.1.1.1:8001\n"
        f"nTSecurityDescriptor:: {_b64(descriptor)}\nmSMQBasePriority: {values['base_priority']}\n\n"
    )


def _bool(value: bool) -> str:
    return "TRUE" if value else "FALSE"
