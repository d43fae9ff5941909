"""Who is the authority of a partition, and how that passes to another server (decisions R38, R39, R43).

A site is handed over by the last number that its authority gives: an update that makes another machine of
the site its PSC. Whoever has applied that number has all before it; so the successor knows when it is whole.
The enterprise is handed over in the same way, by an update of PROPID_E_PECNAME. No message is needed for it.
"""

from collections.abc import Iterable
from typing import Final

from mqdssm.engines.replication import authority, purging, requests, startup, sync, topology
from mqdssm.engines.replication.actions import TakeOver
from mqdssm.engines.replication.change_request import ChangeRequest
from mqdssm.engines.replication.operations import (
    Answer,
    HasObjects,
    ListObjects,
    ObjectOutcome,
    ObjectRead,
    ObjectsListed,
    ReadObject,
)
from mqdssm.engines.replication.properties import CONTROLLER, is_of, text
from mqdssm.engines.replication.settings import Role
from mqdssm.engines.replication.state import Job, Partition, ReplicaState, authorities, key_of, perform
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.model.seqnum import MIN

CONSULTED_MAX: Final = 3
"""So often a BSC is asked for what it has of a partition that was ours, as long as it does not answer."""
PREDECESSOR_TRIES: Final = 6
"""So many questions in a row may stay without an answer of who handed a partition over (decision R140)."""
GAP: Final = 1 << 20
"""Numbers that are skipped where others may know some that we do not: more than are ever under way."""


def be_bsc(server: ReplicaState, site: Partition) -> None:
    """Our machine's object says that we are a BSC, and the site is not ours."""
    server.is_demoted = True
    if not server.is_bsc and not server.is_me(site.record.authority_name):
        server.psc_name = site.record.authority_name
        purging.start_bsc_ack(server)


def is_adopting(server: ReplicaState, site: Partition) -> bool:
    """Return True if a new PSC first takes what others have of its own partition (decision R43)."""
    pec = server.partitions[PEC_PARTITION_ID].record.authority_name
    return (
        server.settings.role is not Role.BSC
        and not server.is_demoted
        and not site.record.owned
        and (not site.record.authority_name or key_of(site.record.authority_name) == key_of(pec))
    )


def is_retiring(server: ReplicaState, sites: Iterable[ObjectRead]) -> bool:
    """True if we handed our site over, and the enterprise does not know yet: we still tell our neighbours."""
    site = server.partitions.get(server.settings.site_id)
    if site is None or site.record.owned or is_adopting(server, site):
        return False
    own = next((one for one in sites if one.identifier == site.id), None)
    return own is not None and server.is_me(text(own.properties or (), Propid.S_PSC) or "")


def settle(server: ReplicaState) -> Job[None]:
    """At start: finish handovers that a crash cut short, and take note of a new name."""
    site = server.partitions.get(server.settings.site_id)
    if site is not None:
        yield from settle_one(server, site)
    yield from settle_one(server, server.partitions[PEC_PARTITION_ID])


def settle_one(server: ReplicaState, partition: Partition) -> Job[None]:
    """Finish the handover of a partition that was cut short (decisions R38, R103)."""
    if partition.id == PEC_PARTITION_ID:
        pec_name = (yield from _new_pec(server, partition)) if partition.record.owned else None
        if pec_name is not None:
            yield from hand_over(server, partition, pec_name)
        return
    own = yield from _own_machine(server)
    server.has_machine = own.partition_id == partition.id
    server.is_demoted = server.has_machine and is_of(own.properties or (), Service.BSC)
    if not partition.record.owned:
        return
    successor = yield from _successor(server, partition)
    if successor is not None:
        yield from hand_over(server, partition, successor)
    elif partition.record.authority_name != server.name:
        yield from server.save(partition, authority_name=server.name)


def _own_machine(server: ReplicaState) -> Job[ObjectRead]:
    operation = ReadObject(
        object_type=ObjectType.MACHINE,
        identifier=server.settings.machine_id,
        partition_id=server.settings.site_id,
    )
    return (yield from perform(operation, ObjectRead))


