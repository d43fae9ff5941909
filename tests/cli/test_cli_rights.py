"""``mqdssm rights`` on OpenLDAP, whose groups and users have SIDs that somebody gave them."""

from dataclasses import dataclass
from uuid import uuid4

import pytest

from mqdssm.events.facade import Directory
from mqdssm.wire.acl import allow, deny
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import QueueAccess
from mqdssm.wire.sid import EVERYONE, Sid

pytestmark = pytest.mark.server


@dataclass
class People:
    """Users and groups of one test.

    Attributes:
        queue: path name of the queue.
        machine: its machine.
        sids: by name.
    """

    queue: str
    machine: str
    sids: dict[str, Sid]


@pytest.fixture
def people(cli, machine, server, openldap_directory: Directory) -> People:
    session = openldap_directory.session
    unique = uuid4().hex[:8]
    base = str(session.naming.root)
    numbers = {name: 1100 + n for n, name in enumerate(("ann", "bob", "clerks", "staff"))}
    sids = {name: Sid(f"S-1-5-21-{int(unique[:6], 16)}-2-3-{number}") for name, number in numbers.items()}
    members = {"clerks": ["ann"], "staff": ["clerks", "bob"]}
    dns = {name: f"cn={name}{unique},{base}" for name in numbers}
    for name, sid in sids.items():
        values = {
            "objectClass": [b"group" if name in members else b"user"],
            "objectSid": [bytes(sid)],
            "sAMAccountName": [f"{name}{unique}".encode()],
        }
        if name in members:
            values["member"] = [dns[member].encode() for member in members[name]]
        session.add(dns[name], values)
    entries = (
        deny(sids["bob"], QueueAccess.WRITE_MESSAGE),
        allow(sids["staff"], QueueAccess.WRITE_MESSAGE | QueueAccess.RECEIVE_MESSAGE),
        allow(EVERYONE, QueueAccess.GET_QUEUE_PROPERTIES),
    )
    sddl = SecurityDescriptor.build(owner=sids["bob"], dacl=entries).to_sddl()
    queue = f"{machine.name}\\q{unique}"
    cli("create", "queue", f"Pathname={queue}", f"Security={sddl}")
    return People(queue, machine.name, {f"{name}{unique}": sid for name, sid in sids.items()})


def names(people: People) -> tuple[str, str, str, str]:
    ann, bob, clerks, staff = people.sids
    return ann, bob, clerks, staff


def test_who_may_use_a_queue(cli, people) -> None:
    ann, bob, clerks, staff = names(people)
    answer = cli.json("rights", "queue", people.queue)
    assert (answer["object"], answer["owner"]) == (people.queue, f"{bob} ({people.sids[bob]})")
    by_name = {one["account"]: one for one in answer["accounts"]}
    assert set(by_name) == {ann, bob, clerks, staff, "Everyone"}
    assert by_name[ann]["rights"]["Send"] == f"a member of {clerks} in {staff}"
    assert by_name[ann]["rights"]["GetProperties"] == "an entry for Everyone"
    assert by_name[bob]["refused"] == {"Send": "an entry for the account"}
    assert by_name[bob]["rights"]["ChangePermissions"] == "it is the owner"
    assert by_name["Everyone"]["rights"] == {"GetProperties": "an entry for the account"}


def test_who_may_send(cli, people) -> None:
    ann, bob, clerks, staff = names(people)
    result = cli("rights", "queue", people.queue, "--right", "Send")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [row[0] for row in rows] == ["account", ann, bob, clerks, staff]
    lines = [" ".join(row) for row in rows]
    assert f"{ann} ({people.sids[ann]}) user Send a member of {clerks} in {staff}" in lines
    assert f"{bob} ({people.sids[bob]}) user not Send an entry for the account" in lines
    assert f"owner of {people.queue}: {bob}" in result.stderr


def test_what_a_user_may(cli, people) -> None:
    ann, bob, clerks, staff = names(people)
    found = {one["object"]: one for one in cli.json("rights", "--of", ann)}
    assert set(found[people.queue]["rights"]) == {"Send", "Receive", "Peek", "GetProperties"}
    assert people.machine in found  # Everyone may read a machine
    (one,) = cli.json("rights", "queue", people.queue, "--of", people.sids[ann].text, "--right", "Receive")
    assert one["rights"] == {"Receive": f"a member of {clerks} in {staff}"}
    assert cli.json("rights", "queue", people.queue, "--of", "Anonymous", "--right", "Send") == []
    result = cli("rights", "queue", people.queue, "--of", bob)
    assert "not Send" in result.stdout
    assert f"{bob} ({people.sids[bob]}), in Authenticated Users, Everyone, {staff}: " in result.stderr


def test_groups_above_the_limit_are_named(cli, people) -> None:
    *_, staff = names(people)
    answer = cli.json("rights", "queue", people.queue, "--members", "1")
    assert answer["not_expanded"] == {f"{staff} ({people.sids[staff]})": "more than 1 members"}


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ((), 2, "name a queue or a queue-manager, or a user with --of"),
        (("queue",), 2, "which queue? give its name, or a user with --of"),
        (("queue", "x\\y", "--right", "Fly"), 2, "'Fly' is no right: use one of Send, Receive"),
        (("queue", "nowhere\\q"), 4, "nowhere"),
        (("--of", "nobody-at-all"), 4, "there is no such account with a SID"),
    ],
)
def test_what_is_refused(cli, args, code, words) -> None:
    assert words in cli.error("rights", *args, code=code)
