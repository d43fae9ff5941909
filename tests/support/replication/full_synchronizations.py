"""Full synchronizations of a lone server: their parts, and which servers are asked for them."""

from dataclasses import replace

from mqdssm.engines.replication.actions import Action, Send
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.succession import GAP
from mqdssm.model.guid import Guid
from mqdssm.model.messages import AlreadyPurgedMessage, CompleteSync0, SyncRequestMessage
from mqdssm.model.replication import Service
from mqdssm.model.seqnum import MIN, SequenceNumber
from support.replication.lone_server import AWAY, Lone, machine, sends, site
from support.replication.lying_servers import header


def part(
    server: Lone, number: int, name: str, *, after: int, sender: str, purged: int = 50, is_last: bool = False
) -> list[Send]:
    """Send one machine of Away as a reply of a full synchronization."""
    change = replace(
        machine(number, name, AWAY, Service.BSC if name == "Other" else None),
        previous_seq_number=SequenceNumber(after),
        purged_seq_number=SequenceNumber(purged),
    )
    actions = server.answered(
        change,
        sender=sender,
        partition_id=AWAY,
        from_seq_number=SequenceNumber(after),
        purged_seq_number=SequenceNumber(purged),
        complete_sync0=CompleteSync0.NOW if is_last else CompleteSync0.SOON,
    )
    return sends(actions)


def begun_with_other(*, purged: int) -> Lone:
    """A full synchronization of Away began with Other, which has sent numbers up to 60."""
    server = Lone()
    server.answered(site(1, "Home", "Me"), site(2, "Away", "Other"))
    server.answered(machine(12, "m12", AWAY), partition_id=AWAY, from_seq_number=MIN, sender="Other")
    behind = SequenceNumber(purged)
    server.got(AlreadyPurgedMessage(site_id=AWAY, partition_id=AWAY, purged_seq_number=behind), "Other")
    part(server, 60, "Other", after=0, sender="Other", purged=purged)
    assert server.partition(AWAY).last == 60
    return server


def asked_in_turn(server: Lone, timeouts: int) -> list[str]:
    """Which servers are asked while none answers."""
    return [one.destination for _ in range(timeouts) for one in sends(server.fired(f"sync {AWAY}"))]


def begun_anew_with_heir() -> Lone:
    """A BSC whose full synchronization of Away began anew with the owner, Heir, behind a gap (R202)."""
    server = Lone(Role.BSC)
    server.answered(site(1, "Home", "Boss"), site(2, "Away", "Heir"), sender="Boss")
    server.answered(machine(12, "m12", AWAY), partition_id=AWAY, from_seq_number=MIN, sender="Boss")
    purged = SequenceNumber(50)
    server.got(AlreadyPurgedMessage(site_id=AWAY, partition_id=AWAY, purged_seq_number=purged), "Boss")
    part(server, 60, "Heir", after=0, sender="Boss")
    server.got(header("PEC", AWAY, last=61 + GAP), "PEC")
    (asked,) = part(server, 61 + GAP, "new", after=60, sender="PEC", is_last=True)
    assert asked_of([asked]) == [(AWAY, MIN, "PEC")]
    return server


def asked_of(actions: list[Action]) -> list[tuple[Guid, int, str]]:
    """Of which partition, from which number and which server changes are asked."""
    return [
        (sent.message.partition_id, sent.message.from_seq_number, sent.destination)
        for sent in sends(actions)
        if isinstance(sent.message, SyncRequestMessage)
    ]
