"""Queues as definitions of other brokers: names that come back, equal rights, escaped texts."""

import json
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.enterprises import machine_files
from support.enterprises.rules_world import OWNER, descriptor, queue, sound, tables
from support.spark.exports import write_export
from typer.testing import CliRunner

from mqdssm.cli.main import app
from mqdssm.cli.topology import BrokerName
from mqdssm.errors import ConfigError
from mqdssm.pipeline.inventory import open_source
from mqdssm.pipeline.topology import Broker, NameKind, SourceName, code_of, convert, load_names
from mqdssm.pipeline.topology.gaps import find_gaps
from mqdssm.pipeline.topology.model import BrokerQueue, QueueRights, QueueTopology, decode_rights
from mqdssm.pipeline.topology.names import NameTable
from mqdssm.pipeline.topology.rabbitmq import build_definitions
from mqdssm.pipeline.topology.servicebus import format_files, quote_text
from mqdssm.wire.acl import Ace, allow
from mqdssm.wire.masks import QueueAccess
from mqdssm.wire.sid import ANONYMOUS, AUTHENTICATED_USERS, EVERYONE, Sid

CLERKS = Sid("S-1-5-21-1-2-3-1104")
LEGAL = {  # the documented alphabets and lengths of the brokers
    Broker.RABBITMQ: re.compile(r"(?!amq\.)[A-Za-z0-9._-]{1,255}"),
    Broker.SERVICE_BUS: re.compile(r"(?=.{1,260}$)[A-Za-z0-9]([A-Za-z0-9._/~-]*[A-Za-z0-9])?"),
    Broker.ARTEMIS: re.compile(r"[^#*:,\s]{1,255}"),
    Broker.KAFKA: re.compile(r"(?!\.{1,2}$)[A-Za-z0-9.-]{1,249}"),
}
TEXTS = st.text(st.characters(), min_size=1, max_size=40) | st.text(
    "aB._-/$ ;h0ü\u20ac", min_size=1, max_size=130
)
SOURCES = st.one_of(
    st.builds(SourceName, st.sampled_from([one for one in NameKind if one.has_computer]), TEXTS, TEXTS),
    st.builds(SourceName, st.sampled_from([one for one in NameKind if not one.has_computer]), TEXTS),
)


@given(st.sampled_from(Broker), SOURCES)
def test_every_name_is_legal_and_comes_back(broker, source):
    code = code_of(broker)
    name = code.encode(source)
    assert LEGAL[broker].fullmatch(name)
    assert code.decode(name) in {source, None}
    if code.decode(name) is None:  # a hash: the name would have been too long
        assert len(name) > code.length_max - len("__XXXXXXXX" * 4)
    elif code.ignores_case:  # a service that shows another case shows no other name
        assert code.encode(source).casefold() == name.casefold()


@pytest.mark.slow
@settings(max_examples=200)
@given(st.sampled_from(Broker), st.lists(SOURCES, max_size=8, unique=True))
def test_no_two_names_are_one(broker, sources):
    code = code_of(broker)
    folded = [(one.kind, one.computer.lower(), one.name.lower()) for one in sources]
    different = [one for one, key in zip(sources, folded, strict=True) if folded.count(key) == 1]
    names = [code.encode(one) for one in (different if code.ignores_case else sources)]
    keys = [name.casefold() for name in names] if code.ignores_case else names
    assert len(set(keys)) == len(keys)


@given(
    st.sampled_from(Broker),
    st.text(max_size=60) | st.from_regex(r"(queue|account)\.[a-z0-9_.-]{0,40}", fullmatch=True),
)
def test_other_names_are_refused_or_decoded(broker, text):
    code = code_of(broker)
    try:
        source = code.decode(text)
    except ValueError:
        return
    assert source is None or isinstance(source, SourceName)