def _controllers(server: ReplicaState, site: Partition) -> Job[tuple[ObjectRead, ...]]:
    """The machines of a site that are its PSC, but for us."""
    operation = ListObjects(object_type=ObjectType.MACHINE, partition_id=site.id, service=int(CONTROLLER))
    found = yield from perform(operation, ObjectsListed)
    return tuple(one for one in found.objects if one.identifier != server.settings.machine_id)


def _successor(server: ReplicaState, site: Partition) -> Job[str | None]:
    """To whom we handed the site over before a crash; what is older than a take-over is none of that."""
    others = yield from _controllers(server, site)
    for one in others:
        name = text(one.properties or (), Propid.QM_PATHNAME)
        if name and one.seq_number is not None and one.seq_number > site.record.purged:
            return name
    return None


def _new_pec(server: ReplicaState, enterprise: Partition) -> Job[str | None]:
    """To whom we handed the enterprise over before a crash."""
    found = yield from _enterprise()
    pec_name = text(found.properties or (), Propid.E_PECNAME) if found is not None else None
    known = {key_of(enterprise.record.authority_name), key_of(server.name)}
    if found is None or found.seq_number is None or not pec_name or key_of(pec_name) in known:
        return None
    return pec_name if found.seq_number > enterprise.record.purged else None


def _enterprise() -> Job[ObjectRead | None]:
    operation = ListObjects(object_type=ObjectType.ENTERPRISE, partition_id=PEC_PARTITION_ID)
    found = yield from perform(operation, ObjectsListed)
    return next(iter(found.objects), None)


def hand_over(server: ReplicaState, partition: Partition, successor: str) -> Job[None]:
    """We gave the last number; the partition is the successor's now."""
    server.note("handed over", f"partition {partition.id} to {successor}")
    yield from server.save(partition, owned=False, authority_name=successor, last=partition.last)
    if partition.id == server.settings.site_id:
        server.psc_name = successor
        server.is_demoted = True
        purging.start_bsc_ack(server)


def follow(server: ReplicaState, partition: Partition, successor: str) -> Job[None]:
    """A partition of others has another authority now; what its predecessor was asked is asked again."""
    yield from server.save(partition, authority_name=successor)
    asked = [partition]
    is_home = partition.id == server.settings.site_id and server.is_bsc and not server.is_me(successor)
    if is_home and key_of(successor) != key_of(server.psc_name):
        server.note("has another PSC", successor)
        server.psc_name = successor
        asked = list(server.partitions.values())
    for one in asked:
        if one.asking:
            one.asking = False
            one.must_ask = True
            if one.last == one.record.last:  # else when what is being done is persisted
                sync.ask_if_must(server, one)


def step_down(server: ReplicaState, partition: Partition, sender: str) -> Job[None]:
    """Somebody who may say so knows numbers of our partition that we never gave (decisions R39, R107).

    We were replaced while we were away, or restored from an old copy: we become a replica of who knows more.
    What we numbered meanwhile may stand under numbers of others: everything is synchronized (decision R70).
    """
    server.note("somebody knows more of our partition than we do", f"{sender}, partition {partition.id}")
    partition.doubted = True
    partition.consulted.clear()
    partition.claimants.clear()
    yield from sync.begin_anew(server, partition, owned=False, authority_name=sender, is_new=True)
    yield from topology.derive(server)


def doubt(server: ReplicaState) -> Job[None]:
    """At start with an older copy of our directory: others may know more of what was ours (decision R70).

    We own nothing until somebody has told us what he knows; then we do again, if the objects still name us.
    That our copy is none that ends with a handover is persisted: the next start may be soon (decision R160).
    """
    for partition in list(server.partitions.values()):
        others = [*authorities(server), *(one.name for one in server.bscs.values())]
        if partition.record.owned and others:
            server.note("asks others for what it owned", f"partition {partition.id}, {others[0]}")
            partition.whole = partition.settled = False
            partition.doubted = True
            partition.change(owned=False, authority_name=others[0], last=partition.last)
        if others and partition.id in {PEC_PARTITION_ID, server.settings.site_id}:
            yield from server.save(partition, is_new=True)  # one not ours may have become ours since


