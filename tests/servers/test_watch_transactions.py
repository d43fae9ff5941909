"""A watch of slapd while others work with transactions, of which it tells before they are committed."""

import subprocess
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from uuid import uuid4

import pytest
from support.servers.plain_ldap import PlainLdap
from support.watching.kinds import KINDS
from support.watching.watchers import Told, watching

import mqdssm
from mqdssm.directory.loading.items import Action, Item, LoadOptions
from mqdssm.directory.watching.hints import Rhythm
from mqdssm.events.watching.state_file import StateFile
from mqdssm.testing import OpenLdapServer

KIND = KINDS["openldap"]
pytestmark = [pytest.mark.server, pytest.mark.spec("MS-MQCN 3.2.3")]
LASTING = Rhythm(tick_s=0.05)
"""Connections are not renewed during a test, so that nothing is compared."""
_numbers = count(1)


@pytest.fixture
def server() -> Iterator[OpenLdapServer]:
    """slapd of its own: what it told last decides what can be known."""
    with OpenLdapServer(durable=False) as started:
        yield started


@pytest.fixture
def machine(server: OpenLdapServer) -> str:
    name = f"T{uuid4().hex[:8]}".upper()
    KIND.add_computer(server, name)
    dn = f"cn=msmq,cn={name},cn=Computers,{server.base_dn}"
    return PlainLdap(server).add(dn, {"objectClass": "mSMQConfiguration", "objectGUID": uuid4().bytes_le})


@pytest.fixture
def directory(server: OpenLdapServer) -> Iterator[mqdssm.Directory]:
    with KIND.connect(server) as connected:
        yield connected


def add_queues(server: OpenLdapServer, machine: str, number: int) -> list[str]:
    made = [f"cn=q{next(_numbers)},{machine}" for _ in range(number)]
    values = {"objectClass": "mSMQQueue", "mSMQLabelEx": "old"}
    PlainLdap(server).add_many((dn, values | {"objectGUID": uuid4().bytes_le}) for dn in made)
    return made


def transaction(server: OpenLdapServer, *changes: str) -> int:
    """Make changes as one transaction; the exit code of ldapmodify."""
    command = ["ldapmodify", *PlainLdap(server).login(), "-E", "!txn=commit"]
    ldif = "\n".join(changes).encode()
    return subprocess.run(command, input=ldif, capture_output=True, check=False).returncode


def label(dn: str, text: str) -> str:
    return f"dn: {dn}\nchangetype: modify\nreplace: mSMQLabelEx\nmSMQLabelEx: {text}\n"


def addition(dn: str) -> str:
    return f"dn: {dn}\nchangetype: add\nobjectClass: mSMQQueue\n"


def settle(server: OpenLdapServer, told: Told, machine: str) -> None:
    """Have one change told, so that the watch knows that nothing before it is missing."""
    (dn,) = add_queues(server, machine, 1)
    told.one("created", dn)


def slow_changes(server: OpenLdapServer) -> Iterator[str]:
    """Changes that no watch is told of, and that slapd needs half a second for in a transaction."""
    for _ in range(4000):
        yield f"dn: cn=d{next(_numbers)},{server.base_dn}\nchangetype: add\nobjectClass: device\n"


def deletion(dn: str) -> str:
    return f"dn: {dn}\nchangetype: delete\n"


def test_what_a_transaction_changed_is_told(server, directory, machine):
    queues = add_queues(server, machine, 300)
    with watching(directory, mqdssm.Queue, rhythm=LASTING) as told:
        settle(server, told, machine)
        labels = (label(dn, "new") for dn in queues[:200])
        assert transaction(server, *labels, *slow_changes(server)) == 0
        told.wait(lambda one: len(one.changes) >= 201)
        assert {c.dn for c in told.changes if c.changes.get("Label") == ("old", "new")} == set(queues[:200])
        new = [f"cn=n{next(_numbers)},{machine}" for _ in range(200)]
        assert (
            transaction(server, *map(addition, new), *map(deletion, queues[200:]), *slow_changes(server)) == 0
        )
        told.wait(lambda one: len(one.changes) >= 501)
        assert {c.dn for c in told.changes[1:] if c.event == "created"} == set(new)
        assert {c.dn for c in told.changes if c.event == "deleted"} == set(queues[200:])
        assert len(told.changes) == 501


def test_what_is_loaded_in_transactions_is_told(server, directory, machine):
    items = [
        Item(
            row=number,
            action=Action.ADD,
            dn=f"cn=l{number},{machine}",
            attributes={"objectClass": (b"mSMQQueue",), "objectGUID": (uuid4().bytes_le,)},
            ldap_class="mSMQQueue",
        )
        for number in range(1000)
    ]
    with watching(directory, mqdssm.Queue, rhythm=LASTING) as told:
        settle(server, told, machine)
        outcomes = list(directory.session.loader.load(items, LoadOptions(transactions=500)))
        assert len(outcomes) == 1000
        told.wait(lambda one: len(one.changes) >= 1001)
        assert {c.dn for c in told.changes[1:]} == {item.dn for item in items}


def test_a_transaction_that_failed_is_not_told_and_stops_nothing(server, directory, machine, tmp_path: Path):
    changed, gone, other = add_queues(server, machine, 3)
    state = tmp_path / "state"
    with watching(directory, mqdssm.Queue, state=state) as told:
        PlainLdap(server).modify(other, "replace: mSMQLabelEx\nmSMQLabelEx: before")
        told.one("changed", other)
    before = place_in(state)
    new = f"cn=n{next(_numbers)},{machine}"
    failing = label(changed, "never"), deletion(gone), addition(new), addition(other)
    with watching(directory, mqdssm.Queue, state=state) as told:
        assert transaction(server, *failing) == 68  # entryAlreadyExists
        time.sleep(0.5)
    assert place_in(state) == before, "nobody can know yet that it failed"
    with watching(directory, mqdssm.Queue, state=state) as told:
        PlainLdap(server).modify(other, "replace: mSMQLabelEx\nmSMQLabelEx: after")
        told.one("changed", other)
        assert len(told.changes) == 1
    assert place_in(state) > before, "something newer can be read, so that the transaction is over"


def place_in(state: Path) -> str:
    file = StateFile(state)
    place = file.load().place
    file.close()
    assert place is not None
    return place


def connect_meanwhile(
    server: OpenLdapServer, directory: mqdssm.Directory, queues: list[str], state: Path
) -> None:
    """Watches begin and end while a transaction is worked on: what it changed is told by one of them."""
    with watching(directory, mqdssm.Queue, state=state):
        pass
    changes = [label(dn, "new") for dn in queues]
    work = threading.Thread(target=transaction, args=(server, *changes))
    work.start()
    found: set[str] = set()
    while work.is_alive():
        with watching(directory, mqdssm.Queue, state=state) as told:
            time.sleep(0.02)
        found |= {change.dn for change in told.changes}
    work.join()
    with watching(directory, mqdssm.Queue, state=state) as told:
        told.wait(lambda one: found | {change.dn for change in one.changes} == set(queues))


def test_who_connects_during_a_transaction_is_told_of_it(server, directory, machine, tmp_path: Path):
    connect_meanwhile(server, directory, add_queues(server, machine, 1000), tmp_path / "state")


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_who_connects_during_a_long_transaction_is_told_of_it(server, directory, machine, tmp_path: Path):
    for number in range(5):
        queues = add_queues(server, machine, 4000)
        connect_meanwhile(server, directory, queues, tmp_path / f"state{number}")
        PlainLdap(server).delete(*queues)
