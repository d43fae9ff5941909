"""Snapshots of running directory servers: what status, metrics and the status page are made from."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from support.replication.live_servers import Enterprise, pec_with_site, site_of, with_controller
from support.replication.queue_managers import guid_of, wait_until
from support.replication.snapshots import FINE, acknowledgement, neighbor, partition
from support.replication.tcp_machines import TcpNetworks

from mqdssm.drivers.measurements import MessageOutcome
from mqdssm.drivers.threads import WorkerThread
from mqdssm.engines.replication.actions import ChangeObject
from mqdssm.engines.replication.operations import ListObjects, ObjectRead, ObjectsListed
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.session.timers import SessionState
from mqdssm.errors import DirectoryNotConnected
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.server.known_sites import REFRESH_S, RETRY_S, SITES_AT_ONCE, KnownSites
from mqdssm.server.problems import NO_FOLDER_PROBLEMS, PSC_SILENT_INTERVALS, FolderProblems, problems_of
from mqdssm.server.snapshot import KnownServer, OwnObjectsSnapshot, ServerSnapshot, StoreSnapshot
from mqdssm.server.snapshot_reader import SnapshotReader
from mqdssm.testing.memory_store.store import MemoryStore

pytestmark = pytest.mark.slow  # waits for threads and sockets


@pytest.fixture
def enterprise(tmp_path) -> Iterator[Enterprise]:
    made = Enterprise(network=TcpNetworks(tmp_path))
    yield made
    made.close()


def reader_of(enterprise: Enterprise, name: str, *, clock: Callable[[], float] = time.time) -> SnapshotReader:
    network = enterprise.network.networks[name]
    server = enterprise.servers[name].server
    return SnapshotReader(server, sessions=network.sessions, transport_counts=network.counts, clock=clock)


def test_snapshots_of_two_servers_over_tcp(enterprise):
    before = datetime.now(UTC)
    pec_with_site(enterprise)
    reader = reader_of(enterprise, "PEC")
    with_controller(enterprise)
    psc = enterprise.servers["PSC1"]
    assert psc.create_queue(r"PSC1\one", "Site1").status == Hresult.MQ_OK
    enterprise.wait_equal("PEC", "PSC1", partition_id=site_of("Site1"))
    status = enterprise.servers["PEC"].driver.status
    wait_until(lambda: [one.last for one in status().partitions if not one.is_owned] == [2])
    snapshot = reader.read()
    assert (snapshot.machine_name, snapshot.role, snapshot.site_name) == ("PEC", Role.PEC, "Site0")
    assert (snapshot.machine_id, snapshot.site_id) == (guid_of("PEC").uuid, site_of("Site0").uuid)
    assert before <= snapshot.started_at <= snapshot.taken_at
    partitions = {partition.label: partition for partition in snapshot.partitions}
    assert set(partitions) == {"enterprise", "Site0", "Site1"}
    assert [partitions[name].is_ours for name in ("enterprise", "Site0", "Site1")] == [True, True, False]
    assert partitions["Site1"].owner == "PSC1"
    assert partitions["Site1"].last_number == 2
    assert partitions["Site1"].state == "NORMAL"
    (psc1,) = snapshot.neighbors
    assert (psc1.machine_name, psc1.site_name, psc1.is_bsc) == ("PSC1", "Site1", False)
    assert psc1.last_heard is not None
    assert psc1.last_heard >= snapshot.started_at
    assert psc1.unacknowledged == max(ack.unacknowledged for ack in psc1.acknowledgements) > 0
    states = {
        (session.peer.casefold(), session.state) for session in snapshot.sessions if session.is_initiator
    }
    assert states == {("psc1", SessionState.OPEN)}
    assert any(not session.is_initiator for session in snapshot.sessions)
    assert [(queue.name, queue.messages) for queue in snapshot.queues if not queue.is_outgoing] == [
        ("mqis_queue$", 0)
    ]
    counts = {(count.message_type, count.outcome): count.count for count in snapshot.messages}
    assert counts["SyncReplyMessage", MessageOutcome.SENT] >= 1
    assert counts["ChangePropagationMessage", MessageOutcome.RECEIVED] >= 1
    events = {(event.part, event.event) for event in snapshot.events}
    assert ("transport", "session opened") in events
    operations = {operation.operation: operation for operation in snapshot.store.operations}
    assert operations["CreateObject"].count >= 4
    assert 0 < operations["CreateObject"].longest_s <= operations["CreateObject"].total_s
    assert snapshot.is_working
    assert snapshot.is_healthy
    sites = {site.name: site.servers for site in snapshot.sites}
    assert sites == {
        "Site0": (KnownServer(machine_name="PEC", role=Role.PEC),),
        "Site1": (KnownServer(machine_name="PSC1", role=Role.PSC),),
    }
    assert ServerSnapshot.model_validate_json(snapshot.model_dump_json()) == snapshot
    other = reader_of(enterprise, "PSC1").read()
    assert (other.role, other.psc_name) == (Role.PSC, "")
    assert {partition.label: partition.is_ours for partition in other.partitions} == {
        "enterprise": False,
        "Site0": False,
        "Site1": True,
    }


def test_a_bsc_and_its_psc(enterprise):
    pec_with_site(enterprise)
    assert enterprise.servers["PEC"].create_machine("BSC0", "Site0", Service.BSC).status == Hresult.MQ_OK
    bsc = enterprise.server("BSC0", Role.BSC, "Site0", psc="PEC")
    wait_until(lambda: bsc.driver.messages.find_last_heard("PEC"))
    snapshot = reader_of(enterprise, "BSC0").read()
    assert (snapshot.role, snapshot.psc_name) == (Role.BSC, "PEC")
    reader = reader_of(enterprise, "PEC")
    wait_until(lambda: reader.read(refresh=False).neighbors[0].silent_s is not None)
    backup, _psc = reader.read().neighbors
    assert (backup.machine_name, backup.is_bsc, backup.acknowledgements) == ("BSC0", True, ())


def test_a_neighbour_that_cannot_be_reached(enterprise):
    pec_with_site(enterprise)
    reader = reader_of(enterprise, "PEC")
    wait_until(lambda: reader.read(refresh=False).problems)
    (problem,) = reader.read().problems
    assert (problem.severity, problem.subject) == ("warning", "PSC PSC1")
    assert problem.text.startswith("it cannot be reached, and ")
    (queue,) = [queue for queue in reader.read().queues if queue.is_outgoing]
    assert queue.name == "psc1"
    assert queue.messages > 0
    snapshot = reader.read()
    (lost,) = snapshot.neighbors
    (queue,) = [queue for queue in snapshot.queues if queue.is_outgoing]
    assert lost.queued == queue.messages
    assert f"{lost.queued:,} messages wait for it: " in snapshot.problems[0].text
    assert queue.octets > 0


def test_a_psc_that_its_bsc_cannot_reach(enterprise):
    pec_with_site(enterprise)
    assert enterprise.servers["PEC"].create_machine("BSC0", "Site0", Service.BSC).status == Hresult.MQ_OK
    bsc = enterprise.server("BSC0", Role.BSC, "Site0", psc="PEC")
    wait_until(lambda: bsc.driver.messages.find_last_heard("PEC"))
    reader = reader_of(enterprise, "BSC0")
    before = reader.read()
    assert before.psc_problem == ""
    assert all(problem.subject != "PSC PEC" for problem in before.problems)
    enterprise.servers.pop("PEC").stop()
    wait_until(lambda: (lost := reader.read(refresh=False)).psc_problem and lost.psc_queued)
    snapshot = reader.read()
    (problem,) = [problem for problem in snapshot.problems if problem.subject == "PSC PEC"]
    assert problem.severity == "warning"
    assert problem.text.startswith("this server's PSC cannot be reached, and ")
    assert problem.text.endswith(snapshot.psc_problem)


def test_a_psc_that_has_been_silent_for_three_intervals_of_headers(enterprise):
    """A BSC has no message for it, and so would not notice that it is gone."""
    pec_with_site(enterprise)
    assert enterprise.servers["PEC"].create_machine("BSC0", "Site0", Service.BSC).status == Hresult.MQ_OK
    bsc = enterprise.server("BSC0", Role.BSC, "Site0", psc="PEC")
    wait_until(lambda: bsc.driver.messages.find_last_heard("PEC"))
    header_s = bsc.server.settings.header_s
    late_s = 0.0
    reader = reader_of(enterprise, "BSC0", clock=lambda: time.time() + late_s)
    late_s = PSC_SILENT_INTERVALS * header_s - 60
    assert reader.read().psc_problem == ""
    late_s = PSC_SILENT_INTERVALS * header_s + 60
    snapshot = reader.read()
    assert snapshot.psc_problem.startswith("it has sent nothing for ")
    assert any(snapshot.psc_problem in problem.text for problem in snapshot.problems)
    assert reader_of(enterprise, "PEC", clock=lambda: time.time() + late_s).read().psc_problem == ""


class Away(MemoryStore):
    """A store whose directory is away while a test says so."""

    away = False

    def perform(self, operation):
        if self.away:
            raise DirectoryNotConnected("slapd is away")
        return super().perform(operation)


def test_a_store_that_is_away_and_a_stopped_server(enterprise):
    store = Away()
    pec = enterprise.server("PEC", Role.PEC, "Site0", store=store)
    wait_until(lambda: pec.driver.status().partitions)
    reader = reader_of(enterprise, "PEC")
    assert reader.read().is_healthy
    store.away = True
    pec.driver.ask(_change, 0.01)
    wait_until(lambda: not reader.read().is_healthy)
    snapshot = reader.read()
    assert snapshot.store.failures > 0
    assert [(problem.severity, problem.subject) for problem in snapshot.problems] == [("error", "store")]
    assert "slapd is away (no answer since " in snapshot.problems[0].text
    store.away = False
    wait_until(lambda: reader.read().is_healthy)
    assert reader.read().store.problem == ""
    enterprise.servers.pop("PEC").stop()
    stopped = reader.read()
    assert not stopped.is_working
    assert [problem.subject for problem in stopped.problems] == ["server"]


def _change(request):
    return ChangeObject(
        request=request,
        command=Command.CREATE,
        object_type=ObjectType.SITE,
        path_name="Site9",
        identifier=site_of("Site9"),
        partition_id=PEC_PARTITION_ID,
        properties=((Propid.S_PATHNAME, "Site9"),),
    )


def test_the_last_notes(enterprise):
    pec = enterprise.server("PEC", Role.PEC, "Site0")
    wait_until(lambda: pec.driver.status().partitions)
    pec.driver.notes.add("something", "of PSC1", time.time(), is_warning=True)
    notes = reader_of(enterprise, "PEC").read().notes
    assert [(note.summary, note.detail, note.is_warning) for note in notes if note.is_warning] == [
        ("something", "of PSC1", True)
    ]


def test_snapshots_are_read_while_the_server_works(enterprise):
    """In another thread, in every moment of the work."""
    pec_with_site(enterprise)
    reader, ending, numbers = reader_of(enterprise, "PEC"), threading.Event(), []

    def read() -> None:
        while not ending.is_set():
            snapshot = reader.read()
            numbers.append(next(one.last_number for one in snapshot.partitions if one.is_enterprise))

    worker = WorkerThread(read, "reader")
    worker.start()
    try:
        for number in range(30):
            assert enterprise.servers["PEC"].create_site(f"More{number}", "PSC1").status == Hresult.MQ_OK
    finally:
        ending.set()
    worker.join()  # raises the error of a read
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 1


# --- problems


def found(
    *, partitions=(), neighbors=(), store=FINE, is_working=True, folder=NO_FOLDER_PROBLEMS
) -> list[tuple[str, str]]:
    problems = problems_of(
        is_working=is_working,
        store=store,
        partitions=partitions,
        neighbors=neighbors,
        folder=folder,
        bsc_ack_s=100,
    )
    return [(problem.severity, problem.subject) for problem in problems]


def test_a_receiver_that_has_stopped_is_a_problem():
    """The server still replicates: it is healthy."""
    stopped = OwnObjectsSnapshot(
        is_receiving=False, is_known=True, queues=0, queue_manager_quota=0, journal_quota=0
    )
    problems = problems_of(
        is_working=True, store=FINE, partitions=(), neighbors=(), own_objects=stopped, bsc_ack_s=1
    )
    assert [(problem.severity, problem.subject) for problem in problems] == [("warning", "notification")]


@pytest.mark.parametrize(
    ("folder", "severity"),
    [
        (FolderProblems(messages="no room"), "error"),
        (FolderProblems(numbers="no message can be sent: no room"), "error"),
        (FolderProblems(notified="no room"), "warning"),
    ],
)
def test_a_file_that_cannot_be_written_is_a_problem(folder, severity):
    """Decisions T158, T160; a server that notifies nobody still replicates."""
    assert [level for level, _subject in found(folder=folder)] == [severity]


def test_a_server_without_problems():
    assert found(partitions=[partition()], neighbors=[neighbor(), neighbor(is_bsc=True, silent_s=200)]) == []


@pytest.mark.parametrize(
    ("changes", "severity"),
    [
        ({"is_unfinished": True}, "warning"),
        ({"owner": ""}, "warning"),
        ({"foreign": 3}, "warning"),
        ({"state": "SYNC0"}, "info"),
        ({"missing": 7}, "info"),
    ],
)
def test_problems_of_a_partition(changes, severity):
    assert found(partitions=[partition(**changes)]) == [(severity, "partition Site1")]


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        ({"acknowledgements": (acknowledgement(2000, is_alarm=True),)}, "PSC PSC1"),
        ({"problem": "refused"}, "PSC PSC1"),
        ({"is_bsc": True, "silent_s": 201}, "BSC PSC1"),
    ],
)
def test_problems_of_a_neighbour(changes, subject):
    assert found(neighbors=[neighbor(**changes)]) == [("warning", subject)]


def test_the_worst_problem_comes_first():
    assert found(
        partitions=[partition(missing=1), partition(foreign=1)],
        store=StoreSnapshot(is_reachable=False, waiting=0, failures=1, problem="away", operations=()),
        is_working=False,
    ) == [
        ("error", "server"),
        ("error", "store"),
        ("warning", "partition Site1"),
        ("info", "partition Site1"),
    ]


# --- names from the directory


class Listing:
    """Directory of sites with one PSC each, which counts its searches."""

    def __init__(self, sites: int) -> None:
        self.names = [f"S{number:02}" for number in range(sites)]
        self.asked: list[ListObjects] = []
        self.away = False
        self.now = 0.0

    def __call__(self, operation):
        if self.away:
            raise DirectoryNotConnected("away")
        self.asked.append(operation)
        if operation.object_type is ObjectType.SITE:
            return ObjectsListed(
                objects=tuple(
                    self.read(site_of(name), ((Propid.S_PATHNAME, name), (Propid.S_PSC, f"P{name}")))
                    for name in self.names
                )
            )
        name = next(name for name in self.names if site_of(name) == operation.partition_id)
        machine = ((Propid.QM_PATHNAME, f"P{name}"), (Propid.QM_SERVICE, int(Service.PSC)))
        return ObjectsListed(objects=(self.read(guid_of(name), machine),))

    def read(self, identifier, properties) -> ObjectRead:
        return ObjectRead(status=Hresult.MQ_OK, identifier=identifier, properties=properties)


def test_sites_are_read_a_few_at_a_time_and_again_when_they_are_old():
    listing = Listing(SITES_AT_ONCE + 3)
    known = KnownSites(listing, clock=lambda: listing.now)
    ids = [site_of(name) for name in listing.names]
    known.refresh(ids)
    assert [site.name for site in known.sites()] == listing.names
    assert sum(bool(site.servers) for site in known.sites()) == SITES_AT_ONCE
    known.refresh(ids)
    assert all(site.servers for site in known.sites())
    asked = len(listing.asked)
    known.refresh(ids)
    assert len(listing.asked) == asked == 1 + len(ids)
    listing.names.pop()
    listing.now = REFRESH_S
    known.refresh(ids)
    assert [site.name for site in known.sites()] == listing.names
    assert len(listing.asked) == asked + 1 + SITES_AT_ONCE


def test_servers_of_a_partition_that_is_not_here_are_not_read():
    listing = Listing(2)
    known = KnownSites(listing, clock=lambda: listing.now)
    known.refresh([site_of("S01")])
    assert [bool(site.servers) for site in known.sites()] == [False, True]
    assert known.sites()[0].psc_name == "PS00"


def test_what_is_known_stays_while_the_directory_is_away():
    listing = Listing(1)
    known = KnownSites(listing, clock=lambda: listing.now)
    known.refresh([])
    listing.away, listing.now = True, REFRESH_S
    known.refresh([])
    assert known.name_of(site_of("S00")) == "S00"
    listing.away = False
    known.refresh([])  # too soon
    assert len(listing.asked) == 1
    listing.now += RETRY_S
    known.refresh([])
    assert len(listing.asked) == 2


def test_a_new_site_is_found_soon():
    listing = Listing(1)
    known = KnownSites(listing, clock=lambda: listing.now)
    ids = [site_of("S00"), site_of("S01")]
    known.refresh(ids)
    listing.names.append("S01")
    listing.now = RETRY_S
    known.refresh(ids)
    assert [site.name for site in known.sites()] == ["S00", "S01"]
    assert all(site.servers for site in known.sites())
