"""Changes that wait, on slapd: the objects of many are read together."""

from typing import Any
from uuid import uuid4

import pytest
from support.servers.plain_ldap import PlainLdap
from support.watching.kinds import KINDS

import mqdssm
from mqdssm.directory.watching.commits import Commits

CHANGES = 300


def test_a_backlog_is_read_in_few_searches(
    openldap_server: Any, openldap_directory: mqdssm.Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that was busy while others changed much: a search each would take minutes for thousands."""
    plain: PlainLdap = KINDS["openldap"].plain(openldap_server)
    searched: list[int] = []
    committed = Commits._find_committed

    def counted(self: Commits, touched: Any) -> set[str]:
        told = list(touched)
        searched.append(len(told))
        return committed(self, told)

    monkeypatch.setattr(Commits, "_find_committed", counted)
    name = f"B{uuid4().hex[:8]}"
    machine = f"CN=msmq,CN={name},CN=Computers,{openldap_directory.session.naming.root}"
    KINDS["openldap"].add_computer(openldap_server, name)
    plain.add(machine, {"objectClass": "mSMQConfiguration", "objectGUID": uuid4().bytes_le})

    def add(number: int) -> None:
        plain.add(f"CN=q{number},{machine}", {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le})

    seen: list[str] = []
    with openldap_directory.watch(mqdssm.Queue, on_ready=lambda _url: add(0)) as changes:
        for change in changes:
            seen.append(str(change.dn).partition(",")[0].lower())
            if len(seen) == 1:  # the consumer is busy, others are, too
                for number in range(1, CHANGES):
                    add(number)
            if len(seen) == CHANGES:
                break
    assert seen == [f"cn=q{number}" for number in range(CHANGES)]
    assert sum(bool(size) for size in searched) < CHANGES / 5
