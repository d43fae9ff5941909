"""Replaced servers on OpenLDAP and Active Directory: GUIDs stay, names follow, and all can be undone."""

import csv
from pathlib import Path

import pytest
from support.replacement.old_server import Entries, OldServer

import mqdssm
from mqdssm.errors import ConfigError, GenericDirectoryError
from mqdssm.model.dn import DN
from mqdssm.pipeline.migrate import apply_journal
from mqdssm.pipeline.migrate.apply_journal import JournalLine, JournalWriter
from mqdssm.pipeline.migrate.applying import apply_plan
from mqdssm.testing import OpenLdapServer

pytestmark = pytest.mark.server


@pytest.fixture(params=["openldap", pytest.param("samba", marks=pytest.mark.samba)])
def world(request: pytest.FixtureRequest) -> OldServer:
    return OldServer.make(request.getfixturevalue(f"{request.param}_server"))


def check_undone(world: OldServer, before: Entries) -> None:
    """Compare the directory with an earlier state.

    A domain controller gives objects that are made again other GUIDs: settings and server objects, and a
    deleted queue manager.
    """
    after, keeps_guids = world.entries(), world.keeps_guids
    assert after.keys() == before.keys()
    for dn, attributes in before.items():
        is_new = not keeps_guids and ("cn=servers," in dn or dn.startswith(f"cn=msmq,cn={world.new}"))
        ignored = {"objectguid", "ntsecuritydescriptor"} if is_new else set()
        for name in attributes.keys() | after[dn].keys():
            assert name in ignored or after[dn].get(name) == attributes.get(name), (dn, name)