def inherit_if_named(server: ReplicaState, partition: Partition, *, surely: bool = False) -> Job[None]:
    """Become the authority of a partition whose last change makes us so, once we have all that there is.

    Args:
        server: who we are.
        partition: which partition.
        surely: we have just asked, BSCs, too, where those have to be (decision R104).
    """
    if partition.record.owned or not partition.is_normal:
        return
    if not surely and (partition.doubted or not partition.whole):
        partition.must_ask = True  # then when we have caught up
        return
    if partition.id == PEC_PARTITION_ID:
        found = yield from _enterprise()
        named = found is not None and (yield from _is_pec(server, partition, found))
    elif partition.id == server.settings.site_id:
        found = yield from _own_machine(server)
        named = found.partition_id == partition.id and is_of(found.properties or (), CONTROLLER)
    else:
        return
    if found is not None and named and found.seq_number is not None and found.seq_number <= partition.last:
        yield from _inherit(server, partition)


def find_naming(server: ReplicaState, partition: Partition) -> Job[ObjectRead | None]:
    """Return the object of a partition that names us as its authority, rightly or not; None: none does."""
    if partition.id == server.settings.site_id:
        own = yield from _own_machine(server)
        return own if is_of(own.properties or (), CONTROLLER) else None
    if partition.id != PEC_PARTITION_ID:
        return None
    found = yield from _enterprise()
    is_me = found is not None and server.is_me(text(found.properties or (), Propid.E_PECNAME) or "")
    return found if is_me else None


def _is_handed_over(server: ReplicaState, partition: Partition, naming: ObjectRead) -> bool:
    """Return True if a partition was handed over to us just now: our copy ends with that (decision R140).

    Its predecessor tells us whether we have all. Else we were its authority before, and lost what followed.
    """
    is_kept = not partition.record.is_new and not server.settings.restored
    return is_kept and naming.seq_number == partition.last and partition.tries < PREDECESSOR_TRIES


def _is_pec(server: ReplicaState, partition: Partition, enterprise: ObjectRead) -> Job[bool]:
    """Return True if the enterprise names us: the PSC that has its name, now or when it was named.

    A lost PEC's name is that of our site, too, once we have taken the site over from it. That does not make
    us the PEC: the operator does. Where its machine is not there any more, we go on far behind (decision
    R87).
    """
    site = server.site
    pec_name = text(enterprise.properties or (), Propid.E_PECNAME)
    if site is None or not pec_name:
        return False
    if server.is_me(pec_name):
        return True
    operation = ReadObject(object_type=ObjectType.SITE, identifier=site.id)
    own = yield from perform(operation, ObjectRead)
    if key_of(text(own.properties or (), Propid.S_PSC) or "") != key_of(pec_name):
        return False
    other = yield from perform(ReadObject(object_type=ObjectType.MACHINE, path_name=pec_name), ObjectRead)
    if other.identifier is not None and other.identifier != server.settings.machine_id:
        return False
    partition.doubted = True
    return True


def caught_up(server: ReplicaState, partition: Partition, sender: str) -> Job[None]:
    """A replica has all that a server knows: it may be ours by right (decision R43).

    It is whole if that server is the authority or, for a BSC, its PSC: others may lack something themselves.
    """
    names = {key_of(server.psc_name or partition.record.authority_name)}
    told = key_of(sender) in names
    partition.whole = partition.whole or told
    naming = None if partition.settled else (yield from find_naming(server, partition))
    if naming is not None and not partition.doubted:
        if not _is_handed_over(server, partition, naming):
            partition.doubted = True  # we were its authority before: on a disk that is lost, or older
        elif told:
            partition.settled = True
        else:
            partition.whole = False  # until the predecessor has answered
            return
    if partition.doubted and (yield from _consult(server, partition, sender)):
        yield from _settle(server, partition, told=told)
        return
    adopts = partition.id == server.settings.site_id and is_adopting(server, partition)
    if adopts and (partition.last == MIN or (told and (yield from _is_empty(partition)))):
        yield from _inherit(server, partition)
    else:
        yield from inherit_if_named(server, partition, surely=True)
    yield from _settle(server, partition, told=told)


