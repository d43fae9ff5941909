"""Creating queues on a domain controller: [samba-create], [samba-create-literal]."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import ldap3

import mqdssm
from benchmarks.harness import Goal, Outcome, Skipped, Timing, interleaved
from benchmarks.world import World, queue_values, raw_read
from mqdssm.errors import ConfigError
from mqdssm.testing import SambaDomainController

BATCH: Final = 100
"""Queues in one run."""
HOSTS: Final = 20
"""Queue managers they are spread over; each is looked up once in 30 seconds, which the warm-up does."""

CREATE: Final = Goal(
    name="samba-create",
    title="`directory.create(Queue)` with 10 attributes on Samba's domain controller, in memory",
    against="ldap3 add of the same attributes",
    goal=0.9,
    direction="at_least",
)
CREATE_LITERAL: Final = Goal(
    name="samba-create-literal",
    title="the same, against what the text says literally",
    against="ldap3: read of the parent, add, read back",
    goal=1.3,
    direction="at_least",
)


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain with queue managers, our connection to it and ldap3's: the same kind, in clear text."""

    directory: mqdssm.Directory
    raw: Any
    root: str
    numbers: Iterator[int]

    def manager_dn(self, number: int) -> str:
        """Where the queue manager is that gets the queue of this number."""
        return f"CN=msmq,CN=PC{number % HOSTS},CN=Computers,{self.root}"

    def batch(self) -> Iterator[int]:
        """Numbers of new queues."""
        return (next(self.numbers) for _ in range(BATCH))

    def make(self, number: int) -> Any:
        """Create a queue with our library."""
        pathname = f"PC{number % HOSTS}\\made{number}"
        return self.directory.create(mqdssm.Queue(pathname=pathname, **queue_values(number)))

    def add(self, number: int, stored: dict[str, list[bytes]]) -> str:
        """Create a queue with ldap3; gives its DN."""
        dn = f"CN=made{number},{self.manager_dn(number)}"
        self.raw.add(dn, attributes=stored)
        return dn


@contextmanager
def controller() -> Iterator[SambaDomainController]:
    """A controller of our own, which takes log-ins in clear text.

    Raises:
        Skipped: it cannot be run here.
    """
    server = SambaDomainController(strong_auth="no")
    try:
        server.start()
    except ConfigError as error:
        server.close()
        raise Skipped(str(error)) from error
    with server:
        yield server


@contextmanager
def domain() -> Iterator[Domain]:
    """A controller of our own with queue managers.

    Raises:
        Skipped: it cannot be run here.
    """
    with controller() as server:
        raw = ldap3.Connection(
            ldap3.Server(server.url, get_info=ldap3.NONE),
            server.user,
            server.password,
            auto_bind=True,
            check_names=False,
            raise_exceptions=True,
        )
        with mqdssm.connect(server.url, user=server.user, password=server.password, tls="none") as directory:
            site = directory.create(mqdssm.Site(name="Bench"))
            for number in range(HOSTS):
                server.add_computer(f"PC{number}")
                manager = mqdssm.QueueManager(computer_name=f"PC{number}", site_identifier_list=(site,))
                directory.create(manager)
            yield Domain(directory, raw, server.base_dn, count())
        raw.unbind()


def create(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  it has a server of its own
    with domain() as made:
        stored = _stored(made)

        def theirs() -> None:
            for number in made.batch():
                made.add(number, stored)

        return _measured(made, theirs, quick=quick).speed(CREATE, BATCH, "queues")


def create_literal(world: World, *, quick: bool) -> Outcome:  # noqa: ARG001  as above
    with domain() as made:
        stored = _stored(made)

        def theirs() -> None:
            for number in made.batch():
                raw_read(made.raw, made.manager_dn(number), "objectClass")
                raw_read(made.raw, made.add(number, stored), "objectGUID")

        return _measured(made, theirs, quick=quick).speed(CREATE_LITERAL, BATCH, "queues")


def _measured(made: Domain, theirs: Any, *, quick: bool) -> Timing:
    def ours() -> None:
        for number in made.batch():
            made.make(number)

    return interleaved(ours, theirs, 3 if quick else 25)


def _stored(made: Domain) -> dict[str, list[bytes]]:
    """The attributes that our create sends, so that the other side sends the same ones."""
    guid = made.make(next(made.numbers))
    entry = made.directory.session.get(guid, ["*"])
    kept = {name: values for name, values in entry.attributes.items() if name.startswith("msmq")}
    return {"objectClass": [b"mSMQQueue"], **kept}


ROWS: Final = {CREATE: create, CREATE_LITERAL: create_literal}
