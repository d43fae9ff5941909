"""A small sound enterprise as rows of frames, and what rules say about it, without Spark."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import NameOID

from mqdssm.model.queuenames import rdn_of
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.validate.datasets import read_dataset
from mqdssm.pipeline.validate.rules import RULES
from mqdssm.pipeline.validate.rules.rule import FRAMES, GraphRule, Repeated, Rule
from mqdssm.pipeline.validate.run import choose, draw
from mqdssm.pipeline.validate.sources import ValidationSource
from mqdssm.pipeline.validate.worker import ValidationPlan, can, run_here
from mqdssm.wire.acl import Ace, allow
from mqdssm.wire.certificates import UserSignCerts
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import QueueAccess
from mqdssm.wire.sid import EVERYONE, Sid

ROOT = "DC=example,DC=com"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
MADE = datetime(2026, 1, 1, tzinfo=UTC)
OWNER = Sid("S-1-5-21-1-2-3-1000")
ENTERPRISE_DN = f"CN=MsmqServices,CN=Services,CN=Configuration,{ROOT}"

_KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))  # so that the same is made in every run

World = dict[str, list[dict[str, Any]]]


def guid(n: int) -> str:
    return str(UUID(int=n))


def descriptor(*aces: Ace, owner: Sid | None = OWNER, control: int = 0, dacl: bool = True) -> bytes:
    return bytes(SecurityDescriptor.build(owner=owner, dacl=aces if dacl else None, control=control))


SOUND = descriptor(allow(EVERYONE, QueueAccess.GENERIC_WRITE), allow(OWNER, QueueAccess.GENERIC_ALL))


def site_dn(name: str) -> str:
    return f"CN={name},CN=Sites,CN=Configuration,{ROOT}"


def computer_dn(name: str) -> str:
    return f"CN={name},CN=Computers,{ROOT}"


def machine_dn(name: str) -> str:
    return f"CN=msmq,{computer_dn(name)}"


def settings_dn(machine: str, site: str) -> str:
    return f"CN=MSMQ Settings,CN={machine},CN=Servers,{site_dn(site)}"


def queue(number: int, machine: str, name: str, **changes: Any) -> dict[str, Any]:
    rdn = rdn_of(name)
    row = {
        "Identifier": guid(number),
        "Label": f"Größe {number}",
        "CreateTime": MADE,
        "ModifyTime": MADE + timedelta(days=1),
        "Type": guid(0),
        "Pathname": f"{machine}\\{name}",
        "QualifiedPathname": f"{machine}.example.com\\{name}",
        "Journaling": False,
        "Quota": 2**32 - 1,
        "JournalQuota": 0,
        "Authentication": False,
        "PrivacyLevel": "Optional",
        "Transactional": True,
        "MulticastAddress": "",
        "Security": SOUND,
        "BasePriority": -32768,
        "FullPath": f"CN={rdn.cn},{machine_dn(machine)}",
        "mSMQQueueNameExt": rdn.extension,
    }
    return row | changes


def machine(number: int, name: str, sites: Iterable[int], **changes: Any) -> dict[str, Any]:
    row = {
        "Identifier": guid(number),
        "ComputerName": name,
        "OperatingSystemType": "WinServer",
        "CreateTime": MADE,
        "ModifyTime": MADE,
        "QueueManagerQuota": 0,
        "JournalQuota": 2**32 - 1,
        "ForeignSystem": False,
        "FullPath": machine_dn(name),
        "SiteIdentifierList": [guid(one) for one in sites],
        "OutRoutingServerIdentifierList": [],
        "InRoutingServerIdentifierList": [],
        "RoutingServer": False,
        "DirectoryServer": False,
        "SupportingServer": False,
        "mSMQServiceType": 1 if changes.get("RoutingServer") else 0,
        "PublicEncryptionKeyList": b"",
        "PublicSigningKeyList": b"",
        "Security": SOUND,
    }
    return row | changes


def site(number: int, name: str, **changes: Any) -> dict[str, Any]:
    row = {
        "Identifier": guid(number),
        "Name": name,
        "IntraSiteReplicationInterval": 2,
        "InterSiteReplicationInterval": 10,
        "FullPath": site_dn(name),
        "ForeignSite": False,
        "MigratedFromMsmq10": False,
        "Security": SOUND,
    }
    return row | changes


def link(number: int, one: int, other: int, **changes: Any) -> dict[str, Any]:
    row = {
        "Identifier": guid(number),
        "FullPath": f"CN=L{number},{ENTERPRISE_DN}",
        "ActualCost": 1,
        "Site1Identifier": guid(one),
        "Site2Identifier": guid(other),
        "SiteGateIdentifierList": [],
    }
    return row | changes


def settings(number: int, machine: str, site: str, owner: int, **changes: Any) -> dict[str, Any]:
    row = {
        "Identifier": guid(number),
        "FullPath": settings_dn(machine, site),
        "QueueManagerIdentifier": guid(owner),
        "Services": 1,
        "RoutingServer": True,
        "DirectoryServer": False,
        "SupportingServer": False,
    }
    return row | changes


def computer(number: int, name: str, **changes: Any) -> dict[str, Any]:
    row = {
        "Identifier": guid(number),
        "FullPath": computer_dn(name),
        "Name": name,
        "AccountName": f"{name}$",
        "DnsHostName": f"{name}.example.com",
        "ServicePrincipalNames": [f"HOST/{name}"],
        "Sid": f"S-1-5-21-1-2-3-{number}",
    }
    return row | changes


def user(number: int, name: str, image: bytes = b"", **changes: Any) -> dict[str, Any]:
    row = {
        "Identifier": guid(number),
        "SecurityIdentifier": f"S-1-5-21-1-2-3-{number}",
        "Certificates": image,
        "CertificateDigestList": list(UserSignCerts.from_bytes(image).digests()) if image else [],
        "FullPath": f"CN={name},CN=Users,{ROOT}",
    }
    return row | changes


LONG = "a-name-that-is-too-long-for-the-common-name-of-a-queue-object/and=has<special>characters"
ODD = r"odd\, name"


def sound() -> World:
    """Nothing in it is wrong: every column of every type that rules look at is there."""
    return {
        "enterprise": [
            {
                "Identifier": guid(1),
                "Name": "example.com",
                "WeakenedSecurity": False,
                "DefaultTimeToLive": 345_600,
                "OldDirectory": False,
                "Security": SOUND,
            }
        ],
        "site": [site(10, "Paris"), site(11, "Oslo"), site(12, "Mainframe", ForeignSite=True)],
        "routing-link": [
            link(20, 10, 11, SiteGateIdentifierList=[guid(30), guid(31)]),
            link(21, 11, 12),
        ],
        "queue-manager": [
            machine(30, "paris01", [10], RoutingServer=True),
            machine(31, "oslo01", [11, 12], RoutingServer=True),
            machine(32, "web01", [10], OutRoutingServerIdentifierList=[guid(30)]),
            machine(33, ODD.replace("\\", ""), [11], FullPath=machine_dn(ODD)),
            machine(34, "ibm01", [12], ForeignSystem=True),
        ],
        "settings": [
            settings(40, "paris01", "Paris", 30),
            settings(41, "oslo01", "Oslo", 31),
            settings(42, "oslo01", "Mainframe", 31),
        ],
        "computer": [
            computer(50 + number, name)
            for number, name in enumerate(["paris01", "oslo01", "web01", ODD, "ibm01"])
        ],
        "queue": [
            queue(60, "web01", "orders", MulticastAddress="234.1.1.1:8001", Transactional=False),
            queue(61, "web01", LONG),
            queue(
                62, "odd, name", "orders", FullPath=rf"cn=q\,\2C,{machine_dn(ODD).replace('msmq', 'MSMQ')}"
            ),
            queue(63, "paris01", "x" * 124),
        ],
        "user": [user(70, "ann"), user(71, "bob", certificates())],
    }


def certificates(*, not_before: datetime = MADE, days: int = 365) -> bytes:
    """One certificate, as a directory holds it."""
    der = signed(not_before, days)
    return bytes(UserSignCerts.from_certificates([der], make_guid=lambda: UUID(int=7)))


def signed(not_before: datetime, days: int) -> bytes:
    """A self-signed certificate, DER."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bob")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(_KEY.public_key())
        .serial_number(7)
        .not_valid_before(not_before)
        .not_valid_after(not_before + timedelta(days=days))
    )
    return builder.sign(_KEY, None).public_bytes(serialization.Encoding.DER)


