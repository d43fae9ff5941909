"""Rows that become objects of a domain, whose controller makes GUIDs itself."""

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pyarrow as pa
import pytest
from support.spark.exports import access_to

import mqdssm
from mqdssm.pipeline.frames.arrow import make_arrow_schema
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.spark.options import WriteOptions
from mqdssm.spark.writing.task import Write, write
from mqdssm.testing import SambaDomainController

pytestmark = [pytest.mark.server, pytest.mark.soak, pytest.mark.timeout(600)]


def frame_of(element: str, rows: list[dict]) -> pa.RecordBatch:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.RecordBatch.from_pylist(rows, schema=make_arrow_schema(FRAME_TYPES[element].select(names)))


def written(server, folder: Path, element: str, rows: list[dict]) -> dict[str, int]:
    """What came of one whole write."""
    secret = folder / "password"
    secret.write_text(server.password)
    given = {
        "url": server.ldaps_url,
        "user": server.user,
        "cafile": server.ca_file,
        "credentialsfile": str(secret),
        "object": element,
        "journal": str(folder / "journal"),
    }
    options = WriteOptions.parse(given)
    own = folder / "journal" / uuid4().hex
    done = write([frame_of(element, rows)], options, own, 0)
    Write(options, own, datetime.now(UTC)).commit([done])
    return dict(done.tally.counts)


def managers_in(site: str) -> list[dict]:
    """Two machines, of which the second refers to the first one by the GUID that this had elsewhere."""
    return [
        {
            "Identifier": str(UUID(int=0xA000 + n)),
            "ComputerName": f"PC{n}",
            "SiteIdentifierList": [site],
            "RoutingServer": n == 0,
            "OutRoutingServerIdentifierList": [str(UUID(int=0xA000))] if n else None,
        }
        for n in range(2)
    ]


QUEUES = [
    {
        "Identifier": str(UUID(int=0xB000 + n)),
        "Pathname": rf"PC{n % 2}\q{n}",
        "Label": f"Größe {n}",
        "Quota": 2**32 - 1 - n,
    }
    for n in range(60)
]


def test_a_domain_is_filled_twice_and_holds_everything_once(tmp_path):
    with SambaDomainController() as server:
        for name in ("PC0", "PC1"):
            server.add_computer(name)
        with mqdssm.connect(server.ldaps_url, **access_to(server)) as directory:
            managers = managers_in(str(directory.create(mqdssm.Site(name="Berlin"))))
            for effect in ("added", "equal"):
                assert written(server, tmp_path, "queue-manager", managers) == {effect: 2}
                assert written(server, tmp_path, "queue", QUEUES) == {effect: 60}
            found = {one.pathname.lower(): one for one in directory.search(mqdssm.Queue)}
            assert len(found) == 60
            for row in QUEUES:
                one = found[row["Pathname"].lower()]
                assert str(one.original_identifier) == row["Identifier"]
                assert (one.label, one.quota) == (row["Label"], row["Quota"])
                assert one.security is not None
            machines = {one.computer_name.upper(): one for one in directory.search(mqdssm.QueueManager)}
            (gate,) = machines["PC1"].out_routing_server_identifier_list
            assert gate == machines["PC0"].identifier
            assert machines["PC0"].routing_server
