"""create, read, list, write, delete, resolve and schema on real servers: exact output, exact exit codes."""

import base64
import json
import re
from uuid import UUID, uuid4

import pytest


def domain_of(server):
    """The DNS name of the servers' domain."""
    return ".".join(part.partition("=")[2] for part in server.base_dn.split(","))


GUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2")
def test_create_queue_tells_its_guid(cli, machine, plain):
    shown = cli("create", "queue", rf"Pathname={machine.name}\orders", "Label=Orders", "Quota=100").stdout
    assert re.fullmatch(rf"created queue ({GUID})\n", shown)
    entry = plain.entry(f"cn=orders,{machine.dn}", "objectGUID", "mSMQLabelEx", "mSMQQueueQuota")
    assert UUID(bytes_le=entry["objectGUID"][0]) == UUID(shown.split()[-1])
    assert entry["mSMQLabelEx"] == [b"Orders"]
    assert entry["mSMQQueueQuota"] == [b"100"]


@pytest.mark.spec("MS-MQDSSM 3.1.6.3")
def test_read_shows_every_attribute_for_people(cli, machine, server, kind):
    cli(
        "create", "queue", rf"Pathname={machine.name}\shown", "Label=Größe", "PrivacyLevel=Body",
        "Security=D:(A;;0x3f;;;WD)", "BasePriority=-5", "Transactional=true",
    )  # fmt: skip
    shown = cli("read", "queue", rf"Pathname={machine.name}\shown").stdout
    lines = dict(re.split(r" {2,}", line, maxsplit=1) for line in shown.splitlines() if "  " in line)
    guid, created, modified = lines.pop("Identifier"), lines.pop("CreateTime"), lines.pop("ModifyTime")
    assert re.fullmatch(GUID, guid)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", one) for one in (created, modified))
    owner, _, dacl = lines.pop("Security").partition("D:")
    assert dacl == "(A;;0x0000003f;;;WD)"
    assert bool(owner) is kind.makes_descriptors
    path = f"cn=shown,{machine.dn}"
    assert lines == {
        "Label": "Größe",
        "Type": "00000000-0000-0000-0000-000000000000",
        "Pathname": rf"{machine.name}\shown",
        "QualifiedPathname": rf"{machine.name}.{domain_of(server)}\shown",
        "Journaling": "false",
        "Quota": "4294967295",
        "JournalQuota": "4294967295",
        "Authentication": "false",
        "PrivacyLevel": "Body",
        "Transactional": "true",
        "BasePriority": "-5",
        "FullPath": lines["FullPath"],
        "DirectoryPath": f"LDAP://{lines['FullPath']}",
    }
    assert lines["FullPath"].lower() == path.lower()
    assert shown.splitlines()[-1].startswith("DirectoryPath")


def test_read_as_json_has_the_models_form(cli, machine):
    made = cli.json("create", "queue", rf"Pathname={machine.name}\j", "PrivacyLevel=Body", "Quota=7")
    assert list(made) == ["Identifier"]
    names = "Identifier,PrivacyLevel,Quota,CreateTime"
    read = cli.json("read", "queue", f"Identifier={made['Identifier']}", "--attributes", names)
    assert read["Identifier"] == made["Identifier"]
    assert read["PrivacyLevel"] == "Body"
    assert read["Quota"] == 7
    assert isinstance(read["CreateTime"], int)
    assert set(read) == set(names.split(","))


def test_the_enterprise_needs_no_name(cli, server):
    name = cli.json("read", "enterprise", "-a", "Name")["Name"]
    assert name.lower() == server.base_dn.lower()


@pytest.mark.spec("MS-MQDSSM 3.1.6.4")
def test_list_is_a_table_for_people_and_an_array_for_programs(cli, machine):
    label = f"Label=L{machine.name}"
    for number in (1, 2, 3):
        cli("create", "queue", rf"Pathname={machine.name}\q{number}", f"Quota={number}", label)
    wanted = ("list", "queue", "-f", f"Label==L{machine.name}", "--sort", "-Quota")
    result = cli(*wanted, "-a", "Pathname,Quota")
    width = len(machine.name) + 3
    rows = [rf"{machine.name}\q{number}  {number}" for number in (3, 2, 1)]
    assert result.stdout == "\n".join([f"{'Pathname':{width}}  Quota", *rows, ""])
    assert result.stderr == "3 queues\n"
    listed = cli.json(*wanted)
    assert [one["Quota"] for one in listed] == [3, 2, 1]
    assert {"Identifier", "Security", "FullPath"} <= set(listed[0])
    text = cli(*wanted, "-a", "Quota", "-o", "json").stdout
    assert text == '[\n{"Quota":3},\n{"Quota":2},\n{"Quota":1}\n]\n'
    assert [one["Quota"] for one in cli.json(*wanted, "--limit", "2")] == [3, 2]


