"""What a validation of a large enterprise gives, made without validating: summary, findings, sites, links."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mqdssm.pipeline.validate.datasets import Dataset
from mqdssm.pipeline.validate.findings import Findings, RuleResult, Skipped, ValidationSummary
from mqdssm.pipeline.validate.rules import RULES
from mqdssm.pipeline.validate.rules.rule import Finding
from mqdssm.pipeline.validate.scan import SCHEMA
from mqdssm.wire.acl import allow
from mqdssm.wire.masks import QueueAccess
from mqdssm.wire.sid import EVERYONE, Sid
from support.enterprises.rules_world import (
    World,
    computer,
    descriptor,
    guid,
    link,
    machine,
    machine_dn,
    queue,
    site,
    site_dn,
    source,
    tables,
    user,
)

STARTED = datetime(2026, 3, 1, 8, 15, tzinfo=UTC)
CITIES = (
    "Aachen",
    "Bergen",
    "Calais",
    "Dublin",
    "Espoo",
    "Firenze",
    "Graz",
    "Haarlem",
    "Izmir",
    "Jena",
    "Malmö",
)
PLACES = ("", "-DC", " Plant", "-Office", "-Branch-Network", " (new building, 3rd floor)", "-Lab", "-Depot")


def names(count: int) -> list[str]:
    return [f"{CITIES[n % len(CITIES)]}{PLACES[n // len(CITIES) % len(PLACES)]}" for n in range(count)]


def world_of(sites: int = 120, machines: int = 2000, seed: int = 1) -> World:
    """Hubs, branches below them, a few rings, some islands."""
    chance = random.Random(seed)
    called = names(sites)
    rows = [
        site(1000 + n, name, ForeignSite=n % 17 == 9, FullPath=site_dn(name)) for n, name in enumerate(called)
    ]
    hubs = max(sites // 15, 1)
    pairs = [(n, (n + 1) % hubs) for n in range(hubs) if hubs > 1]
    pairs += [(n, chance.randrange(hubs)) for n in range(hubs, sites - 4)]
    pairs += [
        (chance.randrange(hubs, sites), chance.randrange(hubs)) for _ in range(sites // 12) if sites > hubs
    ]
    joined = {tuple(sorted(pair)) for pair in pairs if pair[0] != pair[1]}
    links = [
        link(9000 + n, 1000 + one, 1000 + other, ActualCost=chance.choice([1, 5, 10, 100]))
        for n, (one, other) in enumerate(sorted(joined))
    ]
    links.append(link(8999, 1000, 777_777))
    rows_of_machines = [
        machine(20_000 + n, f"srv{n:05}", [1000 + min(int(chance.expovariate(6 / sites)), sites - 1)])
        for n in range(machines)
    ]
    return {"site": rows, "routing-link": links, "queue-manager": rows_of_machines}


def enterprise(folder: Path, sites: int = 120, machines: int = 2000, seed: int = 1) -> dict[str, Dataset]:
    """The files of an enterprise."""
    return dict(source(folder, tables(world_of(sites, machines, seed))).sets)


def findings_of(count: int, seed: int = 1, hostile: str = "") -> list[Finding]:
    """Findings of many rules, few of which have most."""
    chance = random.Random(seed)
    ids = {rule.id: rule for rule in RULES if rule.id != "schema-drift"}  # which is about servers
    rules = list(ids.values())
    chance.shuffle(rules)
    found = []
    for n in range(count):
        rule = rules[min(int(chance.expovariate(0.12)), len(rules) - 1)]
        kind = chance.choice(rule.types)
        number = {"site": 1000 + n % 37, "routing-link": 9000 + n % 29}.get(kind, 20_000 + n % 1500)
        found.append(
            Finding(
                rule=rule.id,
                severity=rule.severity,
                type=kind,
                dn=f"CN=queue {n},{machine_dn(f'srv{n % 1500:05}')}{hostile}" if n % 5 else None,
                guid=guid(number),
                attribute=rule.attribute,
                message=f"there is no such object, or {n} is not what it should be{hostile}",
                section=rule.section,
            )
        )
    return sorted(found, key=lambda one: (one.rule, one.type, one.dn or "", one.guid or ""))


def saved(folder: Path, found: list[Finding]) -> Findings:
    path = folder / "findings.parquet"
    rows = [{name: getattr(one, name) for name in Finding.__slots__} for one in found]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    return Findings((path,))


def summary_of(
    findings: Findings, sets: dict[str, Dataset], name: str = "export/2026-03-01"
) -> ValidationSummary:
    counts, samples = findings.count_findings()
    rules = {rule.id: rule for rule in RULES}
    return ValidationSummary(
        source=name,
        started=STARTED,
        ended=STARTED + timedelta(seconds=83),
        objects={one: found.rows for one, found in sets.items()} | {"queue": 1_250_000},
        rules=tuple(
            RuleResult(
                id=one.id,
                severity=one.severity,
                kind=one.kind,
                requirement=one.requirement,
                section=one.section,
                types=one.types,
                count=counts[one.id],
                samples=samples.get(one.id, ()),
            )
            for one in rules.values()
            if one.id != "schema-drift"
        ),
        skipped=(Skipped("schema-drift", "the source is no directory"),),
        versions={"mqdssm": "0.1.0", "python": "3.13.1", "pyspark": "4.3.0", "pyarrow": "26.0.1"},
    )


def with_queues(world: World, count: int, seed: int = 1) -> World:
    """Add queues to the machines of an enterprise, with owners and rights as people leave them."""
    chance = random.Random(seed)
    owners = [Sid(f"S-1-5-21-1-2-3-{1000 + n}") for n in range(40)]
    images = [
        descriptor(allow(EVERYONE, mask), allow(owner, QueueAccess.GENERIC_ALL), owner=owner)
        for owner in owners
        for mask in (QueueAccess.GENERIC_WRITE, QueueAccess.GENERIC_READ)
    ]
    machines = world["queue-manager"]
    world["queue"] = [
        queue(
            100_000 + n,
            f"gone{n}" if n % 500 == 7 else str(chance.choice(machines)["ComputerName"]),
            f"orders-{n}",
            Security=chance.choice(images) if n % 333 else None,
            Transactional=n % 3 == 0,
            Quota=chance.choice([2**32 - 1, 1024, 65536]),
        )
        for n in range(count)
    ]
    world["computer"] = [
        computer(50_000 + n, str(one["ComputerName"])) for n, one in enumerate(machines) if n % 97
    ]
    world["user"] = [user(1000 + n, f"Person {n}") for n in range(30)]
    machines.append(machines[3] | {"ComputerName": "clone", "FullPath": machine_dn("clone")})
    return world
