"""Bad input, typed: one line on the standard error output, the right exit code, and nothing has changed."""

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest
from support.servers.proxy import Proxy

GUID = "00000000-1111-2222-3333-444444444444"


@pytest.fixture
def nothing_changes(machine, plain) -> Iterator[None]:
    """The whole tree, with every operational attribute, is the same afterwards."""
    before = plain.search("dc=example,dc=com", "(objectClass=*)", "*", "+")
    yield
    assert plain.search("dc=example,dc=com", "(objectClass=*)", "*", "+") == before


LONG = "x" * 125
REFUSED = [
    ("create queue Pathname={m}\\q Colour=red", 2, "Queue has no attribute 'Colour'; it has "),
    ("create queue Pathname={m}\\q Labell=x", 2, "Queue has no attribute 'Labell': did you mean Label?"),
    ("create queue Pathname={m}\\q Quota=many", 2, "Quota must be a whole number, not 'many'"),
    ("create queue Pathname={m}\\q Journaling=1", 2, "Journaling must be true or false, not '1'"),
    (
        "create queue Pathname={m}\\q Type=x",
        2,
        "Type must be a GUID as 01234567-89ab-cdef-0123-456789abcdef, not 'x'",
    ),
    ("create queue Pathname={m}\\q Security=x", 2, "Security is neither SDDL nor a security descriptor: "),
    ("create queue Pathname={m}\\q Security=AAAA", 2, "Security is neither SDDL nor a security descriptor: "),
    ("create queue Pathname={m}\\q Quota=4294967296", 2, "Quota is 4294967296: 0 to 4294967295 are allowed"),
    (
        "create queue Pathname={m}\\q BasePriority=40000",
        2,
        "BasePriority is 40000: -32768 to 32767 are allowed",
    ),
    (
        "create queue Pathname={m}\\q PrivacyLevel=Some",
        2,
        "PrivacyLevel is 'Some': one of None, Optional, Body is expected",
    ),
    (
        f"create queue Pathname={{m}}\\q Label={LONG}",
        2,
        "Label is 125 UTF-16 code units long: the limit is 124",
    ),
    (f"create queue Pathname={{m}}\\{LONG}", 2, ""),
    ("create queue Pathname={m}\\a,CN=b", 2, ""),
    ("create queue Pathname={m}\\\\00", 2, ""),
    ("create queue Pathname={m}\\+lead", 2, ""),
    ("create queue Pathname={m}", 2, ""),
    ("create queue Label=x", 2, "a queue needs Pathname=VALUE"),
    ("create queue", 2, "a queue needs Pathname=VALUE"),
    ("create queue-manager", 2, "a queue-manager needs SiteIdentifierList=VALUE, ComputerName=VALUE"),
    ("create queue Pathname={m}\\q Quota=1 Quota=2", 2, "Quota is given 2 times: it has one value"),
    ("create queue Pathname", 2, "'Pathname' is no Attribute=Value"),
    ("create queue =x", 2, "'=x' is no Attribute=Value"),
    ("create queue Pathname={m}\\q Scope=x", 6, "Queue.Scope is not kept in an LDAP directory"),
    (
        "create site PrimarySiteController=x Name=y",
        6,
        "Site.PrimarySiteController is not kept in an LDAP directory",
    ),
    (
        "create user FullPath=cn=x",
        6,
        "User objects cannot be created: QueueManager, Queue, Site, RoutingLink can",
    ),
    ("create enterprise", 6, "Enterprise objects cannot be created: "),
    ("delete user SecurityIdentifier=S-1-5-1", 6, "User objects cannot be deleted: "),
    (
        "create connected-network Name=x",
        2,
        "Invalid value for 'TYPE': 'connected-network' is not one of 'queue', 'queue-manager', ",
    ),
    ("create queue Pathname=nosuch{m}\\q", 4, ""),
    ("create routing-link Site1Identifier=x", 2, "Site1Identifier must be a GUID"),
    ("create routing-link ActualCost=0", 2, "ActualCost is 0: 1 to 999999 are allowed"),
    ("create site Name={s}", 5, "add failed: an object of that name exists already"),
    ("create site Name=" + "x" * 65, 2, "Name is 65 UTF-16 code units long: the limit is 64"),
    ("write queue Pathname={m}\\nosuch Label=x", 4, "there is no queue {m}\\nosuch"),
    ("write queue Label=x", 2, "which queue? give one of DirectoryPath, FullPath, Identifier, Pathname"),
    ("write queue Pathname={m}\\q", 2, "nothing to write: "),
    (
        f"write queue Pathname={{m}}\\q Identifier={GUID} Label=x",
        2,
        "Pathname and Identifier both say which queue",
    ),
    ("write queue Pathname={m}\\q CreateTime=5", 6, "Queue.CreateTime cannot be written to the directory"),
    (
        "write queue Pathname={m}\\q CreateTime=soon",
        2,
        "CreateTime 'soon' is no time: write 2026-01-31T12:00:00Z",
    ),
    ("write site Name={s} Security=@/no/such/file", 6, "/no/such/file: No such file or directory"),
    ("delete queue", 2, "which queue? give one of "),
    ("delete queue Pathname={m}\\q Label=x", 2, "Label: delete takes only what says which queue is meant"),
    (f"delete queue Identifier={GUID}", 4, "there is no such object"),
    (f"read queue Identifier={GUID}", 4, "there is no such object"),
    ("read queue", 2, "which queue? give an Attribute=Value, or use 'mqdssm list queue'"),
    ("read queue Identifier=x", 2, "Identifier must be a GUID"),
    ("read queue Pathname={m}\\q --attributes Colour", 2, "Queue has no attribute 'Colour'"),
    ("read queue Pathname={m}\\q --attributes Label,,Quota", 2, "'Label,,Quota' is no list of attributes"),
    ("list queue --filter Colour==red", 2, "Queue has no attribute 'Colour'"),
    (
        "list queue --filter Label=x",
        2,
        (
            "'Label=x' is no filter, as Label==Orders with one of == != < <= > >=: "
            "at character 6 an operator is expected: did you mean 'Label==x'?"
        ),
    ),
    ("list queue --filter Label~x", 2, "'Label~x' is no filter"),
    ("list queue --filter Quota==*", 2, "Queue.Quota always has a value, 4294967295 where none is stored"),
    (
        "list queue --filter Label==x||Colour==red",
        2,
        "filter 'Label==x||Colour==red', at character 11: Queue has no attribute 'Colour'",
    ),
    ("list queue --filter Quota==many", 2, "Quota must be a whole number, not 'many'"),
    ("list queue --sort Colour", 2, "Queue has no attribute 'Colour'"),
    ("list queue --sort ,", 2, "',' is no list of attributes"),
    ("list queue --limit -1", 2, "Invalid value for '--limit'"),
    ("resolve alias nothing", 2, "'nothing' is no distinguished name"),
    ("resolve alias CN=nothing,DC=example,DC=com", 4, ""),
    ("resolve alias CN=Users,DC=example,DC=com", 4, "the object has no msMQ-Recipient-FormatName"),
    ("resolve list DL=x", 2, "'DL=x' is no format name"),
    (f"resolve list PUBLIC={GUID}", 2, f"'PUBLIC={GUID}' is no distribution list: DL=<GUID> is expected"),
    (f"resolve list DL={GUID}", 4, ""),
]


