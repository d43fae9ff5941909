"""Reports: bounded, escaped, the same for the same findings, and what they show is what was found."""

import random
import re
import xml.etree.ElementTree as ET
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.enterprises import report_world as world
from support.enterprises.rules_world import guid, link, source, tables

from mqdssm.errors import ConfigError
from mqdssm.pipeline.report import check_page, write_report
from mqdssm.pipeline.report.charts import SHORTEST, WIDTH, make_chart
from mqdssm.pipeline.report.layout import HEIGHT, place_nodes
from mqdssm.pipeline.report.page import CELL_CHARS_MAX, format_dn, format_value
from mqdssm.pipeline.report.picture import describe_counts, picture_of
from mqdssm.pipeline.report.topology import LinkEdge, SiteNode, Topology, tally, topology_of
from mqdssm.pipeline.report.validation import make_anchor

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}\u202e\x1b[31m\ud800'
VOID = {"meta", "br", "wbr", "input"}


class Balanced(HTMLParser):
    """Counts tags and texts, and fails where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        if "id" in found:
            self.ids.append(str(found["id"]))
        if "href" in found:
            self.links.append(str(found["href"]))
        assert "style" not in found  # the policy of the page forbids it
        assert not any(name.startswith("on") for name in found)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def report(folder: Path, count: int, *, hostile: str = "", sites: int = 20, name: str = "an export") -> str:
    sets = world.enterprise(folder, sites=sites, machines=50)
    findings = world.saved(folder, world.findings_of(count, hostile=hostile))
    path = folder / "report.html"
    write_report(path, world.summary_of(findings, sets, name=name), findings, sets)
    return path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_what_was_found_stands_in_it(tmp_path) -> None:
    text = report(tmp_path, 3000)
    page = Balanced(text)
    findings = world.findings_of(3000)
    for severity, called in (("error", "errors"), ("warning", "warnings")):
        count = sum(one.severity == severity for one in findings)
        assert f"{count:,} {called}" in text
    for rule in {one.rule for one in findings}:
        count = sum(one.rule == rule for one in findings)
        assert re.search(rf'id="rule-{rule}">.*{rule}.*{count:,}</h3>', text), rule
        assert f"#rule-{rule}" in page.links
    assert "the source is no directory" in text
    assert "2026-03-01 08:15:00 UTC" in text
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert "http" not in re.sub(r"\s", "", text.partition("<body>")[2])


def test_pictures_are_xml_with_words_for_those_who_do_not_see_them(tmp_path) -> None:
    for svg in re.findall(r'<svg class="(?:chart|picture)".*?</svg>', report(tmp_path, 500), re.DOTALL):
        root = ET.fromstring(svg)
        named = (root.get("aria-labelledby") or "").split()
        texts = {one.get("id"): one.text for one in root if one.tag in {"title", "desc"}}
        assert root.get("role") == "img"
        assert all(texts[name] for name in named)


def test_nothing_that_a_directory_holds_is_markup(tmp_path) -> None:
    text = report(tmp_path, 400, hostile=HOSTILE.replace("\ud800", ""), name=HOSTILE)
    page = Balanced(text)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert "&lt;script&gt;" in text
    assert "{{ 7*7 }}" in text
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert unescape(policy).startswith("default-src 'none'; style-src 'sha256-")  # and the browser's wall
    assert not set("\u202e\x1b\ud800") & set(text)


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.soak)])
@pytest.mark.slow
def test_many_findings_fit(tmp_path, count: int) -> None:
    long = "<&\"'>" * 100 + "漢字" * 200
    text = report(tmp_path, count, hostile=long, sites=600)
    assert len(text.encode()) < 2_000_000
    Balanced(text)
    assert "Of 600 sites" in text


def test_the_same_findings_give_the_same_report(tmp_path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    assert report(folders[0], 300) == report(folders[1], 300)


def test_no_finding_and_no_site(tmp_path) -> None:
    findings = world.saved(tmp_path, [])
    path = tmp_path / "report.html"
    write_report(path, world.summary_of(findings, {}), findings)
    text = path.read_text(encoding="utf-8")
    Balanced(text)
    assert "No findings." in text
    assert 'id="sites"' not in text


def test_a_file_that_cannot_be_written_is_said_before(tmp_path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        check_page(tmp_path / "no" / "report.html")
    with pytest.raises(ConfigError, match="is a folder"):
        check_page(tmp_path)


def test_a_report_replaces_the_old_one_or_leaves_it(tmp_path, monkeypatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    findings = world.saved(tmp_path, [])

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ConfigError, match="No space left"):
        write_report(path, world.summary_of(findings, {}), findings)
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".html" or "report" in one.name] == [
        "report.html"
    ]


@given(st.text())
def test_values_are_shown_in_one_line_that_is_seen(text) -> None:
    value = format_value(text)
    assert value.isprintable()
    assert text[:CELL_CHARS_MAX] == value or len(text) > CELL_CHARS_MAX or not text.isprintable()
    assert re.fullmatch(r"(?:[^<>]|<wbr>)*", str(format_dn(text)))


@given(st.text(min_size=1), st.text(min_size=1))
def test_anchors_are_plain_and_differ(one, other) -> None:
    assert re.fullmatch(r"[A-Za-z0-9-]+", make_anchor(one))
    assert (make_anchor(one) == make_anchor(other)) == (one == other)


# -- layout

EDGES = st.lists(
    st.tuples(st.integers(0, 24), st.integers(0, 24)).filter(lambda pair: pair[0] != pair[1]), max_size=60
)


@given(st.lists(st.floats(20, 160), min_size=25, max_size=25), EDGES)
def test_no_label_lies_on_another(widths, edges) -> None:
    found = place_nodes(widths, edges)
    for one in range(25):
        x, y = found.points[one]
        assert x - widths[one] / 2 >= -1
        assert x + widths[one] / 2 <= found.width + 1
        assert 0 <= y <= found.height
        for other in range(one):
            apart_x = abs(x - found.points[other][0]) - (widths[one] + widths[other]) / 2
            apart_y = abs(y - found.points[other][1]) - HEIGHT
            assert apart_x > -1 or apart_y > -1
    assert place_nodes(widths, edges) == found


@pytest.mark.slow
def test_no_label_lies_on_another_of_many() -> None:
    """As `test_pictures_and_charts_fit_their_box` sees in a browser, with 500 sites."""
    count, hubs = 250, range(12)
    chance = random.Random(1)
    widths = [chance.choice((40.0, 90.0, 158.0)) for _ in range(count)]
    edges = [(n, n + 1) for n in hubs[:-1]] + [(n, chance.choice(hubs)) for n in range(12, count)]
    found = place_nodes(widths, edges + [tuple(chance.sample(range(count), 2)) for _ in range(30)])
    rows = sorted(zip(found.points, widths, strict=True), key=lambda row: row[0][1])
    for at, ((x, y), width) in enumerate(rows):
        for (other_x, other_y), other in rows[at + 1 :]:
            if other_y - y >= HEIGHT - 1:
                break
            assert abs(x - other_x) > (width + other) / 2 - 1


def test_neighbours_are_nearer_than_strangers() -> None:
    points = place_nodes([30.0] * 12, [(n, n + 1) for n in range(11)]).points

    def apart(one: int, other: int) -> float:
        return ((points[one][0] - points[other][0]) ** 2 + (points[one][1] - points[other][1]) ** 2) ** 0.5

    assert max(apart(n, n + 1) for n in range(11)) < apart(0, 11) / 4


# -- topology and picture


def node(number: int, **own: int) -> SiteNode:
    return SiteNode(guid(number), f"site {number}", foreign=False, machines=number, own=own, of_machines={})


def test_sites_links_and_machines_are_counted(tmp_path) -> None:
    made = world.world_of(sites=30, machines=100)
    made["routing-link"] += [link(8000, 1000, 1000), link(8001, 1000, 1001)]
    sets = source(tmp_path, tables(made)).sets
    found = tally(world.saved(tmp_path, world.findings_of(2000)).read_batches())
    topology = topology_of(sets, found)
    assert sum(one.machines for one in topology.sites) == 100
    assert topology.loose == 2
    assert len(topology.links) + 2 == len(made["routing-link"])
    findings = world.findings_of(2000)
    for site in topology.sites:
        mine = [one for one in findings if one.type == "site" and one.guid == site.guid]
        assert sum(site.own.values()) == len(mine)
    machines = {one["Identifier"]: one["SiteIdentifierList"][0] for one in made["queue-manager"]}
    counts = {site.guid: sum(site.of_machines.values()) for site in topology.sites}
    for place in set(machines.values()):
        assert counts[place] == sum(
            one.type == "queue-manager" and machines.get(one.guid) == place for one in findings
        )


def test_of_too_many_sites_those_with_findings_and_their_neighbours_are_drawn() -> None:
    sites = tuple(
        node(n, **({"error": 1} if n == 50 else {"info": 1} if n == 80 else {})) for n in range(100)
    )
    links = tuple(LinkEdge(n, n + 1, 1, {}) for n in range(99))
    drawn = picture_of(Topology(sites, links, 0), sites_max=20)
    assert drawn is not None
    assert [one.label for one in drawn.nodes] == [f"site {n}" for n in (49, 50, 51, 79, 80, 81)]
    assert (drawn.sites, drawn.left_out, len(drawn.lines)) == (100, 94, 4)
    assert [one.severity for one in drawn.nodes] == ["fine", "error", "fine", "fine", "info", "fine"]
    small = picture_of(Topology(sites, links, 0), sites_max=2)
    assert small is not None
    assert "site 50" in {one.label for one in small.nodes}


def test_two_links_of_one_pair_are_two_curves_and_costs_stand_apart() -> None:
    links = (LinkEdge(0, 1, 5, {}), LinkEdge(1, 0, None, {"warning": 2}))
    drawn = picture_of(Topology((node(0), node(1)), links, 0))
    assert drawn is not None
    assert len({one.path for one in drawn.lines}) == 2
    assert {one.label for one in drawn.lines} == {"5", "?"}
    (first, last) = drawn.lines
    assert abs(first.x - last.x) + abs(first.y - last.y) > 10
    assert (last.severity, "2 warnings" in last.title) == ("warning", True)


@pytest.mark.parametrize("count", [5, 60])
def test_costs_stand_on_no_name_no_site_and_no_other_cost(count: int) -> None:
    chance = random.Random(count)
    pairs = {tuple(chance.sample(range(count), 2)) for _ in range(2 * count)}
    links = tuple(LinkEdge(one, other, chance.choice((1, 25, 99_999)), {}) for one, other in sorted(pairs))
    drawn = picture_of(Topology(tuple(node(n) for n in range(count)), links, 0))
    assert drawn is not None
    boxes = []
    for one in drawn.nodes:
        high = one.y - 8
        half = max(3.0 * len(one.label), one.radius)
        boxes.append((one.x - one.radius, high - one.radius, one.x + one.radius, high + one.radius))
        boxes.append((one.x - half, high + one.radius + 4, one.x + half, high + one.radius + 16))
    costs = [one for one in drawn.lines if one.has_room]
    assert len(costs) > len(links) / 2
    for one in costs:
        half = 3.0 * len(one.label)
        mine = (one.x - half, one.y - 5, one.x + half, one.y + 5)
        for box in boxes:
            assert not (mine[0] < box[2] and box[0] < mine[2] and mine[1] < box[3] and box[1] < mine[3])
        boxes.append(mine)


def test_words() -> None:
    assert describe_counts({}) == "no findings"
    assert describe_counts({"info": 1, "error": 1000}) == "1,000 errors, 1 note"


# -- charts


@given(st.dictionaries(st.text(), st.integers(0, 10**7), max_size=60))
def test_bars_are_as_long_as_their_numbers(numbers) -> None:
    made = make_chart(
        "c", "title", ((name, "", {"plain": count}) for name, count in numbers.items()), [("plain", "")]
    )
    wanted = {name: count for name, count in numbers.items() if count}
    if made is None:
        assert not wanted
        return
    assert len(made.bars) + made.left_out == len(wanted)
    totals = [bar.total for bar in made.bars]
    assert totals == sorted(wanted.values(), reverse=True)[: len(totals)]
    for bar in made.bars:
        (segment,) = bar.segments
        full = made.bars[0].segments[0].width
        assert segment.width == pytest.approx(max(SHORTEST, full * bar.total / totals[0]), abs=0.2)
        assert segment.x + segment.width <= WIDTH
