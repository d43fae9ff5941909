"""A watch whose cookie slapd refuses: e-syncRefreshRequired ([RFC4533] 2.6, 3.3.1)."""

import re
from pathlib import Path
from uuid import uuid4

import pytest
from support.servers.edited_slapd import edited_slapd
from support.servers.plain_ldap import PlainLdap
from support.watching.kinds import KINDS
from support.watching.watchers import watching

import mqdssm
from mqdssm.events.watching.state_file import StateFile
from mqdssm.testing import OpenLdapServer

KIND = KINDS["openldap"]


REFUSING = "syncprov-reloadhint TRUE\n"
"""A stale cookie is answered by a result."""
CHECKPOINT = "syncprov-checkpoint 100 10\n"


@pytest.mark.spec("MS-MQCN 3.2.3")
def test_a_cookie_that_is_refused_leads_to_a_comparison(caplog: pytest.LogCaptureFixture, tmp_path: Path):
    folder, state = tmp_path / "ldap", tmp_path / "state"
    with OpenLdapServer(folder, durable=False) as server:
        plain, name = PlainLdap(server), f"X{uuid4().hex[:8]}".upper()
        KIND.add_computer(server, name)
        machine = f"CN=msmq,CN={name},CN=Computers,{server.base_dn}"
        plain.add(machine, {"objectClass": "mSMQConfiguration", "objectGUID": uuid4().bytes_le})
        changed, deleted = (
            plain.add(f"CN=q{one},{machine}", {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le})
            for one in range(2)
        )
    with edited_slapd(folder, CHECKPOINT, add=REFUSING) as url, mqdssm.connect(url) as directory:
        with watching(directory, mqdssm.Queue, state=state):
            pass
        directory.session.modify(changed, {"mSMQLabelEx": [b"after"]})
        directory.session.delete(deleted)
    file = StateFile(state)
    known = file.load()
    assert known.place is not None
    known.place = re.sub(r"csn=\d{4}", "csn=1999", known.place)  # older than all that slapd has
    file.save(known)
    file.close()
    with (
        edited_slapd(folder, CHECKPOINT, add=REFUSING) as url,
        mqdssm.connect(url) as directory,
        watching(directory, mqdssm.Queue, state=state) as told,
    ):
        assert told.one("changed", changed).changes["Label"] == ("", "after")
        told.one("deleted", deleted)
        assert len(told.changes) == 2
    assert "LDAP result 4096" in caplog.text
