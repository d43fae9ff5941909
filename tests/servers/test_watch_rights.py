"""A watch whose user may see other objects than before, or too little."""

from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from support.servers.edited_slapd import edited_slapd
from support.servers.plain_ldap import PlainLdap
from support.watching.kinds import KINDS
from support.watching.watchers import Told, watching

import mqdssm
from mqdssm.errors import GenericDirectoryError
from mqdssm.testing import OpenLdapServer

KIND = KINDS["openldap"]
RULES = "access to attrs=userPassword by self"
"""Before this line of slapd.conf other rules are put."""
pytestmark = [pytest.mark.server, pytest.mark.spec("MS-MQCN 3.2.3")]


@dataclass
class Kept:
    """The folder of a stopped slapd with two queues, and an ordinary user."""

    folder: Path
    user: str
    password: str
    queues: tuple[str, str]

    def watch(self, rules: str, state: Path) -> list[tuple[str, str]]:
        """Events and DNs that are told under some rules of access."""
        with (
            edited_slapd(self.folder, RULES, add=rules) as url,
            mqdssm.connect(url, user=self.user, password=self.password) as directory,
            watching(directory, mqdssm.Queue, state=state) as told,
        ):
            return told_events(told)


def told_events(told: Told) -> list[tuple[str, str]]:
    return [(change.event.value, change.dn.lower()) for change in told.changes]


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    folder = tmp_path / "ldap"
    with OpenLdapServer(folder, durable=False) as server:
        plain, name = PlainLdap(server), f"V{uuid4().hex[:8]}".upper()
        user, password = KIND.add_user(server, "reader")
        KIND.add_computer(server, name)
        machine = f"CN=msmq,CN={name},CN=Computers,{server.base_dn}"
        plain.add(machine, {"objectClass": "mSMQConfiguration", "objectGUID": uuid4().bytes_le})
        queues = tuple(
            plain.add(f"CN=q{number},{machine}", {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le})
            for number in range(2)
        )
    return Kept(folder, user, password, (queues[0], queues[1]))


def test_what_is_hidden_is_told_as_deleted_and_as_created_when_it_is_seen_again(kept: Kept, tmp_path: Path):
    state, queue = tmp_path / "state", kept.queues[0]
    hiding = f'access to dn.exact="{queue}" by * none\n'
    assert kept.watch("", state) == []
    assert kept.watch(hiding, state) == [("deleted", queue.lower())]
    assert kept.watch(hiding, state) == []
    assert kept.watch("", state) == [("created", queue.lower())]
    assert kept.watch("", state) == []


def test_who_may_not_read_what_is_committed_is_refused(kept: Kept, tmp_path: Path):
    with pytest.raises(GenericDirectoryError, match="shows no entryCSN") as refused:
        kept.watch("access to attrs=entryCSN by * none\n", tmp_path / "state")
    assert "access to attrs=" in refused.value.hint
