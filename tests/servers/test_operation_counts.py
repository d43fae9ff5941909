"""Counters and DEBUG logs of a session on a real server."""

import logging

import pytest

import mqdssm
from mqdssm.directory.observation import NO_ANSWER
from mqdssm.testing import OpenLdapServer


def test_an_event_is_seen_operation_by_operation(
    openldap_directory: mqdssm.Directory, caplog: pytest.LogCaptureFixture
) -> None:
    session = openldap_directory.session
    openldap_directory.create(mqdssm.Site(name="Before"))
    before, trips = session.operation_counts, session.round_trips
    with caplog.at_level(logging.DEBUG, "mqdssm.directory.operations"):
        site = mqdssm.Site(name="Watched")
        openldap_directory.create(site)
        site.intra_site_replication_interval = 3
        openldap_directory.write(site)
        openldap_directory.delete(site)
        with pytest.raises(mqdssm.ObjectNotFound):
            openldap_directory.read(mqdssm.Site, mqdssm.Filter("Name", "==", "Watched"))
    after = session.operation_counts
    numbers = {key: number - before.operations.get(key, 0) for key, number in after.operations.items()}
    assert sum(numbers.values()) == session.round_trips - trips == len(caplog.records)
    assert [numbers[kind, 0] for kind in ("add", "modify", "delete")] == [1, 1, 1]
    assert after.connections == before.connections
    assert [line for line in caplog.messages if line.startswith("add 'CN=Watched,CN=Sites,")]
    list(openldap_directory.search(mqdssm.Site))
    assert session.operation_counts.pages > after.pages


def test_a_lost_connection_is_counted() -> None:
    with (
        OpenLdapServer(durable=True) as server,
        mqdssm.connect(
            server.url, user=server.user, password=server.password, ca_file=server.ca_file
        ) as directory,
    ):
        first = directory.session.operation_counts.connections
        server.kill()
        with pytest.raises(mqdssm.DirectoryNotConnected):
            directory.create(mqdssm.Site(name="Lost"))
        server.start()
        directory.create(mqdssm.Site(name="Made"))
        counts = directory.session.operation_counts
        assert counts.connections > first
        assert counts.operations["add", 0] == 1
        assert all(code >= NO_ANSWER for _, code in counts.operations)
