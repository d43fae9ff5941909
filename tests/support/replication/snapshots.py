"""Snapshots of directory servers, made up: what metrics and the status page show."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from mqdssm.drivers.measurements import DURATION_LIMITS_S, MessageOutcome
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.session.timers import SessionState
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.server.snapshot import (
    AcknowledgementSnapshot,
    EventCount,
    KnownServer,
    MessageCount,
    NeighborSnapshot,
    NoteSnapshot,
    OperationSnapshot,
    OwnObjectsSnapshot,
    PartitionSnapshot,
    Problem,
    QueueSnapshot,
    ServerSnapshot,
    SessionSnapshot,
    SiteSnapshot,
    StoreSnapshot,
)
from support.replication.queue_managers import guid_of

NOW = datetime(2026, 11, 24, 2, 30, tzinfo=UTC)
FINE = StoreSnapshot(is_reachable=True, waiting=0, failures=0, problem="", operations=())


def site_id(name: str) -> Any:
    return guid_of(f"site {name}").uuid


def partition(**changes: Any) -> PartitionSnapshot:
    values = {
        "partition_id": site_id("Site1"),
        "is_enterprise": False,
        "site_name": "Site1",
        "owner": "PSC1",
        "is_ours": False,
        "last_number": 10,
        "purged_number": 1,
        "missing": 0,
        "not_purged": 9,
        "state": "NORMAL",
        "is_unfinished": False,
        "foreign": 0,
        "is_new": False,
    }
    return PartitionSnapshot.model_validate(values | changes)


def neighbor(**changes: Any) -> NeighborSnapshot:
    values = {
        "machine_name": "PSC1",
        "site_id": site_id("Site1"),
        "site_name": "Site1",
        "is_bsc": False,
        "waiting": 0,
        "acknowledgements": (),
        "silent_s": None,
        "last_heard": None,
        "problem": "",
    }
    return NeighborSnapshot.model_validate(values | changes)


def acknowledgement(unacknowledged: int, *, is_alarm: bool = False) -> AcknowledgementSnapshot:
    return AcknowledgementSnapshot(
        partition_id=PEC_PARTITION_ID.uuid,
        acked_number=7,
        unacknowledged=unacknowledged,
        is_alarm=is_alarm,
    )


def session(peer: str, **changes: Any) -> SessionSnapshot:
    values = {"peer": peer, "is_initiator": True, "state": SessionState.OPEN, "in_flight": 0, "problem": ""}
    return SessionSnapshot.model_validate(values | changes)


def _partitions(names: list[str], owners: list[str]) -> tuple[PartitionSnapshot, ...]:
    enterprise = partition(
        partition_id=PEC_PARTITION_ID.uuid, is_enterprise=True, site_name="", owner="PEC", is_ours=True
    )
    sites = (
        partition(partition_id=site_id(name), site_name=name, owner=owner, is_ours=owner == "PEC")
        for name, owner in zip(names, owners, strict=True)
    )
    return (enterprise, *sites)


def _psc(name: str, site_name: str) -> NeighborSnapshot:
    return neighbor(
        machine_name=name,
        site_id=site_id(site_name),
        site_name=site_name,
        waiting=3,
        acknowledgements=(acknowledgement(17),),
        last_heard=NOW,
    )


def _sites(names: list[str], pscs: list[str], bsc: str) -> Iterator[SiteSnapshot]:
    own = (KnownServer(machine_name="PEC", role=Role.PEC), KnownServer(machine_name=bsc, role=Role.BSC))
    yield SiteSnapshot(site_id=site_id(names[0]), name=names[0], is_ours=True, servers=own)
    for name, psc in zip(names[1:], pscs, strict=True):
        servers = (KnownServer(machine_name=psc, role=Role.PSC),)
        yield SiteSnapshot(site_id=site_id(name), name=name, is_ours=False, servers=servers)


STORE = StoreSnapshot(
    is_reachable=True,
    waiting=2,
    failures=1,
    problem="",
    operations=(
        OperationSnapshot(
            operation="CreateObject",
            classes=(1, 2, *(0 for _ in DURATION_LIMITS_S[2:]), 1),
            total_s=40.5,
            longest_s=40.0,
        ),
    ),
)


def _transport(pscs: list[str], hostile: str) -> dict[str, Any]:
    lost = {"state": SessionState.WAITING_RECONNECT, "in_flight": 1, "problem": f"refused{hostile}"}
    sessions = (
        *(session(psc, in_flight=2) for psc in pscs),
        session("192.0.2.1", **lost),
        session("192.0.2.7:40000", is_initiator=False),
    )
    queues = (
        QueueSnapshot(name="mqis_queue$", is_outgoing=False, messages=1, octets=1000),
        QueueSnapshot(name=f"stranger{hostile}", is_outgoing=True, messages=4, octets=400),
        QueueSnapshot(name="192.0.2.9", is_outgoing=True, messages=1, octets=100),
    )
    messages = (
        MessageCount(message_type="SyncReplyMessage", outcome=MessageOutcome.SENT, count=5),
        MessageCount(message_type="unknown", outcome=MessageOutcome.DROPPED, count=2),
    )
    return {"sessions": sessions, "queues": queues, "messages": messages}


def _notes(hostile: str) -> tuple[NoteSnapshot, ...]:
    warning = NoteSnapshot(
        at=NOW - timedelta(minutes=2),
        summary="a message could not be verified",
        detail=f"from PSC1{hostile}",
        is_warning=True,
        count=3,
    )
    return warning, NoteSnapshot(at=NOW, summary="became the authority", detail="", is_warning=False, count=1)


def snapshot_of(*, count: int = 3, hostile: str = "", **changes: Any) -> ServerSnapshot:
    """PEC of Site0 with a BSC, and a PSC for each other site, which are its neighbours.

    Args:
        count: number of sites.
        hostile: text that is in all names and messages that others choose.
        changes: other values of fields.
    """
    names = [f"Site{number}{hostile}" for number in range(count)]
    pscs, bsc = [f"PSC{number}{hostile}" for number in range(1, count)], f"BSC0{hostile}"
    backup = neighbor(machine_name=bsc, site_name=names[0], is_bsc=True, silent_s=12.0, last_heard=NOW)
    values = {
        "version": "0.1.0",
        "machine_name": "PEC",
        "machine_id": guid_of("PEC").uuid,
        "role": Role.PEC,
        "psc_name": "",
        "site_id": site_id(names[0]),
        "site_name": names[0],
        "started_at": NOW - timedelta(hours=30),
        "taken_at": NOW,
        "is_working": True,
        "store": STORE,
        "partitions": _partitions(names, ["PEC", *pscs]),
        "neighbors": (backup, *map(_psc, pscs, names[1:])),
        "own_objects": OwnObjectsSnapshot(
            is_receiving=True, is_known=True, queues=12, queue_manager_quota=8, journal_quota=9
        ),
        "sites": tuple(_sites(names, pscs, bsc)),
        **_transport(pscs, hostile),
        "events": (EventCount(part="transport", event="session opened", count=9),),
        "notes": _notes(hostile),
        "problems": (Problem(severity="warning", subject=f"PSC PSC1{hostile}", text=f"silent{hostile}"),),
    }
    return ServerSnapshot.model_validate(values | changes)
