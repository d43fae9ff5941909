"""Authorities of partitions, and handing over to another server.

See decisions R38, R39 and R43.

A site is handed over by the last number that its authority gives: an update that makes another machine of
the site its PSC. A replica that has applied that number has all earlier ones, so that the successor knows
when it is whole. The enterprise is handed over in the same way, by an update of PROPID_E_PECNAME. No message
is needed.
"""

from collections.abc import Iterable
from typing import Final

from mqdssm.engines.replication import authority, propagation, purging, server_roles, sync_requests, trust
from mqdssm.engines.replication import operations as ops
from mqdssm.engines.replication.actions import TakeOver
from mqdssm.engines.replication.internal_events import AuthorityChanged, SuccessorNamed, publish
from mqdssm.engines.replication.jobs import Job, list_objects, perform, read_object
from mqdssm.engines.replication.properties import CONTROLLER, get_text, has_role
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.state import Partition, ReplicaState, key_of, list_authorities
from mqdssm.engines.replication.timers import Timer, TimerPurpose
from mqdssm.model.hresults import Hresult
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import MIN, SequenceNumber

CONSULTED_MAX: Final = 3
"""Number of times a silent BSC or PEC is asked for its changes of a partition that was ours."""
PREDECESSOR_TRIES: Final = 6
"""Number of unanswered requests in a row to the server that handed a partition over (decision R140)."""
GAP: Final = 1 << 20
"""Numbers that are skipped if others may have numbers that we lack: more than are ever under way."""


def become_bsc(server: ReplicaState, site: Partition) -> None:
    """Become a BSC: our machine object says so, and the site is not ours."""
    server.is_demoted = True
    if not server.is_bsc and not server.is_me(site.record.authority_name):
        server.psc_name = site.record.authority_name
        purging.start_bsc_ack(server)


def is_adopting(server: ReplicaState, site: Partition) -> bool:
    """Return True if a new PSC still lacks changes of its partition (R43).

    The PSC must first take existing changes from others.
    """
    pec = server.partitions[PEC_PARTITION_ID].record.authority_name
    return (
        server.settings.role is not Role.BSC
        and not server.is_demoted
        and not site.record.owned
        and (not site.record.authority_name or key_of(site.record.authority_name) == key_of(pec))
    )


def is_retiring(server: ReplicaState, sites: Iterable[ops.ObjectRead]) -> bool:
    """Return True if our site is handed over, unknown to the enterprise.

    Neighbours are still served.
    """
    site = server.partitions.get(server.settings.site_id)
    if site is None or site.record.owned or is_adopting(server, site):
        return False
    own_site = next((candidate for candidate in sites if candidate.identifier == site.id), None)
    return own_site is not None and server.is_me(get_text(own_site.properties or (), Propid.S_PSC) or "")


def complete_handovers(server: ReplicaState) -> Job[None]:
    """Complete handovers that a crash interrupted, at start.

    A new name of ours is recorded as well.
    """
    site = server.partitions.get(server.settings.site_id)
    if site is not None:
        yield from complete_handover(server, site)
    yield from complete_handover(server, server.partitions[PEC_PARTITION_ID])


def complete_handover(server: ReplicaState, partition: Partition) -> Job[None]:
    """Complete an interrupted handover of a partition (decisions R38, R103)."""
    if partition.id == PEC_PARTITION_ID:
        pec_name = (yield from _find_new_pec(server, partition)) if partition.record.owned else None
        if pec_name is not None:
            yield from hand_over(server, partition, pec_name)
        return
    if partition.id != server.settings.site_id:
        return  # the replica of another site says nothing about our machine
    machine = yield from server_roles.read_own_machine(server)
    server.has_machine = machine.partition_id == partition.id
    server.is_demoted = server.has_machine and has_role(machine.properties or (), Service.BSC)
    if not partition.record.owned:
        return
    successor = yield from _find_site_successor(server, partition)
    if successor is not None:
        yield from hand_over(server, partition, successor)
    elif partition.record.authority_name != server.name:
        yield from server.save(partition, authority_name=server.name)


def _find_site_successor(server: ReplicaState, site: Partition) -> Job[str | None]:
    """Return the machine that got the site before a crash.

    Objects older than a take-over are ignored.
    """
    controllers = yield from server_roles.read_other_controllers(server, site)
    for controller in controllers:
        name = get_text(controller.properties or (), Propid.QM_PATHNAME)
        if name and controller.seq_number is not None and controller.seq_number > site.record.purged:
            return name
    return None


