"""Headless Chromium: what it makes of a page, says on its console and asks the network for."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

CHROMIUM: Final = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium: make test-browser installs it"
)


@dataclass(frozen=True)
class Mark:
    """Node or line of the picture of a page: its tooltip, its severity and the texts beside it."""

    title: str
    severity: str
    texts: tuple[str, ...] = ()


class Page(HTMLParser):
    """The page as the browser has it after its scripts ran."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag == "a":
            self.links.append(str(found["href"]))

    def count(self, tag: str, kind: str = "") -> int:
        return sum(
            1 for one, attrs in self.tags if one == tag and kind in (attrs.get("class") or "").split(" ")
        )

    def picture(self) -> tuple[list[Mark], list[Mark]]:
        """The nodes and the lines of the picture; a line has the label of its place, if there is room."""
        (text,) = re.findall('<svg class="picture".*?</svg>', self.text, re.DOTALL)
        drawn = ET.fromstring(text)
        for element in drawn.iter():
            element.tag = element.tag.rpartition("}")[2]
        nodes = [
            Mark(
                node.findtext("title", ""),
                next(
                    shape.attrib["class"].removeprefix("shape ")
                    for shape in node
                    if shape.attrib.get("class", "").startswith("shape ")
                ),
                tuple(part.text or "" for part in node.iter("text")),
            )
            for node in drawn.iter("g")
            if node.attrib.get("class") == "node"
        ]
        labels = [part.text or "" for part in drawn.iter("text") if part.attrib.get("class") == "cost"]
        paths = list(drawn.iter("path"))
        assert len(labels) == len(paths)
        return nodes, [
            Mark(path.findtext("title", ""), path.attrib["class"], (label,))
            for path, label in zip(paths, labels, strict=True)
        ]


def opened(url: str, folder: Path, *more: str) -> tuple[Page, str, list[str]]:
    """The page, what the console said, and the addresses that were asked for.

    A page of a file is opened without any network, a page of a server without names.

    Args:
        url: of the page.
        folder: for the browser's files.
        more: options of the browser.
    """
    log = folder / "net.json"
    is_file = url.startswith("file:")
    alone = ["unshare", "--net"] if is_file and os.geteuid() == 0 and shutil.which("unshare") else []
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
    ]
    options += [
        "--disable-component-update",
        "--disable-sync",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ]
    options += [f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}", "--enable-logging=stderr"]
    done = subprocess.run(
        [*alone, str(CHROMIUM), *options, *more, "--dump-dom", url],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    console = [
        line for line in done.stderr.splitlines() if "CONSOLE" in line and "source: chrome://" not in line
    ]
    events = json.loads(log.read_text())["events"]
    asked = [str(one["params"]["url"]) for one in events if "url" in (one.get("params") or {})]
    return (
        Page(done.stdout),
        "\n".join(console),
        [url for url in asked if "192.0.2.1" in url],
    )


def title_in_frame(inner: str, folder: Path, width: int, *more: str) -> str:
    """The title that the script of a page gives it, in a frame: no window is as narrow as a telephone.

    Args:
        inner: text of the page; its policy is removed, so that the script of a test runs.
        folder: for the files.
        width: of the frame, pixels.
        more: options of the browser.
    """
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", inner)
    (folder / "inner.html").write_text(text, encoding="utf-8")
    path = folder / "outer.html"
    path.write_text(
        f'<iframe src="inner.html" style="width:{width}px;height:800px;border:0"></iframe><script>'
        "onload = () => { document.title = frames[0].document.title }</script>",
        encoding="utf-8",
    )
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]
    command += [f"--user-data-dir={folder / 'p'}", "--virtual-time-budget=20000", *more]
    done = subprocess.run(
        [*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=300, check=True
    )
    return str(re.findall("<title>(.*?)</title>", done.stdout)[0])
