"""``mqdssm enterprise``: changes of the roles of directory servers at work, through their control sockets."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.replication.live_servers import Enterprise, LiveServer, pec_with_site, site_of, with_controller
from support.replication.queue_managers import guid_of, wait_until

from mqdssm.engines.replication.settings import Role
from mqdssm.errors import DirectoryError
from mqdssm.model.elements import Queue
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.server.control_client import ControlClient
from mqdssm.server.control_server import ControlServer
from mqdssm.server.control_service import ControlService
from mqdssm.server.snapshot_reader import SnapshotReader

pytestmark = pytest.mark.slow  # waits for threads and sockets

SITE1 = site_of("Site1")


class Operated:
    """An enterprise of a PEC, PSC1 and BSC1, whose servers have control sockets."""

    def __init__(self, folder, stack: ExitStack) -> None:
        self.enterprise = Enterprise()
        stack.callback(self.enterprise.close)
        pec_with_site(self.enterprise)
        with_controller(self.enterprise)
        psc = self.enterprise.servers["PSC1"]
        assert psc.create_machine("BSC1", "Site1", Service.BSC).status == Hresult.MQ_OK
        self.enterprise.server("BSC1", Role.BSC, "Site1", psc="PSC1")
        self.enterprise.wait_equal("PEC", "PSC1", "BSC1", partition_id=SITE1)
        self.servers = self.enterprise.servers
        self.folder = folder
        for name, live in self.servers.items():
            read = SnapshotReader(live.server).read
            service = ControlService(live.server, read, lambda: None, owner_wait_s=1)
            stack.enter_context(ControlServer(folder / name, service))

    def at(self, name: str) -> tuple[str, str]:
        """Return the option for the control socket of a server."""
        return "--server", str(self.folder / name)

    def owner(self, partition_id=SITE1) -> list[str]:
        """Return the servers that own a partition."""
        return [name for name, live in self.servers.items() if owns(live, partition_id)]


def owns(live: LiveServer, partition_id) -> bool:
    partitions = live.driver.status().partitions
    return any(part.partition_id == partition_id and part.is_owned for part in partitions)


@pytest.fixture
def operated(tmp_path) -> Iterator[Operated]:
    with ExitStack() as stack:
        yield Operated(tmp_path, stack)


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.11")
def test_a_site_is_handed_over_and_the_old_psc_is_demoted(alone, operated):
    words = ("enterprise", "hand-over", "--machine", "BSC1", *operated.at("PSC1"))
    plan = alone.json(*words, "--dry-run")
    assert (plan["dry_run"], operated.owner()) == (True, ["PSC1"])
    assert plan["steps"] == ["PSC1 hands Site1 over to BSC1, which becomes the PSC"]
    assert plan["afterwards"] == []
    shown = alone(*words).stdout
    assert shown.startswith("done: PSC1 hands Site1 over")
    wait_until(lambda: operated.owner() == ["BSC1"])
    assert "does not own Site1" in alone(*words, code=6).stderr
    operated.enterprise.wait_equal("PEC", "PSC1", "BSC1", partition_id=SITE1)
    assert (
        "no BSC of Site1"
        in alone("enterprise", "demote", "--machine", "X", *operated.at("BSC1"), code=6).stderr
    )
    assert (
        "no BSC of Site0"
        in alone("enterprise", "demote", "--machine", "PSC1", *operated.at("PEC"), code=6).stderr
    )


def test_a_bsc_becomes_an_ordinary_machine(alone, operated):
    psc = operated.at("PSC1")
    alone("enterprise", "demote", "--machine", "BSC1", *psc)
    wait_until(lambda: not [one for one in operated.servers["PSC1"].driver.status().neighbors if one.is_bsc])


def test_a_bsc_is_removed_with_its_machine(alone, operated):
    psc = operated.servers["PSC1"]
    remove = ("enterprise", "remove-server", "--machine")
    assert "hand the site over first" in alone(*remove, "PSC1", *operated.at("PSC1"), code=2).stderr
    assert "hand the enterprise over first" in alone(*remove, "PEC", *operated.at("PEC"), code=2).stderr
    for other in "PEC", "BSC1":
        assert f"which {other} is not" in alone(*remove, "BSC1", *operated.at(other), code=2).stderr
    assert psc.create_machine("WEB1", "Site1").status == Hresult.MQ_OK
    assert "delete its queue manager" in alone(*remove, "WEB1", *operated.at("PSC1"), code=2).stderr
    assert psc.create_queue("BSC1\\orders", "Site1").status == Hresult.MQ_OK
    assert "BSC1 has queues" in alone(*remove, "BSC1", *operated.at("PSC1"), "--dry-run", code=2).stderr
    with ControlClient(operated.folder / "PSC1") as client:
        client.delete(Queue(pathname="BSC1\\orders"))
    plan = alone.json(*remove, "BSC1", *operated.at("PSC1"), "--dry-run")
    assert plan["steps"] == ["PSC1 deletes the machine BSC1, and sends it nothing any more"]
    assert [neighbor.machine_name for neighbor in psc.driver.status().neighbors if neighbor.is_bsc] == [
        "BSC1"
    ]
    shown = alone(*remove, "bsc1", *operated.at("PSC1")).stdout
    assert "then: stop the server of bsc1, and remove its folder" in shown
    assert "name-authority --enterprise --machine PEC" in " ".join(shown.split())
    wait_until(lambda: not any(neighbor.is_bsc for neighbor in psc.driver.status().neighbors))
    alone(*remove, "BSC1", *operated.at("PSC1"), code=4)
    operated.enterprise.wait_equal("PEC", "PSC1", partition_id=SITE1)
    with ControlClient(operated.folder / "BSC1", reply_s=60) as client, pytest.raises(DirectoryError):
        client.create(Queue(pathname="PSC1\\late"))


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.10")
def test_the_enterprise_is_handed_to_a_psc(alone, operated):
    refused = alone(
        "enterprise", "hand-over", "--enterprise", "--machine", "BSC1", *operated.at("PEC"), code=6
    )
    assert "BSC1 is no PSC that PEC knows" in refused.stderr
    alone("enterprise", "hand-over", "--enterprise", "--machine", "PSC1", *operated.at("PEC"))
    wait_until(lambda: operated.owner(PEC_PARTITION_ID) == ["PSC1"])


@pytest.mark.spec("MC-MQDSRP 3.1.7.2.10")
def test_the_enterprise_is_not_handed_to_a_psc_that_is_far_behind(alone, tmp_path):
    """Decision R221: the server refuses, whoever asks it: it may still follow a PEC that was lost."""
    socket = tmp_path / "PEC"
    with ExitStack() as stack:
        enterprise = Enterprise()
        stack.callback(enterprise.close)
        pec_with_site(enterprise, tuning={"purge_buffer": 3, "ack_interval": 2})
        with_controller(enterprise, tuning={"ack_interval": 2})
        pec = enterprise.servers["PEC"]
        stack.enter_context(
            ControlServer(socket, ControlService(pec.server, SnapshotReader(pec.server).read, lambda: None))
        )
        enterprise.servers["PSC1"].stop()
        for number in range(9):
            assert pec.create_site(f"Late{number}", "").status == Hresult.MQ_OK
        hand_over = ("enterprise", "hand-over", "--enterprise", "--machine", "psc1", "--server", str(socket))
        for options in (), ("--dry-run",):
            refused = alone(*hand_over, *options, code=6).stderr
            assert "psc1 has acknowledged only " in refused
            assert (
                "numbers of the enterprise, and may follow another owner: wait until it has more" in refused
            )
        with ControlClient(socket) as client:
            for dry_run in True, False:
                with pytest.raises(DirectoryError, match="PSC1 has acknowledged only"):
                    client.change_role("PSC1", Role.PEC, dry_run=dry_run)
        outcome = pec.driver.change(
            command=Command.UPDATE,
            object_type=ObjectType.ENTERPRISE,
            path_name=None,
            identifier=guid_of("enterprise"),
            partition_id=PEC_PARTITION_ID,
            properties=((Propid.E_PECNAME, "PSC1"),),
        )
        assert outcome.status == Hresult.MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION
        assert owns(pec, PEC_PARTITION_ID)


def test_a_dry_run_of_a_handover_changes_nothing(alone, operated):
    hand_over = ("enterprise", "hand-over", "--enterprise", "--machine", "PSC1", *operated.at("PEC"))
    assert alone.json(*hand_over, "--dry-run")["steps"] == [
        "PEC hands enterprise over to PSC1, which becomes the PEC"
    ]
    assert operated.owner(PEC_PARTITION_ID) == ["PEC"]
    plan = alone.json("enterprise", "hand-over", "--machine", "BSC1", *operated.at("PSC1"), "--dry-run")
    assert plan["steps"] == ["PSC1 hands Site1 over to BSC1, which becomes the PSC"]
    assert operated.owner() == ["PSC1"]


@pytest.mark.parametrize(
    ("lack", "words"),
    [
        (
            {"missing": 2, "is_new": False},
            "BSC1 lacks 2 changes of Site1 that another server has reported: choose a server",
        ),
        (
            {"missing": 0, "is_new": True},
            "BSC1 never had a complete copy of Site1: choose a server that has more, or add",
        ),
    ],
)
def test_a_copy_that_lacks_changes_takes_over_only_if_the_operator_says_so(
    alone, operated, tmp_path, lack, words
):
    live = operated.servers["BSC1"]
    whole = SnapshotReader(live.server).read()
    partitions = tuple(
        part.model_copy(update=lack) if part.site_name == "Site1" else part for part in whole.partitions
    )
    service = ControlService(
        live.server, lambda: whole.model_copy(update={"partitions": partitions}), lambda: None
    )
    take_over = ("enterprise", "take-over", "--site", "Site1", "--server", str(tmp_path / "lacking"))
    with ControlServer(tmp_path / "lacking", service):
        assert words in alone(*take_over, code=6).stderr
        plan = alone.json(*take_over, "--incomplete", "--from-running-owner", "--dry-run")
    assert plan["steps"] == ["BSC1 becomes the owner of Site1 in place of PSC1"]
    assert operated.owner() == ["PSC1"]


def test_a_site_is_not_taken_over_from_an_owner_that_answers(alone, operated):
    take_over = ("enterprise", "take-over", "--site", "Site1", *operated.at("BSC1"))
    for options in (), ("--dry-run",):
        refused = alone(*take_over, *options, code=6).stderr
        assert "PSC1 answers, and would go on changing the partition: have it hand" in refused
    assert operated.owner() == ["PSC1"]
    with ControlClient(operated.folder / "BSC1") as client, pytest.raises(DirectoryError, match="PSC1 ans"):
        client.take_over(SITE1.uuid)
    alone(*take_over, "--from-running-owner")
    wait_until(lambda: "BSC1" in operated.owner())


def test_a_lost_psc_is_replaced_by_a_bsc(alone, operated):
    """The order of docs/directory-servers.md: take over, name the PSC at the PEC."""
    copies = operated.servers["BSC1"].driver
    wait_until(lambda: not any(part.is_new for part in copies.status().partitions))
    operated.servers.pop("PSC1").stop()
    take_over = ("enterprise", "take-over", "--site", "Site1", *operated.at("BSC1"))
    plan = alone.json(*take_over, "--dry-run")
    assert plan["steps"] == ["BSC1 becomes the owner of Site1 in place of PSC1"]
    assert "name-psc --site Site1 --machine BSC1" in plan["afterwards"][0]
    alone(*take_over)
    wait_until(lambda: operated.owner() == ["BSC1"])
    assert "owns the partition of Site1 already" in alone(*take_over, code=6).stderr
    name_psc = ("enterprise", "name-psc", "--site", "Site1", "--machine", "BSC1")
    assert "is not the PEC" in alone(*name_psc, *operated.at("BSC1"), code=6).stderr
    alone(*name_psc, *operated.at("PEC"))
    operated.enterprise.wait_equal("PEC", "BSC1", partition_id=SITE1)
    operated.enterprise.wait_equal("PEC", "BSC1", partition_id=PEC_PARTITION_ID)


def test_a_replica_copies_its_partition_anew_and_believes_its_operator(alone, operated):
    bsc = operated.at("BSC1")
    alone("enterprise", "resynchronize", "--site", "site1", *bsc)
    operated.enterprise.wait_equal("PSC1", "BSC1", partition_id=SITE1)
    assert (
        "nobody has it better"
        in alone("enterprise", "resynchronize", "--site", "Site1", *operated.at("PSC1"), code=6).stderr
    )
    authority = ("enterprise", "name-authority", "--site", "Site1")
    alone(*authority, "--machine", "PSC1", *bsc)
    assert "use take-over" in alone(*authority, "--machine", "bsc1", *bsc, code=6).stderr
    plan = alone.json(*authority, "--machine", "BSC1", "--dry-run", *operated.at("PSC1"))
    assert plan["steps"] == [
        "PSC1 accepts BSC1 as the owner of Site1, steps down, and copies the partition from there"
    ]
    assert operated.owner() == ["PSC1"]


def test_partitions_and_sites_that_cannot_be_meant(alone, operated):
    pec = operated.at("PEC")
    for options in ((), ("--site", "Site1", "--enterprise")):
        assert "name one partition" in alone("enterprise", "take-over", *options, *pec, code=2).stderr
    assert "it has Site0" in alone("enterprise", "take-over", "--site", "Rome", *pec, code=2).stderr
    remove = ("enterprise", "remove-site", "--site")
    assert "site of the PEC itself" in alone(*remove, "Site0", *pec, code=6).stderr
    assert "is not the PEC" in alone(*remove, "Site1", *operated.at("PSC1"), code=6).stderr
    alone(*remove, "Rome", *pec, code=4)
    assert "MQ_ERROR" in alone(*remove, "Site1", *pec, code=6).stderr, "it has objects"


def test_roles_that_a_machine_cannot_have(operated):
    with ControlClient(operated.folder / "PEC") as client:
        with pytest.raises(ValueError, match="BSC1 is no PSC"):
            client.change_role("BSC1", Role.PEC)
        with pytest.raises(ValueError, match="PSC1 is the PSC of its site"):
            client.change_role("PSC1", None)
        with pytest.raises(ValueError, match="BSC1 is no machine of Site0"):
            client.name_psc("Site0", "BSC1")
        for site in ("Site0", "Site1"):
            with pytest.raises(ValueError, match=f"the PSC of {site} has started"):
                client.name_psc(site, "")