def test_list_of_nothing_is_an_empty_array(cli):
    assert cli("list", "queue", "-f", f"Label=={uuid4()}", "-o", "json").stdout == "[]\n"
    assert cli("list", "queue", "-f", f"Label=={uuid4()}").stdout == ""


def test_list_with_several_filters_and_operators(cli, machine):
    label = f"Label={machine.name}"
    for number in range(1, 6):
        cli("create", "queue", rf"Pathname={machine.name}\n{number}", f"Quota={number}", label)
    wanted = (f"Label == {machine.name}", "Quota>1", "Quota<=4", "Quota!=3", "CreateTime>=2020-01-01")
    filters = [part for one in wanted for part in ("--filter", one)]
    found = cli.json("list", "queue", *filters, "--sort", "Quota", "-a", "Quota")
    assert found == [{"Quota": 2}, {"Quota": 4}]


def test_list_and_read_with_patterns_and_joined_filters(cli, machine):
    for number in (1, 2, 3):
        cli(
            "create",
            "queue",
            rf"Pathname={machine.name}\p{number}",
            f"Quota={number}",
            f"Label=Paid {number}*",
        )
    cli("create", "queue", rf"Pathname={machine.name}\bare")

    def found(expression: str) -> list[str]:
        wanted = ("list", "queue", "--machine", machine.name.upper(), "--filter", expression)
        listed = cli.json(*wanted, "--sort", "Pathname", "-a", "Pathname")
        assert cli.json(*wanted, "--count") == {"count": len(listed)}
        return [one["Pathname"].rpartition("\\")[2] for one in listed]

    assert found("Label==paid*") == ["p1", "p2", "p3"]
    assert found('Label==*" 2*"') == ["p2"]
    assert found("Label==*1*||Label==*3*") == ["p1", "p3"]
    assert found("Label==*") == ["p1", "p2", "p3"]
    assert found("Label!=*") == ["bare"]
    assert found("!(Label==Paid* && Quota>1)") == ["bare", "p1"]
    assert found(rf"Pathname=={machine.name}\p* && Quota!=2") == ["p1", "p3"]
    assert found('Label=="*"') == []
    assert cli("list", "queue", "--machine", machine.name, "--count").stdout == "4\n"
    assert cli("list", "queue-manager", "--machine", machine.name, "--count").stdout == "1\n"
    pathname = rf"{machine.name}\p2"
    assert cli.json("read", "queue", "-f", f"Pathname=={pathname}", "-f", "Label==*2*", "-a", "Quota") == {
        "Quota": 2
    }
    assert "there is no Queue with" in cli.error(
        "read", "queue", "-f", f"Label=={uuid4()}* || Quota==77", code=4
    )


def test_lists_of_machines_that_are_none(cli, alone):
    assert "ComputerName" in cli.error("list", "queue", "--machine", "no-such-machine", code=4)
    assert "--machine goes with queue and queue-manager" in alone.error(
        "list", "site", "--machine", "x", code=2
    )
    for option in (("--sort", "Label"), ("-a", "Label"), ("--limit", "1")):
        assert "--count prints a number" in alone.error("list", "queue", "--count", *option, code=2)


def test_lists_filter_by_membership(cli, machine):
    site = cli.json("read", "site", f"Name={machine.site}", "-a", "Identifier")["Identifier"]
    found = cli.json("list", "queue-manager", "-f", f"SiteIdentifierList=={site}", "-a", "ComputerName")
    assert found == [{"ComputerName": machine.name}]


@pytest.mark.spec("MS-MQDSSM 3.1.6.7")
def test_write_changes_what_is_named_and_nothing_else(cli, machine, plain):
    path = rf"Pathname={machine.name}\w"
    cli("create", "queue", path, "Label=old", "Quota=5")
    before = plain.entry(f"cn=w,{machine.dn}")
    assert (
        cli("write", "queue", path, "Label=new", "Journaling=true").stdout
        == "written queue: Label, Journaling\n"
    )
    after = plain.entry(f"cn=w,{machine.dn}")
    assert after.pop("mSMQLabelEx") == [b"new"]
    assert after.pop("mSMQJournal") == [b"TRUE"]
    assert before.pop("mSMQLabelEx") == [b"old"]
    before.pop("mSMQJournal", None)
    assert after == before
    assert cli.json("write", "queue", path, "Quota=6") == {"written": ["Quota"]}


