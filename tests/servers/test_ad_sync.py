"""Declarations against a domain controller: translated rights, names of accounts, new GUIDs."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.mqis.applied_plans import undo
from support.sync.declared_worlds import MADE_BY_SERVERS, World, declarations

import mqdssm
from mqdssm.pipeline.sync import Declaration, DeclaredMachine, DeclaredQueue, DeclaredRights
from mqdssm.wire.dtyp import SecurityDescriptor

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def world(samba_server):
    return World.of(samba_server, samba_server.ldapi_url)


@pytest.fixture(autouse=True)
def cleared(world):
    yield
    world.clear()


def comparable(world: World):
    """Entries without what the domain controller makes by itself."""
    return {
        dn: {name: values for name, values in attributes.items() if name.lower() not in MADE_BY_SERVERS}
        for dn, attributes in world.entries().items()
    }


def test_rights_are_those_of_the_domain(world, tmp_path):
    name = world.machines[0]
    rights = DeclaredRights(
        allow={
            "Everyone": ("Send", "GET_QUEUE_PROPERTIES"),
            "Domain Users": ("Peek",),
            "Domain Admins": ("FullControl",),
        },
        deny={"Domain Guests": ("Send",)},
    )
    queue = DeclaredQueue(name="orders", attributes={"Label": "Orders"}, rights=rights)
    declared = Declaration(machines=(DeclaredMachine(name=name.upper(), queues=(queue,)),))
    assert world.sync(declared, tmp_path / "plan").is_fine
    assert world.check(declared).is_equal
    (found,) = world.queues().values()
    dacl = SecurityDescriptor.from_bytes(found.security or b"").dacl
    assert dacl is not None
    masks = {(ace.type, ace.sid.rid): ace.mask for ace in dacl.aces if ace.sid}
    assert masks == {(1, 514): 0x4, (0, 0): 0x24, (0, 513): 0x2, (0, 512): 0xF003F}

    less = DeclaredRights(allow={"Domain Admins": ("FullControl",)})
    declared = Declaration(
        machines=(DeclaredMachine(name=name, queues=(DeclaredQueue(name="orders", rights=less),)),)
    )
    owner = SecurityDescriptor.from_bytes(found.security or b"").owner
    (difference,) = world.check(declared).differences
    assert difference.attributes == ("Security",)
    assert world.sync(declared, tmp_path / "less").is_fine
    (found,) = world.queues().values()
    changed = SecurityDescriptor.from_bytes(found.security or b"")
    assert (changed.owner, len(changed.explicit_aces())) == (owner, 1)
    assert found.label == "Orders"


def test_pruned_queues(world, tmp_path):
    name = world.machines[1]
    with world.connect() as directory:
        for queue in ("one", "two"):
            directory.create(mqdssm.Queue(pathname=f"{name}\\{queue}", label=queue))
    declared = Declaration(machines=(DeclaredMachine(name=name, queues=(DeclaredQueue(name="one"),)),))
    done = world.sync(declared, tmp_path / "plan", prune=True, allow_deletes=1)
    assert (done.is_fine, set(world.queues())) == (True, {f"{name}\\one"})
    assert world.check(declared, prune=True).is_equal


@settings(phases=[Phase.generate], max_examples=4)
@given(st.data())
def test_any_state_is_reached_once_and_undone(world, data):
    """As on OpenLDAP, with fewer examples."""
    world.clear()
    with TemporaryDirectory() as folder:
        start = data.draw(declarations(world), "start")
        assert world.sync(start, Path(folder) / "start").is_fine
        before = comparable(world)
        declared, prune = data.draw(declarations(world), "declared"), data.draw(st.booleans(), "prune")
        guard = {"prune": prune, "allow_deletes": 100}
        done = world.sync(declared, Path(folder) / "plan", **guard)
        assert done.is_fine, done
        again = world.sync(declared, Path(folder) / "again", **guard)
        assert again.is_equal, again.differences
        if done.folder is not None:
            undo(world.server, done.folder)
        assert comparable(world) == before
        assert world.sync(start, Path(folder) / "back").is_equal  # rights included
