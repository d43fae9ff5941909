"""LDIF that makes a domain equal a directory of OpenLDAP."""

import subprocess
from pathlib import Path

import pytest

import mqdssm
from mqdssm.pipeline.diff.changes import format_changes
from mqdssm.pipeline.diff.run import ComparisonRequest, compare_sources
from mqdssm.pipeline.diff.sides import GivenSide
from mqdssm.pipeline.export.run import export
from mqdssm.testing import SambaDomainController

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


def test_queues_of_another_kind_of_server(spark, enterprise, tmp_path):
    """The domain makes GUIDs itself: afterwards the queues are found by those that they had."""
    export(enterprise.server.url, ["queue", "queue-manager"], tmp_path / "out", **enterprise.access)
    with SambaDomainController() as domain:
        login = {"user": domain.user, "password": domain.password, "ca_file": domain.ca_file}
        with mqdssm.connect(domain.ldaps_url, **login) as directory:
            site = directory.create(mqdssm.Site(name="Paris"))
            for name in ("web01", "web02"):
                domain.add_computer(name)
                directory.create(mqdssm.QueueManager(computer_name=name, site_identifier_list=[site]))
            directory.create(mqdssm.Queue(pathname=r"web01\extra"))
        a, b = GivenSide(folder=tmp_path / "out"), GivenSide(urls=(domain.ldaps_url,), login=login)
        asked = ComparisonRequest(types=frozenset({"queue"}), mending=True)
        with compare_sources(a, b, asked) as found:
            assert {one.kind for one in found.differences} == {"missing", "extra"}
            ldif = "".join(format_changes(found))
        apply(domain, ldif, tmp_path)
        with compare_sources(a, b, asked) as found:
            assert [(one.kind, one.name, one.attributes, one.a, one.b) for one in found.differences] == []


def apply(domain, ldif: str, folder: Path) -> None:
    secret = folder / "secret"
    secret.touch(mode=0o600)
    secret.write_text(domain.password)
    command = ["ldapmodify", "-x", "-H", domain.ldaps_url, "-D", domain.user, "-y", str(secret)]
    environment = {"LDAPTLS_CACERT": domain.ca_file, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, input=ldif, capture_output=True, text=True, env=environment, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