def _find_new_pec(server: ReplicaState, enterprise: Partition) -> Job[str | None]:
    """Return the machine that got the enterprise before a crash.

    None if there was no handover.
    """
    enterprise_object = yield from server_roles.read_enterprise()
    pec_name = (
        get_text(enterprise_object.properties or (), Propid.E_PECNAME)
        if enterprise_object is not None
        else None
    )
    old_names = {key_of(enterprise.record.authority_name), key_of(server.name)}
    if (
        enterprise_object is None
        or enterprise_object.seq_number is None
        or not pec_name
        or key_of(pec_name) in old_names
    ):
        return None
    return pec_name if enterprise_object.seq_number > enterprise.record.purged else None


def on_successor_named(server: ReplicaState, event: SuccessorNamed) -> Job[None]:
    """Hand a partition over, and send all neighbours its last changes."""
    yield from hand_over(server, event.partition, event.successor)
    propagation.send_to_all(server)
    yield from publish(server, AuthorityChanged())


def hand_over(server: ReplicaState, partition: Partition, successor: str) -> Job[None]:
    """Give up ownership of a partition after our last number.

    The successor becomes the owner.
    """
    server.note("handed over", f"partition {partition.id} to {successor}")
    yield from server.save(partition, owned=False, authority_name=successor, last=partition.last)
    if partition.id == server.settings.site_id:
        server.psc_name = successor
        server.is_demoted = True
        purging.start_bsc_ack(server)


def follow_authority(server: ReplicaState, partition: Partition, successor: str) -> Job[None]:
    """Record the new authority of another owner's partition.

    The requests to the old one are repeated.
    """
    followed = server.partitions[PEC_PARTITION_ID].last
    yield from server.save(partition, authority_name=successor, followed=followed)
    partitions = [partition]
    is_home = partition.id == server.settings.site_id and server.is_bsc and not server.is_me(successor)
    if is_home and key_of(successor) != key_of(server.psc_name):
        server.note("has another PSC", successor)
        server.psc_name = successor
        partitions = list(server.partitions.values())
    for target in partitions:
        if target.is_asking:
            target.is_asking = False
            target.must_ask = True
            if target.last == target.record.last:  # else it is repeated after the current work is persisted
                sync_requests.send_if_needed(server, target)


def step_down(server: ReplicaState, partition: Partition, sender: str) -> Job[None]:
    """Give up a partition of ours (decisions R39, R107).

    A trusted server has numbers that we never gave.

    This server was replaced while it was off, or restored from an old copy. It becomes a replica of the
    sender. Its own recent numbers may be used for other changes there, so that everything is synchronized
    (decision R70).
    """
    server.note("somebody knows more of our partition than we do", f"{sender}, partition {partition.id}")
    partition.is_doubted = True
    partition.consulted.clear()
    partition.claimants.clear()
    yield from sync_requests.begin_full_sync(
        server, partition, sender, owned=False, authority_name=sender, is_new=True
    )
    yield from publish(server, AuthorityChanged())


def disown_restored(server: ReplicaState) -> Job[None]:
    """Give up ownership at start with an older copy (decision R70).

    Others may know more than this copy of our directory.

    We own nothing until another server has reported its numbers; then we own it again, if the objects still
    name us. It is persisted that our copy does not end with a handover, as the next start may be soon
    (decision R160).
    """
    for partition in list(server.partitions.values()):
        sources = [*list_authorities(server), *(bsc.name for bsc in server.bscs.values())]
        if partition.record.owned and sources:
            server.note("asks others for what it owned", f"partition {partition.id}, {sources[0]}")
            partition.is_whole = partition.is_settled = False
            partition.is_doubted = True
            partition.change(owned=False, authority_name=sources[0], last=partition.last)
        if sources and partition.id in {PEC_PARTITION_ID, server.settings.site_id}:
            yield from server.save(partition, is_new=True)  # it may have become ours since


def become_authority_if_named(
    server: ReplicaState, partition: Partition, *, surely: bool = False
) -> Job[None]:
    """Become the authority of a partition if its last change names us.

    All changes must be here.

    Args:
        server: the state of this server.
        partition: the partition.
        surely: True if all servers that have to be asked, including BSCs, have just answered (decision R104).
    """
    if partition.record.owned or not partition.is_normal:
        return
    if not surely and (partition.is_doubted or not partition.is_whole):
        partition.must_ask = True  # it is checked again after the next reply
        return
    if partition.id == PEC_PARTITION_ID:
        stored_object = yield from server_roles.read_enterprise()
        named = stored_object is not None and (yield from _is_named_pec(server, partition, stored_object))
    elif partition.id == server.settings.site_id:
        stored_object = yield from server_roles.read_own_machine(server)
        named = stored_object.partition_id == partition.id and has_role(
            stored_object.properties or (), CONTROLLER
        )
    else:
        return
    if (
        stored_object is not None
        and named
        and stored_object.seq_number is not None
        and stored_object.seq_number <= partition.last
    ):
        yield from _become_authority(server, partition)


