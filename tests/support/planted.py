"""What was planted in a sample enterprise, and what was found in it."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from mqdssm.samples.forms import FAULTS_NAME, Loader, SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.ldif import BASE_TREE, OBJECTS
from mqdssm.samples.plan import Plan
from mqdssm.testing.openldap import OpenLdapServer


class Named(NamedTuple):
    """An object that a rule names."""

    rule: str
    type: str
    guid: str | None
    dn: str | None


def plan(seed: int) -> Plan:
    """A small enterprise with all that faults are planted on."""
    return Plan(sites=3, machines=20, queues=100, users=10, seed=seed)


def tables(folder: Path, seed: int) -> Counter[Named]:
    """Write MQIS tables with defects; what must be found."""
    generate(plan(seed), folder, SampleForm.MQIS, faults=True)
    return truth(folder)


def directory(server: OpenLdapServer, folder: Path, seed: int) -> Counter[Named]:
    """Load a directory with defects; what must be found."""
    generate(plan(seed), folder, SampleForm.LDIF, loader=Loader.SLAPADD, faults=True)
    server.load(folder / BASE_TREE, folder / OBJECTS)
    return truth(folder)


def truth(folder: Path) -> Counter[Named]:
    """The objects that findings must name."""
    lines = (folder / FAULTS_NAME).read_text(encoding="utf-8").splitlines()
    return Counter(Named(**json.loads(line)) for line in lines)


def named(findings: Iterable[Any]) -> Counter[Named]:
    """The objects that findings name."""
    return Counter(Named(one.rule, one.type, one.guid, one.dn) for one in findings)


def difference(wanted: Counter[Named], found: Counter[Named]) -> dict[str, list[Named]]:
    """What was missed, and what was found though nobody planted it."""
    return {"missed": [*(wanted - found)], "false": [*(found - wanted)]}


NOTHING: dict[str, list[Named]] = {"missed": [], "false": []}