def _settle(server: ReplicaState, partition: Partition, *, told: bool) -> Job[None]:
    """Take note that a partition is whole, if its authority said so: a copy that was new is none any more."""
    partition.settled = partition.settled or told
    if partition.settled and partition.record.is_new and not partition.doubted:
        yield from server.save(partition, is_new=False)


def _consult(server: ReplicaState, partition: Partition, sender: str) -> Job[bool]:
    """Ask a BSC of our site for what it has of a partition that was ours (decision R104).

    BSCs hear of our changes before anybody else. What they have is lost once we go on far ahead.

    Returns:
        Whether one was asked, and its answer is to be waited for.
    """
    consulted = partition.consulted
    if key_of(sender) in consulted:
        consulted[key_of(sender)] = CONSULTED_MAX
    site_id = server.settings.site_id
    operation = ListObjects(object_type=ObjectType.MACHINE, partition_id=site_id, service=int(Service.BSC))
    found = yield from perform(operation, ObjectsListed)
    names = {
        key_of(name): name
        for one in found.objects
        if one.identifier != server.settings.machine_id
        and (name := text(one.properties or (), Propid.QM_PATHNAME))
    }
    waiting = [key for key in sorted(names) if consulted.get(key, 0) < CONSULTED_MAX]
    if not waiting:
        return False
    key = min(waiting, key=lambda one: consulted.get(one, 0))
    consulted[key] = consulted.get(key, 0) + 1
    server.note("asks a BSC for what it owned", f"partition {partition.id}, {names[key]}")
    partition.hint = names[key]
    sync.ask(server, partition)
    return True


def _is_empty(partition: Partition) -> Job[bool]:
    """True if a site has lost all its objects, and the machine that would name us, too (decision R86)."""
    answer = yield from perform(HasObjects(partition_id=partition.id), Answer)
    return not answer.yes


def _inherit(server: ReplicaState, partition: Partition) -> Job[None]:
    """Own a partition: right behind its last number if we saw that come, else far behind (R38, R43)."""
    server.note("became the authority", f"of partition {partition.id}")
    ahead = (partition.doubted or not partition.settled) and partition.last > MIN
    yield from _own(server, partition, ahead=ahead)
    if partition.id == server.settings.site_id:
        own = yield from _own_machine(server)
        server.has_machine = own.partition_id == partition.id
        enterprise = server.partitions[PEC_PARTITION_ID]
        yield from inherit_if_named(server, enterprise)
        sync.ask_if_must(server, enterprise)
    yield from topology.derive(server)
    yield from claim(server)


def _own(server: ReplicaState, partition: Partition, *, ahead: bool) -> Job[None]:
    """Own a partition; `ahead`: so far behind its last number that all others synchronize in full."""
    if ahead:  # a deletion may be half applied here, which nobody tells us again (decision R121)
        yield from startup.recover(server, partition)
    last = partition.last.plus(GAP) if ahead else partition.last
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
    partition.whole = partition.settled = True
    partition.doubted = False
    partition.consulted.clear()
    partition.asking = False
    partition.hint = ""
    server.stop_timer(sync.timer_of(partition))
    if partition.id == server.settings.site_id:
        server.psc_name = ""
        server.is_demoted = False
        server.stop_timer("bscack")


