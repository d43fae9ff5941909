"""Metrics of a directory server for Prometheus, made from its snapshot.

All names begin with `mqdssm_`. The numbers of partitions are sequence numbers. Prometheus has only floating
point numbers: above 2^53 the last digits of a sequence number are lost. This module needs the extra `server`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, get_args

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from mqdssm.drivers.measurements import DURATION_LIMITS_S
from mqdssm.model.replication import PurgeState
from mqdssm.model.safe_text import make_visible
from mqdssm.server.snapshot import (
    NeighborSnapshot,
    OwnObjectsSnapshot,
    PartitionSnapshot,
    ServerSnapshot,
    Severity,
)

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
"""Content type of `format_metrics`."""
OTHER: Final = "other"
"""Label of all machines together that are not neighbours (decision T81)."""
_PREFIX: Final = "mqdssm_"
_BOUNDS: Final = (*map(str, DURATION_LIMITS_S), "+Inf")

Samples = Iterable[tuple[Mapping[str, str], float]]
"""Values of one metric with their labels."""


def format_metrics(snapshot: ServerSnapshot) -> bytes:
    """Return the metrics of a snapshot in the text format of Prometheus, 0.0.4."""
    return bytes(generate_latest(_Collector(snapshot)))


class _Collector:
    """Collector of prometheus_client for one snapshot."""

    def __init__(self, snapshot: ServerSnapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Return all metrics."""
        snapshot = self._snapshot
        yield from _measure_server(snapshot)
        yield from _measure_partitions(snapshot.partitions)
        yield from _measure_neighbors(snapshot)
        yield from _measure_own_objects(snapshot.own_objects)
        yield from _measure_transport(snapshot)
        yield from _store(snapshot)
        yield from _measure_counts(snapshot)


