"""The loader on a domain controller: the same outcomes, and the GUIDs that the server made."""

import pytest

import mqdssm
from mqdssm.directory.loading.items import Action, Effect, Item, LoadOptions
from mqdssm.testing import SambaDomainController


@pytest.fixture
def parent(samba_directory: mqdssm.Directory, samba_server: SambaDomainController) -> str:
    name = "LOADED"
    samba_server.add_computer(name)
    site = samba_directory.create(mqdssm.Site(name="Loaded"))
    manager = samba_directory.create(mqdssm.QueueManager(computer_name=name, site_identifier_list=[site]))
    yield f"CN=msmq,CN={name},CN=Computers,{samba_server.base_dn}"
    samba_directory.delete(mqdssm.QueueManager(identifier=manager), recursive=True)
    samba_directory.delete(mqdssm.Site(identifier=site))


def queues(parent: str, label: bytes = b"x", number: int = 40) -> list[Item]:
    values = {"objectClass": (b"mSMQQueue",), "mSMQLabelEx": (label,), "mSMQQueueQuota": (b"-1",)}
    return [
        Item(row=n, action=Action.ADD, dn=f"CN=q{n},{parent}", attributes=values, ldap_class="mSMQQueue")
        for n in range(number)
    ]


def queue_named(directory: mqdssm.Directory, name: str) -> mqdssm.Queue:
    return directory.read(mqdssm.Queue, mqdssm.Filter("Pathname", "==", name))


def test_everything_that_can_become_of_a_change(samba_directory, parent):
    session = samba_directory.session
    made = list(session.loader.load(queues(parent), LoadOptions(identify=True)))
    assert {one.effect for one in made} == {Effect.ADDED}
    guids = {one.dn: one.guid for one in made}
    assert len(set(guids.values())) == 40
    assert guids[f"CN=q7,{parent}"] == queue_named(samba_directory, r"LOADED\q7").identifier
    assert {one.effect for one in session.loader.load(queues(parent, b"X"))} == {Effect.EQUAL}
    other = list(session.loader.load(queues(parent, b"y", 3)))
    assert {(one.effect, one.attributes) for one in other} == {(Effect.CONFLICT, ("mSMQLabelEx",))}
    updated = list(session.loader.load(queues(parent, b"y", 3), LoadOptions(update=True)))
    assert {one.effect for one in updated} == {Effect.UPDATED}

    wrong = {"mSMQLabelEx": (b"z",), "mSMQJournal": (b"maybe",), "mSMQBasePriority": (b"2",)}
    (refused,) = session.loader.load(
        [Item(row=1, action=Action.MODIFY, dn=f"CN=q0,{parent}", attributes=wrong)]
    )
    assert (refused.effect, refused.attributes) == (Effect.REJECTED, ("mSMQJournal",))
    assert queue_named(samba_directory, r"LOADED\q0").label == "z"

    nowhere = queues(f"CN=nowhere,{parent}", number=1)
    assert [one.effect for one in session.loader.load(nowhere)] == [Effect.MISSING_PARENT]
    gone = [Item(row=n, action=Action.DELETE, dn=f"CN=q{n},{parent}") for n in range(40)]
    assert {one.effect for one in session.loader.load(gone)} == {Effect.DELETED}
    assert {one.effect for one in session.loader.load(gone)} == {Effect.MISSING}