def claim(server: ReplicaState) -> Job[None]:
    """Have the objects say who we are: our machine's name, the PSC of our site, the PEC."""
    site = server.site
    waits = False
    if site is not None and server.is_demoted:  # a handover that was cut short, or refused
        outcome = yield from _serve(server, site, server.settings.machine_id, Service.PSC)
        server.is_demoted = outcome.identifier is None
        waits = outcome.status in authority.PASSING
    waits |= yield from _claim_machine(server)
    enterprise = server.enterprise
    if enterprise is not None:
        found = yield from _enterprise()
        if found is not None:
            waits |= yield from _claim_name(server, ObjectType.ENTERPRISE, found, Propid.E_PECNAME)
        yield from _keep_name(server, enterprise)
    if site is not None:
        operation = ReadObject(object_type=ObjectType.SITE, identifier=site.id)
        own = yield from perform(operation, ObjectRead)
        waits |= yield from _claim_name(server, ObjectType.SITE, own, Propid.S_PSC)
    if waits:
        server.start_timer("claim", server.settings.sync_wait_s)


def _keep_name(server: ReplicaState, enterprise: Partition) -> Job[None]:
    """Persist our name as the PEC's once the enterprise says it: until then another one is a handover's."""
    if not enterprise.record.owned or enterprise.record.authority_name == server.name:
        return
    found = yield from _enterprise()
    pec_name = text(found.properties or (), Propid.E_PECNAME) if found is not None else server.name
    if server.is_me(pec_name or ""):
        yield from server.save(enterprise, authority_name=server.name)


def claim_timer(server: ReplicaState, _rest: str) -> Job[None]:
    """Ask again until the objects say so."""
    yield from claim(server)


def _claim_machine(server: ReplicaState) -> Job[bool]:
    if server.settings.site_id not in server.partitions:
        return False
    own = yield from _own_machine(server)
    if own.partition_id != server.settings.site_id:
        return False
    return (yield from _claim_name(server, ObjectType.MACHINE, own, Propid.QM_PATHNAME))


def _claim_name(server: ReplicaState, kind: ObjectType, found: ObjectRead, propid: Propid) -> Job[bool]:
    """Set a property of an object to our name, here or at its authority.

    Returns:
        Whether it has still to be seen that it was done.
    """
    said = text(found.properties or (), propid)
    partition = server.partitions.get(found.partition_id) if found.partition_id is not None else None
    if found.identifier is None or partition is None or server.is_me(said or ""):
        return False
    properties = ((propid, server.name),)
    if not partition.record.owned:
        requests.ask_authority(server, kind, found.identifier, partition.id, properties)
        return True
    wanted = ChangeRequest(
        command=Command.UPDATE, object_type=kind, identifier=found.identifier, properties=properties
    )
    outcome = yield from authority.execute(server, partition, wanted)
    if outcome.status != Hresult.MQ_OK:
        server.note("our name was refused", f"{propid.spec_name}, status {outcome.status:#010x}")
    return outcome.status in authority.PASSING


def take_over(server: ReplicaState, event: TakeOver) -> Job[None]:
    """The operator says that the authority is lost, and makes us its successor.

    What it had acknowledged and not sent to us is lost; every other server gets the whole partition from us.
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
        yield from _own(server, partition, ahead=True)
        yield from topology.derive(server)
    status: int = Hresult.MQ_OK
    if partition.id == server.settings.site_id:
        status = yield from _be_controller(server, partition)
    yield from claim(server)
    server.reply(event.request, status)


def _be_controller(server: ReplicaState, site: Partition) -> Job[int]:
    """Make the machines of the site say who its PSC is.

    Returns:
        MQ_OK; else why the last of them does not say so yet.
    """
    status: int = Hresult.MQ_OK
    others = yield from _controllers(server, site)
    for one in others:
        outcome = yield from _serve(server, site, one.identifier, Service.BSC)
        status = outcome.status or status
    own = yield from _own_machine(server)
    if own.partition_id == site.id and not is_of(own.properties or (), CONTROLLER):
        outcome = yield from _serve(server, site, own.identifier, Service.PSC)
        status = outcome.status or status
    return status


def _serve(
    server: ReplicaState, site: Partition, identifier: Guid | None, role: Service
) -> Job[ObjectOutcome]:
    wanted = ChangeRequest(
        command=Command.UPDATE,
        object_type=ObjectType.MACHINE,
        identifier=identifier,
        properties=((Propid.QM_SERVICE, int(role)),),
    )
    return (yield from authority.write(server, site, wanted))
