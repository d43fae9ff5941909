"""Changes that reach the last server of another site: [enterprise]."""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import ldap3

import mqdssm
from benchmarks.harness import Goal, Outcome, interleaved
from benchmarks.world import World
from mqdssm.server.control_client import ControlClient
from mqdssm.testing import OpenLdapServer
from mqdssm.testing.openldap_start import free_ports

ENTERPRISE: Final = Goal(
    name="enterprise",
    title="queues from four clients at a BSC until the last BSC of another site has them; five directory "
    "servers as processes, each with a slapd",
    against="OpenLDAP's own replication: four ldap3 clients at a provider, until the second of two consumers "
    "in a row has the entries",
    goal=0.1,
    direction="at_least",
)
ROOT: Final = Path(__file__).parent.parent
CLIENTS: Final = 4
CHANGES: Final = 1_000
CHANGES_QUICK: Final = 40
RUNS: Final = 3
SETTLE_S: Final = 120.0
POLL_S: Final = 0.02
MACHINE: Final = "PSC01"
_runs: Final[Iterator[int]] = count()


def enterprise(world: World | None, *, quick: bool) -> Outcome:
    """Create the same number of queues at both; the directory of the other rows is not needed."""
    del world
    number, runs = (CHANGES_QUICK, 1) if quick else (CHANGES, RUNS)
    with servers() as ours, consumers() as theirs:
        timing = interleaved(lambda: ours(number), lambda: theirs(number), runs)
    remark = (
        "the time includes the wait of the last change for the intervals of replication: 2 s within a site "
    )
    remark += "and 10 s between sites. OpenLDAP has no such intervals"
    return replace(timing.speed(ENTERPRISE, number, "changes"), remark=remark)


@contextmanager
def servers() -> Iterator[Callable[[int], None]]:
    """Run five directory servers; give a function that creates queues at one and waits for another."""
    sys.path += [str(ROOT / "tests"), str(ROOT / ".ci")]  # the processes of the tests
    from support.servers.enterprise import on_loopback

    with tempfile.TemporaryDirectory(prefix="mqdssm-") as folder, on_loopback(Path(folder)) as processes:
        source, owner, target = (processes.members[name] for name in ("BSC01", MACHINE, "BSC02"))

        def last_number(client: ControlClient, partition: Any) -> int:
            parts = client.status().partitions
            return next((part.last_number for part in parts if part.partition_id == partition), 0)

        def create(numbers: range) -> None:
            with ControlClient(source.socket) as client:
                for number in numbers:
                    client.create(mqdssm.Queue(pathname=f"{MACHINE}\\made{number}", label=f"Orders {number}"))

        def work(number: int) -> None:
            in_parallel(create, number)
            with ControlClient(owner.socket) as first, ControlClient(target.socket) as last:
                partition = first.status().site_id
                newest = last_number(first, partition)
                wait_until(lambda: last_number(last, partition) >= newest)

        yield work


@dataclass
class Chain:
    """A provider and two consumers, the second of which is a consumer of the first.

    Attributes:
        provider: where the clients add entries.
        urls: of the consumers, which listen on sockets alone.
        stored: attributes of a queue, as our server stores it.
    """

    provider: OpenLdapServer
    urls: list[str] = field(default_factory=list)
    stored: dict[str, list[bytes]] = field(default_factory=dict)

    def connection(self, url: str) -> ldap3.Connection:
        """Connect as the administrator."""
        return ldap3.Connection(
            ldap3.Server(url, get_info=ldap3.NONE),
            user=self.provider.user,
            password=self.provider.password,
            auto_bind=True,
            check_names=False,
            raise_exceptions=True,
        )

    def position(self, url: str) -> list[bytes]:
        """Position of a server's directory, contextCSN."""
        with self.connection(url) as connection:
            connection.search(self.provider.base_dn, "(objectClass=*)", ldap3.BASE, attributes=["contextCSN"])
            return sorted(connection.response[0]["raw_attributes"].get("contextCSN", []))

    def create(self, numbers: range) -> None:
        """Add queues at the provider."""
        root = self.provider.base_dn
        with self.connection(self.provider.url) as connection:
            for number in numbers:
                dn = f"CN=made{number},CN=msmq,CN={MACHINE},CN=Computers,{root}"
                connection.add(dn, attributes={**self.stored, "objectGUID": uuid4().bytes_le})

    def work(self, number: int) -> None:
        """Add queues, and wait for the second consumer."""
        in_parallel(self.create, number)
        wait_until(lambda: self.position(self.urls[-1]) == self.position(self.provider.url))


@contextmanager
def consumers() -> Iterator[Callable[[int], None]]:
    """Run a provider and two consumers; give a function that adds queues at one and waits for another."""
    with ExitStack() as stack:
        provider = stack.enter_context(OpenLdapServer())
        chain = Chain(provider)
        provider.add_computer(MACHINE)
        with mqdssm.connect(provider.ldapi_url) as directory:
            site = directory.create(mqdssm.Site(name="Paris"))
            directory.create(mqdssm.QueueManager(computer_name=MACHINE, site_identifier_list=(site,)))
            guid = directory.create(mqdssm.Queue(pathname=f"{MACHINE}\\first", label="Orders 1"))
            attributes = directory.session.get(guid, ["*"]).attributes
        chain.stored = {name: attributes[name] for name in attributes if name not in {"cn", "objectguid"}}
        upstream = provider.url
        for number in (1, 2):
            upstream = stack.enter_context(consumer(chain, upstream, number))
            chain.urls.append(upstream)
        wait_until(lambda: chain.position(chain.urls[-1]) == chain.position(provider.url))
        yield chain.work


@contextmanager
def consumer(chain: Chain, upstream: str, number: int) -> Iterator[str]:
    """Run a consumer with the settings of the provider, on a port of its own; give its URL."""
    provider = chain.provider
    url = f"ldap://127.0.0.1:{free_ports(1)[0]}"
    with tempfile.TemporaryDirectory(prefix="mqdssm-") as folder:
        path = Path(folder)
        (path / "db").mkdir()
        text = (Path(provider.folder, "conf", "slapd.conf")).read_text(encoding="utf-8")
        for name in ("db", "run"):
            text = text.replace(f'"{provider.folder}/{name}', f'"{path}/{name}')
        (path / "run").mkdir()
        replica = (
            f'syncrepl rid={number} provider={upstream} type=refreshAndPersist retry="1 +" bindmethod=simple '
            f'searchbase="{provider.base_dn}" binddn="{provider.user}" credentials={provider.password}\n'
        )
        text = re.sub("^overlay", f"{replica}overlay", text, count=1, flags=re.MULTILINE)
        configuration = path / "slapd.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(text, encoding="utf-8")
        command = ["/usr/sbin/slapd", "-d", "none", "-f", str(configuration), "-h", url]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                wait_until(lambda: can_connect(chain, url))
                yield url
            finally:
                process.terminate()


def can_connect(chain: Chain, url: str) -> bool:
    """Return True if a server answers, with the root of the directory."""
    try:
        return bool(chain.position(url))
    except (ldap3.core.exceptions.LDAPException, IndexError):
        return False


def in_parallel(create: Callable[[range], None], number: int) -> None:
    """Create queues with several clients at once."""
    first = next(_runs) * CHANGES
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(create, (range(first + at, first + number, CLIENTS) for at in range(CLIENTS))))


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    until = time.monotonic() + SETTLE_S
    while not condition():
        if time.monotonic() > until:
            raise AssertionError("a server did not get the changes: this is no measurement")
        time.sleep(POLL_S)


ROWS: Final = {ENTERPRISE: enterprise}
