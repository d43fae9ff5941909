"""A discovery server as a program, which may misbehave; for tests: ``python server_process.py JSON``.

JSON is an object: ``site`` and ``networks`` are GUIDs, ``servers`` names; ``late_s`` seconds pass before each
reply, ``wrong_id`` gives replies to nobody's request, ``twice`` sends each one twice; ``allow_from`` are
networks that are answered, too, ``listen`` is an address.
"""

import asyncio
import json
import socket
import sys
import time
from ipaddress import IPv4Network
from typing import Any

from mqdssm.drivers.discovery.server import DiscoveryService
from mqdssm.engines.discovery.answers import Answers
from mqdssm.engines.discovery.values import Knowledge
from mqdssm.model.discovery import IP_PORT, DirectoryServiceServer
from mqdssm.model.guid import Guid


def answers_of(options: dict[str, Any]) -> Answers:
    answers = Answers()
    answers.learn(
        Knowledge(
            site=Guid.parse(options["site"]),
            servers=tuple(map(DirectoryServiceServer.of, options["servers"])),
            networks=tuple(map(Guid.parse, options["networks"])),
        )
    )
    return answers


def ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


async def serve(options: dict[str, Any]) -> None:
    """The real server."""
    where = [(options.get("listen", "0.0.0.0"), IP_PORT)]
    allowed = [IPv4Network(one) for one in options.get("allow_from", ())]
    service = DiscoveryService(where, answers_of(options), allow_from=allowed)
    service.start()
    ready()
    await service.run()


def misbehave(options: dict[str, Any]) -> None:
    """The real answers, given wrongly."""
    answers = answers_of(options)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("0.0.0.0", IP_PORT))
        ready()
        while True:
            data, source = listening.recvfrom(4096)
            answer = answers.answer(data, source[0], time.monotonic())
            if not isinstance(answer, bytes):
                continue
            time.sleep(options.get("late_s", 0))
            if options.get("wrong_id"):
                answer = answer[:4] + bytes(16) + answer[20:]
            for _ in range(2 if options.get("twice") else 1):
                listening.sendto(answer, source)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    if {"late_s", "wrong_id", "twice"} & given.keys():
        misbehave(given)
    else:
        asyncio.run(serve(given))
