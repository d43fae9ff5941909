"""doctor on a domain controller, whole: the exact outcome of each check, and of each event's rights."""

import re
from collections.abc import Iterator
from uuid import uuid4

import pytest
from support.watching.kinds import KINDS

pytestmark = pytest.mark.parametrize(
    "kind", [pytest.param("samba", marks=KINDS["samba"].marks)], indirect=True
)

SID = r"S-1-5-21-\d+-\d+-\d+"
ROOT = "DC=contoso,DC=test"
CONFIGURATION = f"CN=Configuration,{ROOT}"
SERVICES = f"CN=MsmqServices,CN=Services,{CONFIGURATION}"


def outcome(found: dict) -> list[tuple[str, str, str]]:
    """State, check and text, without what is never the same."""
    lines = []
    for one in found["findings"]:
        text = re.sub(r"\d+(\.\d+)? (ms|s) ", "N ", f"{one['text']} ").strip()
        lines.append((one["state"], one["name"], text))
    return lines


def expected(server, user: str, rid: str) -> list[tuple[str, str, str]]:
    """What every user is told, but for the rights of events; patterns."""
    url = re.escape(server.ldaps_url)
    host = server.ldaps_url.removeprefix("ldaps://")
    variables = "MQDSSM_URL, MQDSSM_USER, MQDSSM_PASSWORD, MQDSSM_CA_FILE"
    root = re.escape(ROOT)
    return [
        ("ok", "settings", f"{url} as {user}; from {variables}"),
        ("ok", f"connection {server.ldaps_url}", "connected with LDAPS in N"),
        (
            "ok",
            f"certificate {server.ldaps_url}",
            rf"trusted, valid for {re.escape(host)} until .* GMT; TLSv1.3, \w+",
        ),
        ("ok", "profile", r"Active Directory 4\.\S+ \(activedirectory, found out\)"),
        ("ok", "naming contexts", f"root {root}, configuration {re.escape(CONFIGURATION)}"),
        ("ok", "schema", "all classes and attributes are there, as Microsoft defines them"),
        ("ok", "base tree", "Computers, Users, Sites and Services are there"),
        ("ok", "enterprise", f"{re.escape(SERVICES)} is there"),
        ("ok", "rights", rf"logged in as {user}, SID {SID}-{rid}"),
        ("ok", "limits", r"read all \d+ objects in pages of 1000: no size limit met.*"),
        ("ok", "controls", "paged results, extended names"),
        (
            "ok",
            "controls",
            r"extended operations: .+; changes can be watched \(DirSync, change notification\)",
        ),
        ("ok", "indexes", "a look-up by GUID takes N"),
        ("ok", "clock", r"the server's clock is N (ahead|behind) \(currentTime of the root DSE\)"),
        ("ok", "servers", "one server: nothing to fall back to"),
        ("ok", "global catalog", r"ldaps://\S+:3269 answers: --forest would find objects of all domains"),
    ]


def check(found: dict, server, user: str, rid: str) -> tuple[list[tuple[str, str]], str]:
    """Compare with `expected`; gives what is said of the rights of events, and of identifiers."""
    lines = outcome(found)
    assert found["connected"] is True
    special = {"event rights", "identifiers"}
    usual = [line for line in lines if line[1] not in special]
    wanted = expected(server, re.escape(user), rid)
    assert [line[:2] for line in usual] == [line[:2] for line in wanted]
    for (*_, text), (_, name, pattern) in zip(usual, wanted, strict=True):
        assert re.fullmatch(pattern, text), (name, text)
    names = [line[1] for line in lines]
    first, last = names.index("event rights"), names.index("identifiers")
    assert set(names[first:last]) == {"event rights"}
    assert names[first - 1] == "rights"
    assert names[last + 1] == "limits"
    assert lines[last][0] == "ok"
    return [(state, text) for state, _, text in lines[first:last]], lines[last][2]


@pytest.fixture
def path(cli, plain, machine) -> Iterator[str]:
    """The pathname of a queue; there is something of every kind."""
    pathname = rf"{machine.name}\q"
    cli("create", "queue", f"Pathname={pathname}")
    here = cli.json("read", "site", f"Name={machine.site}", "-a", "Identifier")["Identifier"]
    there = cli.json("create", "site", f"Name=T{machine.name}")["Identifier"]
    ends = (f"Site1Identifier={here}", f"Site2Identifier={there}")
    link = cli.json("create", "routing-link", *ends, "ActualCost=1")["Identifier"]
    alias = f"CN=a{machine.name},CN=Users,{ROOT}"
    plain.add(alias, {"objectClass": "msMQ-Custom-Recipient", "msMQ-Recipient-FormatName": r"DIRECT=OS:m\q"})
    yield pathname
    plain.delete(alias)
    cli("delete", "routing-link", f"Identifier={link}")
    cli("delete", "site", f"Name=T{machine.name}")


