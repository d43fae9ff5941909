"""Directory servers in one process with a perfect network and a clock of their own, for scripted tests.

Nothing is lost, doubled or late here; what goes wrong is the matter of `mqdssm.testing.simulation`.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid5

from mqdssm.engines.actions import Note, StartTimer, StopTimer, TimerFired
from mqdssm.engines.replication.actions import (
    ChangeObject,
    Event,
    NameAuthority,
    Perform,
    Performed,
    Received,
    Reply,
    Send,
    Started,
    TakeOver,
)
from mqdssm.engines.replication.engine import ReplicationEngine
from mqdssm.engines.replication.operations import LoadState
from mqdssm.engines.replication.settings import Role, Settings
from mqdssm.model.guid import Guid
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command, Properties, ReplicationMessage, Scope
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID, Service
from mqdssm.testing.memory_store.store import MemoryStore
from mqdssm.testing.simulation.stores import look_up_everything

SETTLE_S = 60
"""Longer than any propagation takes."""
_NAMES = UUID("6f6d7164-7373-4d00-8000-000000000000")


def guid_of(name: str) -> Guid:
    """The same GUID for the same name, always."""
    return Guid.of(uuid5(_NAMES, name))


def machine_properties(name: str, site_id: Guid, service: Service | None = Service.NONE) -> Properties:
    """What a machine is created with."""
    given: Properties = (
        (Propid.QM_PATHNAME, name),
        (Propid.QM_SITE_ID, site_id),
        (Propid.QM_ADDRESS, b""),
        (Propid.QM_CNS, ()),
    )
    return given if service is None else (*given, (Propid.QM_SERVICE, int(service)))


@dataclass
class Host:
    """A server of the net."""

    settings: Settings
    store: MemoryStore
    engine: ReplicationEngine
    timers: dict[str, float] = field(default_factory=dict)
    replies: dict[int, Reply] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)


class Net:
    """All servers, what is under way, and what was sent."""

    def __init__(self, **changes) -> None:
        self.now = 1_000_000.0
        self.hosts: dict[str, Host] = {}
        self.sent: list[tuple[str, str, ReplicationMessage]] = []
        self.drop: Callable[[str, Send], bool] = lambda _source, _send: False
        self._events: list[tuple[float, int, str, Event]] = []
        self._count = 0
        self._request = 0
        self._lives = 0
        self._changes = changes

    def server(
        self, name: str, role: Role, site: str, *, psc: str = "", pec: str = "PEC", store=None
    ) -> Host:
        """Add a server, and start it."""
        settings = Settings(
            machine_name=name,
            machine_id=guid_of(f"machine {name}"),
            site_id=guid_of(f"site {site}"),
            role=role,
            pec_name=pec,
            psc_name=psc,
            **self._changes,
        )
        host = Host(settings, store or MemoryStore(), ReplicationEngine(settings, first_request=1000))
        self.hosts[name] = host
        self._put(name, Started(), 0)
        self.run()
        return host

    def restart(self, name: str, *, as_name: str | None = None) -> Host:
        """Start a server again with what its store kept."""
        host = self.hosts.pop(name)
        self._lives += 1
        settings = replace(host.settings, machine_name=as_name or name)
        engine = ReplicationEngine(settings, first_request=50_000 * self._lives)  # no number again (R33)
        made = Host(settings, host.store.restart(), engine)
        self.hosts[settings.machine_name] = made
        self._put(settings.machine_name, Started(), 0)
        self.run()
        return made

    def stop(self, name: str) -> Host:
        """Take a server away."""
        return self.hosts.pop(name)

    def change(self, name: str, command: Command, kind: ObjectType, **given) -> Reply:
        """Have a client ask a server for a change, and wait for the reply."""
        given.setdefault("path_name", None)
        given.setdefault("identifier", None)
        given.setdefault("properties", ())
        given.setdefault("scope", Scope.ENTERPRISE)
        self._request += 1
        event = ChangeObject(request=self._request, command=command, object_type=kind, **given)
        return self._asked(name, event)

    def take_over(self, name: str, partition_id: Guid) -> Reply:
        """Have the operator make a server the authority."""
        self._request += 1
        return self._asked(name, TakeOver(request=self._request, partition_id=partition_id))

    def name_authority(self, name: str, partition_id: Guid, authority: str) -> Reply:
        """Have the operator tell a server who owns a partition."""
        self._request += 1
        event = NameAuthority(request=self._request, partition_id=partition_id, machine_name=authority)
        return self._asked(name, event)

    def _asked(self, name: str, event: ChangeObject | TakeOver | NameAuthority) -> Reply:
        self._put(name, event, 0)
        limit = self.now + 120
        while event.request not in self.hosts[name].replies:
            assert self.now < limit, "no reply"
            self.run(1)
        return self.hosts[name].replies[event.request]

    def run(self, seconds: float = 0) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            at, _, name, event = heapq.heappop(self._events)
            self.now = max(self.now, at)
            if name in self.hosts:
                self._step(name, self.hosts[name], event)
        self.now = end

    def _put(self, name: str, event: Event, after_s: float) -> int:
        self._count += 1
        heapq.heappush(self._events, (self.now + after_s, self._count, name, event))
        return self._count

    def _step(self, name: str, host: Host, event: Event) -> None:
        if isinstance(event, TimerFired):
            if host.timers.get(event.name, float("inf")) > self.now:
                return  # it was stopped, or started again
            del host.timers[event.name]
        for action in host.engine.step(event, self.now):
            self._do(name, host, action)

    def _do(self, name: str, host: Host, action) -> None:
        match action:
            case StartTimer(name=timer, after_s=after_s):  # nine of ten actions: first
                host.timers[timer] = self.now + after_s
                self._put(name, TimerFired(name=timer), after_s)
            case Perform(token=token, operation=operation):
                result = host.store.perform(operation)
                self._put(name, Performed(token=token, result=result), 0)
            case Send(destination=destination, message=message):
                self.sent.append((name, destination, message))
                if not self.drop(name, action):
                    found = next((one for one in self.hosts if one.lower() == destination.lower()), "")
                    event = Received(message=message, sender=name, machine_id=host.settings.machine_id)
                    self._put(found, event, 0.001)
            case StopTimer(name=timer):
                host.timers.pop(timer, None)
            case Reply(request=request):
                host.replies[request] = action
            case Note():
                host.notes.append(action)

    # --- what tests say often

    def create_site(self, site: str, psc: str, at: str = "PEC") -> Reply:
        """Create a site at the PEC."""
        return self.change(
            at,
            Command.CREATE,
            ObjectType.SITE,
            path_name=site,
            identifier=guid_of(f"site {site}"),
            partition_id=PEC_PARTITION_ID,
            properties=((Propid.S_PATHNAME, site), (Propid.S_PSC, psc)),
        )

    def name_psc(self, site: str, psc: str, at: str = "PEC") -> Reply:
        """Have the operator say at the PEC who the PSC of a site is."""
        return self.change(
            at,
            Command.UPDATE,
            ObjectType.SITE,
            identifier=guid_of(f"site {site}"),
            partition_id=PEC_PARTITION_ID,
            properties=((Propid.S_PSC, psc),),
        )

    def create_machine(self, machine: str, site: str, at: str, service: Service = Service.NONE) -> Reply:
        """Create a machine in a site."""
        return self.change(
            at,
            Command.CREATE,
            ObjectType.MACHINE,
            path_name=machine,
            identifier=guid_of(f"machine {machine}"),
            partition_id=guid_of(f"site {site}"),
            properties=machine_properties(machine, guid_of(f"site {site}"), service),
        )

    def create_network(self, name: str, at: str) -> Reply:
        """Create a connected network."""
        return self.change(
            at,
            Command.CREATE,
            ObjectType.CN,
            path_name=name,
            identifier=guid_of(f"network {name}"),
            partition_id=PEC_PARTITION_ID,
            properties=((Propid.CN_NAME, name),),
        )

    def create_queue(self, machine: str, queue: str, site: str, at: str) -> Reply:
        """Create a queue of a machine."""
        path = f"{machine}\\{queue}"
        return self.change(
            at,
            Command.CREATE,
            ObjectType.QUEUE,
            path_name=path,
            identifier=guid_of(f"queue {path}"),
            partition_id=guid_of(f"site {site}"),
            properties=((Propid.Q_PATHNAME, path), (Propid.Q_LABEL, queue)),
        )

    def partitions(self, name: str) -> set[Guid]:
        """The partitions that a server knows."""
        return {one.partition_id for one in self.hosts[name].store.perform(LoadState()).partitions}

    def content(self, name: str, partition_id: Guid) -> dict[Guid, Any]:
        """Everything of a partition that a server has."""
        found = self.hosts[name].store.perform(look_up_everything(partition_id))
        return {
            one.guid_identifier: (one.seq_number, one.command, dict(one.properties)) for one in found.changes
        }


def enterprise(**settings) -> Net:
    """One site, and PEC as its controller ([MC-MQDSRP] figure 7)."""
    net = Net(**settings)
    net.server("PEC", Role.PEC, "Site0")
    made = net.change(
        "PEC",
        Command.CREATE,
        ObjectType.ENTERPRISE,
        path_name="Fabrikam",
        identifier=guid_of("enterprise"),
        partition_id=PEC_PARTITION_ID,
        properties=((Propid.E_NAME, "Fabrikam"), (Propid.E_PECNAME, "PEC")),
    )
    assert made.status == Hresult.MQ_OK
    assert net.create_site("Site0", "PEC").status == Hresult.MQ_OK
    assert net.create_machine("PEC", "Site0", "PEC", Service.PEC).status == Hresult.MQ_OK
    return net


def with_site(net: Net, site: str, psc: str) -> None:
    """Add a site with its controller, and let everything settle."""
    assert net.create_site(site, psc).status == Hresult.MQ_OK
    net.server(psc, Role.PSC, site)
    net.run(SETTLE_S)
    assert net.create_machine(psc, site, psc, Service.PSC).status == Hresult.MQ_OK
    net.run(SETTLE_S)


def with_bsc(net: Net, site: str, bsc: str, psc: str) -> None:
    """Add a BSC to a site, and let everything settle."""
    assert net.create_machine(bsc, site, psc, Service.BSC).status == Hresult.MQ_OK
    net.server(bsc, Role.BSC, site, psc=psc)
    net.run(SETTLE_S)


def hand_the_enterprise_over(net: Net, name: str, at: str = "PEC") -> int:
    """Have a server made PEC, at a server; return the status."""
    return net.change(
        at,
        Command.UPDATE,
        ObjectType.ENTERPRISE,
        identifier=guid_of("enterprise"),
        partition_id=PEC_PARTITION_ID,
        properties=((Propid.E_PECNAME, name),),
    ).status


def objects(net: Net, name: str, partition_id: Guid) -> dict[Guid, Any]:
    """What a server has of a partition but for deleted objects, which each server purges in its own time."""
    content = net.content(name, partition_id)
    return {one: found for one, found in content.items() if found[1] is not Command.DELETE}


def objects_equal(net: Net) -> bool:
    """Whether all servers hold the same objects with the same numbers, whatever deleted objects they keep."""
    hosts = list(net.hosts)
    partitions = set().union(*(net.partitions(name) for name in hosts))
    return all(objects(net, name, one) == objects(net, hosts[0], one) for name in hosts for one in partitions)


def all_equal(net: Net) -> bool:
    """Whether all servers hold the same objects with the same numbers."""
    hosts = list(net.hosts)
    partitions = set().union(*(net.partitions(name) for name in hosts))
    return all(net.content(name, one) == net.content(hosts[0], one) for name in hosts for one in partitions)