@pytest.mark.parametrize(
    ("broker", "source", "name"),
    [
        (Broker.RABBITMQ, ("queue", "orders", "web01"), "queue.web01.orders"),
        (Broker.RABBITMQ, ("queue", "a_b.c$", "web.01"), "queue.web_2E01.a__b.c_24"),
        (Broker.SERVICE_BUS, ("queue", "orders-", "web01"), "queue.web01.orders_2D"),
        (Broker.ARTEMIS, ("multicast", "234.1.2.3:80"), "multicast.234.1.2.3_3A80"),
        (Broker.KAFKA, ("deadletter", "web_01"), "deadletter.web-5F01"),
        (Broker.KAFKA, ("journal", "a-b", "web01"), "journal.web01.a--b"),
    ],
)
def test_names_look_like_names(broker, source, name):
    source = SourceName(NameKind(source[0]), *source[1:])
    assert code_of(broker).encode(source) == name
    assert code_of(broker).decode(name) == source


def test_two_names_with_one_code_are_refused():
    names = NameTable(code_of(Broker.SERVICE_BUS))
    names.encode(SourceName(NameKind.QUEUE, "orders", "web01"))
    with pytest.raises(ConfigError, match=r"WEB01\\orders and web01\\orders would both be named"):
        names.encode(SourceName(NameKind.QUEUE, "orders", "WEB01"))
    for empty in (("queue", "", "a"), ("queue", "a", ""), ("account", "a", "b")):
        with pytest.raises(ValueError, match="a part is missing or too much"):
            SourceName(NameKind(empty[0]), *empty[1:])


# -- definitions

SIDS = ["S-1-1-0", "S-1-5-7", CLERKS.text]
SIDS_OF = st.lists(st.sampled_from(SIDS), unique=True, max_size=3).map(tuple)
RIGHTS = st.builds(QueueRights, send=SIDS_OF, receive=SIDS_OF, peek=SIDS_OF, journal=SIDS_OF)
PATHS = st.builds("{}\\{}".format, st.sampled_from(["web01", "db.02", "x" * 300]), TEXTS)
QUOTAS = st.none() | st.integers(0, 2**42)


def built(path, **more):
    return st.builds(
        BrokerQueue,
        path=path,
        quota=QUOTAS,
        journal_quota=QUOTAS,
        journaling=st.booleans(),
        transactional=st.booleans(),
        multicast=st.sampled_from(["", "234.1.1.1:80", "234.1.1.2:80"]),
        rights=RIGHTS,
        **more,
    )


TOPOLOGIES = st.lists(built(PATHS), max_size=6, unique_by=lambda one: one.path.casefold()).map(
    lambda queues: QueueTopology("test", tuple(queues), {sid: sid for sid in SIDS})
)


@given(TOPOLOGIES)
def test_rabbitmq_grants_the_same_rights(topology):
    """A permission lets an account reach exactly the queues that it might reach."""
    names = NameTable(code_of(Broker.RABBITMQ))
    made = build_definitions(topology, names)
    queues = {one["name"] for one in made["queues"]}
    exchanges = {one["name"] for one in made["exchanges"]}
    assert len(queues) == len(made["queues"])
    for permission in made["permissions"]:
        source = names.code.decode(permission["user"])
        assert source is not None
        may_write = {name for name in exchanges if re.search(permission["write"], name)}
        may_read = {name for name in queues if re.search(permission["read"], name)}
        sent = {one for one in topology.queues if source.name in one.rights.send}
        received = {one for one in topology.queues if source.name in one.rights.receive}
        journals = {one for one in topology.queues if one.journaling and source.name in one.rights.journal}
        assert may_write == {_code(names, "queue", one) for one in sent}
        assert may_read == {_code(names, "queue", one) for one in received} | {
            _code(names, "journal", one) for one in journals
        }
        assert re.search(permission["configure"], "x") is None
    bound = {(one["source"], one["destination"]) for one in made["bindings"]}
    for one in topology.queues:
        name = _code(names, "queue", one)
        assert (name, name) in bound
        assert ((name, _code(names, "journal", one)) in bound) is one.journaling
        policies = [policy for policy in made["policies"] if re.search(policy["pattern"], name)]
        dead_letters = {policy["definition"]["dead-letter-exchange"] for policy in policies}
        assert dead_letters == {names.code.encode(SourceName(NameKind.DEAD_LETTER, one.computer))}
    json.dumps(made).encode("ascii")


