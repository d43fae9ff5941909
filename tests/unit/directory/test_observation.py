"""Observation of LDAP operations: what is counted and logged, and spans of a program that collects them."""

import logging
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.directory.search_requests import encode_search

from mqdssm.directory.channel import Channel, ConnectionBroken
from mqdssm.directory.filters import TRUE, encode
from mqdssm.directory.observation import KINDS, NO_ANSWER, OperationObserver, Outstanding
from mqdssm.directory.requests import (
    ChangeType,
    Modification,
    SearchScope,
    encode_add,
    encode_delete,
    encode_extended,
    encode_modify,
    encode_modify_dn,
    make_paged_control,
)

URL = "ldap://server"
NUMBERS = st.integers(1, 2**31 - 1)
NAMES = st.text(st.characters(codec="utf-8"), max_size=300).map(lambda text: f"CN={text}")
VALUE = st.binary(max_size=70_000)


@pytest.fixture
def debug(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG, "mqdssm.directory.operations"):
        yield caplog


@given(NUMBERS, NAMES, VALUE)
def test_each_request_is_recognized(number: int, name: str, value: bytes) -> None:
    """Kind, message id and name, whatever lengths their encodings have."""
    logger = logging.getLogger("mqdssm.directory.operations")
    requests = {
        "add": encode_add(number, name, {"cn": (value,)}),
        "modify": encode_modify(number, name, [Modification(ChangeType.REPLACE, "cn", (value,))]),
        "delete": encode_delete(number, name),
        "rename": encode_modify_dn(number, name, "CN=b"),
        "search": encode_search(number, name, SearchScope.SUBTREE, encode(TRUE), ("cn",)),
    }
    logger.setLevel(logging.DEBUG)
    try:
        for kind, request in requests.items():
            outstanding: Outstanding = {}
            OperationObserver().sent(outstanding, request, 0.0)
            ((found, sent),) = outstanding.items()
            assert (found, sent.kind, sent.name) == (number, kind, name)
        together: Outstanding = {}
        OperationObserver().sent(together, encode_delete(8, "CN=a") + requests["add"] * (number != 8), 0.0)
    finally:
        logger.setLevel(logging.NOTSET)
    assert {found: sent.kind for found, sent in together.items()} == {number: "add", 8: "delete"}
    assert set(KINDS.values()) == {*requests, "extended"}


def test_counts_and_names_are_those_of_the_operations(debug: pytest.LogCaptureFixture) -> None:
    observer, outstanding = OperationObserver(), Outstanding()
    paged = encode_search(
        1, "DC=a", SearchScope.SUBTREE, encode(TRUE), (), controls=(make_paged_control(10),)
    )
    observer.sent(outstanding, paged, 0.0)
    observer.sent(outstanding, encode_delete(2, "CN=\x1b[2J\n"), 0.0)
    observer.sent(outstanding, encode_extended(3, "1.2.3"), 0.0)
    observer.answered(outstanding, 2, 32, URL)
    observer.answered(outstanding, 1, 0, URL)
    observer.answered(outstanding, 9, 0, URL)
    observer.record_abandonment(outstanding, URL)
    observer.record_connection()
    assert outstanding == {}
    assert observer.value == 3
    counts = observer.counts
    assert counts.operations == {("search", 0): 1, ("delete", 32): 1, ("extended", NO_ANSWER): 1}
    assert (counts.pages, counts.connections) == (1, 1)
    lines = [record.getMessage().partition(",")[0] for record in debug.records]
    assert lines == [
        r"delete 'CN=\\x1b[2J\\n' at ldap://server: result 32",
        "search 'DC=a' at ldap://server: result 0",
        "extended '1.2.3' at ldap://server: no answer",
    ]


def test_values_are_never_shown(debug: pytest.LogCaptureFixture) -> None:
    observer, outstanding = OperationObserver(), Outstanding()
    observer.sent(outstanding, encode_add(1, "CN=a", {"unicodePwd": (b"very secret",)}), 0.0)
    observer.answered(outstanding, 1, 0, URL)
    assert "CN=a" in debug.text
    assert "secret" not in debug.text
    assert "unicodePwd" not in debug.text


def test_names_are_not_looked_at_unless_somebody_wants_them() -> None:
    outstanding: Outstanding = {}
    OperationObserver().sent(outstanding, encode_delete(1, "CN=a"), 0.0)
    assert outstanding[1].name == ""


def test_a_connection_that_ends_leaves_no_answer() -> None:
    mine, theirs = socket.socketpair()
    observer = OperationObserver()
    with closing(theirs):
        channel = Channel(mine, URL, 1, observer)
        channel.send(encode_delete(channel.choose_id(), "CN=a"), time.monotonic() + 5)
        theirs.close()
        with pytest.raises(ConnectionBroken):
            channel.receive(1, time.monotonic() + 5)
        channel.close()
    assert observer.counts.operations == {("delete", NO_ANSWER): 1}


class Trace:
    """The part of ``opentelemetry.trace`` that is used."""

    SpanKind = SimpleNamespace(CLIENT="client")
    StatusCode = SimpleNamespace(ERROR="error")

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []

    def get_tracer(self, name: str) -> Any:
        assert name == "mqdssm"
        return SimpleNamespace(start_span=self._start)

    @staticmethod
    def Status(code: str) -> str:  # noqa: N802  the name there
        return code

    def _start(self, name: str, **options: Any) -> Any:
        span = {"name": name, **options}
        self.spans.append(span)
        return SimpleNamespace(
            set_status=lambda status: span.update(status=status),
            end=lambda end_time: span.update(end=end_time),
        )


def test_spans_of_a_program_that_collects_them(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace()
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", trace)
    observer, outstanding = OperationObserver(), Outstanding()
    for number, code in enumerate((0, 32, 50), 1):
        observer.sent(outstanding, encode_delete(number, "CN=a"), 0.0)
        observer.answered(outstanding, number, code, URL)
    assert [span["name"] for span in trace.spans] == ["LDAP delete"] * 3
    assert [span.get("status") for span in trace.spans] == [None, None, "error"]
    assert all(span["start_time"] < span["end"] and span["kind"] == "client" for span in trace.spans)
    assert trace.spans[2]["attributes"] == {
        "db.system.name": "ldap",
        "db.operation.name": "delete",
        "ldap.dn": "CN=a",
        "ldap.result_code": 50,
        "url.full": URL,
    }


def test_nothing_is_imported_for_spans() -> None:
    assert "opentelemetry" not in sys.modules
