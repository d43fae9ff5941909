"""Reading the snapshot of a running directory server, from any thread."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import mqdssm
from mqdssm.drivers.replication.directory_server import DirectoryServer
from mqdssm.drivers.tcp.session_driver import SessionStatus
from mqdssm.drivers.threads import EventCounts
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.status import NeighborStatus, PartitionStatus
from mqdssm.model.replication import PEC_PARTITION_ID
from mqdssm.server.current_roles import pec_name_of, role_of_running
from mqdssm.server.known_sites import KnownSites, ListedSite
from mqdssm.server.own_objects import OwnObjects
from mqdssm.server.problems import PSC_SILENT_INTERVALS, FolderProblems, UnreachablePsc, problems_of
from mqdssm.server.snapshot import (
    AcknowledgementSnapshot,
    EventCount,
    KnownServer,
    MessageCount,
    NeighborSnapshot,
    NoteSnapshot,
    OperationSnapshot,
    PartitionSnapshot,
    QueueSnapshot,
    ServerPart,
    ServerSnapshot,
    SessionSnapshot,
    SiteSnapshot,
    StoreSnapshot,
)


class SnapshotReader:
    """Reads snapshots of a directory server; thread-safe.

    Args:
        server: the server.
        sessions: returns the sessions of its queue manager (`TcpNetwork.sessions`).
        transport_counts: what the carrier of its queue manager counts.
        own_objects: its receiver of change notifications; None: there is none.
        folder: returns why files of the server cannot be written.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        server: DirectoryServer,
        *,
        sessions: Callable[[], Sequence[SessionStatus]] = tuple,
        transport_counts: EventCounts | None = None,
        own_objects: OwnObjects | None = None,
        folder: Callable[[], FolderProblems] = FolderProblems,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._server, self._sessions, self._clock = server, sessions, clock
        self._transport_counts, self._own_objects = transport_counts, own_objects
        self._folder = folder
        self._known: Final = KnownSites(server.store.lookup)
        self._started_at: Final = _convert_time(clock())

    def read(self, *, refresh: bool = True) -> ServerSnapshot:
        """Return the current state.

        Args:
            refresh: True to ask the directory if it answers, and to read names of sites and roles of servers
                that are old from it; takes seconds while it is busy. False to use what is known.
        """
        server, settings = self._server, self._server.settings
        status = server.driver.status()
        if refresh:
            server.store.check()
            self._known.refresh(
                [partition.partition_id for partition in status.partitions], pec_name_of(status)
            )
        sessions = tuple(map(_convert_session, self._sessions()))
        unreachable = {
            session.peer.casefold(): session.problem for session in sessions if session.is_initiator
        }
        partitions = tuple(map(self._convert_partition, status.partitions))
        queues = self._read_queues()
        queued = {queue.name.casefold(): queue.messages for queue in queues if queue.is_outgoing}
        neighbors = tuple(
            self._convert_neighbor(neighbor, unreachable, queued) for neighbor in status.neighbors
        )
        psc_key = status.psc_name.casefold()
        psc_problem = unreachable.get(psc_key) or self._silence_of(status.psc_name)
        psc_queued = queued.get(psc_key, 0)
        store, is_working = self._store(), server.is_alive
        own_objects = None if self._own_objects is None else self._own_objects.snapshot()
        return ServerSnapshot(
            version=mqdssm.__version__,
            machine_name=status.machine_name,
            machine_id=settings.machine_id.uuid,
            role=role_of_running(server),
            psc_name=status.psc_name,
            site_id=settings.site_id.uuid,
            site_name=self._known.name_of(settings.site_id),
            started_at=self._started_at,
            taken_at=_convert_time(self._clock()),
            is_working=is_working,
            store=store,
            partitions=partitions,
            neighbors=neighbors,
            sites=tuple(map(self._convert_site, self._known.sites())),
            own_objects=own_objects,
            sessions=sessions,
            queues=queues,
            messages=tuple(
                MessageCount(message_type=kind.message_type, outcome=kind.outcome, count=count)
                for kind, count in sorted(server.driver.messages.copy().items())
            ),
            events=self._collect_events(),
            notes=self._read_notes(),
            problems=problems_of(
                is_working=is_working,
                store=store,
                partitions=partitions,
                neighbors=neighbors,
                own_objects=own_objects,
                folder=self._folder(),
                bsc_ack_s=settings.bsc_ack_s,
                psc=UnreachablePsc(status.psc_name, psc_problem, psc_queued) if psc_problem else None,
            ),
            psc_problem=psc_problem,
            psc_queued=psc_queued,
        )

    def _silence_of(self, psc_name: str) -> str:
        """Return for how long a BSC's PSC has been silent; an empty text if not for long.

        A BSC without clients sends its PSC almost nothing, and so would not notice that it is gone.
        """
        if not psc_name:
            return ""
        last_heard = self._server.driver.messages.find_last_heard(psc_name) or 0.0
        silent_s = self._clock() - max(last_heard, self._started_at.timestamp())
        is_too_long = silent_s > PSC_SILENT_INTERVALS * self._server.settings.header_s
        return f"it has sent nothing for {silent_s / 60:.0f} minutes" if is_too_long else ""

    def check_store(self, wait_s: float) -> None:
        """Ask the directory if it answers, if no recent answer says so.

        Args:
            wait_s: how long to wait for the answer; `read` then has what is known.
        """
        self._server.store.check(wait_s)

    def _collect_events(self) -> tuple[EventCount, ...]:
        return (
            *_convert_counts("replication", self._server.driver.counts),
            *_convert_counts("notification", None if self._own_objects is None else self._own_objects.counts),
            *_convert_counts("queue manager", self._server.queue_manager.counts),
            *_convert_counts("transport", self._transport_counts),
        )

    def _read_queues(self) -> tuple[QueueSnapshot, ...]:
        return tuple(
            QueueSnapshot(
                name=queue.name,
                is_outgoing=queue.is_outgoing,
                messages=queue.messages,
                octets=queue.octets,
            )
            for queue in self._server.queue_manager.queues()
        )

    def _convert_partition(self, partition: PartitionStatus) -> PartitionSnapshot:
        return PartitionSnapshot(
            partition_id=partition.partition_id.uuid,
            is_enterprise=partition.partition_id == PEC_PARTITION_ID,
            site_name=self._known.name_of(partition.partition_id),
            owner=partition.authority_name,
            is_ours=partition.is_owned,
            last_number=int(partition.last),
            purged_number=int(partition.purged),
            missing=partition.missing,
            not_purged=partition.not_purged,
            state=partition.purge_state.name,
            is_unfinished=partition.is_unfinished,
            foreign=partition.foreign,
            is_new=partition.is_new,
        )

    def _convert_neighbor(
        self, neighbor: NeighborStatus, unreachable: dict[str, str], queued: dict[str, int]
    ) -> NeighborSnapshot:
        key = neighbor.machine_name.casefold()
        last_heard = self._server.driver.messages.find_last_heard(neighbor.machine_name)
        return NeighborSnapshot(
            machine_name=neighbor.machine_name,
            site_id=neighbor.site_id.uuid,
            site_name=self._known.name_of(neighbor.site_id),
            is_bsc=neighbor.is_bsc,
            waiting=neighbor.waiting,
            acknowledgements=tuple(
                AcknowledgementSnapshot(
                    partition_id=ack.partition_id.uuid,
                    acked_number=int(ack.acked),
                    unacknowledged=ack.unacknowledged,
                    is_alarm=ack.holds_purging,
                )
                for ack in neighbor.acknowledgements
            ),
            silent_s=neighbor.silent_s,
            last_heard=None if last_heard is None else _convert_time(last_heard),
            problem=unreachable.get(key, ""),
            queued=queued.get(key, 0),
        )

    def _convert_site(self, site: ListedSite) -> SiteSnapshot:
        psc = (KnownServer(machine_name=site.psc_name, role=Role.PSC),) if site.psc_name else ()
        return SiteSnapshot(
            site_id=site.site_id.uuid,
            name=site.name,
            is_ours=site.site_id == self._server.settings.site_id,
            servers=site.servers or psc,
        )

    def _store(self) -> StoreSnapshot:
        state = self._server.store.state()
        return StoreSnapshot(
            is_reachable=state.is_reachable,
            waiting=state.waiting,
            failures=state.failures,
            problem=state.problem,
            operations=tuple(
                OperationSnapshot(
                    operation=name,
                    classes=durations.classes,
                    total_s=durations.total_s,
                    longest_s=durations.longest_s,
                )
                for name, durations in sorted(state.durations.items())
            ),
        )

    def _read_notes(self) -> tuple[NoteSnapshot, ...]:
        own_objects = self._own_objects
        received = () if own_objects is None else own_objects.driver.notes.list_latest()
        notes = (*self._server.driver.notes.list_latest(), *received)
        return tuple(
            NoteSnapshot(
                at=_convert_time(note.at),
                summary=note.summary,
                detail=note.detail,
                is_warning=note.is_warning,
                count=note.count,
            )
            for note in sorted(notes, key=lambda note: -note.at)
        )


def _convert_session(session: SessionStatus) -> SessionSnapshot:
    return SessionSnapshot(
        peer=session.peer,
        is_initiator=session.is_initiator,
        state=session.state,
        in_flight=session.in_flight,
        problem=session.problem,
    )


def _convert_counts(part: ServerPart, counts: EventCounts | None) -> tuple[EventCount, ...]:
    seen = {} if counts is None else counts.copy()
    return tuple(EventCount(part=part, event=name, count=count) for name, count in sorted(seen.items()))


def _convert_time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
