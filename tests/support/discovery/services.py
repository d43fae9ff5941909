"""Discovery servers on this machine's loopback, and clients for them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mqdssm.drivers.discovery.server import DiscoveryService
from mqdssm.engines.discovery.answers import Answers
from mqdssm.engines.discovery.client import DiscoveryClient
from mqdssm.engines.discovery.values import Network
from mqdssm.model.guid import Guid
from support.discovery.client import ENTERPRISE, OTHER_SITE, OWN_SITE, knowledge

HERE = "127.0.0.1"


def client(wait_s: float = 10.0, site: Guid = OWN_SITE) -> DiscoveryClient:
    return DiscoveryClient(enterprise_id=ENTERPRISE, site_id=site, wait_s=wait_s)


def answers(*names: str, site: Guid = OTHER_SITE) -> Answers:
    made = Answers()
    made.learn(knowledge(*names or ("PSC2",), site=site))
    return made


@asynccontextmanager
async def serving(*served: Answers, address: str = HERE) -> AsyncIterator[list[DiscoveryService]]:
    """A server for each."""
    services = [DiscoveryService([(address, 0)], one) for one in served]
    for service in services:
        service.start()
    running = [asyncio.create_task(service.run()) for service in services]
    try:
        yield services
    finally:
        for service in services:
            service.stop()
        await asyncio.gather(*running)


def network_of(service: DiscoveryService) -> Network:
    ((address, port),) = service.addresses
    return Network(address, port)
