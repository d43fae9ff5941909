"""Many changes at once while the server goes away, or the caller does: each outcome says what is stored."""

import threading
import time
from collections.abc import Iterator

import pytest

import mqdssm
from mqdssm.directory.observation import NO_ANSWER
from mqdssm.testing import OpenLdapServer

QUEUES = 450


@pytest.fixture
def server() -> Iterator[OpenLdapServer]:
    with OpenLdapServer(durable=True) as server:
        yield server


def connect(server: OpenLdapServer) -> mqdssm.Directory:
    return mqdssm.connect(server.url, user=server.user, password=server.password, ca_file=server.ca_file)


def queues_of_one_machine(server: OpenLdapServer, directory: mqdssm.Directory) -> list[mqdssm.Queue]:
    server.add_computer("bulk")
    site = directory.create(mqdssm.Site(name="Bulk"))
    directory.create(mqdssm.QueueManager(computer_name="bulk", site_identifier_list=[site]))
    return [mqdssm.Queue(pathname=rf"bulk\q{number}", label="new") for number in range(QUEUES)]


def stored(directory: mqdssm.Directory) -> dict[str, mqdssm.Queue]:
    return {queue.pathname or "": queue for queue in directory.search(mqdssm.Queue)}


def test_outcomes_while_the_server_restarts(server: OpenLdapServer) -> None:
    stop = threading.Event()

    def disturb() -> None:
        for _ in range(2):
            if stop.wait(0.25):
                break
            server.kill()
            time.sleep(0.1)
            server.start()

    with connect(server) as directory:
        queues = queues_of_one_machine(server, directory)
        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            outcomes = list(directory.create_many(slowly(queues)))
        finally:
            stop.set()
            thread.join(30)
        found = stored(directory)
        lost = directory.session.operation_counts.operations.get(("add", NO_ANSWER), 0)
    assert len(outcomes) == QUEUES
    for outcome in outcomes:
        if outcome.succeeded:
            assert found[outcome.element.pathname or ""].identifier == outcome.identifier
        elif not isinstance(outcome.error, mqdssm.OutcomeUnknown):
            assert isinstance(outcome.error, mqdssm.DirectoryNotConnected)
            assert outcome.element.pathname not in found
    assert sum(outcome.succeeded for outcome in outcomes) > QUEUES // 10
    assert lost or not all(outcome.succeeded for outcome in outcomes), "the server never went away"


def slowly(queues: list[mqdssm.Queue]) -> Iterator[mqdssm.Queue]:
    for queue in queues:
        time.sleep(0.003)
        yield queue


def test_a_generator_that_is_closed_early_leaves_a_clear_state(server: OpenLdapServer) -> None:
    with connect(server) as directory:
        queues = queues_of_one_machine(server, directory)
        outcomes = directory.create_many(queues)
        for _ in range(50):
            assert next(outcomes).succeeded
        outcomes.close()
        found = stored(directory)
        made = {queue.pathname for queue in queues if queue.identifier is not None}
        assert made == found.keys()
        assert 50 <= len(made) < QUEUES
        assert directory.session.references == 0
        again = list(directory.upsert_many(queues))
        assert [outcome.error for outcome in again] == [None] * QUEUES
        assert sum(outcome.created for outcome in again) == QUEUES - len(made)
        assert len(stored(directory)) == QUEUES