def _make_gauge(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    family = GaugeMetricFamily(_PREFIX + name, text, labels=labels)
    for values, number in _merge_samples(labels, samples).items():
        family.add_metric(values, number)
    return family


def _make_counter(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, text, labels=labels)
    for values, number in _merge_samples(labels, samples).items():
        family.add_metric(values, number)
    return family


def _merge_samples(labels: Sequence[str], samples: Samples) -> Mapping[tuple[str, ...], float]:
    """Return the values by their labels; values with equal labels are added.

    Prometheus refuses metrics that have a series twice. Invisible characters are escaped.
    """
    numbers: dict[tuple[str, ...], float] = {}
    for values, number in samples:
        key = tuple(make_visible(values[name]) for name in labels)
        numbers[key] = numbers.get(key, 0) + number
    return numbers


def _measure_server(snapshot: ServerSnapshot) -> Iterator[Metric]:
    about = {
        "version": snapshot.version,
        "machine": snapshot.machine_name,
        "role": snapshot.role.value,
        "site": snapshot.site_name,
        "psc": snapshot.psc_name,
    }
    yield _make_gauge("server_info", "The server, its role and its site.", tuple(about), [(about, 1)])
    yield _make_gauge(
        "start_time_seconds", "When the server was started.", (), [({}, snapshot.started_at.timestamp())]
    )
    yield _make_gauge(
        "working", "0 after the server was stopped by a defect.", (), [({}, snapshot.is_working)]
    )
    yield _make_gauge("healthy", "0 if the server does not do its work.", (), [({}, snapshot.is_healthy)])
    problems = Counter(problem.severity for problem in snapshot.problems)
    yield _make_gauge(
        "problems",
        "Conditions that an operator should know.",
        ("severity",),
        [({"severity": severity}, problems[severity]) for severity in get_args(Severity)],
    )


def _measure_partitions(partitions: Sequence[PartitionSnapshot]) -> Iterator[Metric]:
    names = ("partition", "site")

    def gauge(name: str, text: str, numbers: Iterable[float]) -> Metric:
        samples = zip(map(_build_partition_labels, partitions), numbers, strict=True)
        return _make_gauge(f"partition_{name}", text, names, samples)

    yield _make_gauge(
        "partition_info",
        "Owner of a partition.",
        (*names, "owner"),
        [({**_build_partition_labels(partition), "owner": partition.owner}, 1) for partition in partitions],
    )
    yield gauge("owned", "1 if this server owns it.", (partition.is_ours for partition in partitions))
    yield gauge("last_number", "Last number applied.", (partition.last_number for partition in partitions))
    yield gauge(
        "purged_number",
        "Tombstones up to it may be gone.",
        (partition.purged_number for partition in partitions),
    )
    yield gauge(
        "missing_numbers", "Reported and not applied.", (partition.missing for partition in partitions)
    )
    yield gauge(
        "synchronizing",
        "1 during a full synchronization.",
        (partition.state != PurgeState.NORMAL.name for partition in partitions),
    )
    yield gauge(
        "unfinished", "1 if a change failed halfway.", (partition.is_unfinished for partition in partitions)
    )
    yield gauge(
        "foreign_objects",
        "Changed by another program, without a number.",
        (partition.foreign for partition in partitions),
    )


def _build_partition_labels(partition: PartitionSnapshot) -> Mapping[str, str]:
    return {"partition": str(partition.partition_id), "site": partition.site_name}


def _measure_neighbors(snapshot: ServerSnapshot) -> Iterator[Metric]:
    names, neighbors = ("neighbor", "site", "role"), snapshot.neighbors
    yield _make_gauge(
        "neighbor_waiting_changes",
        "Changes that wait to be sent.",
        names,
        [(_build_neighbor_labels(neighbor), neighbor.waiting) for neighbor in neighbors],
    )
    yield _make_gauge(
        "neighbor_unreachable",
        "1 if the last attempt to reach it failed.",
        names,
        [(_build_neighbor_labels(neighbor), bool(neighbor.problem)) for neighbor in neighbors],
    )
    yield _make_gauge(
        "neighbor_last_heard_seconds",
        "When its last message came.",
        names,
        [
            (_build_neighbor_labels(neighbor), neighbor.last_heard.timestamp())
            for neighbor in neighbors
            if neighbor.last_heard is not None
        ],
    )
    yield _make_gauge(
        "neighbor_silent_seconds",
        "Age of the last acknowledgement of a BSC.",
        names,
        [
            (_build_neighbor_labels(neighbor), neighbor.silent_s)
            for neighbor in neighbors
            if neighbor.silent_s is not None
        ],
    )
    acks = [
        ({**_build_neighbor_labels(neighbor), "partition": str(ack.partition_id)}, ack)
        for neighbor in neighbors
        for ack in neighbor.acknowledgements
    ]
    yield _make_gauge(
        "neighbor_unacknowledged_numbers",
        "Numbers of a partition of this server that a PSC has not acknowledged.",
        (*names, "partition"),
        [(labels, ack.unacknowledged) for labels, ack in acks],
    )
    yield _make_gauge(
        "neighbor_unacknowledged_alarm",
        "1 if deleted objects are kept only because this PSC does not acknowledge.",
        (*names, "partition"),
        [(labels, ack.is_alarm) for labels, ack in acks],
    )


def _build_neighbor_labels(neighbor: NeighborSnapshot) -> Mapping[str, str]:
    role = "BSC" if neighbor.is_bsc else "PSC"
    return {"neighbor": neighbor.machine_name, "site": neighbor.site_name, "role": role}


def _measure_own_objects(own_objects: OwnObjectsSnapshot | None) -> Iterator[Metric]:
    """Yield metrics of the own machine's objects; none without notifications."""
    if own_objects is None:
        return
    yield _make_gauge(
        "notifications_received",
        "1 while change notifications are received.",
        (),
        [({}, own_objects.is_receiving)],
    )
    yield _make_gauge(
        "own_objects_known", "1 if the own objects were read.", (), [({}, own_objects.is_known)]
    )
    yield _make_gauge("own_queues", "Public queues of the own machine.", (), [({}, own_objects.queues)])


def _measure_transport(snapshot: ServerSnapshot) -> Iterator[Metric]:
    named = {neighbor.machine_name.casefold() for neighbor in snapshot.neighbors} | {
        snapshot.psc_name.casefold()
    }

    def name_of(peer: str) -> str:
        """Return the name of a neighbour; OTHER for a machine that a stranger chose."""
        return peer.casefold() if peer.casefold() in named else OTHER

    sessions = Counter(
        ("out" if session.is_initiator else "in", str(session.state)) for session in snapshot.sessions
    )
    yield _make_gauge(
        "sessions",
        "Sessions with queue managers.",
        ("direction", "state"),
        [({"direction": way, "state": state}, number) for (way, state), number in sorted(sessions.items())],
    )
    yield _make_gauge(
        "session_messages_in_flight",
        "Messages that the peer has not acknowledged.",
        ("peer",),
        [
            ({"peer": name_of(session.peer)}, session.in_flight)
            for session in snapshot.sessions
            if session.is_initiator
        ],
    )
    queues = [
        ({"queue": name_of(queue.name), "direction": "out"}, queue)
        if queue.is_outgoing
        else ({"queue": queue.name, "direction": "in"}, queue)
        for queue in snapshot.queues
    ]
    names = ("queue", "direction")
    yield _make_gauge(
        "queue_messages", "Messages.", names, [(labels, queue.messages) for labels, queue in queues]
    )
    yield _make_gauge(
        "queue_bytes", "Their octets.", names, [(labels, queue.octets) for labels, queue in queues]
    )


def _store(snapshot: ServerSnapshot) -> Iterator[Metric]:
    store = snapshot.store
    yield _make_gauge("store_reachable", "1 if the directory can be reached.", (), [({}, store.is_reachable)])
    yield _make_gauge("store_waiting_operations", "Operations that wait.", (), [({}, store.waiting)])
    yield _make_counter("store_failures", "Attempts that failed.", (), [({}, store.failures)])
    durations = HistogramMetricFamily(
        f"{_PREFIX}store_operation_seconds", "Durations of operations.", labels=("operation",)
    )
    for operation in store.operations:
        buckets = list(zip(_BOUNDS, map(float, accumulate(operation.classes)), strict=True))
        durations.add_metric([operation.operation], buckets, operation.total_s)
    yield durations


def _measure_counts(snapshot: ServerSnapshot) -> Iterator[Metric]:
    yield _make_counter(
        "messages",
        "Replication messages.",
        ("type", "outcome"),
        [
            ({"type": count.message_type, "outcome": str(count.outcome)}, count.count)
            for count in snapshot.messages
        ],
    )
    yield _make_counter(
        "events",
        "What the parts of the server have counted.",
        ("part", "event"),
        [({"part": count.part, "event": count.event}, count.count) for count in snapshot.events],
    )
