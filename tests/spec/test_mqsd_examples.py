"""The examples of [MS-MQSD] section 4 as scripted exchanges: engines, and the published packets."""

import pytest
from support.discovery.client import NET_A, Bench

from mqdssm.engines.actions import Dropped
from mqdssm.engines.discovery import client as do
from mqdssm.engines.discovery.answers import Answers
from mqdssm.engines.discovery.values import Knowledge
from mqdssm.model.discovery import DirectoryServiceServer
from mqdssm.model.guid import Guid

REQUEST = bytes.fromhex(
    "00010000 61BAEAE6C6D1DB11BAAC0003FF4E2D22 03A191F23CE34FABA930BE3A33E432DD F61BC5DCADD4434587397156"
    "8E8F9128"
)
OWN_REPLY = bytes.fromhex(
    "00020000 03A191F23CE34FABA930BE3A33E432DD 01000000 00000000 00000000 62BAEAE6C6D1DB11BAAC0003FF4E2D22"
)
OTHER_REPLY = bytes.fromhex(
    "00020000 03A191F23CE34FABA930BE3A33E432DD 01000000 00000000 12000000 62BAEAE6C6D1DB11BAAC0003FF4E2D22"
    "60BAEAE6C6D1DB11BAAC0003FF4E2D22 310030006E007400340070006500630000 00"
)
ENTERPRISE, REQUEST_ID, SITE = (Guid(REQUEST[at : at + 16]) for at in (4, 20, 36))
NETWORK = Guid(OWN_REPLY[32:48])
OTHER_SITE = Guid(OTHER_REPLY[48:64])
PSC, OTHER_PSC = "10.1.0.1", "10.1.0.2"


@pytest.fixture
def bench() -> Bench:
    return Bench(do.DiscoveryClient(enterprise_id=ENTERPRISE, site_id=SITE))


def broadcast(bench: Bench) -> bytes:
    """What the client sends."""
    (action,) = bench.step(do.Discover(networks=(NET_A,), request_id=REQUEST_ID))
    assert isinstance(action, do.Broadcast)
    return action.data


def replies(site: Guid, *names: str) -> bytes:
    """What a server of that site answers to the published request."""
    answers = Answers()
    listed = tuple(map(DirectoryServiceServer.of, names))
    answers.learn(Knowledge(site=site, servers=listed, networks=(NETWORK,)))
    reply = answers.answer(REQUEST, "10.1.0.20", 0)
    assert isinstance(reply, bytes)
    return reply


@pytest.mark.spec("MS-MQSD 4")
def test_the_published_packets_are_what_is_sent(bench: Bench) -> None:
    assert broadcast(bench) == REQUEST
    assert replies(SITE, "nt4psc") == OWN_REPLY
    assert replies(OTHER_SITE, "nt4pec") == OTHER_REPLY


@pytest.mark.spec("MS-MQSD 4")
def test_the_trivial_example(bench: Bench) -> None:
    """The only response is from the current site's server."""
    broadcast(bench)
    (action,) = bench.receive(OWN_REPLY, source=PSC)
    assert isinstance(action, do.SearchFinished)
    assert action.result is not None
    assert (action.result.is_own_site, action.result.answered_by) == (True, PSC)
    assert action.result.connected_networks == (NETWORK,)


@pytest.mark.spec("MS-MQSD 4")
def test_the_typical_example(bench: Bench) -> None:
    """The own site's PSC answers first; what comes from another one then is ignored."""
    broadcast(bench)
    (action,) = bench.receive(OWN_REPLY, source=PSC)
    assert isinstance(action, do.SearchFinished)
    (ignored,) = bench.receive(OTHER_REPLY, source=OTHER_PSC)
    assert isinstance(ignored, Dropped)
    assert bench.client.directory_server_list == ()


@pytest.mark.spec("MS-MQSD 4")
def test_the_typical_example_the_other_way_round(bench: Bench) -> None:
    broadcast(bench)
    assert bench.receive(OTHER_REPLY, source=OTHER_PSC) == []
    (action,) = bench.receive(OWN_REPLY, source=PSC)
    assert isinstance(action, do.SearchFinished)
    assert action.result is not None
    # LastTopologyServerReply is the one with the list (3.1.5.2, decision S2)
    assert (action.result.own_site_server, action.result.answered_by) == (PSC, OTHER_PSC)
    assert bench.client.directory_server_list == ("nt4pec",)


@pytest.mark.spec("MS-MQSD 4")
def test_only_another_site_answers(bench: Bench) -> None:
    broadcast(bench)
    bench.receive(OTHER_REPLY, source=OTHER_PSC)
    (action,) = bench.wait()
    assert isinstance(action, do.SearchFinished)
    assert action.result is not None
    assert [(one.name, one.ip, one.ipx) for one in action.result.servers] == [("nt4pec", True, False)]
    assert (action.result.site, action.result.answered_by) == (OTHER_SITE, OTHER_PSC)
