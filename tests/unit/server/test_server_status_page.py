"""The status page: what it shows, and that names of others are never markup."""

import re
from html.parser import HTMLParser

import pytest
from support.replication.snapshots import NOW, acknowledgement, neighbor, partition, session, snapshot_of

from mqdssm.engines.replication.settings import Role
from mqdssm.server import status_page as module
from mqdssm.server.snapshot import KnownServer, Problem, ServerSnapshot, SiteSnapshot, StoreSnapshot
from mqdssm.server.status_page import picture_of_servers, render_status_page, span

HOSTILE = (
    "</title></style><script>alert(1)</script><img src=http://192.0.2.1/x onerror=alert(1)>\"'&amp;{{7*7}}"
)


class Tags(HTMLParser):
    """Tags and attributes of a page, and its visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def section(snapshot: ServerSnapshot, name: str) -> str:
    """The words of a section of the page."""
    page = render_status_page(snapshot).text
    part = re.search(f'<section id="{name}".*?</section>', page, re.DOTALL)
    assert part is not None
    return " ".join(" ".join(Tags(part[0]).texts).split())


def test_the_parts_of_the_page():
    snapshot = snapshot_of()
    page = render_status_page(snapshot)
    text = " ".join(" ".join(Tags(page.text).texts).split())
    assert "Directory server PEC" in text
    assert "The server works. Warnings: 1." in text
    assert "Own queues 12" in text
    assert "2026-11-22 20:30:00 UTC, 1 d ago" in text
    assert "PSC1 PSC Site1 3 0 17 0 s ago fine" in section(snapshot, "neighbors")
    assert "enterprise PEC (this server) 10 1 0 fine" in section(snapshot, "partitions")
    assert "Site0 (this server's) PEC PEC , BSC0 BSC Site1 PSC1 PSC" in section(snapshot, "sites")
    assert "PSC1 out OPEN 2" in section(snapshot, "transport")
    assert "SyncReplyMessage sent 5" in section(snapshot, "transport")
    assert "CreateObject 4 10,125.0 ms 40,000.0 ms" in section(snapshot, "store")
    assert "a message could not be verified from PSC1 3" in section(snapshot, "notes")
    assert "warning PSC PSC1 silent" in section(snapshot, "problems")


def test_nothing_is_loaded_from_elsewhere_and_only_its_own_script_may_run():
    page = render_status_page(snapshot_of())
    directives = dict(one.strip().split(" ", 1) for one in page.policy.split(";"))
    assert directives.keys() == {
        "default-src",
        "style-src",
        "script-src",
        "connect-src",
        "img-src",
        "base-uri",
        "form-action",
    }
    assert directives["default-src"] == directives["base-uri"] == directives["form-action"] == "'none'"
    assert directives["connect-src"] == "'self'"
    assert re.fullmatch(r"'sha256-[^']+'", directives["script-src"])
    assert re.fullmatch(r"'sha256-[^']+'", directives["style-src"])
    assert "http:" not in page.text
    assert "https:" not in page.text
    assert not re.search(r"(?:src|action)=", page.text.replace("default-src", "").replace("-src", ""))


def test_names_and_messages_of_others_are_no_markup():
    plain, hostile = render_status_page(snapshot_of()), render_status_page(snapshot_of(hostile=HOSTILE))
    expected, found = Tags(plain.text), Tags(hostile.text)
    assert sorted(set(found.tags)) == sorted(set(expected.tags))
    assert found.tags.count("script") == 1
    assert found.tags.count("style") == 1
    assert found.attributes == expected.attributes
    assert "{{7*7}}" in hostile.text
    assert hostile.policy == plain.policy


def test_invisible_characters_are_escaped():
    text = render_status_page(snapshot_of(hostile="\u202e\x1b[2J")).text
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "\\u202e\\x1b[2J" in text


def test_a_new_server_without_anything():
    page = render_status_page(
        snapshot_of(
            partitions=(), neighbors=(), sites=(), sessions=(), queues=(), messages=(), notes=(), problems=()
        )
    )
    text = " ".join(" ".join(Tags(page.text).texts).split())
    assert "The server works." in text
    assert "The directory has none yet." in text


def test_a_server_that_does_not_work():
    store = StoreSnapshot(is_reachable=False, waiting=1, failures=3, problem="slapd is away", operations=())
    problem = Problem(severity="error", subject="store", text="slapd is away")
    snapshot = snapshot_of(store=store, problems=(problem,))
    assert "The server does not do its work: see the problems." in render_status_page(snapshot).text
    assert "error slapd is away Waiting operations: 1." in section(snapshot, "store")
    drawing, _ = picture_of_servers(snapshot)
    assert drawing.nodes[0].severity == "error"


def test_states_of_partitions_and_neighbours():
    snapshot = snapshot_of(
        partitions=(
            partition(owner=""),
            partition(is_unfinished=True),
            partition(foreign=5),
            partition(state="SYNC0", missing=8),
        ),
        neighbors=(
            neighbor(problem="connection refused"),
            neighbor(machine_name="PSC2", acknowledgements=(acknowledgement(2000, is_alarm=True),)),
        ),
    )
    partitions = section(snapshot, "partitions")
    for words in ("warning none", "unfinished change", "5 changed by others", "8 note SYNC0"):
        assert words in partitions
    neighbors = section(snapshot, "neighbors")
    assert "not yet warning connection refused" in neighbors
    assert "2,000 not yet warning does not acknowledge" in neighbors


def test_long_tables_are_cut(monkeypatch):
    monkeypatch.setattr(module, "ROWS_MAX", 3)
    snapshot = snapshot_of(count=10)
    assert section(snapshot, "neighbors").endswith("7 more are not listed.")
    assert section(snapshot, "partitions").endswith("8 more are not listed.")
    assert "PSC9" not in section(snapshot, "sites")


# --- the picture


def test_the_picture_has_servers_roles_and_lag():
    drawing, servers = picture_of_servers(snapshot_of())
    assert servers == 4
    assert [(node.label, node.note, node.is_square) for node in drawing.nodes] == [
        ("PEC", "PEC · Site0", False),
        ("BSC0", "BSC · Site0", True),
        ("PSC1", "PSC · Site1", False),
        ("PSC2", "PSC · Site2", False),
    ]
    assert drawing.nodes[0].radius > drawing.nodes[2].radius > drawing.nodes[1].radius
    assert sorted(line.label for line in drawing.lines) == ["0", "3", "3"]


def test_a_neighbour_with_a_problem_is_marked():
    drawing, _ = picture_of_servers(
        snapshot_of(
            neighbors=(neighbor(), neighbor(machine_name="PSC2", problem="refused", waiting=1234, queued=56))
        )
    )
    assert {node.label: node.severity for node in drawing.nodes}["PSC2"] == "warning"
    (line,) = [line for line in drawing.lines if line.severity == "warning"]
    assert line.label == "1,290"
    assert line.title == "PSC2: 1,234 changes and 56 messages wait for it; refused"


def test_a_bsc_is_linked_with_its_psc():
    site = SiteSnapshot(
        site_id=partition().partition_id,
        name="Site1",
        is_ours=True,
        servers=(
            KnownServer(machine_name="psc1", role=Role.PEC),
            KnownServer(machine_name="BSC", role=Role.BSC),
        ),
    )
    snapshot = snapshot_of(
        machine_name="BSC",
        role=Role.BSC,
        psc_name="PSC1",
        neighbors=(),
        partitions=(partition(missing=7),),
        sites=(site,),
        psc_queued=2,
    )
    drawing, servers = picture_of_servers(snapshot)
    assert servers == 2
    assert [node.note[:3] for node in drawing.nodes] == ["BSC", "PEC"]
    assert [(line.label, line.severity) for line in drawing.lines] == [("7", "fine")]
    lost = snapshot.model_copy(update={"psc_problem": "refused"})
    drawing, _ = picture_of_servers(lost)
    assert [(line.label, line.severity) for line in drawing.lines] == [("7", "warning")]
    assert [node.severity for node in drawing.nodes] == ["fine", "warning"]
    assert "refused" in drawing.nodes[1].title
    assert "its PSC is PSC1 warning refused" in " ".join(
        " ".join(Tags(render_status_page(lost).text).texts).split()
    )


def test_of_too_many_servers_those_with_problems_are_drawn(monkeypatch):
    monkeypatch.setattr(module, "SERVERS_MAX", 3)
    neighbors = tuple(
        neighbor(machine_name=f"PSC{number}", problem="refused" if number == 7 else "") for number in range(9)
    )
    snapshot = snapshot_of(neighbors=neighbors, count=20)
    drawing, servers = picture_of_servers(snapshot)
    assert [node.label for node in drawing.nodes] == ["PEC", "PSC7", "PSC0"]
    assert len(drawing.lines) == 2
    assert f"{servers - 3} more servers are not drawn." in section(snapshot, "picture")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (59.9, "60 s"), (60, "1 min"), (3599, "59 min"), (7200, "2 h"), (200_000, "2 d")],
)
def test_spans(seconds, text):
    assert span(seconds) == text


def test_a_session_that_was_never_open():
    snapshot = snapshot_of(sessions=(session("PSC1", problem="refused"),), taken_at=NOW)
    assert "refused" in section(snapshot, "transport")
