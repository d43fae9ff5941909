"""Snapshots of directory servers, made up: what metrics and the status page show."""

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


def snapshot_of(*, sites: int = 3, hostile: str = "", **changes: Any) -> ServerSnapshot:
    """PEC of Site0 with a BSC, and a PSC for each other site, which are its neighbours.

    Args:
        sites: number of sites.
        hostile: text that is in all names and messages that others choose.
        changes: other values of fields.
    """
    names = [f"Site{number}{hostile}" for number in range(sites)]
    pscs = [f"PSC{number}{hostile}" for number in range(1, sites)]
    partitions = [
        partition(
            partition_id=PEC_PARTITION_ID.uuid, is_enterprise=True, site_name="", owner="PEC", is_ours=True
        ),
        *(
            partition(partition_id=site_id(name), site_name=name, owner=owner, is_ours=owner == "PEC")
            for name, owner in zip(names, ["PEC", *pscs], strict=True)
        ),
    ]
    neighbors = [
        neighbor(
            machine_name=f"BSC0{hostile}", site_name=names[0], is_bsc=True, silent_s=12.0, last_heard=NOW
        ),
        *(
            neighbor(
                machine_name=psc,
                site_id=site_id(name),
                site_name=name,
                waiting=3,
                acknowledgements=(acknowledgement(17),),
                last_heard=NOW,
            )
            for psc, name in zip(pscs, names[1:], strict=True)
        ),
    ]
    servers = [
        (
            KnownServer(machine_name="PEC", role=Role.PEC),
            KnownServer(machine_name=f"BSC0{hostile}", role=Role.BSC),
        ),
        *((KnownServer(machine_name=psc, role=Role.PSC),) for psc in pscs),
    ]
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
        "store": StoreSnapshot(
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
        ),
        "partitions": tuple(partitions),
        "neighbors": tuple(neighbors),
        "sites": tuple(
            SiteSnapshot(site_id=site_id(name), name=name, is_ours=name == names[0], servers=known)
            for name, known in zip(names, servers, strict=True)
        ),
        "sessions": (
            *(session(psc, in_flight=2) for psc in pscs),
            session(
                "192.0.2.1", state=SessionState.WAITING_RECONNECT, in_flight=1, problem=f"refused{hostile}"
            ),
            session("192.0.2.7:40000", is_initiator=False),
        ),
        "queues": (
            QueueSnapshot(name="mqis_queue$", is_outgoing=False, messages=1, octets=1000),
            QueueSnapshot(name=f"stranger{hostile}", is_outgoing=True, messages=4, octets=400),
            QueueSnapshot(name="192.0.2.9", is_outgoing=True, messages=1, octets=100),
        ),
        "messages": (
            MessageCount(message_type="SyncReplyMessage", outcome=MessageOutcome.SENT, count=5),
            MessageCount(message_type="unknown", outcome=MessageOutcome.DROPPED, count=2),
        ),
        "events": (EventCount(part="transport", event="session opened", count=9),),
        "notes": (
            NoteSnapshot(
                at=NOW - timedelta(minutes=2),
                summary="a message could not be verified",
                detail=f"from PSC1{hostile}",
                is_warning=True,
                count=3,
            ),
            NoteSnapshot(at=NOW, summary="became the authority", detail="", is_warning=False, count=1),
        ),
        "problems": (Problem(severity="warning", subject=f"PSC PSC1{hostile}", text=f"silent{hostile}"),),
    }
    return ServerSnapshot.model_validate(values | changes)