def tables(world: World, *, technical: bool = True) -> dict[str, pa.Table]:
    """The rows as tables with all columns that there may be."""
    made = {}
    for name, rows in world.items():
        columns = [one for one in FRAMES[name] if technical or one.name != "Unreadable"]
        schema = make_arrow_schema(columns)
        for row in rows:
            assert set(row) <= set(schema.names), set(row) - set(schema.names)
        made[name] = pa.Table.from_pylist(rows, schema)
    return made


def source(folder: Path, made: dict[str, pa.Table]) -> ValidationSource:
    """Files of tables."""
    sets = {}
    for name, table in made.items():
        path = folder / f"{name}.parquet"
        pq.write_table(table, path, row_group_size=2)
        sets[name] = read_dataset(name, [path])
    return ValidationSource("a test", sets, {"enterprise": ENTERPRISE_DN})


def found(source: ValidationSource, rules: Iterable[Rule] = RULES) -> list[tuple[str, str, str | None, str]]:
    """Apply rules in this process, as a worker would: rule, type, guid and message of each finding."""
    applied, _, _ = choose(tuple(rules), source.list_present())
    single: dict[str, list[Rule]] = {name: [] for name in source.sets}
    unique: list[tuple[Repeated, tuple[str, ...]]] = []
    for rule, types in applied:
        if isinstance(rule, GraphRule) or rule.kind == "directory":
            continue
        assert can(rule, types, source.sets), rule.id
        if isinstance(rule, Repeated):
            unique.append((rule, types))
        else:
            for name in types:
                single[name].append(rule)
    chosen = {name: tuple(mine) for name, mine in single.items() if mine}
    plan = ValidationPlan(source.sets, chosen, tuple(unique), source.dns, NOW)
    rows = [row for batch in run_here(plan) for row in batch.to_pylist()]
    result = [(row["rule"], row["type"], row["guid"], row["message"]) for row in rows]
    result += [(one.rule, one.type, one.guid, one.message) for one in draw(applied, source)]
    return sorted(result, key=str)