@pytest.mark.usefixtures("engine")
@pytest.mark.spec("MS-MQDSSM 2.2.1")
def test_guids_stay_and_names_follow(world: OldServer, tmp_path: Path) -> None:
    before = world.entries()
    planned = world.plan(tmp_path / "plan")
    assert world.entries() == before  # a plan changes nothing
    report = world.apply(tmp_path / "plan")
    assert report.is_fine, report
    moved = world.manager(world.new)
    assert (moved.identifier, moved.routing_server) == (world.guid, True)
    names = {path.replace(world.old, world.new): guid for path, guid in world.queues.items()}
    assert (world.queues_of(world.new), world.queues_of(world.old)) == (names, {})
    renamed = {(path, path.replace(world.old, world.new), guid) for path, guid in world.queues.items()}
    assert {(queue.old, queue.new, queue.guid) for queue in planned.queues} == renamed
    with (tmp_path / "plan" / "pathnames.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["guid", "old", "new"]
    assert {(old, new, guid) for guid, old, new in lines[1:]} == {(o, n, str(g)) for o, n, g in renamed}
    world.undo(tmp_path / "plan")
    check_undone(world, before)


def test_references_by_name_follow(world: OldServer, tmp_path: Path) -> None:
    old_manager, new_manager = world.manager_dn(world.old), world.manager_dn(world.new)
    assert list(map(DN.parse, world.values(world.link, "mSMQSiteGates"))) == [DN.parse(old_manager)]
    planned = world.plan(tmp_path / "plan")
    assert world.apply(tmp_path / "plan").is_fine
    assert list(map(DN.parse, world.values(world.link, "mSMQSiteGates"))) == [DN.parse(new_manager)]
    other = world.manager(world.other)
    assert other.out_routing_server_identifier_list == (world.guid,)
    members = set(map(DN.parse, world.values(world.group, "member")))
    assert members == {DN.parse(f"CN=orders,{new_manager}"), DN.parse(world.computer(world.old))}
    assert world.values(world.alias, "msMQ-Recipient-FormatName") == [rf"DIRECT=OS:{world.new}\orders"]
    after = "\n".join(planned.after).lower()
    assert "by ip address: cn=tcp" in after
    assert f"member of, if it needs their rights: {world.group.lower()}" in after
    assert f"cn=theirs,{world.manager_dn(world.other).lower()}" in after


def test_settings_are_those_of_the_new_computer(world: OldServer, tmp_path: Path) -> None:
    assert world.settings() == [f"MSMQ Settings,{world.old},{world.sites[0]}"]
    world.plan(tmp_path / "plan")
    assert world.apply(tmp_path / "plan").is_fine
    assert world.settings() == [f"MSMQ Settings,{world.new},{world.sites[0]}"]
    with world.connect() as directory:  # its settings are deleted with it: they have its GUID
        directory.delete(world.manager(world.new), recursive=True)
    assert world.settings() == []


def test_the_new_account_has_the_rights_of_the_old_one(world: OldServer, tmp_path: Path) -> None:
    old_sid, new_sid = (world.sid(name) for name in (world.old, world.new))
    queue = DN.parse(world.manager_dn(world.old)).child("CN", "orders")
    before = world.rights(str(queue))
    assert old_sid in before
    manager_before = world.rights(world.manager_dn(world.old))
    assert old_sid in manager_before
    world.plan(tmp_path / "plan")
    assert world.apply(tmp_path / "plan").is_fine
    moved = DN.parse(world.manager_dn(world.new)).child("CN", "orders")
    for dn, rights in ((str(moved), before), (world.manager_dn(world.new), manager_before)):
        expected = {new_sid if sid == old_sid else sid: masks for sid, masks in rights.items()}
        assert world.rights(dn) == expected


def test_an_empty_queue_manager_makes_room(world: OldServer, tmp_path: Path) -> None:
    with world.connect() as directory:
        home = world.manager(world.old).site_identifier_list
        more = {"public_encryption_key_list": b"new keys", "queue_manager_version": "10.0"}
        empty = mqdssm.QueueManager(
            computer_name=world.new, site_identifier_list=home, routing_server=True, **more
        )
        directory.create(empty)
    before = world.entries()
    words = f"{world.new} has a queue manager without queues: --delete-empty deletes it before the move"
    with pytest.raises(ConfigError, match=words):
        world.plan(tmp_path / "plan")
    assert not (tmp_path / "plan").exists()
    planned = world.plan(tmp_path / "plan", delete_empty=True)
    assert planned.plan.deletes == {"Machine": 1}
    assert any("Stop MSMQ on" in step and world.new in step for step in planned.before)
    report = world.apply(tmp_path / "plan")
    assert report.is_fine, report
    moved = world.manager(world.new)
    assert moved.identifier == world.guid
    assert (moved.public_encryption_key_list, moved.queue_manager_version) == (b"new keys", "10.0")
    assert world.settings() == [f"MSMQ Settings,{world.new},{world.sites[0]}"]
    world.undo(tmp_path / "plan")
    check_undone(world, before)
    world.undo(tmp_path / "plan", is_again=True)  # the other queue manager is not changed
    check_undone(world, before)


def test_a_run_that_ends_anywhere_is_resumed(
    world: OldServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change was made, and nothing of the file is in the journal."""
    before = world.entries()
    operations = world.plan(tmp_path / "count").plan.operations
    count = sum(number for name, number in operations.items() if "equal" not in name)
    assert count > 8
    write = JournalWriter.add
    for last in range(1, count + 1, 1 if world.keeps_guids else 4):  # a domain controller is slow
        folder = tmp_path / str(last)
        world.plan(folder)
        calls = 0

        def add(self: JournalWriter, line: JournalLine) -> None:
            nonlocal calls
            calls += 1
            if calls == last:  # noqa: B023  used in this round alone
                self._file.truncate(0)
                raise KeyboardInterrupt
            write(self, line)

        with monkeypatch.context() as patched:
            patched.setattr(apply_journal.JournalWriter, "add", add)
            with pytest.raises(KeyboardInterrupt):
                world.apply(folder)
        report = world.apply(folder)
        assert report.is_fine, (last, report)
        assert (report.resumed, world.manager(world.new).identifier) == (1, world.guid)
        assert len(world.queues_of(world.new)) == len(world.queues)
        world.undo(folder)
        check_undone(world, before)


def test_nothing_follows_a_move_that_is_refused(
    world: OldServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.plan(tmp_path / "plan")
    before = world.entries()

    def refuse(*_: object, **__: object) -> None:
        raise GenericDirectoryError("rename failed: no right", ldap_code=50)

    with monkeypatch.context() as patched:
        patched.setattr("mqdssm.directory.session.Session.rename", refuse)
        report = world.apply(tmp_path / "plan")
    assert str(report.stopped).lower() == f"{world.manager_dn(world.old)} was not moved".lower()
    assert not report.is_fine
    assert (report.refused_count, report.total["left"]) == (1, report.total["read"] - 1)
    assert world.entries() == before
    assert world.apply(tmp_path / "plan").is_fine  # when the right is there


def test_a_changed_directory_stops_the_plan(world: OldServer, tmp_path: Path) -> None:
    world.plan(tmp_path / "plan")
    with world.connect() as directory:
        home = world.manager(world.old).site_identifier_list
        directory.create(mqdssm.QueueManager(computer_name=world.new, site_identifier_list=home))
    before = world.entries()
    report = world.apply(tmp_path / "plan")
    assert report.stopped
    assert world.entries() == before
    with world.connect() as directory:
        directory.delete(world.manager(world.new))
        session = directory.session
        session.rename(world.computer(world.new), f"CN=x{world.new}")
    report = world.apply(tmp_path / "plan")
    assert "there is no computer" in report.refused[0].reason
    world.server.add_computer(f"{world.new}y")
    with world.connect() as directory:
        directory.session.rename(world.computer(f"{world.new}y"), f"CN={world.new}")
    report = world.apply(tmp_path / "plan")
    assert "is another object than when this was planned" in report.refused[0].reason
    assert world.manager(world.old).identifier == world.guid


def test_what_cannot_be_replaced(world: OldServer, tmp_path: Path) -> None:
    to = tmp_path / "plan"
    with pytest.raises(ConfigError, match=r"there is no computer nobody below .* has to join this domain"):
        world.plan(to, new="nobody")
    with pytest.raises(ConfigError, match=r"there is no computer nobody .* without domain and without"):
        world.plan(to, old="nobody")
    with pytest.raises(ConfigError, match="give its name as in srv01, without domain"):
        world.plan(to, new=f"{world.new}.example.com")
    with pytest.raises(ConfigError, match=f"the computer {world.new} has no queue manager"):
        world.plan(to, old=world.new, new=world.old)
    with pytest.raises(ConfigError, match=f"{world.other} has a queue manager with queues, as theirs"):
        world.plan(to, new=world.other, delete_empty=True)
    with world.connect() as directory:
        values = {"mSMQServiceType": [b"4"], "mSMQDsServices": [b"TRUE"]}
        directory.session.modify(world.manager_dn(world.old), values)
    with pytest.raises(ConfigError, match=r"is a directory server .*: use 'mqdssm enterprise'"):
        world.plan(to)
    assert not to.exists()


def test_another_domain_is_refused(openldap_server: OpenLdapServer, tmp_path: Path) -> None:
    """OpenLDAP could move it there, but that is no domain of the same names."""
    world = OldServer.make(openldap_server)
    with world.connect() as directory:
        root = directory.session.naming.root
        child, name = root.child("DC", f"c{world.old}"), f"far{world.old}"
        directory.session.add(child, {"objectClass": [b"domainDNS"]})
        values = {"objectClass": [b"computer"], "sAMAccountName": [f"{name}$".encode()]}
        directory.session.add(child.child("CN", name), values)
    with pytest.raises(ConfigError, match="LDAP cannot move a queue manager to another domain"):
        world.plan(tmp_path / "plan", new=name)
    assert not (tmp_path / "plan").exists()


def test_an_ordinary_user_moves_nothing(world: OldServer, tmp_path: Path) -> None:
    user, password = world.server.add_user(f"u{world.old}")
    world.plan(tmp_path / "plan")
    before = world.entries()
    login = {"user": user, "password": password, "ca_file": world.server.ca_file}
    report = apply_plan(tmp_path / "plan", world.server.ldaps_url, engine="local", **login)
    assert "was not moved" in str(report.stopped)
    assert report.refused[0].code == 50  # insufficientAccessRights
    after = world.entries()
    own = next(dn for dn in before if f"u{world.old}" in dn)  # the server notes the log-in there
    assert {dn: after[dn] for dn in after if dn != own} == {dn: before[dn] for dn in before if dn != own}


def test_computers_without_guid(openldap_server: OpenLdapServer, tmp_path: Path) -> None:
    """Those that were made by hand."""
    world = OldServer.make(openldap_server)
    with world.connect() as directory:
        name = f"bare{world.old}"
        values = {"objectClass": [b"computer"], "sAMAccountName": [f"{name}$".encode()]}
        directory.session.add(world.computer(name), values)
    planned = world.plan(tmp_path / "plan", new=name)
    assert "a computer has no SID: rights of computer accounts stay as they are" in planned.notes
    assert world.apply(tmp_path / "plan").is_fine
    assert world.manager(name).identifier == world.guid


def test_a_computer_that_keeps_its_name(world: OldServer, tmp_path: Path) -> None:
    before = world.entries()
    planned = world.plan(tmp_path / "plan", new=world.old.upper())
    assert (planned.plan.levels, planned.queues, planned.guid) == ((), (), world.guid)
    assert "keeps its name: nothing is to be moved" in planned.notes[0]
    assert "Reset the computer account" in planned.before[-1]
    assert world.guid.bytes_le.hex(" ") in planned.after[1]
    assert world.apply(tmp_path / "plan").is_fine
    assert world.entries() == before


def test_a_moved_queue_manager_is_found_by_its_guid(world: OldServer, tmp_path: Path) -> None:
    """Somebody else made the move: the plan goes on."""
    world.plan(tmp_path / "plan")
    with world.connect() as directory:
        directory.session.rename(world.manager_dn(world.old), "CN=msmq", world.computer(world.new))
    report = world.apply(tmp_path / "plan")
    assert report.is_fine
    assert report.operations["object equal"] >= 1
    assert world.apply(tmp_path / "plan").is_fine  # nothing is left
