"""Directory servers that change, stop, lose messages and restart at random: in the end all have the same.

Small settings, so that few steps reach what takes weeks otherwise: purging, full synchronization, overflow of
what waits. The long form of this, with faults between any two writes, is the simulation.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.replication.network import Net, enterprise, guid_of, objects_equal, with_bsc, with_site

from mqdssm.engines.replication.actions import ChangeObject, Send
from mqdssm.model.hresults import Hresult
from mqdssm.model.messages import Command
from mqdssm.model.propids import ObjectType, Propid
from mqdssm.model.replication import PEC_PARTITION_ID

SITES = {"Site0": "PEC", "Site1": "PSC1"}
SERVERS = ("PEC", "PSC1", "BSC1")
SMALL = {
    "header_s": 30.0,
    "sync_wait_s": 5.0,
    "sync_wait_max_s": 20.0,
    "message_changes_max": 3,
    "purge_buffer": 2,
    "purge_interval": 3,
    "ack_interval": 2,
    "pending_max": 3,
    "available_max": 5,
}
END_S = 600
"""Long enough for every wait to run out several times."""

steps = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(SERVERS), st.sampled_from(tuple(SITES)), st.integers(0, 5)),
    st.tuples(st.just("label"), st.sampled_from(SERVERS), st.sampled_from(tuple(SITES)), st.integers(0, 5)),
    st.tuples(st.just("delete"), st.sampled_from(SERVERS), st.sampled_from(tuple(SITES)), st.integers(0, 5)),
    st.tuples(st.just("network"), st.sampled_from(SERVERS), st.just("Site0"), st.integers(0, 5)),
    st.tuples(st.just("restart"), st.sampled_from(SERVERS), st.just(""), st.just(0)),
    st.tuples(st.just("lose"), st.sampled_from(SERVERS), st.sampled_from(SERVERS), st.integers(1, 20)),
    st.tuples(st.just("wait"), st.just(""), st.just(""), st.integers(1, 40)),
)


def _small_net() -> Net:
    net = enterprise(**SMALL)
    with_site(net, "Site1", "PSC1")
    with_bsc(net, "Site1", "BSC1", "PSC1")
    return net


@dataclass
class World:
    """A net, and what its clients were promised."""

    net: Net = field(default_factory=_small_net)
    promised: dict[str, tuple[str, str] | None] = field(default_factory=dict)
    deaf: dict[tuple[str, str], float] = field(default_factory=dict)
    labels: int = 0

    def __post_init__(self) -> None:
        self.net.drop = self.is_lost

    def is_lost(self, source: str, send: Send) -> bool:
        return self.net.now < self.deaf.get((source, send.destination), 0)

    def do(self, what: str, server: str, other: str, number: int) -> None:
        if what == "wait":
            self.net.run(number)
        elif what == "restart":
            self.net.restart(server)
        elif what == "lose":
            self.deaf[server, other] = self.net.now + 5 * number
        else:
            self.change(what, server, other, f"{what}{number}" if what == "network" else f"q{number}")

    def change(self, what: str, server: str, site: str, name: str) -> None:
        """Ask for a change, and note what its outcome promises; without an outcome all is possible."""
        net = self.net
        self.labels += 1
        text = f"label {self.labels}"
        key, event = _event(what, site, name, text, self.labels)
        net._put(server, event, 0)
        net.run(25)
        reply = net.hosts[server].replies.get(event.request)
        status = Hresult.MQDS_NO_RSP_FROM_OWNER if reply is None else reply.status
        if status == Hresult.MQ_OK:
            self.promised[key] = None if what == "delete" else (site, text)
        elif status in {Hresult.MQDS_NO_RSP_FROM_OWNER, Hresult.MQDS_OWNER_NOT_REACHED}:
            self.promised.pop(key, None)  # made, or not

    def check(self) -> None:
        """All have the same, and what was promised."""
        self.deaf.clear()
        self.net.run(END_S)
        assert objects_equal(self.net)
        for name in SERVERS:
            for key, promise in self.promised.items():
                partition_id = guid_of(f"site {'Site0' if promise is None else promise[0]}")
                if key.startswith("network"):
                    found = self.net.content(name, PEC_PARTITION_ID).get(guid_of(key))
                    assert found is not None
                    continue
                partition_id = guid_of(f"site {key.partition(' ')[0]}")
                found = self.net.content(name, partition_id).get(guid_of(key))
                if promise is None:
                    assert found is None or found[1] is Command.DELETE
                else:
                    assert found is not None
                    assert found[2][Propid.Q_LABEL] == promise[1]


def _event(what: str, site: str, name: str, text: str, number: int) -> tuple[str, ChangeObject]:
    request = 1000 + number
    if what == "network":
        key = f"network {name}"
        return key, ChangeObject(
            request=request,
            command=Command.CREATE,
            object_type=ObjectType.CN,
            path_name=name,
            identifier=guid_of(key),
            partition_id=PEC_PARTITION_ID,
            properties=((Propid.CN_PROTOCOLID, 1), (Propid.CN_NAME, name)),
        )
    machine = SITES[site]
    key = f"{site} {name}"
    path = f"{machine}\\{name}"
    given = {
        "create": ((Propid.Q_PATHNAME, path), (Propid.Q_LABEL, text)),
        "label": ((Propid.Q_LABEL, text),),
        "delete": (),
    }
    commands = {"create": Command.CREATE, "label": Command.UPDATE, "delete": Command.DELETE}
    return key, ChangeObject(
        request=request,
        command=commands[what],
        object_type=ObjectType.QUEUE,
        path_name=path,
        identifier=guid_of(key) if what == "create" else None,
        partition_id=guid_of(f"site {site}"),
        properties=given[what],
    )


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plan=st.lists(steps, min_size=5, max_size=30))
def test_in_the_end_all_servers_have_the_same_and_what_was_promised(plan) -> None:
    world = World()
    for step in plan:
        world.do(*step)
    world.check()
