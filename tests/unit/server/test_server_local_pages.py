"""Pages of a running directory server on its local port."""

import importlib.util
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from threading import Event

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.replication.live_servers import Enterprise
from support.replication.queue_managers import wait_until

from mqdssm.engines.replication.settings import Role
from mqdssm.errors import MissingPackageError
from mqdssm.server.http_server import HttpServer
from mqdssm.server.local_pages import CHECKED_S, HEALTH_S, HealthPage, pages_of
from mqdssm.server.snapshot_reader import SnapshotReader


@pytest.fixture
def enterprise() -> Iterator[Enterprise]:
    made = Enterprise()
    yield made
    made.close()


@pytest.fixture
def server(enterprise) -> Iterator[HttpServer]:
    pec = enterprise.server("PEC", Role.PEC, "Site0")
    wait_until(lambda: pec.driver.status().partitions)
    with HttpServer(pages_of(SnapshotReader(pec.server))) as made:
        yield made


def get(server: HttpServer, path: str) -> tuple[int, str, str]:
    """Status, content type and text of a page."""
    connection = HTTPConnection(*server.address, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.getheader("Content-Type", ""), text


def test_metrics(server):
    status, content_type, text = get(server, "/metrics")
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    (info,) = families["mqdssm_server_info"].samples
    assert info.labels["machine"] == "PEC"
    assert any(
        sample.labels == {"operation": "LoadState"} and sample.value == 1
        for sample in families["mqdssm_store_operation_seconds"].samples
        if sample.name.endswith("_count")
    )


def test_health_of_a_server_that_works_and_of_one_that_has_stopped(enterprise, server):
    status, content_type, text = get(server, "/health")
    assert (status, content_type) == (200, "application/json")
    assert json.loads(text) == {"status": "ok", "machine": "PEC", "role": "PEC", "problems": []}
    enterprise.servers.pop("PEC").stop()
    status, _, text = get(server, "/health")
    assert status == 503
    health = json.loads(text)
    assert health["status"] == "failed"
    assert [problem["subject"] for problem in health["problems"]] == ["server"]


@pytest.mark.parametrize("package", ["prometheus_client", "jinja2", "numpy"])
def test_a_missing_package_is_named_before_the_first_request(enterprise, monkeypatch, package):
    pec = enterprise.server("PEC", Role.PEC, "Site0")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(MissingPackageError, match=rf"package {package}: pip install 'mqdssm\[server\]'"):
        pages_of(SnapshotReader(pec.server))


class CountingReader:
    """Reader whose checks of the directory are counted, and take until they are released."""

    def __init__(self, reader: SnapshotReader) -> None:
        self.read, self.waits = reader.read, []
        self.begun, self.released = Event(), Event()

    def check_store(self, wait_s: float) -> None:
        self.waits.append(wait_s)
        self.begun.set()
        assert self.released.wait(30)


def test_the_directory_is_asked_once_in_a_while_and_nobody_waits_for_the_check_of_another(enterprise):
    pec = enterprise.server("PEC", Role.PEC, "Site0")
    wait_until(lambda: pec.driver.status().partitions)
    reader, now = CountingReader(SnapshotReader(pec.server)), 1000.0
    page = HealthPage(reader, clock=lambda: now)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(page.reply)
        assert reader.begun.wait(30)
        assert page.reply().status == 200  # while the first one waits
        reader.released.set()
        assert first.result(30).status == 200
    assert page.reply().status == 200
    assert reader.waits == [HEALTH_S]
    now += CHECKED_S
    page.reply()
    assert reader.waits == [HEALTH_S] * 2
