"""What a discovery server answers is in the directory ([MS-MQSD] 2.3, 3.2.1.1; decisions S6 and S10)."""

import asyncio
from types import SimpleNamespace

import pytest
from support.discovery.client import NETWORK_1, OTHER_SITE, request

import mqdssm
from mqdssm.drivers.discovery.directory_data import DiscoveryReader, KnowledgeCache
from mqdssm.engines.discovery.answers import Answers
from mqdssm.engines.discovery.values import Knowledge
from mqdssm.model.discovery import TopologyServerReply
from mqdssm.model.guid import Guid
from mqdssm.wire.mqsd import decode


def reader(world, site: str, computer: str, **more) -> DiscoveryReader:
    return DiscoveryReader(world.directory, site=site, computer=computer, **more)


@pytest.mark.spec("MS-MQSD 2.3")
@pytest.mark.spec("MS-MQSD 3.2.1.1")
def test_site_and_servers_are_read_from_the_directory(world) -> None:
    here, elsewhere = world.name("site"), world.name("site")
    site, other = world.site(here), world.site(elsewhere)
    names = [world.computer(world.name(stem)) for stem in ("b-psc", "a-bsc", "c-both", "d-plain", "e-far")]
    psc, bsc, both, plain, far = names
    for name, sites, serves in (
        (psc, [site], True),
        (bsc, [site], True),
        (both, [other, site], True),
        (plain, [site], False),
        (far, [other], True),
    ):
        world.queue_manager(name, site_identifier_list=sites, directory_server=serves)

    known = reader(world, here, both.upper()).read()
    assert known.site == Guid.of(site)
    # its own computer first, then by name; of its own site alone (decision S10)
    assert [one.name for one in known.servers] == [both, bsc, psc]
    assert all(one.ip and not one.ipx for one in known.servers)
    assert known.networks == ()

    answers = Answers()
    answers.learn(known)
    reply = decode(bytes(answers.answer(request(site=OTHER_SITE), "10.1.0.20", 0)))
    assert isinstance(reply, TopologyServerReply)
    assert reply.responding_site_id == Guid.of(site)
    assert reply.directory_service_servers == (f"10{both}", f"10{bsc}", f"10{psc}")
    own = decode(bytes(answers.answer(request(site=Guid.of(site)), "10.1.0.20", 0)))
    assert isinstance(own, TopologyServerReply)
    assert own.is_own_site


@pytest.mark.spec("MS-MQSD 3.2.1.1")
def test_configured_networks_win(world) -> None:
    name = world.name("site")
    world.site(name)
    found = reader(world, name, "nobody", networks=[NETWORK_1])
    known = found.read()
    assert known.networks == (NETWORK_1,)
    assert known.servers == ()
    assert not found.is_listed(known)


def test_a_site_that_does_not_exist_is_named(world) -> None:
    with pytest.raises(mqdssm.ObjectNotFound, match="there is no site 'Atlantis'"):
        reader(world, "Atlantis", "x").read()


def test_a_change_in_the_directory_is_answered_from_soon(world) -> None:
    """The seam for a watcher: `apply` has the directory read again, long before its time."""
    name, computer = world.name("site"), world.computer()
    site = world.site(name)
    learnt: list[Knowledge] = []

    async def run() -> None:
        cache = KnowledgeCache(reader(world, name, computer).read, learnt.append, pause_s=0.05)
        await cache.refresh()
        keeping = asyncio.create_task(cache.run())
        await asyncio.to_thread(
            world.queue_manager, computer, site_identifier_list=[site], directory_server=True
        )
        for kind in ("queue", "user", "queue-manager"):
            await asyncio.to_thread(cache.apply, SimpleNamespace(type=kind))  # what a watcher tells
        async with asyncio.timeout(30):
            while len(learnt) < 2:  # noqa: ASYNC110  the cache has nothing to wait for
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)
        keeping.cancel()

    asyncio.run(run())
    assert [[one.name for one in known.servers] for known in learnt] == [[], [computer]]