@pytest.mark.parametrize(
    ("typed", "code", "words"), REFUSED, ids=[f"{n}-{one[0][:40]}" for n, one in enumerate(REFUSED)]
)
def test_refused(cli, machine, nothing_changes, typed, code, words):
    names = {"m": machine.name, "s": machine.site}
    args = [part.format(**names) if "{" in part else part for part in typed.split(" ")]
    message = cli.error(*args, code=code)
    assert message.startswith(words.format(**names) if "{" in words else words)
    assert len(message) > 10


@pytest.mark.parametrize("name", ["*)(objectClass=*", "#x", "(&)", "a=b", "ä"], ids=ascii)
def test_names_that_look_like_filters_are_names(cli, machine, name):
    if not name.isascii():
        assert cli.error("create", "queue", rf"Pathname={machine.name}\{name}", code=2)
        return
    cli("create", "queue", rf"Pathname={machine.name}\{name}", "Label=x")
    read = cli.json("read", "queue", rf"Pathname={machine.name}\{name}", "-a", "Pathname")
    assert read == {"Pathname": rf"{machine.name}\{name.lower()}"}
    filters = ("-f", f"Label=={name}")
    assert cli.json("list", "queue", *filters) == []


def test_leading_blank_of_a_name(cli, machine, nothing_changes):
    assert cli.error("create", "queue", rf"Pathname={machine.name}\ x", code=2)


def test_duplicate_queue(cli, machine, plain):
    path = rf"Pathname={machine.name}\twice"
    guid = cli.json("create", "queue", path)["Identifier"]
    before = plain.search("dc=example,dc=com", "(objectClass=*)", "*", "+")
    assert "exists already" in cli.error("create", "queue", path, code=5)
    other = rf"Pathname={machine.name}\other"
    assert "has the same objectGUID" in cli.error("create", "queue", other, f"Identifier={guid}", code=5)
    assert plain.search("dc=example,dc=com", "(objectClass=*)", "*", "+") == before


def test_no_rights(cli, machine, openldap_server, nothing_changes_after_user):
    user, password = nothing_changes_after_user
    login = {"MQDSSM_USER": user, "MQDSSM_PASSWORD": password}
    message = cli.error("create", "queue", rf"Pathname={machine.name}\q", code=6, **login)
    assert "LDAP result 50" in message
    assert message.endswith("this user has no right to do that")
    assert "50" in cli.error("write", "site", f"Name={machine.site}", "ForeignSite=true", code=6, **login)
    assert "50" in cli.error("delete", "site", f"Name={machine.site}", code=6, **login)
    assert cli.json("read", "site", f"Name={machine.site}", "-a", "Name", **login) == {"Name": machine.site}