def find_naming_object(server: ReplicaState, partition: Partition) -> Job[ops.ObjectRead | None]:
    """Return the object of a partition that names us as its authority.

    The object may be wrong. None if no object names us.
    """
    if partition.id == server.settings.site_id:
        machine = yield from server_roles.read_own_machine(server)
        return machine if has_role(machine.properties or (), CONTROLLER) else None
    if partition.id != PEC_PARTITION_ID:
        return None
    enterprise_object = yield from server_roles.read_enterprise()
    is_me = enterprise_object is not None and server.is_me(
        get_text(enterprise_object.properties or (), Propid.E_PECNAME) or ""
    )
    return enterprise_object if is_me else None


def _is_handed_over(
    server: ReplicaState, partition: Partition, naming: ops.ObjectRead, *, is_confirmed: bool
) -> bool:
    """Return True if a partition was just handed over to us (decision R140).

    Our copy ends with that change.

    Then its predecessor confirms whether we have all. Else we were its authority before, and lost later
    changes. A predecessor that has not answered several questions is not waited for; an answer that comes
    counts, however late (decision R190).
    """
    is_kept = not partition.record.is_new and not server.settings.restored
    is_awaited = is_confirmed or partition.tries < PREDECESSOR_TRIES
    return is_kept and naming.seq_number == partition.last and is_awaited


def _is_named_pec(server: ReplicaState, partition: Partition, enterprise: ops.ObjectRead) -> Job[bool]:
    """Return True if the enterprise names us as PEC.

    The enterprise has our name, or the PSC name in our site's object.

    A lost PEC's name is also that of our site if we took the site over from it. That does not make us the
    PEC: the operator does. If the machine of that name no longer exists, we become PEC with a gap of numbers
    (decision R87).
    """
    site = server.site
    pec_name = get_text(enterprise.properties or (), Propid.E_PECNAME)
    if site is None or not pec_name:
        return False
    if server.is_me(pec_name):
        return True
    site_object = yield from read_object(ObjectType.SITE, identifier=site.id)
    if key_of(get_text(site_object.properties or (), Propid.S_PSC) or "") != key_of(pec_name):
        return False
    other = yield from read_object(ObjectType.MACHINE, path_name=pec_name)
    if other.identifier is not None and other.identifier != server.settings.machine_id:
        return False
    partition.is_doubted = True
    return True


def handle_no_news(server: ReplicaState, partition: Partition, sender: str) -> Job[None]:
    """Handle a reply without news (decision R43).

    The replica may now be ours by right.

    It is whole if the sender is the authority or, for a BSC, its PSC: other servers may lack changes
    themselves.
    """
    is_confirmed = key_of(sender) == key_of(server.find_usual_source(partition))
    partition.is_whole = partition.is_whole or is_confirmed
    naming = None if partition.is_settled else (yield from find_naming_object(server, partition))
    if naming is not None and not partition.is_doubted:
        if not _is_handed_over(server, partition, naming, is_confirmed=is_confirmed):
            partition.is_doubted = True  # we were its authority before, with a disk that is lost or older
        elif is_confirmed:
            partition.is_settled = True
        else:
            partition.is_whole = False  # until the predecessor has answered
            return
    if partition.is_doubted and (yield from _ask_others(server, partition, sender)):
        yield from _confirm_whole(server, partition, is_confirmed=is_confirmed)
        return
    adopts = partition.id == server.settings.site_id and is_adopting(server, partition)
    if adopts and (partition.last == MIN or (is_confirmed and (yield from _is_empty(partition)))):
        yield from _become_authority(server, partition)
    else:
        yield from become_authority_if_named(server, partition, surely=True)
    yield from _confirm_whole(server, partition, is_confirmed=is_confirmed)


def _confirm_whole(server: ReplicaState, partition: Partition, *, is_confirmed: bool) -> Job[None]:
    """Record that the authority confirmed the partition as whole.

    A new copy then counts as complete.
    """
    partition.is_settled = partition.is_settled or is_confirmed
    if partition.is_settled and partition.record.is_new and not partition.is_doubted:
        yield from server.save(partition, is_new=False)


