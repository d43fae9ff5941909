"""The events for asyncio on a domain controller."""

import asyncio

import mqdssm
from mqdssm import aio
from mqdssm.testing import SambaDomainController


def test_many_tasks_over_few_connections(
    samba_server: SambaDomainController, samba_directory: mqdssm.Directory
) -> None:
    samba_server.add_computer("AIO1")
    site = samba_directory.create(mqdssm.Site(name="AioSite"))
    manager = samba_directory.create(mqdssm.QueueManager(computer_name="AIO1", site_identifier_list=[site]))

    async def main() -> None:
        server = samba_server
        async with aio.connect(
            server.ldaps_url,
            user=server.user,
            password=server.password,
            ca_file=server.ca_file,
            connections=3,
        ) as directory:
            queues = [mqdssm.Queue(pathname=rf"AIO1\q{number}", label=str(number)) for number in range(12)]
            outcomes = [outcome async for outcome in directory.create_many(queues)]
            assert [outcome.error for outcome in outcomes] == [None] * 12

            async def count(queue: mqdssm.Queue, number: int) -> None:
                wanted = mqdssm.Filter("Identifier", "==", queue.identifier)
                read = await directory.read(mqdssm.Queue, wanted)
                assert read.label == queue.label
                read.quota = number
                await directory.write(read, if_unchanged=True)

            await asyncio.gather(*(count(queue, number) for number, queue in enumerate(queues)))
            calls = [asyncio.create_task(count(queue, 99)) for queue in queues]
            await asyncio.sleep(0.01)
            for call in calls[::2]:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            assert [call.exception() for call in calls[1::2]] == [None] * 6
            found = [
                queue async for queue in directory.search(mqdssm.Queue) if queue.label in map(str, range(12))
            ]
            mine = [queue for queue in found if queue.pathname.lower().startswith("aio1\\")]
            assert len(mine) == 12
            assert all(queue.quota in {99, int(queue.label)} for queue in mine)
            await directory.delete(mqdssm.QueueManager(identifier=manager), recursive=True)

    asyncio.run(main())
