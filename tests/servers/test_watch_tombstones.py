"""A watch of a domain whose tombstones go before their time: emptied out of the Recycle Bin, or expunged."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from support.servers.plain_ldap import PlainLdap
from support.servers.samba_tools import SambaTools
from support.watching.kinds import KINDS
from support.watching.watchers import watching

import mqdssm
from mqdssm.events.watching.state_file import StateFile
from mqdssm.testing import SambaDomainController

KIND = KINDS["samba"]
ENABLE_RECYCLE_BIN = """
import ldb, sys
from samba.auth import system_session
from samba.param import LoadParm
from samba.samdb import SamDB

settings = LoadParm()
settings.load(sys.argv[1])
database = SamDB(url=sys.argv[2], session_info=system_session(), lp=settings)
feature = f"CN=Partitions,{database.get_config_basedn()}:766ddcd8-acd0-445e-f3b9-a7f9b6744f2a"
message = ldb.Message(ldb.Dn(database, ""))
name = "enableOptionalFeature"
message[name] = ldb.MessageElement(feature, ldb.FLAG_MOD_ADD, name)
database.modify(message)
"""
"""As the tools of Windows do it; Samba takes it of itself alone, and its tools cannot say it."""

LET_LIST_DELETED_OBJECTS = """
import ldb, sys
from samba.auth import system_session
from samba.dcerpc import security
from samba.ndr import ndr_pack, ndr_unpack
from samba.param import LoadParm
from samba.samdb import SamDB

settings = LoadParm()
settings.load(sys.argv[1])
database = SamDB(url=sys.argv[2], session_info=system_session(), lp=settings)
name, controls = "nTSecurityDescriptor", ["show_deleted:1", "sd_flags:1:4"]
sid = ndr_unpack(security.dom_sid, database.search(base=sys.argv[3], attrs=["objectSid"])[0]["objectSid"][0])
for context in (database.domain_dn(), database.get_config_basedn()):
    dn = ldb.Dn(database, f"CN=Deleted Objects,{context}")
    found = database.search(base=dn, scope=ldb.SCOPE_BASE, attrs=[name], controls=controls)[0]
    sddl = ndr_unpack(security.descriptor, found[name][0]).as_sddl() + f"(A;;LCRP;;;{sid})"
    made = security.descriptor.from_sddl(sddl, security.dom_sid(database.get_domain_sid()))
    message = ldb.Message(dn)
    message[name] = ldb.MessageElement(ndr_pack(made), ldb.FLAG_MOD_REPLACE, name)
    database.modify(message, controls=controls)
"""
"""What dsacls does in docs/watching.md."""

pytestmark = [pytest.mark.samba, pytest.mark.spec("MS-MQCN 3.2.3")]


@pytest.fixture
def server() -> Iterator[SambaDomainController]:
    """A domain of its own: what is done to it concerns all of it, for ever."""
    with SambaDomainController() as started:
        yield started


@pytest.fixture
def directory(server: SambaDomainController) -> Iterator[mqdssm.Directory]:
    with KIND.connect(server) as connected:
        yield connected


def queue(server: SambaDomainController, plain: PlainLdap) -> str:
    name = f"T{uuid4().hex[:8]}".upper()
    KIND.add_computer(server, name)
    machine = plain.add(
        f"CN=msmq,CN={name},CN=Computers,{server.base_dn}", {"objectClass": "mSMQConfiguration"}
    )
    return plain.add(f"CN=q,{machine}", {"objectClass": "mSMQQueue", "mSMQLabelEx": "gone soon"})


def tombstone(server: SambaDomainController, guid: UUID) -> str:
    return f"CN=q\\0ADEL:{guid},CN=Deleted Objects,{server.base_dn}"


def guid_of(directory: mqdssm.Directory, dn: str) -> UUID:
    return UUID(bytes_le=directory.session.get(dn, ["objectGUID"]).first("objectGUID") or b"")


def run_at_home(server: SambaDomainController, script: str, *arguments: str) -> None:
    command = ["/usr/bin/python3", "-c", script, server.settings_file, server.database, *arguments]
    subprocess.run(command, check=True, timeout=60)


def test_who_may_list_deleted_objects_hears_of_them(server):
    """As docs/watching.md says: no more rights are needed than these."""
    plain, (user, password) = KIND.plain(server), KIND.add_user(server, "watcher")
    run_at_home(server, LET_LIST_DELETED_OBJECTS, user)
    dn = queue(server, plain)
    account = f"watcher@{server.realm.lower()}"
    with (
        mqdssm.connect(
            server.ldaps_url, user=account, password=password, ca_file=server.ca_file
        ) as directory,
        watching(directory, mqdssm.Queue, mqdssm.Site) as told,
    ):
        plain.delete(dn)
        told.one("deleted", dn)


def test_what_was_emptied_out_of_the_recycle_bin_is_told(server, directory, tmp_path: Path):
    run_at_home(server, ENABLE_RECYCLE_BIN)
    tools, plain, state = SambaTools(server), KIND.plain(server), tmp_path / "state"
    dn = queue(server, plain)
    guid = guid_of(directory, dn)
    with watching(directory, mqdssm.Queue, state=state):
        pass
    plain.delete(dn)
    shown = ["show_deleted:1"]
    assert "isRecycled" not in tools.entry(tombstone(server, guid), "isRecycled", controls=shown)
    tools._ldb("ldbdel", tombstone(server, guid), controls=shown)
    assert not tools.search(f"(objectGUID={guid})", controls=shown), "it has left the bin"
    with watching(directory, mqdssm.Queue, state=state) as told:
        assert told.one("deleted", dn).guid == guid


def test_tombstones_that_live_for_some_days_are_not_counted_on_for_a_month(server, directory, tmp_path: Path):
    tools, plain, state = SambaTools(server), KIND.plain(server), tmp_path / "state"
    service = f"CN=Directory Service,CN=Windows NT,CN=Services,{directory.session.naming.configuration}"
    plain.modify(service, "replace: tombstoneLifetime\ntombstoneLifetime: 2")
    dn = queue(server, plain)
    guid = guid_of(directory, dn)
    with watching(directory, mqdssm.Queue, state=state):
        pass
    plain.delete(dn)
    tools._run(
        [
            "samba-tool",
            "domain",
            "tombstones",
            "expunge",
            "--tombstone-lifetime=0",
            f"--configfile={server.settings_file}",
            "-H",
            server.database,
        ]
    )
    assert not tools.search(f"(objectGUID={guid})", controls=["show_deleted:1", "show_recycled:1"])
    file = StateFile(state)
    known = file.load()
    assert known.place is not None
    name, number, written = known.place.split(":")
    known.place = f"{name}:{number}:{int(written) - 2 * 86_400}"  # as if it had been away for two days
    file.save(known)
    file.close()
    with watching(directory, mqdssm.Queue, state=state) as told:
        assert told.one("deleted", dn).guid == guid
