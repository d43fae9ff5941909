"""Metrics of a directory server, as Prometheus reads them."""

import re
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.project.source_tree import ROOT
from support.replication.snapshots import (
    NOW,
    acknowledgement,
    neighbor,
    partition,
    session,
    site_id,
    snapshot_of,
)

from mqdssm.drivers.measurements import DURATION_LIMITS_S
from mqdssm.server.metrics import format_metrics
from mqdssm.server.snapshot import QueueSnapshot


def read(snapshot) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The samples by name, as Prometheus reads them."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(format_metrics(snapshot).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


def test_the_server():
    found = read(snapshot_of())
    assert found["mqdssm_server_info"] == [
        ({"version": "0.1.0", "machine": "PEC", "role": "PEC", "site": "Site0", "psc": ""}, 1)
    ]
    assert found["mqdssm_start_time_seconds"] == [({}, (NOW - timedelta(hours=30)).timestamp())]
    assert found["mqdssm_working"] == found["mqdssm_healthy"] == [({}, 1)]
    assert found["mqdssm_problems"] == [
        ({"severity": "info"}, 0),
        ({"severity": "warning"}, 1),
        ({"severity": "error"}, 0),
    ]


def test_objects_of_the_own_machine():
    found = read(snapshot_of())
    names = ("notifications_received", "own_objects_known", "own_queues")
    assert [found[f"mqdssm_{name}"] for name in names] == [[({}, 1)], [({}, 1)], [({}, 12)]]
    without = read(snapshot_of(own_objects=None))
    assert not any(f"mqdssm_{name}" in without for name in names)


def test_a_partition():
    found = read(
        snapshot_of(
            partitions=(partition(missing=3, state="SYNC0", is_unfinished=True, foreign=2, is_ours=True),)
        )
    )
    labels = {"partition": str(site_id("Site1")), "site": "Site1"}
    assert found["mqdssm_partition_info"] == [({**labels, "owner": "PSC1"}, 1)]
    values = {
        "owned": 1,
        "last_number": 10,
        "purged_number": 1,
        "missing_numbers": 3,
        "synchronizing": 1,
        "unfinished": 1,
        "foreign_objects": 2,
    }
    for name, value in values.items():
        assert found[f"mqdssm_partition_{name}"] == [(labels, value)], name


def test_neighbours_and_the_alarm():
    silent = acknowledgement(2000, is_alarm=True)
    found = read(
        snapshot_of(
            neighbors=(
                neighbor(waiting=4, acknowledgements=(silent,), problem="refused", last_heard=NOW),
                neighbor(machine_name="BSC0", is_bsc=True, silent_s=12.5),
            )
        )
    )
    psc = {"neighbor": "PSC1", "site": "Site1", "role": "PSC"}
    bsc = {"neighbor": "BSC0", "site": "Site1", "role": "BSC"}
    ack = psc | {"partition": str(silent.partition_id)}
    assert found["mqdssm_neighbor_waiting_changes"] == [(psc, 4), (bsc, 0)]
    assert found["mqdssm_neighbor_unreachable"] == [(psc, 1), (bsc, 0)]
    assert found["mqdssm_neighbor_last_heard_seconds"] == [(psc, NOW.timestamp())]
    assert found["mqdssm_neighbor_silent_seconds"] == [(bsc, 12.5)]
    assert found["mqdssm_neighbor_unacknowledged_numbers"] == [(ack, 2000)]
    assert found["mqdssm_neighbor_unacknowledged_alarm"] == [(ack, 1)]


def test_the_transport_names_no_strangers():
    """Anybody who sends messages chooses where acknowledgements go."""
    strangers = tuple(
        QueueSnapshot(name=f"stranger{number}", is_outgoing=True, messages=1, octets=10)
        for number in range(9)
    )
    found = read(
        snapshot_of(
            queues=(QueueSnapshot(name="psc1", is_outgoing=True, messages=2, octets=5), *strangers),
            sessions=(
                session("psc1", in_flight=7),
                *(session(queue.name, in_flight=1) for queue in strangers),
            ),
        )
    )
    known, other = {"queue": "psc1", "direction": "out"}, {"queue": "other", "direction": "out"}
    assert found["mqdssm_queue_messages"] == [(known, 2), (other, 9)]
    assert found["mqdssm_queue_bytes"] == [(known, 5), (other, 90)]
    assert found["mqdssm_session_messages_in_flight"] == [({"peer": "psc1"}, 7), ({"peer": "other"}, 9)]
    assert found["mqdssm_sessions"] == [({"direction": "out", "state": "OPEN"}, 10)]


def test_the_store():
    found = read(snapshot_of())
    assert found["mqdssm_store_reachable"] == [({}, 1)]
    assert found["mqdssm_store_waiting_operations"] == [({}, 2)]
    assert found["mqdssm_store_failures_total"] == [({}, 1)]
    buckets = {labels["le"]: value for labels, value in found["mqdssm_store_operation_seconds_bucket"]}
    assert len(buckets) == len(DURATION_LIMITS_S) + 1
    assert [buckets[limit] for limit in ("0.001", "0.005", "30.0", "+Inf")] == [1, 3, 3, 4]
    assert found["mqdssm_store_operation_seconds_count"] == [({"operation": "CreateObject"}, 4)]
    assert found["mqdssm_store_operation_seconds_sum"] == [({"operation": "CreateObject"}, 40.5)]


def test_counts():
    found = read(snapshot_of())
    assert ({"type": "SyncReplyMessage", "outcome": "sent"}, 5) in found["mqdssm_messages_total"]
    assert found["mqdssm_events_total"] == [({"part": "transport", "event": "session opened"}, 9)]


@pytest.mark.parametrize("hostile", ['"} 1\nmqdssm_healthy 7\n', "\\", "\x00\x1b[2J", "\u202e"])
def test_names_of_others_break_no_line(hostile):
    plain, found = read(snapshot_of()), read(snapshot_of(hostile=hostile))
    assert {name: len(samples) for name, samples in found.items()} == {
        name: len(samples) for name, samples in plain.items()
    }
    assert found["mqdssm_healthy"] == [({}, 1)]


def test_the_page_of_the_documentation_names_all_metrics():
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `(mqdssm_\w+)` \| ([\w, ]*?) ?\|", page, re.MULTILINE)
    made = {}
    for family in text_string_to_metric_families(format_metrics(snapshot_of()).decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        made[name] = {label for sample in family.samples for label in sample.labels} - {"le"}
    assert {name: set(filter(None, labels.split(", "))) for name, labels in documented} == made
