"""Changes of a replicating server's directory that nobody would number are refused (decision R106)."""

from collections.abc import Iterator

import pytest
from support.replication.queue_managers import guid_of
from support.servers.sessions import options_for
from typer.testing import CliRunner

import mqdssm
from mqdssm.cli.main import app
from mqdssm.directory.loading.items import Action, Item
from mqdssm.directory.loading.sending import ChangeInFlight
from mqdssm.directory.session import Session
from mqdssm.errors import GenericDirectoryError
from mqdssm.pipeline.access import DirectoryAccess
from mqdssm.store.ldap import LdapStore, Owner
from mqdssm.testing import OpenLdapServer

REFUSED = "directory of the replicating server PEC, which would not number the change"


@pytest.fixture(scope="module")
def server() -> Iterator[OpenLdapServer]:
    with OpenLdapServer(durable=False, replication=True) as made:
        made.add_computer("web01")
        with mqdssm.connect(made.ldapi_url) as directory:  # nobody replicates yet
            site = directory.create(mqdssm.Site(name="Berlin"))
            directory.create(mqdssm.QueueManager(computer_name="web01", site_identifier_list=[site]))
            directory.create(mqdssm.Queue(pathname="web01\\old", label="before"))
        LdapStore.open(options_for(made), owner=Owner(machine_id=guid_of("PEC"), machine_name="PEC")).close()
        yield made


def label(server: OpenLdapServer) -> str | None:
    with mqdssm.connect(server.ldapi_url, read_only=True) as directory:
        queue = next(iter(directory.search(mqdssm.Queue)))
    return queue.label


def test_events_change_nothing(server: OpenLdapServer) -> None:
    with mqdssm.connect(server.ldapi_url) as directory:
        queue = next(iter(directory.search(mqdssm.Queue)))
        queue.label = "by hand"
        with pytest.raises(GenericDirectoryError, match=REFUSED) as caught:
            directory.write(queue)
        assert "with --server DIR/control.sock" in caught.value.hint
        with pytest.raises(GenericDirectoryError, match=REFUSED):
            directory.create(mqdssm.Queue(pathname="web01\\new"))
        with pytest.raises(GenericDirectoryError, match=REFUSED):
            directory.delete(queue)
        assert [one.pathname for one in directory.search(mqdssm.Queue)] == ["web01\\old"]
    assert label(server) == "before"


def test_sessions_and_loads_change_nothing(server: OpenLdapServer) -> None:
    with Session.open(options_for(server)) as session:
        place = f"CN=x,CN=Computers,{server.base_dn}"
        item = Item(row=0, action=Action.ADD, dn=place, attributes={"objectClass": (b"container",)})
        for attempt in (
            lambda: session.add(place, {"objectClass": [b"container"]}),
            lambda: session.rename(f"CN=web01,CN=Computers,{server.base_dn}", "CN=web02"),
            lambda: list(session.loader.load([item])),
            lambda: list(session.loader.send([ChangeInFlight(item=item)])),
        ):
            with pytest.raises(GenericDirectoryError, match=REFUSED):
                attempt()
    with pytest.raises(GenericDirectoryError, match=REFUSED):  # migration and Spark's writer
        DirectoryAccess(urls=(server.ldapi_url,)).connect(read_only=False)
    with DirectoryAccess(urls=(server.ldapi_url,)).connect() as directory:
        assert len(list(directory.search(mqdssm.Queue))) == 1


def test_the_command_line_needs_an_option(server: OpenLdapServer) -> None:
    command = ["create", "queue", "Pathname=web01\\cli", "--url", server.ldapi_url]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 6
    assert "--allow-replicated" in refused.output
    allowed = CliRunner().invoke(app, [*command, "--allow-replicated"])
    assert allowed.exit_code == 0, allowed.output
    deleted = CliRunner().invoke(
        app, ["delete", "queue", "Pathname=web01\\cli", "--url", server.ldapi_url, "--allow-replicated"]
    )
    assert deleted.exit_code == 0, deleted.output


def test_the_directory_is_looked_at_once_a_session(server: OpenLdapServer) -> None:
    with OpenLdapServer(durable=False) as plain, Session.open(options_for(plain)) as session:
        before = session.round_trips
        for n in range(3):
            session.add(f"CN=c{n},CN=Computers,{plain.base_dn}", {"objectClass": [b"container"]})
        assert session.round_trips - before == 4
    with Session.open(options_for(server, allow_replicated=True)) as session:
        before = session.round_trips
        session.modify(f"CN=web01,CN=Computers,{server.base_dn}", {"description": [b"allowed"]})
        assert session.round_trips - before == 1
