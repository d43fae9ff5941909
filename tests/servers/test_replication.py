"""Replication between five servers, each with a slapd of its own ([MC-MQDSRP] 1.3.1.2, 1.3.1.3)."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.replication.clients import Client as Worker
from support.replication.clients import differences
from support.replication.live_directories import MEMBERS, PARTITIONS, SITES, WAIT_S, Client, Directories
from support.replication.live_servers import site_of
from support.replication.queue_managers import guid_of, wait_until
from typer.testing import CliRunner

import mqdssm
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import Service
from mqdssm.tables.property_rows import make_queue_rdn
from mqdssm.testing.openldap import OpenLdapServer

CHANGES = 30
"""Changes at each server of the ordinary run."""


@pytest.fixture(scope="module")
def enterprise() -> Iterator[Directories]:
    made = Directories()
    try:
        made.found()
        yield made
    finally:
        made.close()


def put_to_work(enterprise: Directories, changes: int) -> list[Worker]:
    """Clients at all servers, who do so much at the same time."""
    sites = tuple(map(site_of, SITES))
    made = [Worker(name, Client(enterprise, name), sites, makes_sites=name == "PEC") for name in MEMBERS]
    with ThreadPoolExecutor(len(made)) as threads:
        list(threads.map(lambda one: one.run(changes), made))
    return made


def check_all(enterprise: Directories, workers: list[Worker]) -> None:
    """All servers have the same of every partition, and what clients were told is there."""
    enterprise.wait_whole()
    for partition_id in PARTITIONS:
        first, *others = (enterprise.changes(name, partition_id) for name in MEMBERS)
        assert first
        assert all(one == first for one in others)
    things = [thing for worker in workers for thing in worker.things.values()]
    for name in MEMBERS:
        assert not differences(things, enterprise.objects(name))


@pytest.fixture(scope="module")
def workers(enterprise: Directories) -> list[Worker]:
    """Clients at all servers, who have done their work."""
    return put_to_work(enterprise, CHANGES)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.2")
def test_all_servers_have_the_same(enterprise: Directories, workers: list[Worker]) -> None:
    check_all(enterprise, workers)
    kinds = {thing.kind for worker in workers for thing in worker.things.values()}
    assert kinds == set(ObjectType) - {ObjectType.DELETED_OBJECT, ObjectType.ENTERPRISE}
    assert any(thing.values is None for worker in workers for thing in worker.things.values())


def run(server: OpenLdapServer, *arguments: str) -> Any:
    """What a command answers; the server's administrator asks."""
    from mqdssm.cli.main import app

    result = CliRunner().invoke(app, [*arguments, "--url", server.ldapi_url, "--output", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_adapter_finds_what_was_made_elsewhere(enterprise: Directories, workers: list[Worker]) -> None:
    enterprise.wait_whole()
    server = enterprise.directories["BSC2"]
    queues = [one for worker in workers for one in worker.live(ObjectType.QUEUE)]
    machines = [one for worker in workers for one in worker.live(ObjectType.MACHINE)]
    listed = {one["Identifier"]: one for one in run(server, "list", "queue")}
    assert listed.keys() == {str(one.identifier) for one in queues}
    managers = {one["Identifier"] for one in run(server, "list", "queue-manager")}
    assert managers == {str(one.identifier) for one in machines} | {str(guid_of(name)) for name in MEMBERS}
    with mqdssm.connect(server.ldapi_url) as directory:
        for thing in queues:
            found = directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", thing.identifier.uuid))
            path_name = str(thing.path_name)
            if make_queue_rdn(path_name) is not None:  # others have a GUID as RDN (decision R53)
                assert str(found.pathname).casefold() == path_name.casefold()
            assert found.quota == (thing.values or {})[Propid.Q_QUOTA]


def test_a_change_at_a_bsc_is_read_at_once_by_the_command_line(enterprise: Directories) -> None:
    bsc, psc = enterprise.servers["BSC1"], enterprise.directories["PSC1"]
    identifier = guid_of("at once")
    asked = bsc.driver.change(
        command=Command.CREATE,
        object_type=ObjectType.QUEUE,
        partition_id=site_of("Site1"),
        path_name=r"PSC1\at once",
        identifier=identifier,
        properties=((Propid.Q_LABEL, "Größe"), (Propid.Q_QUOTA, 7)),
    )
    assert asked.status == Hresult.MQ_OK
    read = run(psc, "read", "queue", f"Identifier={identifier}")
    assert (read["Label"], read["Quota"], read["Pathname"]) == ("Größe", 7, r"psc1\at once")


def test_a_site_is_handed_over_to_its_bsc(enterprise: Directories, workers: list[Worker]) -> None:
    old, new = enterprise.servers["PSC1"], enterprise.servers["BSC1"]
    handed = old.driver.change(
        command=Command.UPDATE,
        object_type=ObjectType.MACHINE,
        partition_id=site_of("Site1"),
        identifier=guid_of("BSC1"),
        properties=((Propid.QM_SERVICE, int(Service.PSC)),),
    )
    assert handed.status == Hresult.MQ_OK
    wait_until(lambda: "became the authority" in new.driver.counts.copy(), WAIT_S)
    assert "handed over" in old.driver.counts.copy()
    for name in MEMBERS:
        made = Client(enterprise, name).ask(
            Command.CREATE,
            ObjectType.QUEUE,
            site_of("Site1"),
            path_name=f"BSC1\\by {name}",
            identifier=guid_of(f"by {name}"),
        )
        assert made.status == Hresult.MQ_OK
    check_all(enterprise, workers)
    site = enterprise.objects("PSC2")[site_of("Site1")]
    assert site[Propid.S_PSC] == "BSC1"
    services = {
        name: enterprise.objects("PEC")[guid_of(name)][Propid.QM_SERVICE] for name in ("PSC1", "BSC1")
    }
    assert services == {"PSC1": Service.BSC, "BSC1": Service.PSC}