def _code(names, kind, one):
    return names.code.encode(SourceName.of_path(NameKind(kind), one.path))


@given(st.text(max_size=40) | st.sampled_from(["${x}", "a'b\\c", "\n\t\x00", "$'{"]))
def test_strings_of_bicep(text):
    written = quote_text(text)
    assert written.isprintable()
    assert "${" not in re.sub(r"\\u\{[0-9a-f]+\}|\\.", "-", written)
    assert _read_bicep(written) == text


def _read_bicep(text: str) -> str:
    """Read a string of Bicep by its documented escapes."""
    found = re.fullmatch(r"'((?:\\u\{[0-9a-f]{1,6}\}|\\[\\'nrt$]|[^\\'\n])*)'", text, re.DOTALL)
    assert found, text
    return re.sub(
        r"\\u\{([0-9a-f]+)\}|\\(.)", lambda m: chr(int(m[1], 16)) if m[1] else m[2], found[1], flags=re.DOTALL
    )


def test_modules_of_bicep_are_small_enough():
    rights = QueueRights(send=tuple(SIDS), receive=tuple(SIDS), journal=tuple(SIDS))
    queues = tuple(
        BrokerQueue(path=f"web01\\q{n}", journaling=True, rights=rights, multicast="234.1.1.1:80")
        for n in range(150)
    )
    topology = QueueTopology("test", queues, {sid: sid for sid in SIDS})
    made = dict(format_files(topology, NameTable(code_of(Broker.SERVICE_BUS))))
    parts = [name for name in made if name.startswith("part-")]
    assert (len(parts), set(made) - set(parts)) == (3, {"multicast-000.bicep", "main.bicep"})
    for name in parts:
        assert sum(line.startswith("  { ") for line in made[name].splitlines()) < 800
        assert f"'{name}'" in made["main.bicep"]
    assert "dependsOn: [\n    part000\n    part001\n    part002\n  ]" in made["main.bicep"]
    sizes = re.findall(r"name: 'queue\.web01\.q0', size: (\d+)", made["part-000.bicep"])
    assert sizes == ["5120"]


# -- from an export


def world(folder: Path) -> Path:
    made = sound()
    rights = descriptor(
        Ace(1, 0, int(QueueAccess.PEEK_MESSAGE), CLERKS),
        allow(EVERYONE, QueueAccess.WRITE_MESSAGE),
        allow(CLERKS, QueueAccess.WRITE_MESSAGE | QueueAccess.RECEIVE_JOURNAL_MESSAGE),
        allow(OWNER, QueueAccess.GENERIC_ALL),
    )
    made["queue"] = [
        queue(80, "web01", "orders", Quota=100, Journaling=True, JournalQuota=0, Security=rights, Label="O"),
        queue(
            81,
            "web01",
            "a|b <x>&'$(y)",
            Transactional=False,
            MulticastAddress="234.1.1.1:80",
            Authentication=True,
        ),
        queue(82, "web01", "none", Security=b"x", PrivacyLevel="Body", Label=""),
        queue(83, "web01", "x", Pathname=None),
    ]
    write_export(folder, tables(made))
    return folder


def converted(folder: Path, broker: Broker):
    with open_source(world(folder / "export")) as source:
        return convert(source, broker, folder / "out"), folder / "out"


