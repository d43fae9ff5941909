"""Driver, engine, signatures and network together: a small enterprise with threads and the real clock."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.replication.live_servers import Enterprise, pec_with_site, site_of, with_controller
from support.replication.queue_managers import guid_of, wait_until
from support.replication.tcp_machines import TcpNetworks

from mqdssm.drivers.authentication.private_key import PrivateKey
from mqdssm.drivers.authentication.signatures import Distrust, SignaturePolicy
from mqdssm.engines.replication.settings import Role
from mqdssm.errors import DirectoryNotConnected
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.transport import HashAlgorithm
from mqdssm.testing.memory_store.store import MemoryStore

pytestmark = pytest.mark.slow  # waits for threads and sockets


@pytest.fixture
def enterprise() -> Iterator[Enterprise]:
    made = Enterprise()
    yield made
    made.close()


@pytest.mark.spec("MC-MQDSRP 2.1")
@pytest.mark.spec("MC-MQDSRP 3.1.5.1")
def test_three_servers_that_know_each_other_by_their_directory(enterprise):
    """Nobody told the PEC PSC1's key, nor PSC1 that of BSC1: the objects that made them servers have it."""
    pec_with_site(enterprise)
    with_controller(enterprise)
    psc = enterprise.servers["PSC1"]
    assert psc.create_machine("BSC1", "Site1", Service.BSC).status == Hresult.MQ_OK
    bsc = enterprise.server("BSC1", Role.BSC, "Site1", psc="PSC1")
    for name, path in [("BSC1", "BSC1\\asked-bsc"), ("PEC", "PSC1\\asked-pec"), ("PSC1", "PSC1\\own")]:
        wait_until(lambda name=name, path=path: _created(enterprise.servers[name], path))
    for partition in (PEC_PARTITION_ID, site_of("Site1")):
        enterprise.wait_equal("PEC", "PSC1", "BSC1", partition_id=partition)
    assert bsc.queue("PSC1\\asked-pec").status == Hresult.MQ_OK
    deleted = bsc.driver.change(
        command=Command.DELETE,
        object_type=ObjectType.QUEUE,
        partition_id=site_of("Site1"),
        identifier=guid_of("PSC1\\own"),
    )
    assert deleted.status == Hresult.MQ_OK
    enterprise.wait_equal("PEC", "PSC1", "BSC1", partition_id=site_of("Site1"))
    assert bsc.queue("PSC1\\own").status != Hresult.MQ_OK
    for server in enterprise.servers.values():
        assert "dropped: cannot be decoded" not in server.driver.counts.copy()


def _created(server, path: str) -> bool:
    """Create a queue; a server that has not loaded the partition yet says no."""
    return server.create_queue(path, "Site1").status in {Hresult.MQ_OK, Hresult.MQ_ERROR_QUEUE_EXISTS}


def test_the_first_message_of_a_new_psc_is_accepted(enterprise):
    """Decision T132: the PEC has just looked up the PSCs of all sites, and remembers them for a minute."""
    pec_with_site(enterprise)
    with_controller(enterprise)
    pec = enterprise.servers["PEC"]
    assert pec.create_site("Site2", "PSC2").status == Hresult.MQ_OK
    psc = enterprise.server("PSC2", Role.PSC, "Site2")
    wait_until(lambda: "became the authority" in psc.driver.counts.copy())
    assert not [what for what in pec.queue_manager.counts.copy() if what.startswith("distrusted")]


def test_a_server_with_a_wrong_key_changes_nothing(enterprise):
    pec_with_site(enterprise)
    before = enterprise.servers["PEC"].content(PEC_PARTITION_ID)
    forger = enterprise.server("PSC1", Role.PSC, "Site1", key=PrivateKey.generate(1024))
    pec = enterprise.servers["PEC"]
    wrong = f"distrusted: {Distrust.WRONG.value}"
    wait_until(lambda: pec.queue_manager.counts.copy().get(wrong, 0) >= 3)
    assert pec.content(PEC_PARTITION_ID) == before
    assert forger.content(PEC_PARTITION_ID) == ()
    wait_until(lambda: any("signature" in what for what in forger.driver.counts.copy()))


def test_other_hash_algorithms_by_setting():
    policy = SignaturePolicy(
        hash_algorithm=HashAlgorithm.SHA256,
        hash_algorithms=frozenset({HashAlgorithm.SHA256}),
        dated_only=True,
    )
    enterprise = Enterprise(policy=policy)
    try:
        seen = []
        enterprise.network.fault = lambda _source, _target, message: seen.append(message) or (message,)
        pec_with_site(enterprise)
        with_controller(enterprise)
        assert {one.hash_algorithm for one in seen if one.signature} == {HashAlgorithm.SHA256}
    finally:
        enterprise.close()


