"""Declarations against OpenLDAP: what is made, changed and deleted, what stays, and what undoes it."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.mqis.applied_plans import undo
from support.sync.declared_worlds import World, declarations

import mqdssm
from mqdssm.errors import ConfigError
from mqdssm.model.dn import DN
from mqdssm.model.queuenames import list_rdn_candidates
from mqdssm.pipeline.migrate.applying import apply_plan
from mqdssm.pipeline.sync import Declaration, DeclaredMachine, DeclaredQueue, DeclaredRights
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.sid import Sid

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def world(openldap_server):
    return World.of(openldap_server, openldap_server.ldapi_url)


@pytest.fixture(autouse=True)
def cleared(world):
    yield
    world.clear()


def queues(*named: DeclaredQueue, machine: str, **more: object) -> Declaration:
    return Declaration(machines=(DeclaredMachine(name=machine, queues=named, **more),))


def test_a_file_makes_changes_and_leaves(world, tmp_path):
    name = world.machines[0]
    with world.connect() as directory:
        directory.create(mqdssm.Queue(pathname=f"{name}\\paid", label="Paid", quota=5, base_priority=3))
        directory.create(mqdssm.Queue(pathname=f"{name}\\other", label="Other"))
    (tmp_path / "declared.yaml").write_text(
        f"""
sites:
  {world.sites[0]}: {{ForeignSite: true}}
machines:
  {name}:
    QueueManagerQuota: 777
    queues:
      orders:
        Label: Orders
        Transactional: true
        rights:
          allow: {{Everyone: [Send]}}
      Paid: {{Quota: 6, Label: Paid}}