def test_the_model_of_an_export(tmp_path):
    result, out = converted(tmp_path, Broker.RABBITMQ)
    assert (result.queues, result.unreadable) == (3, 1)
    assert result.files == ("definitions.json", "names.json", "report.json", "report.md")
    gaps = {gap.feature.value: (gap.queues, gap.examples) for gap in result.gaps}
    assert gaps["transactional queue"][0] == 2
    assert gaps["authenticated messages"] == (1, ("web01\\a|b <x>&'$(y)",))
    assert gaps["encrypted messages"] == (1, ("web01\\none",))
    assert gaps["rights that cannot be read"] == (1, ("web01\\none",))
    assert gaps["rights of everybody"][0] == 2
    assert "quota" not in gaps  # RabbitMQ has one
    names = load_names(out)
    assert names["queue.web01.orders"] == SourceName(NameKind.QUEUE, "orders", "web01")
    rows = {row["name"]: row for row in json.loads((out / "names.json").read_text())["names"]}
    assert rows["queue.web01.orders"] == {
        "kind": "queue",
        "source": "web01\\orders",
        "name": "queue.web01.orders",
        "identifier": "00000000-0000-0000-0000-000000000050",
        "label": "O",
    }
    assert rows["account.Everyone"]["sid"] == "S-1-1-0"
    assert json.loads((out / "report.json").read_text()) == result.to_document()
    page = (out / "report.md").read_text()
    assert "web01\\\\a\\|b \\<x\\>\\&'\\$\\(y\\)" in page  # nothing of it is Markdown or HTML
    made = json.loads((out / "definitions.json").read_text())
    queues = {one["name"]: one["arguments"] for one in made["queues"]}
    assert queues["queue.web01.orders"] == {"x-max-length-bytes": 102_400, "x-overflow": "reject-publish"}
    assert queues["journal.web01.orders"] == {"x-max-length-bytes": 0, "x-overflow": "drop-head"}
    assert all("password" not in user for user in made["users"])
    assert {user["password_hash"] for user in made["users"]} == {""}
    with pytest.raises(ConfigError, match="is not empty"), open_source(tmp_path / "export") as source:
        convert(source, Broker.KAFKA, out)


def test_two_queues_with_one_path_name_are_refused(tmp_path):
    """Of two definitions with one name a broker takes one, and its arguments."""
    made = sound()
    made["queue"].append(queue(80, "web01", "orders"))
    write_export(tmp_path / "export", tables(made))
    words = r"path name web01\\orders: 00000000-0000-0000-0000-00000000003c and .*50; delete one"
    with open_source(tmp_path / "export") as source, pytest.raises(ConfigError, match=words):
        convert(source, Broker.RABBITMQ, tmp_path / "out")


def test_rights_follow_the_order_of_entries():
    first = descriptor(Ace(1, 0, 0x3, CLERKS), allow(CLERKS, QueueAccess.GENERIC_ALL))
    assert decode_rights(first) == QueueRights(send=(CLERKS.text,), refused=(CLERKS.text,))
    peeks = descriptor(allow(CLERKS, QueueAccess.PEEK_MESSAGE))
    assert decode_rights(peeks) == QueueRights(peek=(CLERKS.text,))
    everything = int(QueueAccess.GENERIC_ALL)
    for refused, sends in ((EVERYONE, ()), (AUTHENTICATED_USERS, (ANONYMOUS.text,))):
        shut = descriptor(Ace(1, 0, everything, refused), allow(CLERKS, 0x4), allow(ANONYMOUS, 0x4))
        assert decode_rights(shut) == QueueRights(send=sends, refused=(refused.text,))
    late = descriptor(allow(CLERKS, 0x4), Ace(1, 0, everything, EVERYONE))
    assert decode_rights(late).send == (CLERKS.text,)
    assert decode_rights(descriptor(dacl=False)).send == ("S-1-1-0",)
    assert (decode_rights(None).problem, decode_rights(b"x").problem) == (
        "no security descriptor",
        "no valid security descriptor",
    )