def test_a_network_that_loses_doubles_and_repeats(enterprise):
    """Every second message is lost, the others come twice, and once more by somebody who recorded them."""
    recorded = []

    def bad(_source, _target, message):
        if len(recorded) % 2:
            recorded.append(None)
            return ()
        number = 10_000 + len(recorded)
        recorded.append(replace(message, identifier=replace(message.identifier, number=number)))
        return message, message, recorded[-1]

    pec_with_site(enterprise)
    with_controller(enterprise)
    enterprise.network.fault = bad
    psc = enterprise.servers["PSC1"]

    def seen() -> set[str]:
        return {what for server in enterprise.servers.values() for what in server.queue_manager.counts.copy()}

    number = 0
    while not {"dropped: came twice", f"distrusted: {Distrust.REPLAYED.value}"} <= seen():
        assert psc.create_queue(f"PSC1\\q{number}", "Site1").status == Hresult.MQ_OK
        number += 1
        wait_until(lambda wanted=number: len(recorded) >= wanted)
    enterprise.network.fault = None
    enterprise.wait_equal("PEC", "PSC1", partition_id=site_of("Site1"))


class Flaky(MemoryStore):
    """A store whose directory is away every third time."""

    calls = 0

    def perform(self, operation):
        self.calls += 1
        if self.calls % 3 == 0:
            raise DirectoryNotConnected("away")
        return super().perform(operation)


def test_directories_that_are_away_now_and_then():
    enterprise = Enterprise(make_store=lambda _name: Flaky())
    try:
        pec_with_site(enterprise)
        psc = enterprise.server("PSC1", Role.PSC, "Site1")
        wait_until(lambda: "became the authority" in psc.driver.counts.copy())
        assert psc.create_machine("PSC1", "Site1", Service.PSC).status == Hresult.MQ_OK
        wait_until(lambda: _created(psc, "PSC1\\one"))
        _eventually_equal(enterprise)
    finally:
        enterprise.close()


class Silent(MemoryStore):
    """A store whose directory is away while a test says so."""

    away = False

    def perform(self, operation):
        if self.away:
            raise DirectoryNotConnected("away")
        return super().perform(operation)


def test_nothing_is_acknowledged_or_passed_on_before_the_directory_has_answered():
    stores: dict[str, Silent] = {}
    enterprise = Enterprise(make_store=lambda name: stores.setdefault(name, Silent()))
    sent = []
    try:
        pec_with_site(enterprise)
        with_controller(enterprise)
        enterprise.network.fault = lambda _source, _target, message: sent.append(message) or (message,)
        psc = enterprise.servers["PSC1"]
        stores["PSC1"].away = True
        values = ((Propid.Q_PATHNAME, "PSC1\\late"), (Propid.Q_LABEL, "kept back"))
        asked = psc.driver.change(
            command=Command.CREATE,
            object_type=ObjectType.QUEUE,
            path_name="PSC1\\late",
            identifier=guid_of("PSC1\\late"),
            partition_id=site_of("Site1"),
            properties=values,
            timeout_s=0.5,
        )
        assert asked.status == Hresult.MQDS_NO_RSP_FROM_OWNER
        label = "kept back".encode("utf-16-le")
        assert not any(label in message.body for message in sent)
        stores["PSC1"].away = False
        wait_until(lambda: any(label in message.body for message in sent))
        assert psc.queue("PSC1\\late").status == Hresult.MQ_OK
        enterprise.wait_equal("PEC", "PSC1", partition_id=site_of("Site1"))
    finally:
        enterprise.close()


def _eventually_equal(enterprise: Enterprise) -> None:
    def equal() -> bool:
        try:
            return enterprise.equal("PEC", "PSC1", partition_id=site_of("Site1"))
        except DirectoryNotConnected:
            return False

    wait_until(equal, 20)


def test_servers_replicate_over_tcp(tmp_path):
    """The PSC is stopped and started again, with another port and the next message numbers."""
    enterprise = Enterprise(network=TcpNetworks(tmp_path))
    try:
        pec_with_site(enterprise)
        store = MemoryStore()
        with_controller(enterprise, store=store)
        assert enterprise.servers["PSC1"].create_queue(r"PSC1\one", "Site1").status == Hresult.MQ_OK
        enterprise.wait_equal("PEC", "PSC1", partition_id=site_of("Site1"))
        enterprise.servers.pop("PSC1").stop()
        assert enterprise.servers["PEC"].create_site("Site2", "PSC2").status == Hresult.MQ_OK
        enterprise.server("PSC1", Role.PSC, "Site1", store=store)
        enterprise.wait_equal("PEC", "PSC1", partition_id=PEC_PARTITION_ID)
    finally:
        enterprise.close()