"""
    )
    path = tmp_path / "declared.yaml"
    seen = world.check(path)
    assert (seen.is_equal, seen.is_fine, seen.folder, seen.report) == (False, False, None, None)
    told = [(one.kind.value, one.type, one.name.lower(), one.attributes) for one in seen.differences]
    assert told == [
        ("missing", "site", world.sites[0].lower(), ()),
        ("different", "queue-manager", name, ("QueueManagerQuota",)),
        ("missing", "queue", f"{name}\\orders", ()),
        ("different", "queue", f"{name}\\paid", ("Quota",)),
    ]
    assert seen.differences[3].a == {"Quota": 6}
    assert seen.differences[3].b == {"Quota": 5}
    assert f"{name}\\orders" not in world.queues()  # nothing was changed

    before = world.entries()
    done = world.sync(path, tmp_path / "plan")
    assert done.is_fine
    assert done.report is not None
    assert done.report.operations == {"object added": 2, "object updated": 2}
    found = world.queues()
    assert set(found) == {f"{name}\\orders", f"{name}\\paid", f"{name}\\other"}
    paid, orders = found[f"{name}\\paid"], found[f"{name}\\orders"]
    assert (paid.label, paid.quota, paid.base_priority) == ("Paid", 6, 3)
    assert (orders.label, orders.transactional, orders.quota) == ("Orders", True, 0xFFFF_FFFF)
    dacl = SecurityDescriptor.from_bytes(orders.security or b"").dacl
    assert dacl is not None
    assert [(ace.sid.text, ace.mask) for ace in dacl.aces if ace.sid] == [("S-1-1-0", 4)]

    again = world.sync(path, tmp_path / "again")
    assert (again.is_equal, again.is_fine, again.folder, again.report) == (True, True, None, None)
    assert not (tmp_path / "again").exists()
    undo(world.server, tmp_path / "plan")
    assert world.entries() == before


def test_only_queues_of_declared_machines_are_pruned(world, tmp_path):
    first, second = world.machines
    with world.connect() as directory:
        for machine in (first, second):
            for queue in ("one", "two"):
                directory.create(mqdssm.Queue(pathname=f"{machine}\\{queue}", label=queue))
    declared = Declaration(
        machines=(
            DeclaredMachine(name=first, queues=(DeclaredQueue(name="ONE"),)),
            DeclaredMachine(name=second, attributes={"JournalQuota": 9}),  # says nothing about queues
        )
    )
    assert [one.type for one in world.check(declared).differences] == ["queue-manager"]
    seen = world.check(declared, prune=True)
    assert [(one.kind.value, one.name) for one in seen.differences][1:] == [("extra", f"{first}\\two")]
    assert seen.differences[1].b is not None
    assert seen.differences[1].b["Label"] == "two"
    with pytest.raises(ConfigError, match=r"1 objects would be deleted, 0 are allowed \(--allow-deletes\)"):
        world.sync(declared, tmp_path / "plan", prune=True)
    assert not (tmp_path / "plan").exists()
    before = world.entries()
    done = world.sync(declared, tmp_path / "plan", prune=True, allow_deletes=1)
    assert done.is_fine
    assert set(world.queues()) == {f"{first}\\one", f"{second}\\one", f"{second}\\two"}
    assert world.sync(declared, tmp_path / "again", prune=True).is_equal
    undo(world.server, tmp_path / "plan")
    assert world.entries() == before


def test_a_queue_in_the_raw_form_is_the_declared_one(world, tmp_path):
    """Long names with some characters have two forms (M7): neither is made again or pruned."""
    machine, name = world.machines[0], "a/b" * 30
    usual, raw = list_rdn_candidates(name)
    with world.connect() as directory:
        created = mqdssm.Queue(pathname=f"{machine}\\{name}", label="Raw")
        directory.create(created)
        place = directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", created.identifier)).full_path
        assert DN.parse(place).name == usual.cn
        new = DN.parse(place).parent.child("CN", raw.cn)
        directory.session.rename(place, str(new).partition(",")[0])
        directory.session.modify(new, {"mSMQQueueNameExt": [raw.extension.encode()]})
    declared = queues(DeclaredQueue(name=name, attributes={"Label": "Raw"}), machine=machine)
    assert world.sync(declared, tmp_path / "plan", prune=True, allow_deletes=9).is_equal


def test_no_queue_is_declared_and_all_are_pruned(world, tmp_path):
    name = world.machines[0]
    with world.connect() as directory:
        directory.create(mqdssm.Queue(pathname=f"{name}\\one"))
    done = world.sync(queues(machine=name), tmp_path / "plan", prune=True, allow_deletes=5)
    assert (done.is_fine, world.queues()) == (True, {})


def test_what_cannot_be_is_told_and_nothing_is_changed(world, tmp_path):
    name = world.machines[0]
    with world.connect() as directory:
        directory.create(mqdssm.Queue(pathname=f"{name}\\plain"))
    declared = Declaration(
        machines=(
            DeclaredMachine(name="nobody", line=3),
            DeclaredMachine(
                name=name,
                queues=(
                    DeclaredQueue(name="plain", attributes={"Transactional": True}, line=7),
                    DeclaredQueue(name="new", attributes={"Quota": 1}),
                    DeclaredQueue(name="a" * 130),
                    DeclaredQueue(name="mine", rights=DeclaredRights(allow={"nobody": ("Send",)})),
                ),
            ),
        )
    )
    refused = world.check(declared)
    assert not refused.is_equal
    with pytest.raises(ConfigError) as told:
        world.sync(declared, tmp_path / "plan")
    words = str(told.value)
    assert words == f"nothing was changed: {refused.plan.refused}"
    assert "line 3: there is no computer nobody" in words
    assert f"line 7: {name}\\plain: Transactional cannot be changed" in words
    assert f"{name}\\mine: the directory has no account nobody" in words
    assert f"{name}\\aaaa" in words
    assert (set(world.queues()), (tmp_path / "plan").exists()) == ({f"{name}\\plain"}, False)


def test_a_computer_without_a_queue_manager_is_told(world, tmp_path):
    world.server.add_computer(f"c{world.machines[0]}")
    refused = world.check(Declaration(machines=(DeclaredMachine(name=f"c{world.machines[0]}"),)))
    assert str(refused.plan.refused).endswith("has no queue manager: the installation of MSMQ makes it")


def test_a_plan_may_be_made_now_and_applied_later(world, tmp_path):
    declared = queues(DeclaredQueue(name="orders", attributes={"Label": "x"}), machine=world.machines[0])
    (tmp_path / "plan").mkdir()  # an empty folder stays when nothing is to be done
    seen = world.sync(declared, tmp_path / "plan", check=True)
    assert (seen.folder, seen.report, world.queues()) == (tmp_path / "plan", None, {})
    assert apply_plan(tmp_path / "plan", world.url, **world.login).is_fine
    shutil.rmtree(tmp_path / "plan")
    (tmp_path / "plan").mkdir()
    assert world.sync(declared, tmp_path / "plan", check=True).is_equal
    assert list((tmp_path / "plan").iterdir()) == []


def test_accounts_are_found_by_name(world, tmp_path):
    user = f"u{world.machines[0]}"
    world.server.add_user(user)
    queue = DeclaredQueue(name="orders", rights=DeclaredRights(allow={user.upper(): ("Receive",)}))
    assert world.sync(queues(queue, machine=world.machines[0]), tmp_path / "plan").is_fine
    with world.connect() as directory:
        sid = next(
            one.security_identifier
            for one in directory.search(mqdssm.User)
            if (one.full_path or "").lower().startswith(f"cn={user},")
        )
    (found,) = world.queues().values()
    dacl = SecurityDescriptor.from_bytes(found.security or b"").dacl
    assert dacl is not None
    assert [(ace.sid.text, ace.mask) for ace in dacl.aces if ace.sid] == [(sid, 3)]


def test_a_name_of_several_accounts_is_refused(world, tmp_path):
    """OpenLDAP does not see to it that account names are unique."""
    name = f"g{world.machines[0]}"
    queue = DeclaredQueue(name="orders", rights=DeclaredRights(allow={name: ("Receive",)}))
    with world.connect() as directory:
        session = directory.session
        groups = [f"cn={name}{number},{session.naming.root}" for number in (1, 2)]
        for number, group in enumerate(groups):
            sid = bytes(Sid(f"S-1-5-21-77-8-9-{number}"))
            values = {"objectClass": [b"group"], "objectSid": [sid], "sAMAccountName": [name.encode()]}
            session.add(group, values)
        with pytest.raises(ConfigError, match=f"no account {name}, or several of that name"):
            world.sync(queues(queue, machine=world.machines[0]), tmp_path / "plan")
        for group in groups:
            session.delete(group)


def test_foreign_entries_of_a_folder_stay(world, tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(ConfigError, match="is not empty"):
        world.sync(queues(DeclaredQueue(name="q"), machine=world.machines[0]), tmp_path)
    assert (tmp_path / "mine").read_text() == "x"


ONLY_TRY: Final = [Phase.generate]
"""Shrinking takes minutes with a real server; an example is printed as it was found."""


@settings(phases=ONLY_TRY, max_examples=6)
@given(st.data())
def test_any_state_is_reached_once_and_undone(world, data):
    _reach_and_undo(world, data)


@pytest.mark.soak
@pytest.mark.timeout(900)
@settings(phases=ONLY_TRY, max_examples=300)
@given(st.data())
def test_many_states_are_reached_once_and_undone(world, data):
    _reach_and_undo(world, data)


def _reach_and_undo(world, data):
    """From a random state to a random declaration: a second run finds nothing, undo restores all."""
    world.clear()
    with TemporaryDirectory() as folder:
        start = data.draw(declarations(world), "start")
        assert world.sync(start, Path(folder) / "start").is_fine
        before, kept = world.entries(), world.identifiers()
        declared, prune = data.draw(declarations(world), "declared"), data.draw(st.booleans(), "prune")
        guard = {"prune": prune, "allow_deletes": 100}
        done = world.sync(declared, Path(folder) / "plan", **guard)
        assert done.is_fine, done
        again = world.sync(declared, Path(folder) / "again", **guard)
        assert again.is_equal, again.differences
        _check_what_was_not_declared(world, declared, before, prune=prune)
        now = world.identifiers()
        assert {name: guid for name, guid in now.items() if name in kept}.items() <= kept.items()
        if done.folder is not None:
            undo(world.server, done.folder)
        assert world.entries() == before


def _check_what_was_not_declared(world, declared, before, *, prune):
    """Attributes of objects that the declaration does not name are as they were."""
    machines = {one.name: one for one in declared.machines}
    after = world.entries()
    for computer, name in zip(world.computers, world.machines, strict=True):
        named = machines.get(name)
        for dn, attributes in before.items():
            if not dn.endswith(f",cn=msmq,{computer.lower()}"):
                continue
            if named is None or named.queues is None:
                assert after[dn] == attributes
            elif not prune:
                assert dn in after
    for site in world.sites:
        if site not in {one.name for one in declared.sites}:
            dns = [dn for dn in before if dn.startswith(f"cn={site.lower()},")]
            assert {dn: after.get(dn) for dn in dns} == {dn: before[dn] for dn in dns}