def test_a_queue_without_a_list_of_entries_is_open_to_everybody():
    open_queue = BrokerQueue(path="web01\\open", rights=decode_rights(descriptor(dacl=False)))
    shown = QueueTopology("test", (open_queue,), {EVERYONE.text: "Everyone"})
    features = {gap.feature.value for gap in find_gaps(shown, {})}
    assert "rights of everybody" in features
    assert "rights that cannot be read" not in features  # of which the report says that nobody gets rights


def test_artemis(tmp_path):
    _, out = converted(tmp_path, Broker.ARTEMIS)
    text = (out / "broker.xml").read_text()
    core = "{urn:activemq:core}"
    root = ET.fromstring(text)
    assert root.tag == "{urn:activemq}configuration"
    addresses = {one.get("name"): one for one in root.iter(f"{core}address") if one.get("name")}
    assert {"queue.web01.orders", "journal.web01.orders", "deadletter.web01"} <= set(addresses)
    assert addresses["multicast.234.1.1.1_3A80"].find(f"{core}multicast") is not None
    diverts = {
        (one.findtext(f"{core}address"), one.findtext(f"{core}forwarding-address"))
        for one in root.iter(f"{core}divert")
    }
    assert ("queue.web01.orders", "journal.web01.orders") in diverts
    assert ("multicast.234.1.1.1_3A80", code_of(Broker.ARTEMIS).encode(_other())) in diverts
    (orders,) = (
        one for one in root.iter(f"{core}security-setting") if one.get("match") == "queue.web01.orders"
    )
    roles = {one.get("type"): set((one.get("roles") or "").split(",")) for one in orders}
    owner = f"account.{OWNER.text}"
    assert roles == {
        "send": {"account.Everyone", f"account.{CLERKS.text}", owner},
        "consume": {owner},
        "browse": {owner},
    }


def _other() -> SourceName:
    return SourceName(NameKind.QUEUE, "a|b <x>&'$(y)", "web01")


def test_kafka(tmp_path):
    _, out = converted(tmp_path, Broker.KAFKA)
    lines = (out / "create-topics.sh").read_text().splitlines()
    calls = [line for line in lines if re.match(r"(topic|acl) ", line)]
    for line in calls:  # nothing in a name means something to a shell
        assert shlex.split(line) == line.split()
        assert not set("$`\\\"'|&;<>()*?[]{}~#!") & set(line)
    assert "topic queue.web01.orders --config retention.ms=-1 --config retention.bytes=1048576" in calls
    assert "topic multicast.234.1.1.1-3A80" in calls
    assert "acl account.Everyone WRITE topic queue.web01.orders" in calls


LOCAL = ("--engine", "local")  # other tests of the process may have a session of Spark


@pytest.mark.parametrize("broker", Broker)
def test_the_command(tmp_path, broker):
    export = world(tmp_path / "export")
    result = CliRunner().invoke(
        app, ["topology", str(export), "--for", broker.value, "--to", str(tmp_path / "out"), *LOCAL]
    )
    assert result.exit_code == 0, result.output
    assert re.search(
        r"^authenticated messages +1 +connections are authenticated", result.stdout, re.MULTILINE
    )
    assert "warning: 1 queues have no readable path name and are left out" in result.stderr
    assert "engine: local" in result.stderr
    again = CliRunner().invoke(
        app, ["topology", str(export), "--for", broker.value, "--to", str(tmp_path / "out"), *LOCAL]
    )
    assert (again.exit_code, "is not empty" in again.stderr) == (2, True) or again.exit_code == 6
    made = CliRunner().invoke(
        app,
        [
            "topology",
            str(export),
            "--for",
            broker.value,
            "--to",
            str(tmp_path / "json"),
            "-o",
            "json",
            *LOCAL,
        ],
    )
    assert json.loads(made.stdout) == json.loads((tmp_path / "json" / "report.json").read_text())
    assert json.loads(made.stdout)["engine"] == "local"


# -- private queues of machines


