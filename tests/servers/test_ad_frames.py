"""The data source's own way to a domain controller: log-ins without a simple bind, one pinned server."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition

from mqdssm.pipeline.failures import MqdssmSparkError
from mqdssm.pipeline.frames.bulk import read_batches
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.pipeline.frames.partitions import SearchSlice, divide_objects
from mqdssm.spark.options import SourceOptions
from mqdssm.spark.source import MqdssmReader
from mqdssm.testing import SambaDomainController

SITES = FRAME_TYPES["site"].select(["Name"])


def options(server: SambaDomainController, folder: Path, **more: str) -> SourceOptions:
    secret = folder / "secret"
    secret.write_text(server.password)
    given = {"object": "site", "url": server.url, "user": server.user, "cafile": server.ca_file}
    return SourceOptions.parse(given | {"credentialsfile": str(secret)} | more)


@pytest.mark.parametrize("authentication", ["simple", "spnego", "ntlm"])
def test_log_ins(samba_server: SambaDomainController, tmp_path: Path, authentication: str) -> None:
    with options(samba_server, tmp_path, authentication=authentication).connect() as directory:
        names = [
            row["Name"]
            for batch in read_batches(directory, FRAME_TYPES["site"], SITES)
            for row in batch.to_pylist()
        ]
    assert "Default-First-Site-Name" in names


def test_slices_name_the_server_that_was_scanned(samba_server: SambaDomainController, tmp_path: Path) -> None:
    urls = f"ldap://127.0.0.1:1 {samba_server.url}"
    parsed = options(samba_server, tmp_path, url=urls, object="ldap", numpartitions="3")
    with parsed.connect() as directory:
        parts = divide_objects(directory, parsed.frame, parsed.numpartitions)
        assert [(part.server, part.key) for part in parts] == [(samba_server.url, "uSNCreated")] * 3
    with parsed.connect(parts[0].server) as directory:
        assert directory.session.server_url == samba_server.url


def test_a_url_that_leads_to_another_controller_than_before(
    samba_server: SambaDomainController, tmp_path: Path
) -> None:
    """The name of a domain stands for all its controllers, and each one counts its own uSNCreated."""
    parsed = options(samba_server, tmp_path, numpartitions="2")
    reader = MqdssmReader(parsed, SITES)
    here = reader.partitions()[0].value
    assert here.name.startswith(b"CN=NTDS Settings,")
    assert sum(batch.num_rows for batch in reader.read(InputPartition(replace(here, high=None)))) > 0
    elsewhere = replace(here, name=b"CN=NTDS Settings,CN=DC2,CN=Servers,DC=x")
    with pytest.raises(
        MqdssmSparkError, match=r"led to CN=NTDS .* before to .*CN=DC2.* name one domain contr"
    ):
        list(reader.read(InputPartition(elsewhere)))


def test_a_slice_shows_no_secret(samba_server: SambaDomainController, tmp_path: Path) -> None:
    parsed = options(samba_server, tmp_path, keytab="/etc/keys", kerberoshost="dc1.contoso.test")
    assert samba_server.password not in repr(parsed) + repr(
        SearchSlice(samba_server.url, "uSNCreated", b"1", b"2")
    )
