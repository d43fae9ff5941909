"""Two domain controllers of one domain: what is made on one is on the other, and either one may go away.

Without DNS they do not pull by themselves: ``samba-tool drs replicate --local`` does, when a test says so.
Under soak: joining a domain takes 13 seconds and more.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.servers.ad_world import Domain
from support.servers.samba_tools import SambaTools

import mqdssm
from mqdssm.testing import SambaDomainController

pytestmark = pytest.mark.soak

SERVICES = ("ldap", "cldap", "kdc", "rpc", "drepl", "kcc")
PAGE = 40
QUEUES = 250


@dataclass
class Pair:
    """The two controllers; the second was joined to the domain of the first."""

    first: SambaDomainController
    second: SambaDomainController

    def replicate(self) -> None:
        """Bring to the second what was changed on the first."""
        for part in (self.first.base_dn, f"CN=Configuration,{self.first.base_dn}"):
            where = ["--local", "dc2", self.first.address, part]
            self._samba_tool("drs", "replicate", *where, "-s", self.second.settings_file)

    def _samba_tool(self, *arguments: str) -> None:
        login = ["-U", f"{self.first.domain}\\Administrator%{self.first.password}", "--use-kerberos=off"]
        done = subprocess.run(
            ["samba-tool", *arguments, *login], capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]

    def join(self, folder: Path) -> None:
        """Join a controller DC2 to the first one's domain; its files are in `folder`."""
        settings = folder / "join.conf"
        text = f"[global]\nnetbios name = DC2\ninterfaces = {self.first.address}/8\n"
        settings.write_text(f"{text}bind interfaces only = yes\n", encoding="ascii")
        where = ["-s", str(settings), f"--server={self.first.address}", f"--targetdir={folder / 'joined'}"]
        kind = ["--dns-backend=NONE", "--plaintext-secrets", "--option=ldb:nosync=true"]
        kind.append(f"--option=posix:eadb={folder / 'eadb.tdb'}")
        self._samba_tool("domain", "join", self.first.realm.lower(), "DC", *where, *kind)
        controller = folder / "dc2"
        controller.mkdir()
        unwanted = shutil.ignore_patterns("ldapi", "ldap_priv", "tls")
        shutil.copytree(folder / "joined" / "private", controller / "private", ignore=unwanted)
        (controller / "password").write_text(self.first.password, encoding="ascii")

    def connect(self, *controllers: SambaDomainController, **more: Any) -> mqdssm.Directory:
        return mqdssm.connect(
            [one.url for one in controllers or (self.first, self.second)],
            user=self.first.user,
            password=self.first.password,
            authentication="spnego",
            **more,
        )


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        first = stack.enter_context(SambaDomainController(services=SERVICES))
        folder = Path(tempfile.mkdtemp(prefix="mqdssm-two-", dir=first.folder.parent))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        # of the second one LDAP alone is needed: it is the tool that pulls
        made = Pair(first, SambaDomainController(folder / "dc2", host="DC2"))
        made.join(folder)
        stack.enter_context(made.second)
        yield made
        for controller in (made.first, made.second):
            SambaTools(controller).check_database()


@pytest.fixture(scope="module")
def domain(pair: Pair) -> Iterator[Domain]:
    with pair.connect(pair.first) as directory:
        yield Domain(directory, pair.first, SambaTools(pair.first))


@pytest.fixture(scope="module")
def queues(pair: Pair, domain: Domain) -> str:
    computer, _ = domain.queue_manager()
    label = domain.name("L")
    for number in range(QUEUES):
        domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q{number}", label=label))
    pair.replicate()
    return label


