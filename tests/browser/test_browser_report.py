"""Reports in headless Chromium: drawn, linked, silent, and without a network."""

import json
import subprocess

import pytest
from support.enterprises import machine_files
from support.enterprises import report_world as world
from support.enterprises.rules_world import source, tables
from support.project.browser import CHROMIUM, Page, needs_chromium, opened, title_in_frame

from mqdssm.pipeline.exposure import Exposure, write_exposure_page
from mqdssm.pipeline.inventory import Inventory, write_inventory_page
from mqdssm.pipeline.report import write_report

HOSTILE = ',CN=</title><script>document.title="owned"</script><img src=http://192.0.2.1/x onerror=alert(1)>'

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600), needs_chromium]


def check_links(page: Page) -> None:
    assert len(page.ids) == len(set(page.ids))
    assert page.links
    for link in page.links:
        assert link.startswith("#"), link
        assert link[1:] in page.ids


def test_the_report_of_a_large_validation(tmp_path) -> None:
    sets = world.enterprise(tmp_path, sites=120, machines=500)
    findings = world.saved(tmp_path, world.findings_of(100_000, hostile=HOSTILE))
    path = tmp_path / "report.html"
    write_report(path, world.summary_of(findings, sets, name=f"export{HOSTILE}"), findings, sets)
    page, console, asked = opened(path.as_uri(), tmp_path)
    assert console == ""
    assert asked == []
    check_links(page)
    assert page.count("figure", "chart") == 2
    assert page.count("rect", "error") > 10
    assert page.count("g", "node") == 120
    drawn = sets["routing-link"].rows - 1  # one link leads nowhere
    assert drawn / 2 < page.count("text", "cost") <= drawn  # those for which there is room
    assert page.count("path", "error") > 0
    assert page.count("img") == 0
    assert page.count("script") == 1
    assert page.count("input") >= 2  # the page's own script ran: its hash is the one that the policy allows


def test_the_log_of_the_network_shows_what_a_page_asks_for(tmp_path) -> None:
    """Without this the tests here could not fail."""
    path = tmp_path / "loud.html"
    path.write_text('<img src="http://192.0.2.1/x"><script>console.error("heard")</script>', encoding="utf-8")
    _, console, asked = opened(path.as_uri(), tmp_path)
    assert "heard" in console
    assert asked


def test_a_script_that_got_into_a_page_does_not_run(tmp_path) -> None:
    """The second wall behind escaping: the policy of the page."""
    findings = world.saved(tmp_path, world.findings_of(10))
    path = tmp_path / "report.html"
    write_report(path, world.summary_of(findings, {}), findings)
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace(
            "<footer>", '<script>document.body.id = "owned"</script><img src="http://192.0.2.1/x"><footer>'
        ),
        encoding="utf-8",
    )
    page, console, asked = opened(path.as_uri(), tmp_path)
    assert asked == []
    assert "owned" not in page.ids
    assert console.count("Content Security Policy") >= 2


MEASURE = """
const box = (one) => one.getBoundingClientRect();
const inside = (one, frame) => box(one).left >= box(frame).left - 1 && box(one).right <= box(frame).right + 1;
const pictures = [...document.querySelectorAll("svg.picture")];
const costs = [...document.querySelectorAll("text.cost")];
const names = [...document.querySelectorAll("text.name")];
const beside = (a, b) => a.left < b.right && b.left < a.right;
const meet = (a, b) => beside(a, b) && a.top + 2 < b.bottom - 2 && b.top + 2 < a.bottom - 2;
const bars = [...document.querySelectorAll("table.bars tr")];
document.title = JSON.stringify({
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  fits: pictures.every((one) => inside(one, one.closest(".frame"))),
  names: names.length,
  covered: names.filter((one, at) => names.slice(at + 1).some((other) => meet(box(one), box(other)))).length,
  overlaps: costs.filter((one) => names.some((other) => meet(box(one), box(other)))).length,
  bars: bars.length,
  small: bars.filter((one) => parseFloat(getComputedStyle(one.querySelector("th")).fontSize) < 11).length,
  cut: bars.filter((one) => box(one).right > document.documentElement.clientWidth + 1).length,
});
"""


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("sites", [5, 500])
def test_pictures_and_charts_fit_their_box(tmp_path, sites: int, width: int) -> None:
    sets = world.enterprise(tmp_path, sites=sites, machines=4 * sites)
    findings = world.saved(tmp_path, world.findings_of(2000))
    path = tmp_path / "report.html"
    write_report(path, world.summary_of(findings, sets), findings, sets)
    text = path.read_text(encoding="utf-8").replace("</body>", f"<script>{MEASURE}</script></body>")
    measured = json.loads(title_in_frame(text, tmp_path, width))
    assert measured.pop("bars") > 5
    assert measured.pop("names") == sites
    assert measured == {"wide": 0, "fits": True, "covered": 0, "overlaps": 0, "small": 0, "cut": 0}


def test_the_inventory(tmp_path) -> None:
    made = world.with_queues(world.world_of(60, 300), 2000)
    path = tmp_path / "inventory.html"
    write_inventory_page(path, Inventory(source(tmp_path, tables(made))))
    page, console, asked = opened(path.as_uri(), tmp_path)
    assert console == ""
    assert asked == []
    check_links(page)
    assert page.count("figure", "chart") >= 2
    assert page.count("input") == 4


def test_the_inventory_with_states_of_machines_and_the_exposure(tmp_path) -> None:
    files = tmp_path / "machines"
    files.mkdir()
    for number in range(40):
        queues = [machine_files.queue(f"private$\\q{n}", MessageCount=n) for n in range(20)]
        data = machine_files.as_json7(machine_files.state(f"m{number}", *queues))
        (files / f"{number}.json").write_bytes(data)
    made = world.with_queues(world.world_of(20, 60), 500)
    inventory = Inventory(source(tmp_path, tables(made)), added=[files])
    write_inventory_page(tmp_path / "inventory.html", inventory)
    write_exposure_page(tmp_path / "exposure.html", Exposure(inventory, {}, stale_days=90))
    for name, filters in (("inventory.html", 6), ("exposure.html", 2)):
        page, console, asked = opened((tmp_path / name).as_uri(), tmp_path)
        assert console == ""
        assert asked == []
        check_links(page)
        assert page.count("input") == filters


def test_it_prints(tmp_path) -> None:
    sets = world.enterprise(tmp_path, sites=40, machines=100)
    findings = world.saved(tmp_path, world.findings_of(5000))
    path, pdf = tmp_path / "report.html", tmp_path / "report.pdf"
    write_report(path, world.summary_of(findings, sets), findings, sets)
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'p'}",
    ]
    subprocess.run(
        [*command, f"--print-to-pdf={pdf}", path.as_uri()], check=True, timeout=300, capture_output=True
    )
    pages = pdf.read_bytes().count(b"/Type /Page\n") + pdf.read_bytes().count(b"/Type /Page ")
    assert 5 < pages < 80