def test_an_administrator(cli, server, path):
    found = cli.json("doctor", "--at", path)
    events, identifiers = check(found, server, server.user, "500")
    assert {one["advice"] for one in found["findings"]} == {""}
    assert {state for state, _ in events} == {"ok"}
    may = {text.partition(": ")[0]: text.partition(": ")[2].partition(" (")[0] for _, text in events}
    assert may == {
        "QueueManager": "may create, read, write, delete",
        "Queue": "may create, read, write, delete",
        "Enterprise": "may read, write",
        "Site": "may create, read, write, delete",
        "RoutingLink": "may create, read, write, delete",
        "User": "may read, write",
        "Queue alias": "may read",
        "Distribution list": "may read",
    }
    assert "fSpecifyGUIDOnAdd is not set" in identifiers
    assert "Add-GUID" not in identifiers  # an administrator has it
    shown = cli("doctor", "--at", path)
    lines = len(found["findings"])
    assert f"0 problem, 0 warning, {lines} ok" in shown.stderr.splitlines()
    assert not any(line.startswith(("warning", "problem")) for line in shown.stdout.splitlines())


def test_an_ordinary_user(cli, server, machine, path):
    user, password = server.add_user(f"u{uuid4().hex[:8]}")
    login = {"MQDSSM_USER": user, "MQDSSM_PASSWORD": password}
    found = cli.json("doctor", "--at", path, **login)
    events, identifiers = check(found, server, user, r"\d{4}")
    manager = f"CN=msmq,CN={machine.name},CN=Computers,{ROOT}"
    told = [(state, text.replace(manager, "MANAGER").partition("; missing")[0]) for state, text in events]
    assert [(state, text.partition(" (")[0]) for state, text in told] == [
        ("warning", "QueueManager: may not create"),
        ("warning", "QueueManager: may not write"),
        ("warning", "QueueManager: may not delete"),
        ("ok", "QueueManager: may read"),
        ("warning", "Queue: may not create"),
        ("warning", "Queue: may not write"),
        ("warning", "Queue: may not delete"),
        ("ok", "Queue: may read"),
        ("warning", "Enterprise: may not write"),
        ("ok", "Enterprise: may read"),
        ("warning", "Site: may not create"),
        ("warning", "Site: may not write"),
        ("warning", "Site: may not delete"),
        ("ok", "Site: may read"),
        ("warning", "RoutingLink: may not create"),
        ("warning", "RoutingLink: may not write"),
        ("warning", "RoutingLink: may not delete"),
        ("ok", "RoutingLink: may read"),
        ("ok", "User: may read, write"),
        ("ok", "Queue alias: may read"),
        ("ok", "Distribution list: may read"),
    ]
    missing = next(text for _, text in events if text.startswith("Queue: may not delete"))
    assert (
        missing.lower()
        == (
            f"Queue: may not delete; missing: RIGHT_DELETE on CN=q,{manager}, or RIGHT_DS_DELETE_CHILD for "
            f"mSMQQueue on {manager}"
        ).lower()
    )
    advice = {one["advice"] for one in found["findings"] if one["state"] == "warning"}
    assert advice == {"let an administrator of the domain grant it (docs/tables/rights.md)"}
    assert identifiers.count("the right Add-GUID") == 2


def test_an_administrator_who_only_reads_is_told_the_same(cli, server, machine):
    """Nothing is tried, so there is nothing to leave out."""
    both = [cli.json("doctor", "--at", machine.name, *more) for more in ((), ("--read-only",))]
    texts = [[text for _, name, text in outcome(one) if name == "event rights"] for one in both]
    assert texts[0] == texts[1]


def test_controllers_do_not_tell_whether_they_are_in_the_same_state(cli, server):
    """Change numbers are each controller's own."""
    found = cli.json("doctor", "--url", server.ldaps_url, "--url", server.url)
    (said,) = [text for _, name, text in outcome(found) if name == "servers"]
    assert said == (
        "2 servers of the same directory; they do not tell this user whether they are in the same state"
    )
