"""What an administrator decides of a directory server: who it is, and how often it does what."""

from dataclasses import dataclass
from enum import StrEnum

from mqdssm.model.guid import Guid


class Role(StrEnum):
    """What a server is at its first start; later its persisted state decides ([MC-MQDSRP] 1.3.1.1)."""

    PEC = "PEC"
    PSC = "PSC"
    BSC = "BSC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of one directory server. Times are in seconds.

    Attributes:
        machine_name: its own name now (it may be another one than at the last start).
        machine_id: QueueManager.Identifier.
        site_id: QueueManager.SiteIdentifier.
        role: at the first start.
        pec_name: machine of the PEC, for the first start ([MC-MQDSRP] 3.1.3.1).
        psc_name: of a BSC: machine of its PSC, for the first start.
        restored: the directory is an older copy of what this server had. For one start: until it has
            asked the others, the server owns nothing (decision R70).
        request_wait_s: how long a change request waits for its reply (3.3.7.1 <11>).
        forwarded_wait_s: the same where the PSC has to forward it.
        intrasite_s: Change Propagation Timer towards BSCs (3.3.2.1 <6>).
        intersite_s: towards PSCs.
        header_s: how often propagations carry a SeqNumberHeader (3.3.7.2 <12>).
        bsc_ack_first_s: BSC Ack Timer after the start (3.3.2.2 <7>).
        bsc_ack_s: BSC Ack Timer later.
        sync_wait_s: how long a synchronization request waits before it is repeated; doubled each time.
        sync_wait_max_s: the longest such wait.
        foreign_s: how often changes of other programs are looked for; 0: never (decision R112).
        purge_buffer: deleted objects that are never purged, in numbers (3.1.7.2.9: 1024).
        purge_interval: how many changes lie between two purges (3.1.7.2.3: 256).
        ack_interval: how many changes lie between two acknowledgements of a PSC (3.1.7.2.3: 256).
        pending_max: changes kept that came too early (3.1.7.2.2: 100).
        available_max: changes kept for a neighbour; with more it has to synchronize.
        message_changes_max: changes in one message (the field has 16 bits).
        message_bytes_max: octets of changes in one message; MSMQ carries 4 MiB.
        backlog_max: events that wait while the store works; more are dropped, as a full queue drops them.
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
        """Check what would stop the engine.

        Raises:
            ValueError: naming the setting.
        """
        for name in ("ack_interval", "message_changes_max", "message_bytes_max", "backlog_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, and has to be at least 1")
