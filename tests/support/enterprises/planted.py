"""Small sample enterprises with planted defects, and what was found in them."""

import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import mqdssm
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.frames.bulk import read_batches
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.pipeline.validate.rules.rule import ALL
from mqdssm.samples.entries import BASE_TREE, OBJECTS
from mqdssm.samples.faults import Truth, compare_with_truth, read_truth
from mqdssm.samples.forms import LoadingMode, SampleForm
from mqdssm.samples.generate import generate
from mqdssm.samples.plan import EnterprisePlan
from mqdssm.testing.openldap import OpenLdapServer

Planted = Counter[Truth]


def plan(seed: int) -> EnterprisePlan:
    """A small enterprise with all that faults are planted on."""
    return EnterprisePlan(sites=3, machines=20, queues=100, users=10, seed=seed)


def tables(folder: Path, seed: int) -> Planted:
    """Write MQIS tables with defects; what must be found."""
    generate(plan(seed), folder, SampleForm.MQIS, faults=True)
    return read_truth(folder)


def directory(server: OpenLdapServer, folder: Path, seed: int) -> Planted:
    """Load a directory with defects; what must be found."""
    generate(plan(seed), folder, SampleForm.LDIF, loader=LoadingMode.SLAPADD, faults=True)
    server.load(folder / BASE_TREE, folder / OBJECTS)
    return read_truth(folder)


def added(server: OpenLdapServer, folder: Path, seed: int) -> Planted:
    """Add objects with defects to a running server that has its tree; what must be found below that."""
    generate(plan(seed), folder, SampleForm.LDIF, loader=LoadingMode.LDAPADD, faults=True)
    add_file(server, folder / OBJECTS)
    return Counter(one for one in read_truth(folder).elements() if one.type != "enterprise")


def add_file(server: OpenLdapServer, file: Path) -> None:
    """Add the entries of an LDIF file to a running server."""
    command = ["ldapadd", "-Y", "EXTERNAL", "-Q", "-H", server.ldapi_url, "-f", str(file)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def read_tables(server: OpenLdapServer) -> dict[str, pa.Table]:
    """Read all that validation looks at from a directory, in this process."""
    with mqdssm.connect(server.ldapi_url) as connected:
        return tables_of(connected)


def tables_of(directory: mqdssm.Directory) -> dict[str, pa.Table]:
    """Read all that validation looks at from an open directory."""
    return {
        name: pa.Table.from_batches(
            read_batches(directory, FRAME_TYPES[name]), make_arrow_schema(FRAME_TYPES[name].columns)
        )
        for name in ALL
    }


def assert_equal(planted: Planted, findings: Iterable[Any]) -> None:
    """All that was planted is found, and nothing else."""
    outcome = compare_with_truth(planted, (Truth(one.rule, one.type, one.guid, one.dn) for one in findings))
    assert (outcome.missed, outcome.unplanted) == ((), ())
    assert outcome.planted > 100
