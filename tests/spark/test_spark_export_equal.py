"""What is exported equals what ldapsearch gives, value by value."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.enterprises.many_objects import fill, ldapsearch
from support.enterprises.queue_oracle import compare
from support.spark.exports import access_to

from mqdssm.pipeline.export.run import export
from mqdssm.pipeline.manifest import Manifest
from mqdssm.testing.openldap import OpenLdapServer

pytestmark = [pytest.mark.spark, pytest.mark.server]

SIZES = [pytest.param(1_500, id="1500"), pytest.param(50_000, id="50000", marks=pytest.mark.soak)]


def rows(folder: Path, manifest: Manifest, name: str) -> list[dict]:
    manifest.check(folder)
    tables = [pq.read_table(folder / part.path) for part in manifest.types[name].files]
    return pa.concat_tables(tables).to_pylist()


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("queues", SIZES)
def test_openldap(engine, tmp_path, queues, partitions) -> None:
    with OpenLdapServer(durable=False) as server:
        fill(server, queues)
        shown = ldapsearch(server)
        folder = tmp_path / "out"
        types, access = ["queue", "ldap"], access_to(server)
        manifest = export(
            server.url, types, folder, file_rows=400, partitions=partitions, engine=engine, **access
        )
    assert manifest.engine == engine
    assert len(manifest.types["ldap"].files) > partitions
    compare(rows(folder, manifest, "ldap"), rows(folder, manifest, "queue"), shown, queues)
