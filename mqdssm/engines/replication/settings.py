"""Settings of a directory server: identity, intervals and limits."""

from dataclasses import dataclass
from enum import StrEnum

from mqdssm.model.guid import Guid


class Role(StrEnum):
    """Role of a server at its first start ([MC-MQDSRP] 1.3.1.1).

    Later its persisted state counts.
    """

    PEC = "PEC"
    PSC = "PSC"
    BSC = "BSC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one directory server. Times are in seconds.

    Attributes:
        machine_name: its current name, which may differ from that at the last start.
        machine_id: QueueManager.Identifier.
        site_id: QueueManager.SiteIdentifier.
        role: its role at the first start.
        pec_name: machine name of the PEC, for the first start ([MC-MQDSRP] 3.1.3.1).
        psc_name: for a BSC: machine name of its PSC, for the first start.
        restored: True if the directory is an older copy of itself, for one start: the server owns nothing
            until it has asked the others (decision R70).
        request_wait_s: how long a change request waits for its reply (3.3.7.1 <11>).
        forwarded_wait_s: how long, if the PSC has to forward the request.
        intrasite_s: Change Propagation Timer towards BSCs (3.3.2.1 <6>).
        intersite_s: towards PSCs.
        header_s: how often propagations carry a SeqNumberHeader (3.3.7.2 <12>).
        bsc_ack_first_s: BSC Ack Timer after the start (3.3.2.2 <7>).
        bsc_ack_s: BSC Ack Timer later.
        sync_wait_s: how long a synchronization request waits before it is repeated; doubled each time.
        sync_wait_max_s: the longest such wait.
        foreign_s: interval of the searches for changes of other programs; 0 for none (decision R112).
        purge_buffer: number of the newest sequence numbers that are never purged (3.1.7.2.9: 1024).
        purge_interval: number of changes between two purges (3.1.7.2.3: 256).
        ack_interval: number of changes between two acknowledgements of a PSC (3.1.7.2.3: 256).
        pending_max: limit of the early changes that are kept (3.1.7.2.2: 100).
        available_max: limit of the changes kept for a neighbour; beyond it the neighbour has to synchronize.
        message_changes_max: changes in one message (the field has 16 bits).
        message_bytes_max: octets of changes in one message; MSMQ carries 4 MiB.
        backlog_max: limit of the events that wait while the store works; more are dropped, as by a full
            queue.
    """

    machine_name: str
    machine_id: Guid
    site_id: Guid
    role: Role
    pec_name: str
    psc_name: str = ""
    restored: bool = False
    request_wait_s: float = 10.0
    forwarded_wait_s: float = 20.0
    intrasite_s: float = 2.0
    intersite_s: float = 10.0
    header_s: float = 1200.0
    bsc_ack_first_s: float = 5.0
    bsc_ack_s: float = 43_200.0
    sync_wait_s: float = 30.0
    sync_wait_max_s: float = 600.0
    foreign_s: float = 60.0
    purge_buffer: int = 1024
    purge_interval: int = 256
    ack_interval: int = 256
    pending_max: int = 100
    available_max: int = 10_000
    message_changes_max: int = 1000
    message_bytes_max: int = 1 << 20
    backlog_max: int = 10_000

    def __post_init__(self) -> None:
        """Check that the limits are at least 1.

        Raises:
            ValueError: naming the setting.
        """
        for name in ("ack_interval", "message_changes_max", "message_bytes_max", "backlog_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, and has to be at least 1")