def test_objects_of_one_on_the_other(pair: Pair, domain: Domain) -> None:
    computer, manager = domain.queue_manager()
    queue = mqdssm.Queue(pathname=rf"{computer}\{'long/name=' * 8}", label="Ordres", quota=7)
    guid = domain.directory.create(queue)
    by_guid = mqdssm.Filter("Identifier", "==", guid)
    with pair.connect(pair.second) as other:
        with pytest.raises(mqdssm.ObjectNotFound):
            other.read(mqdssm.Queue, by_guid)
        pair.replicate()
        ours, theirs = (one.read(mqdssm.Queue, by_guid) for one in (domain.directory, other))
        assert (theirs.identifier, theirs.pathname, theirs.label, theirs.quota) == (
            ours.identifier,
            ours.pathname,
            "Ordres",
            7,
        )
        assert theirs.security == ours.security
        found = other.read(mqdssm.QueueManager, mqdssm.Filter("ComputerName", "==", computer))
        assert found.identifier == manager
        # a change and a deletion arrive as well
        domain.directory.write(mqdssm.Queue(identifier=guid, label="changed"))
        gone = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\gone"))
        pair.replicate()
        domain.directory.delete(mqdssm.Queue(identifier=gone))
        pair.replicate()
        assert other.read(mqdssm.Queue, by_guid).label == "changed"
        with pytest.raises(mqdssm.ObjectNotFound):
            other.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", gone))


@pytest.mark.parametrize("attributes", [["Pathname"], ["Pathname", "Identifier"], None])
@pytest.mark.parametrize("after", [1, PAGE - 1, PAGE, PAGE + 1, 120, QUEUES - 1])
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_fail_over_within_a_listing(
    pair: Pair, queues: str, after: int, how: str, attributes: list[str] | None
) -> None:
    """The pages of one controller mean nothing to the other: there the listing begins again (M72)."""
    by_label = mqdssm.Filter("Label", "==", queues)
    with pair.connect(page_size=PAGE) as directory:
        found: list[str] = []
        try:
            for queue in directory.search(mqdssm.Queue, by_label, attributes=attributes):
                found.append(queue.pathname or "")
                if len(found) == after:
                    getattr(pair.first, how)()
            assert len(found) == len(set(found)) == QUEUES
            if after < QUEUES - 1:  # the last page was there already
                assert directory.session.server_url == pair.second.url
        finally:
            pair.first.start()


def test_changes_during_a_fail_over(pair: Pair, domain: Domain) -> None:
    """What was there all the while comes once; what came or went may or may not."""
    computer, _ = domain.queue_manager()
    label = domain.name("L")
    guids = [
        domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\q{number}", label=label))
        for number in range(3 * PAGE)
    ]
    pair.replicate()
    with pair.connect(page_size=PAGE) as directory:
        stream = directory.search(mqdssm.Queue, mqdssm.Filter("Label", "==", label))
        found = [next(stream) for _ in range(PAGE + 1)]
        gone = found[0].identifier, next(one for one in guids[::-1] if one != found[0].identifier)
        for guid in gone:
            domain.directory.delete(mqdssm.Queue(identifier=guid))
        new = domain.directory.create(mqdssm.Queue(pathname=rf"{computer}\new", label=label))
        pair.replicate()
        pair.first.kill()
        try:
            found += stream
        finally:
            pair.first.start()
    seen = [one.identifier for one in found]
    assert len(set(seen)) == len(seen)
    assert set(guids) - set(gone) <= set(seen) <= {*guids, new}


def test_nobody_is_left(pair: Pair, queues: str) -> None:
    """Never a short list."""
    found: list[mqdssm.Queue] = []
    with pair.connect(page_size=PAGE) as directory:
        stream = directory.search(mqdssm.Queue, mqdssm.Filter("Label", "==", queues))
        found.append(next(stream))
        try:
            pair.first.kill()
            pair.second.kill()
            with pytest.raises(mqdssm.DirectoryNotConnected, match="search again"):
                found.extend(stream)
        finally:
            pair.first.start()
            pair.second.start()
    assert 0 < len(found) < QUEUES


def test_the_first_is_gone_from_the_start(pair: Pair, queues: str) -> None:
    pair.first.stop()
    try:
        with pair.connect() as directory:
            by_label = mqdssm.Filter("Label", "==", queues)
            assert sum(1 for _ in directory.search(mqdssm.Queue, by_label)) == QUEUES
            assert directory.session.server_url == pair.second.url
    finally:
        pair.first.start()
