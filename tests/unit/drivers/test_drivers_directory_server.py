"""Directory servers are put together, started and closed in one place."""

import pytest
from support.replication.queue_managers import guid_of, key_of, wait_until

from mqdssm.drivers.replication.directory_server import start_directory_server
from mqdssm.engines.replication.operations import HasObjects
from mqdssm.engines.replication.settings import Role, Settings
from mqdssm.errors import TransportError
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.testing.in_process_network import InProcessNetwork
from mqdssm.testing.memory_store.store import MemoryStore

SETTINGS = Settings(
    machine_name="PEC", machine_id=guid_of("PEC"), site_id=guid_of("site"), role=Role.PEC, pec_name="PEC"
)


class BrokenStore(MemoryStore):
    """A store with a defect."""

    def perform(self, operation):
        raise ZeroDivisionError(type(operation).__name__)


def start(network, store):
    return start_directory_server(SETTINGS, store, network, key=key_of("PEC"))


def test_it_works_until_it_is_closed_and_its_store_stays_open():
    network, store = InProcessNetwork(), MemoryStore()
    with start(network, store) as server:
        wait_until(lambda: server.driver.status().partitions)
        assert not server.store.lookup(HasObjects(partition_id=guid_of("elsewhere"))).yes
    assert store.perform(HasObjects(partition_id=PEC_PARTITION_ID)).yes is False
    with start(network, store):  # the name is free again
        pass
    network.close()


def test_a_second_server_of_the_same_machine_is_refused():
    network = InProcessNetwork()
    with start(network, MemoryStore()), pytest.raises(ValueError, match="already"):
        start(network, MemoryStore())
    network.close()


def test_closing_raises_the_defect_that_stopped_it():
    network = InProcessNetwork()
    server = start(network, BrokenStore())
    wait_until(lambda: not server._thread.is_alive)
    with pytest.raises(ZeroDivisionError, match="LoadState"):
        server.close()
    network.close()


def test_closing_says_that_the_queue_manager_has_stopped():
    network = InProcessNetwork()
    server = start(network, MemoryStore())
    wait_until(lambda: server.driver.status().partitions)
    server.queue_manager.close()
    wait_until(lambda: not server._thread.is_alive)
    with pytest.raises(TransportError, match="stopped"):
        server.close()
    network.close()