def _ask_others(server: ReplicaState, partition: Partition, sender: str) -> Job[bool]:
    """Ask a BSC of our site, or the PEC, for changes of a partition that was ours.

    See decision R104.

    BSCs receive our changes first. Changes that only a BSC has are lost once we continue with a gap of
    numbers. The PEC may have a handover that our PSC has not received (decision R170).

    Returns:
        True if a server was asked, and its answer has to be awaited.
    """
    consulted = partition.consulted
    if key_of(sender) in consulted:
        consulted[key_of(sender)] = CONSULTED_MAX
    site_id = server.settings.site_id
    machines = yield from list_objects(ObjectType.MACHINE, site_id, Service.BSC)
    names = {
        key_of(name): name
        for machine in machines
        if machine.identifier != server.settings.machine_id
        and (name := get_text(machine.properties or (), Propid.QM_PATHNAME))
    }
    pec_name = server.partitions[PEC_PARTITION_ID].record.authority_name
    is_asked_first = key_of(pec_name) == key_of(server.find_usual_source(partition))
    if pec_name and not is_asked_first and not server.is_me(pec_name):
        names[key_of(pec_name)] = pec_name
    yield from trust.forget_removed_servers(server, [partition])
    names |= {key: name for key, (name, number) in partition.reporters.items() if number > partition.last}
    waiting = [key for key in sorted(names) if consulted.get(key, 0) < CONSULTED_MAX]
    if not waiting:
        return False
    key = min(waiting, key=lambda server_key: consulted.get(server_key, 0))
    consulted[key] = consulted.get(key, 0) + 1
    server.note("asks another server for what it owned", f"partition {partition.id}, {names[key]}")
    partition.hint = names[key]
    sync_requests.send(server, partition)
    return True


def _is_empty(partition: Partition) -> Job[bool]:
    """Return True if a site has lost all its objects (decision R86).

    The machine that would name us is lost with them.
    """
    answer = yield from perform(ops.HasObjects(partition_id=partition.id), ops.Answer)
    return not answer.yes


def _become_authority(server: ReplicaState, partition: Partition) -> Job[None]:
    """Become the owner (decisions R38, R43).

    If we saw the last number arrive, we go on with the next number, else after a gap.
    """
    server.note("became the authority", f"of partition {partition.id}")
    ahead = (partition.is_doubted or not partition.is_settled) and partition.last > MIN
    yield from _take_ownership(server, partition, ahead=ahead)
    if partition.id == server.settings.site_id:
        machine = yield from server_roles.read_own_machine(server)
        server.has_machine = machine.partition_id == partition.id
        enterprise = server.partitions[PEC_PARTITION_ID]
        yield from become_authority_if_named(server, enterprise)
        sync_requests.send_if_needed(server, enterprise)
    yield from publish(server, AuthorityChanged())
    yield from server_roles.write_roles(server)


def _take_ownership(server: ReplicaState, partition: Partition, *, ahead: bool) -> Job[None]:
    """Take ownership of a partition.

    `ahead` skips so many numbers that all others synchronize in full.
    """
    if ahead:  # a deletion may be half applied here, and is not sent again (decision R121)
        yield from authority.recover_partition(server, partition)
    last = _find_highest_known(partition).plus(GAP) if ahead else partition.last
    partition.predecessor = partition.record.authority_name if partition.last > MIN and not ahead else ""
    yield from server.save(
        partition,
        owned=True,
        authority_name=server.name,
        predecessor=partition.predecessor,
        is_new=False,
        last=last,
        purged=last if ahead else partition.record.purged,
    )
    partition.pending.clear()
    partition.purged_elsewhere = None
    partition.is_whole = partition.is_settled = True
    partition.is_doubted = False
    partition.consulted.clear()
    partition.reporters.clear()
    partition.is_asking = False
    partition.hint = ""
    server.stop_timer(sync_requests.timer_of(partition))
    if partition.id == server.settings.site_id:
        server.psc_name = ""
        server.is_demoted = False
        server.stop_timer(Timer(TimerPurpose.BSC_ACK))


def _find_highest_known(partition: Partition) -> SequenceNumber:
    """Return the highest number that we have or were told of (decision R196).

    Others may have numbers of the lost authority that we lack, and go on from them.
    """
    record = partition.record
    reported = (partition.known_number, record.allowed_purge, partition.purged_elsewhere or MIN)
    return max(partition.last, record.purged, *reported)


def take_over(server: ReplicaState, event: TakeOver) -> Job[None]:
    """Make this server the authority of a partition, as the operator says.

    The former authority is lost.

    Changes that the lost server acknowledged and did not send to us are lost. Every other server gets the
    whole partition from us.
    """
    partition = server.partitions.get(event.partition_id)
    allowed = event.partition_id == server.settings.site_id or (
        event.partition_id == PEC_PARTITION_ID and server.site is not None  # the PEC is a PSC
    )
    whole = partition is not None and partition.is_normal and partition.last > MIN  # decision R71
    if partition is None or not whole or not allowed:
        server.reply(event.request, Hresult.MQ_ERROR_ILLEGAL_OPERATION)
        return
    if not partition.record.owned:
        yield from _take_ownership(server, partition, ahead=True)
        yield from publish(server, AuthorityChanged())
    status: int = Hresult.MQ_OK
    if partition.id == server.settings.site_id:
        status = yield from server_roles.write_site_roles(server, partition)
    yield from server_roles.write_roles(server)
    server.reply(event.request, status)