def test_write_of_the_enterprise_finds_it(cli, plain, server):
    dn = f"cn=MsmqServices,cn=Services,cn=Configuration,{server.base_dn}"
    cli("write", "enterprise", "DefaultTimeToLive=1234")
    assert plain.entry(dn)["mSMQLongLived"] == [b"1234"]
    cli("write", "enterprise", "DefaultTimeToLive=345600")


def test_values_from_files_and_lists(cli, machine, plain, tmp_path):
    second = cli.json("create", "site", f"Name=T{machine.name}")["Identifier"]
    first = cli.json("read", "site", f"Name={machine.site}", "-a", "Identifier")["Identifier"]
    blob = tmp_path / "keys"
    blob.write_bytes(b"\x00\x01\x02")
    name = f"ComputerName={machine.name}"
    cli(
        "write",
        "queue-manager",
        name,
        f"SiteIdentifierList={first},{second}",
        f"PublicEncryptionKeyList=@{blob}",
    )
    entry = plain.entry(machine.dn)
    assert sorted(entry["mSMQSites"]) == sorted(UUID(one).bytes_le for one in (first, second))
    assert entry["mSMQEncryptKey"] == [b"\x00\x01\x02"]
    cli("write", "queue-manager", name, f"SiteIdentifierList={second}", f"SiteIdentifierList={first}")
    assert len(plain.entry(machine.dn)["mSMQSites"]) == 2
    cli("write", "queue-manager", name, f"SiteIdentifierList={first}", "PublicEncryptionKeyList=AAEC")
    cli("delete", "site", f"Name=T{machine.name}")


@pytest.mark.spec("MS-MQDSSM 3.1.6.2")
def test_delete_by_every_kind_of_name(cli, machine, plain):
    dn = f"cn=d,{machine.dn}"
    path = rf"{machine.name}\d"
    for key in ("Pathname", "Identifier", "FullPath", "DirectoryPath"):
        cli("create", "queue", f"Pathname={path}")
        value = cli.json("read", "queue", f"Pathname={path}", "-a", key)[key]
        shown = cli("delete", "queue", f"{key}={value}").stdout
        assert shown == f"deleted queue {key}={value}\n"
        assert not plain.exists(dn)
    assert "there is no queue" in cli.error("delete", "queue", f"Pathname={path}", code=4)


def test_delete_of_a_queue_manager_with_queues(cli, machine, server, plain):
    server.add_computer(f"x{machine.name}")
    site = cli.json("read", "site", f"Name={machine.site}", "-a", "Identifier")["Identifier"]
    name = f"ComputerName=x{machine.name}"
    cli("create", "queue-manager", name, f"SiteIdentifierList={site}")
    cli("create", "queue", rf"Pathname=x{machine.name}\q")
    dn = f"cn=msmq,cn=x{machine.name},cn=Computers,{server.base_dn}"
    cli.error("delete", "queue-manager", name, code=6)
    assert plain.exists(f"cn=q,{dn}")
    assert cli.json("delete", "queue-manager", name, "--recursive") == {"deleted": name}
    assert not plain.exists(dn)


@pytest.mark.spec("MS-MQDSSM 3.1.6.8")
@pytest.mark.spec("MS-MQDSSM 3.1.6.9")
def test_resolve(cli, machine, plain, server):
    queue = cli.json("create", "queue", rf"Pathname={machine.name}\r")["Identifier"]
    alias, group = (f"CN={one}-{machine.name},CN=Users,{server.base_dn}" for one in ("alias", "list"))
    target, guid = r"DIRECT=OS:m\private$\q", uuid4()
    plain.add(
        alias,
        {
            "objectClass": ["top", "msMQ-Custom-Recipient"],
            "objectGUID": uuid4().bytes_le,
            "msMQ-Recipient-FormatName": target,
        },
    )
    members = [alias, f"cn=r,{machine.dn}"]
    plain.add(group, {"objectClass": ["top", "group"], "objectGUID": guid.bytes_le, "member": members})
    plain.modify(group, f"add: member\nmember: {group}")  # a list that contains itself
    try:
        assert cli("resolve", "alias", alias).stdout == f"{target}\n"
        assert cli.json("resolve", "alias", alias) == {"format_name": target}
        name = f"DL={guid}"
        expected = [target, f"PUBLIC={queue.upper()}"]
        assert (
            sorted(cli.json("resolve", "list", name)) == expected
        )  # Samba keeps members in an order of its own
        result = cli("resolve", "list", name)
        assert (sorted(result.stdout.splitlines()), result.stderr) == (expected, "2 queues\n")
    finally:
        plain.delete(alias, group)


