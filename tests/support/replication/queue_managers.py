"""Queue managers with keys, a clock that tests turn, and messages for them."""

import time
from collections.abc import Callable, Iterable
from functools import cache
from uuid import UUID, uuid5

from mqdssm.drivers.authentication.keyring import PinnedKeys, TrustedSender
from mqdssm.drivers.authentication.private_key import PrivateKey
from mqdssm.drivers.authentication.signatures import AS_SPECIFIED, SignaturePolicy, Signer, Verifier
from mqdssm.drivers.queue_manager.local_queue_manager import DEFAULTS, LocalQueueManager, QueueManagerSettings
from mqdssm.drivers.transport import Inbox
from mqdssm.model.guid import Guid
from mqdssm.model.replication import Service
from mqdssm.model.transport import (
    Acknowledgements,
    AuthenticationLevel,
    Message,
    MessageClass,
    own_replication_queue,
)
from mqdssm.testing.in_process_network import InProcessNetwork

START = 1_700_000_000.0
SIGNED = Acknowledgements.NACK_RECEIVE
_NAMES = UUID("6f6d7164-7373-4d01-8000-000000000000")


@cache
def key_of(name: str) -> PrivateKey:
    """The key of a machine: short, because making one takes time."""
    return PrivateKey.generate(1024)


def guid_of(name: str) -> Guid:
    """The same identifier for the same name, always."""
    return Guid.of(uuid5(_NAMES, name))


class Clock:
    """Seconds since 1970 that go on when a test says so."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def sender_of(name: str, service: Service = Service.PSC) -> TrustedSender:
    """What everybody knows of a machine."""
    keys = key_of(name).public_keys().keys
    return TrustedSender(machine_name=name, service=service, keys=keys, machine_id=guid_of(name))


class World:
    """A network, its clock, and hosts that know each other's keys."""

    def __init__(self, names: Iterable[str], *, services: dict[str, Service] | None = None) -> None:
        services = services or {}
        self.clock = Clock()
        self.network = InProcessNetwork(clock=self.clock)
        self.known = {guid_of(name): sender_of(name, services.get(name, Service.PSC)) for name in names}

    def add(
        self,
        name: str,
        *,
        key: PrivateKey | None = None,
        policy: SignaturePolicy = AS_SPECIFIED,
        settings: QueueManagerSettings = DEFAULTS,
    ) -> LocalQueueManager:
        return self.network.add(
            name,
            guid_of(name),
            signer=Signer(guid_of(name), key or key_of(name)),
            verifier=Verifier(PinnedKeys(self.known), self.clock.now, policy),
            settings=settings,
        )

    def advance(self, seconds: float) -> None:
        self.clock.now += seconds
        self.network.wake()


def signed(name: str, body: bytes = b"body", **changes) -> Message:
    """A message of a machine's that wants every negative acknowledgement."""
    own = own_replication_queue(guid_of(name))
    changes = {"authentication_level": AuthenticationLevel.SIG20} | changes
    return Message(
        body=body, acknowledgements=SIGNED, administration_queue=own, response_queue=own, **changes
    )


def classes(inbox: Inbox, count: int) -> list[int]:
    """The classes of so many messages that arrive."""
    return [received(inbox).message_class for _ in range(count)]


def received(inbox: Inbox) -> Message:
    """The next message; it has to come soon."""
    arrival = inbox.receive(5)
    assert arrival is not None, "nothing came"
    return arrival.message


def nack(inbox: Inbox) -> MessageClass:
    """The class of the next message, which is an acknowledgement."""
    return MessageClass(received(inbox).message_class)


def wait_until(condition: Callable[[], object], seconds: float = 10) -> None:
    """Wait for other threads, by the real clock."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.002)