def machines(folder: Path) -> Path:
    """Write what two machines say about themselves, and a broken file."""
    folder.mkdir()
    orders = machine_files.queue(
        r"private$\orders",
        Label="Private orders",
        MaximumQueueSize=200,
        UseJournalQueue=True,
        Transactional=True,
        Authenticate=True,
        EncryptionRequired="Body",
    )
    system = machine_files.queue(r"private$\order_queue$")
    public = machine_files.queue("orders")
    first = machine_files.state("web01", orders, system, public)
    alone = machine_files.state("nowhere", machine_files.queue(r"private$\a b"))
    (folder / "first.json").write_bytes(machine_files.as_json7(first))
    (folder / "alone.json").write_bytes(machine_files.as_json51(alone))
    (folder / "broken.json").write_bytes(b"{")
    return folder


def test_private_queues_of_machines_are_converted_too(tmp_path):
    added = machines(tmp_path / "machines")
    out = tmp_path / "out"
    with open_source(world(tmp_path / "export")) as source:
        result = convert(source, Broker.RABBITMQ, out, [added])
    assert (result.queues, len(result.private.queues)) == (5, 2)
    (problem,) = result.private.problems
    assert problem.file.endswith("broken.json")
    made = json.loads((out / "definitions.json").read_text())
    queues = {one["name"]: one["arguments"] for one in made["queues"]}
    private = "web01.private_24_5Corders"  # the computer has the name that its public queues have
    assert queues[f"queue.{private}"] == {"x-max-length-bytes": 204_800, "x-overflow": "reject-publish"}
    assert queues[f"journal.{private}"] == {}
    assert "queue.NOWHERE.private_24_5Ca_20b" in queues
    assert not [name for name in queues if "order_queue" in name or "WEB01" in name]
    assert len([name for name in queues if name.startswith("deadletter.")]) == 2
    assert load_names(out)[f"queue.{private}"] == SourceName(NameKind.QUEUE, r"private$\orders", "web01")
    gaps = {gap.feature.value: gap.examples for gap in result.gaps}
    path = r"web01\private$\orders"
    assert path in gaps["encrypted messages"]
    assert path in gaps["authenticated messages"]
    assert path in gaps["rights that cannot be read"]
    assert not [rule for rule in made["permissions"] if "private" in rule["write"] + rule["read"]]


def test_two_machines_with_one_name_have_private_queues_of_one_name(tmp_path):
    queues = [machine_files.queue(r"private$\q")]
    folder = tmp_path / "machines"
    folder.mkdir()
    for number in (1, 2):
        identifier = f"00000000-0000-0000-0000-00000000000{number}"
        made = machine_files.state(
            "twin", *queues, Identifier=identifier, DnsHostName=f"twin.d{number}.example.com"
        )
        (folder / f"{number}.json").write_bytes(machine_files.as_json7(made))
    with (
        open_source(world(tmp_path / "export")) as source,
        pytest.raises(ConfigError, match="two machines with"),
    ):
        convert(source, Broker.KAFKA, tmp_path / "out", [folder])


def test_the_command_adds_machines_and_names_files_that_it_cannot_read(tmp_path):
    export, added = world(tmp_path / "export"), machines(tmp_path / "machines")
    command = ["topology", str(export), "--for", "kafka", "--add", str(added), "--to"]
    result = CliRunner().invoke(app, [*command, str(tmp_path / "out")])
    assert result.exit_code == 1, result.output
    assert re.search(r"error: not added: \S+broken.json: line 1", result.stderr)
    assert "5 queues, 2 of them private" in result.stderr
    made = CliRunner().invoke(app, [*command, str(tmp_path / "json"), "-o", "json", *LOCAL])
    document = json.loads(made.stdout)
    assert (document["private"], list(document["not_added"])) == (2, [str(added / "broken.json")])
    absent = CliRunner().invoke(app, [*command, str(tmp_path / "x"), "--add", str(tmp_path / "absent")])
    assert (absent.exit_code, "does not exist" in absent.stderr) == (2, True)


def test_the_command_line_has_all_brokers():
    assert [one.value for one in BrokerName] == [one.value for one in Broker]