def test_what_a_directory_holds_steers_no_terminal(cli, machine, plain):
    cli("create", "queue", rf"Pathname={machine.name}\e", "Label=x")
    evil = "\x1b]0;owned\x07\x1b[31m[red]\n"
    label = f"cn=e,{machine.dn}"
    plain.modify(label, f"replace: mSMQLabelEx\nmSMQLabelEx:: {base64.b64encode(evil.encode()).decode()}\n")
    shown = cli("list", "queue", "-f", f"FullPath=={label}", "-a", "Label").stdout
    assert shown.splitlines()[1] == r"\x1b]0;owned\x07\x1b[31m[red]\n"
    read = cli("read", "queue", f"FullPath={label}", "-a", "Label").stdout
    assert read == "Label  \\x1b]0;owned\\x07\\x1b[31m[red]\\n\n"
    assert json.loads(cli("read", "queue", f"FullPath={label}", "-a", "Label", "-o", "json").stdout) == {
        "Label": evil
    }


def test_options_stand_before_or_behind_the_command(cli, server, machine):
    access = ("--user", server.user, "--ca-file", server.ca_file)
    for before, behind in (((), access), (access, ()), (access[:2], access[2:])):
        wanted = (*before, "read", "site", f"Name={machine.site}", *behind, "-a", "Name")
        url = ("--url", server.ldaps_url)
        overridden = {"MQDSSM_URL": "ldap://127.0.0.1:1", "MQDSSM_USER": None, "MQDSSM_CA_FILE": None}
        found = cli(*wanted, *url, **overridden)
        assert found.stdout == f"Name  {machine.site}\n"
    shown = cli("-o", "json", "read", "site", f"Name={machine.site}", "-a", "Name", "-o", "table").stdout
    assert shown == f"Name  {machine.site}\n"


def test_the_owner_of_a_local_socket_needs_no_password(cli, openldap_server):
    nobody = {"MQDSSM_USER": None, "MQDSSM_PASSWORD": "left-over", "MQDSSM_URL": openldap_server.ldapi_url}
    assert cli("read", "enterprise", "-a", "Name", **nobody).stdout == "Name  dc=example,dc=com\n"


def test_the_schema_of_a_server_is_ours(cli):
    url = cli.environment["MQDSSM_URL"]
    assert cli("schema", "check").stdout == f"{url}: the schema is as it must be\n"
    assert cli.json("schema", "check") == {"server": url, "differences": []}


def test_the_schema_of_a_server_lacks_what_replication_needs(cli):
    found = cli.json("schema", "check", "--replication", code=1)["differences"]
    assert {"subject": "class mqisNumbered", "problem": "is missing", "serious": True} in found
    assert all("mqis" in one["subject"] for one in found)
    shown = cli("schema", "check", "--replication", code=1)
    assert "replication-config | ldapadd" in shown.stderr


def test_doctor_is_content_with_a_server_that_holds_a_queue(cli, machine):
    """What each kind of server is told in particular: test_cli_doctor, test_cli_doctor_samba."""
    cli("create", "queue", rf"Pathname={machine.name}\healthy")
    found = cli.json("doctor", "--at", rf"{machine.name}\healthy")
    assert found["connected"] is True
    # OpenLDAP's base tree has no descriptor of the enterprise, which is worth a warning
    assert {one["state"] for one in found["findings"] if one["name"] != "enterprise"} == {"ok"}
    rights = " ".join(one["text"] for one in found["findings"] if one["name"] in {"rights", "event rights"})
    assert f"cn=healthy,{machine.dn}".lower() in rights.lower()
    said = cli.json("doctor", "--at", "nowhere", code=1)["findings"]
    assert any("there is no computer named 'nowhere'" in one["text"] for one in said)
