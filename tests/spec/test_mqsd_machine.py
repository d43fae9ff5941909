"""The client of discovery as a machine: every state with every signal ([MS-MQSD] 3.1.5, 3.1.6)."""

from itertools import product

import pytest
from support.discovery.client import (
    NET_A,
    NET_B,
    REQUEST,
    Bench,
    dropped,
    everything,
    other_reply,
    own_reply,
    sent,
)

from mqdssm.engines.actions import Dropped
from mqdssm.engines.discovery import client as do
from mqdssm.engines.discovery.values import ANSWER_WAIT_S, Network
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.wire.mqsd import encode


@pytest.fixture
def bench() -> Bench:
    return Bench()


def events(client: do.DiscoveryClient) -> dict[str, do.Event]:
    """One event for each signal, and what is discarded."""
    here = client.current_network or NET_A
    return {
        do.Signal.DISCOVER: do.Discover(networks=(NET_A, NET_B), request_id=REQUEST, anew=True),
        do.Signal.OWN_SITE: do.ReplyReceived(network=here, data=own_reply(), source="10.1.0.7"),
        do.Signal.OTHER_SITE: do.ReplyReceived(network=here, data=other_reply("PSC2"), source="10.1.0.8"),
        do.Signal.WAITED: do.Waited(),
        do.Signal.SEND_FAILED: do.RequestSendFailed(network=here),
        do.Signal.NETWORKS_CHANGED: do.NetworksChanged(networks=(here,)),
        "damaged": do.ReplyReceived(network=here, data=b"\0\2", source="10.1.0.7"),
    }


def in_state(state: do.ClientState, *networks: Network) -> Bench:
    bench = Bench()
    if state is not do.ClientState.IDLE:
        bench.discover(*networks)
    if state is do.ClientState.ANSWERED:
        bench.receive(other_reply("PSC2"))
    assert bench.client.state is state
    return bench


@pytest.mark.spec("MS-MQSD 3.1.5.2")
@pytest.mark.spec("MS-MQSD 3.1.6.1")
@pytest.mark.parametrize(
    ("state", "signal", "networks"),
    list(product(do.ClientState, [*do.Signal, "damaged"], [(NET_A,), (NET_A, NET_B)])),
)
def test_every_state_answers_every_signal(
    state: do.ClientState, signal: str, networks: tuple[Network, ...]
) -> None:
    bench = in_state(state, *networks)
    before = everything(bench.client)
    bench.now += ANSWER_WAIT_S
    actions = bench.step(events(bench.client)[signal])
    row = do.DiscoveryClient.STEPS.get((state, signal))
    if row is None:
        dropped(actions)
        assert everything(bench.client) == before
    else:
        assert bench.client.state in row[1]
        assert not any(isinstance(one, Dropped) for one in actions)
    assert (bench.client.deadline is None) is (bench.client.state is do.ClientState.IDLE)


def test_every_end_state_of_the_table_is_reached() -> None:
    reached: dict[tuple[do.ClientState, do.Signal], set[do.ClientState]] = {
        key: set() for key in do.DiscoveryClient.STEPS
    }
    for (state, signal), networks, waited_s in product(
        reached, [(NET_A,), (NET_A, NET_B)], [0.0, ANSWER_WAIT_S]
    ):
        for gone in (False, True):
            bench = in_state(state, *networks)
            event = events(bench.client)[signal]
            if gone and isinstance(event, do.NetworksChanged):
                event = do.NetworksChanged(networks=networks[1:])
            bench.now += waited_s
            bench.step(event)
            reached[state, signal].add(bench.client.state)
    # a discovery ends where it begins only if there is no network, or nothing new to ask
    bench = Bench()
    bench.discover()
    reached[do.ClientState.IDLE, do.Signal.DISCOVER].add(bench.client.state)
    assert reached == {key: set(row[1]) for key, row in do.DiscoveryClient.STEPS.items()}


def test_a_clock_that_goes_backwards_is_a_defect(bench: Bench) -> None:
    bench.discover(NET_A)
    bench.now -= 1
    with pytest.raises(AssertionError, match="backwards"):
        bench.step(do.Waited())


def test_requests_can_be_told_apart_from_noise() -> None:
    """A nil site asks everybody for the list: no server is of it."""
    client = do.DiscoveryClient()
    (action,) = client.step(do.Discover(networks=(NET_A,), request_id=REQUEST), 0)
    packet = sent([action])
    assert packet.site_id == packet.enterprise_id == NULL_GUID
    assert encode(packet) == bytes.fromhex("00010000") + bytes(16) + Guid(REQUEST) + bytes(16)
