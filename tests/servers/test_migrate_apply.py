"""Plans applied to a real slapd: everything is there, nothing twice, and undone nothing is left."""

import json

import pytest
from applying import SAMPLE, apply_here, everything, sample_plan, undo

from mqdssm.spark.migrate.apply_journal import ApplyJournal
from mqdssm.spark.migrate.report import Report
from mqdssm.testing.openldap import OpenLdapServer


@pytest.fixture
def server():
    with OpenLdapServer(durable=False) as started:
        yield started


def test_a_sample_enterprise_is_migrated_verified_and_undone(server, tmp_path):
    plan, folder = sample_plan(server, tmp_path)
    before = everything(server)
    report = apply_here(server, folder)
    assert report.is_fine, report.model_dump_json(indent=1)
    assert report.last_line == "81 read, 80 written, 1 equal, 0 rejected, 0 lost"
    assert report == Report.load(folder)
    assert report.operations["object added"] == 3 + 12 + 60 + 2
    after = everything(server)
    assert len(after) - len(before) == sum(
        count for name, count in report.operations.items() if name.endswith(" added")
    )
    undo(server, folder)
    assert everything(server) == before
