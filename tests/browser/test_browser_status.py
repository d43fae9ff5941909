"""The status page in headless Chromium: drawn, silent, refreshed, narrow and dark."""

import json
import re
import threading
from collections.abc import Iterator

import pytest
from support.project.browser import needs_chromium, opened, title_in_frame
from support.replication.snapshots import snapshot_of

from mqdssm.server.http_server import HttpReply, HttpServer
from mqdssm.server.local_pages import build_status_reply
from mqdssm.server.snapshot import ServerSnapshot
from mqdssm.server.status_page import render_status_page

HOSTILE = '</title><script>document.title="owned"</script><img src=http://192.0.2.1/x onerror=alert(1)>'

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600), needs_chromium]


class Site:
    """A server of the status page; every further request shows another snapshot."""

    def __init__(self) -> None:
        self.requests = 0
        self.snapshots: list[ServerSnapshot] = [snapshot_of()]
        self.change = lambda text: text
        self._lock = threading.Lock()
        self._server = HttpServer({"/": self._page})
        self.url = "http://{}:{}".format(*self._server.address)
        self.close = self._server.close

    def _page(self) -> HttpReply:
        with self._lock:
            snapshot = self.snapshots[min(self.requests, len(self.snapshots) - 1)]
            self.requests += 1
        reply = build_status_reply(snapshot)
        body = self.change(reply.body.decode()).encode()
        return HttpReply(body=body, content_type=reply.content_type, policy=reply.policy)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


def test_it_is_drawn_and_silent(site, tmp_path):
    site.snapshots = [snapshot_of(count=30, hostile=HOSTILE)]
    page, console, asked = opened(f"{site.url}/", tmp_path)
    assert console == ""
    assert asked == []
    assert page.count("g", "node") == 31
    assert page.count("path", "fine") == 30
    assert page.count("img") == 0
    assert page.count("script") == 1
    assert len(page.ids) == len(set(page.ids))
    assert page.links == ["/metrics", "/health"]


def test_it_refreshes_itself(site, tmp_path):
    site.snapshots = [snapshot_of(), snapshot_of(count=9)]
    page, console, _ = opened(f"{site.url}/", tmp_path, "--virtual-time-budget=7000")
    assert console == ""
    assert site.requests == 2
    assert page.count("g", "node") == 10
    assert page.count("main") == 1
    (lost,) = [attrs for tag, attrs in page.tags if attrs.get("id") == "lost"]
    assert "hidden" in lost


def test_it_says_that_the_server_does_not_answer(site, tmp_path):
    site.change = lambda text: text if site.requests == 1 else "no page"
    page, _, _ = opened(f"{site.url}/", tmp_path, "--virtual-time-budget=7000")
    assert site.requests == 2
    assert page.count("main") == 1
    (lost,) = [attrs for tag, attrs in page.tags if attrs.get("id") == "lost"]
    assert "hidden" not in lost


def test_a_script_that_got_into_the_page_does_not_run(site, tmp_path):
    """The second wall behind escaping, also when the page refreshes itself."""
    planted = (
        '<script>document.body.id = "owned"</script><img src="http://192.0.2.1/x" onerror="alert(1)"><h1>'
    )
    site.change = lambda text: text.replace("<h1>", planted)
    page, console, asked = opened(f"{site.url}/", tmp_path, "--virtual-time-budget=7000")
    assert asked == []
    assert "owned" not in page.ids
    assert console.count("Content Security Policy") >= 2


MEASURE = """
const box = (one) => one.getBoundingClientRect();
const all = (selector) => [...document.querySelectorAll(selector)];
const right = document.documentElement.clientWidth + 1;
const picture = box(document.querySelector("svg.picture"));
const frame = box(document.querySelector(".frame"));
const tables = all("table").filter((one) => !one.closest(".scroll"));
const sizes = all("td, th, dd, p").map((one) => parseFloat(getComputedStyle(one).fontSize));
document.title = JSON.stringify({
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  fits: picture.left >= frame.left - 1 && picture.right <= frame.right + 1,
  cut: tables.filter((one) => box(one).right > right).length,
  small: sizes.filter((size) => size < 11).length,
  paper: getComputedStyle(document.body).backgroundColor,
});
"""


@pytest.mark.parametrize("count", [3, 80])
@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_it_is_readable(tmp_path, count: int, width: int, dark: bool) -> None:
    text = render_status_page(snapshot_of(count=count, hostile="-" + "x" * 60)).text
    text = text.replace("</body>", f"<script>{MEASURE}</script></body>")
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    measured = json.loads(title_in_frame(text, tmp_path, width, scheme))
    paper = [int(one) for one in re.findall(r"\d+", measured.pop("paper"))]
    assert (sum(paper[:3]) < 150) is dark
    assert measured == {"wide": 0, "fits": True, "cut": 0, "small": 0}
