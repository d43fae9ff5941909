"""Deleted queues and queue managers of a domain controller get back their place, GUID and rights."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from support.servers.samba_tools import SambaTools
from support.spark.exports import export_here
from typer.testing import CliRunner

import mqdssm
from mqdssm.cli.main import app
from mqdssm.errors import ConfigError, DirectoryError, ObjectNotFound
from mqdssm.events.deleted_objects import find_deleted, restore
from mqdssm.model.filters import Filter
from mqdssm.testing import SambaDomainController
from mqdssm.wire.dtyp import SecurityDescriptor

pytestmark = pytest.mark.server
RIGHTS = bytes(SecurityDescriptor.from_sddl("D:(A;;0x4;;;WD)(A;;0xf003f;;;BA)"))


class Machine:
    """A queue manager of a test's own, a routing server, with two queues."""

    def __init__(self, server, directory) -> None:
        unique = uuid4().hex[:8]
        self.name = f"r{unique}"
        server.add_computer(self.name)
        self.site = directory.create(mqdssm.Site(name=f"R-{unique}"))
        self.manager = mqdssm.QueueManager(
            computer_name=self.name,
            site_identifier_list=[self.site],
            routing_server=True,
            queue_manager_quota=77,
        )
        directory.create(self.manager)
        for queue in ("orders", "q" * 70):
            more = {"label": "L", "quota": 5, "transactional": True, "security": RIGHTS}
            directory.create(mqdssm.Queue(pathname=f"{self.name}\\{queue}", **more))

    def queue(self, directory, name="orders"):
        return directory.read(mqdssm.Queue, [Filter("Pathname", "==", f"{self.name}\\{name}")])

    def deleted(self, directory, element=mqdssm.Queue):
        found = [one for one in find_deleted(directory, element) if self.name in one.name]
        return {one.name: one for one in found}


@pytest.fixture
def machine(samba_server, samba_directory):
    return Machine(samba_server, samba_directory)


def exported(server, folder: Path) -> Path:
    log_in = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
    export_here(server.ldaps_url, ["queue", "queue-manager"], folder, **log_in)
    return folder


def run(server, *typed: str, code: int = 0) -> str:
    environment = {
        "MQDSSM_URL": server.ldaps_url,
        "MQDSSM_USER": server.user,
        "MQDSSM_PASSWORD": server.password,
        "MQDSSM_CA_FILE": server.ca_file,
    }
    result = CliRunner().invoke(app, ["restore", *typed], env=environment)
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


def test_a_queue_comes_back_with_its_guid_and_from_an_export_with_all_else(
    samba_server, samba_directory, machine, tmp_path
):
    folder = exported(samba_server, tmp_path / "export")
    before = machine.queue(samba_directory)
    samba_directory.delete(machine.queue(samba_directory))
    path = f"{machine.name}\\orders"
    (deleted,) = machine.deleted(samba_directory).values()
    assert (deleted.name, deleted.identifier, deleted.parent) == (path, before.identifier, None)
    listed = json.loads(run(samba_server, "queue", "-o", "json"))
    assert path in {one["name"] for one in listed}
    answer = json.loads(run(samba_server, "queue", path.upper(), "--from", str(folder), "-o", "json"))
    (restored,) = answer["restored"]
    assert (restored["identifier"], restored["lost"]) == (str(before.identifier), False)
    assert {"Label", "Quota", "Transactional", "Security"} <= set(restored["written"])
    after = machine.queue(samba_directory)
    for name in ("identifier", "label", "quota", "transactional", "pathname", "base_priority"):
        assert getattr(after, name) == getattr(before, name), name
    rights = [SecurityDescriptor.from_bytes(one.security).explicit_aces() for one in (after, before)]
    assert set(rights[0]) == set(rights[1])
    assert machine.deleted(samba_directory) == {}


def test_what_the_server_lost_is_told(samba_server, samba_directory, machine):
    samba_directory.delete(machine.queue(samba_directory))
    said = run(samba_server, "queue", f"{machine.name}\\orders", code=1)
    assert "warning: the server had lost the attributes and rights of" in said
    assert machine.queue(samba_directory).label == ""


def test_a_queue_manager_comes_back_with_its_queues_and_settings(
    samba_server, samba_directory, machine, tmp_path
):
    folder = exported(samba_server, tmp_path / "export")
    manager = samba_directory.read(mqdssm.QueueManager, [Filter("ComputerName", "==", machine.name)])
    kept = {name: machine.queue(samba_directory, name).identifier for name in ("orders", "q" * 70)}
    samba_directory.delete(manager, recursive=True)
    queue = machine.deleted(samba_directory)[f"{machine.name}\\orders"]
    assert queue.parent == manager.identifier
    with pytest.raises(ObjectNotFound, match="is deleted, too: restore it first"):
        restore(samba_directory, queue)
    run(samba_server, "queue-manager", machine.name, "--recursive", "--from", str(folder))
    again = samba_directory.read(mqdssm.QueueManager, [Filter("ComputerName", "==", machine.name)])
    assert (again.identifier, again.queue_manager_quota) == (manager.identifier, 77)
    assert (again.routing_server, list(again.site_identifier_list)) == (True, [machine.site])
    assert {name: machine.queue(samba_directory, name).identifier for name in kept} == kept
    settings = SambaTools(samba_server).search(
        "(objectClass=mSMQSettings)", "mSMQQMID", base=f"CN=Configuration,{samba_server.base_dn}"
    )
    assert any(f"cn={machine.name}," in dn.lower() for dn in settings)


def test_what_cannot_be_restored_is_refused(samba_server, samba_directory, machine):
    samba_directory.delete(machine.queue(samba_directory))
    (deleted,) = machine.deleted(samba_directory).values()
    with pytest.raises(ConfigError, match="the saved object is not"):
        restore(
            samba_directory, deleted, mqdssm.Queue(pathname=f"{machine.name}\\orders", identifier=uuid4())
        )
    with pytest.raises(ConfigError, match="Site objects cannot be restored"):
        find_deleted(samba_directory, mqdssm.Site)
    samba_directory.create(mqdssm.Queue(pathname=f"{machine.name}\\orders"))
    with pytest.raises(DirectoryError):
        restore(samba_directory, deleted)
    assert "no deleted object has this name" in run(samba_server, "queue", "nobody\\x", code=4)
    assert "--identifier 'x' is no GUID" in run(samba_server, "queue", "--identifier", "x", code=2)
    assert "site objects cannot be restored" in run(samba_server, "site", code=2)


@pytest.mark.slow
def test_the_recycle_bin_of_samba(tmp_path):
    """With the Recycle Bin attributes are kept, and Samba 4.17 cannot restore."""
    with SambaDomainController() as server:
        feature = f"CN=Partitions,CN=Configuration,{server.base_dn}:766ddcd8-acd0-445e-f3b9-a7f9b6744f2a"
        SambaTools(server).modify("", f"add: enableOptionalFeature\nenableOptionalFeature: {feature}")
        log_in = {"user": server.user, "password": server.password, "ca_file": server.ca_file}
        with mqdssm.connect(server.ldaps_url, **log_in) as directory:
            machine = Machine(server, directory)
            directory.delete(machine.queue(directory))
            (deleted,) = machine.deleted(directory).values()
            assert deleted.keeps_attributes
            with pytest.raises(DirectoryError) as refused:
                restore(directory, deleted)
            assert refused.value.ldap_code == 16
            assert refused.value.hint.startswith("Samba cannot restore objects while the Recycle Bin is on")