@pytest.fixture
def nothing_changes_after_user(openldap_server, machine, plain):
    user = openldap_server.add_user(f"u{machine.name}")
    before = plain.search("dc=example,dc=com", "(objectClass=*)", "*", "+")
    yield user
    assert plain.search("dc=example,dc=com", "(objectClass=*)", "*", "+") == before


@pytest.mark.parametrize("how", ["option", "variable", "file"])
def test_read_only_writes_nothing(cli, machine, nothing_changes, how, tmp_path):
    environment, options = {}, ()
    match how:
        case "option":
            options = ("--read-only",)
        case "variable":
            environment = {"MQDSSM_READ_ONLY": "1"}
        case "file":
            (tmp_path / "c.toml").write_text("read_only = true\n")
            options = ("--config", str(tmp_path / "c.toml"))
    for args in (
        ("create", "queue", rf"Pathname={machine.name}\q"),
        ("create", "site", f"Name=x{machine.site}"),
        ("write", "site", f"Name={machine.site}", "ForeignSite=true"),
        ("write", "enterprise", "DefaultTimeToLive=5"),
        ("delete", "queue-manager", f"ComputerName={machine.name}", "--recursive"),
    ):
        assert "read" in cli.error(*args, *options, code=6, **environment)


def test_wrong_password_and_unknown_user(cli, nothing_changes):
    words = "unknown user or wrong password"
    assert words in cli.error("list", "queue", code=3, MQDSSM_PASSWORD="wrong")
    assert words in cli.error("list", "queue", code=3, MQDSSM_USER="cn=nobody,dc=example,dc=com")


def test_certificates_that_are_not_trusted(cli, openldap_server, nothing_changes):
    for url in (openldap_server.url, openldap_server.ldaps_url):
        message = cli.error("list", "queue", "--url", url, code=3, MQDSSM_CA_FILE=None)
        assert "certificate is not trusted" in message
        assert "the password was not sent" in message
        named = url.replace("127.0.0.1", "127.0.0.2")
        # slapd listens on 127.0.0.1 alone: nobody there is no mistaken identity
        assert "nobody listens there" in cli.error("list", "queue", "--url", named, code=3)


def test_server_away_and_no_server(cli, alone, nothing_changes):
    assert "nobody listens there" in cli.error("list", "queue", "--url", "ldap://127.0.0.1:1", code=3)
    message = alone.error("list", "queue", code=2)
    assert message.startswith("no server was named: give --url, set MQDSSM_URL, or write a file for --config")
    assert "is no LDAP URL" in alone.error("list", "queue", "--url", "http://x", code=2)
    message = alone.error("list", "queue", "--url", "ldap://u:pass@x", code=2)
    assert "pass@" not in message
    message = cli.error("list", "queue", "--url", "ldap://192.0.2.1", "--tls", "none", code=2)
    assert "in clear text" in message
    assert "--password-file" in alone.error("list", "queue", "--url", "ldap://x", "--user", "cn=x", code=2)


def test_no_msmq_directory_and_no_such_context(cli):
    message = cli.error("list", "queue", "--naming-context", "dc=nowhere", code=4)
    assert message.startswith("there is no such naming context; object: dc=nowhere; ")
    assert cli.error("list", "queue", "--naming-context", "nowhere", code=2)
    assert "'auto', 'openldap'" in cli.error("list", "queue", "--profile", "novell", code=2)


def test_server_gone_in_the_middle_of_a_list(
    cli, machine, plain, openldap_server, openldap_directory, monkeypatch
):
    monkeypatch.setattr("mqdssm.directory.searching.RESUME_PAUSES_S", (0.0, 0.1))
    plain.add_many(
        # more than a page: what was printed cannot be taken back
        (f"CN=gone{number},{machine.dn}", {"objectClass": "mSMQQueue", "objectGUID": uuid4().bytes_le})
        for number in range(1100)
    )
    with Proxy("127.0.0.1", openldap_server.port) as proxy:
        # what needs no other connection for what the queues refer to
        shown = ("--attributes", "Identifier,Security,Label,Pathname")
        wanted = ("list", "queue", *shown, "--url", proxy.url, "--tls", "none", "-o", "json")
        count = len(json.loads(cli(*wanted).stdout))
        sent = max(len(recording.down) for recording in proxy.recordings)
        proxy.arm(down=sent - 1000)  # another connection takes over
        assert len(json.loads(cli(*wanted).stdout)) == count
        proxy.arm(down=sent - 1000, for_good=True)
        result = cli(*wanted, code=3)
    assert 1000 <= result.stdout.count("Identifier") < count
    # half an answer is no JSON document
    with pytest.raises(ValueError):
        json.loads(result.stdout)
    said = json.loads(result.stderr)
    assert said["error"] == "DirectoryNotConnected"
    assert said["result"] == "DirectoryNotConnected"
    assert said["exit_code"] == 3
