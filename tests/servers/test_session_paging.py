"""Paged searches on a real slapd: complete, streamed, or an error ([MS-MQDSSM] 3.1.6.15, decision M14)."""

import gc
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from support.servers import answers
from support.servers.proxy import Proxy, scripted_server
from support.servers.sessions import clear_text, container, options_for, scratch

from mqdssm.directory import searching
from mqdssm.directory import session as session_module
from mqdssm.directory.filters import TRUE
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.requests import SearchScope
from mqdssm.directory.session import Session
from mqdssm.errors import GenericDirectoryError
from mqdssm.testing.openldap import OpenLdapServer

CHILDREN = 40


@pytest.fixture(scope="module")
def proxy(openldap_server: OpenLdapServer) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", openldap_server.port) as running:
        yield running


@pytest.fixture
def session(openldap_server: OpenLdapServer, proxy: Proxy) -> Iterator[Session]:
    with Session.open(clear_text(openldap_server, proxy)) as opened:
        yield opened
    proxy.disarm()


@pytest.fixture(scope="module")
def family(openldap_server: OpenLdapServer) -> Iterator[str]:
    """A container with `CHILDREN` children of some size."""
    with Session.open(options_for(openldap_server)) as session, scratch(session) as place:
        for number in range(CHILDREN):
            session.add(f"CN=n{number:04},{place}", container(uuid4(), description=[b"x" * 200]))
        yield place


def names(session: Session, place: str, page_size: int) -> list[bytes | None]:
    found = session.find(place, TRUE, ["cn", "description"], SearchScope.ONE_LEVEL, page_size)
    return sorted((entry.first("cn") or b"") for entry in found)


ALL = [f"n{number:04}".encode() for number in range(CHILDREN)]


@pytest.mark.spec("MS-MQDSSM 3.1.6.15")
@pytest.mark.parametrize("page_size", [1, 7, CHILDREN - 1, CHILDREN, CHILDREN + 1, 1000])
def test_every_entry_once_whatever_the_page_size(session: Session, family: str, page_size: int) -> None:
    assert names(session, family, page_size) == ALL
    rows = session.rows(family, TRUE, ["cn"], scope=SearchScope.ONE_LEVEL, page_size=page_size)
    assert sorted(row[1] for row in rows) == ALL


def test_round_trips_grow_with_pages_not_entries(session: Session, family: str) -> None:
    for page_size, pages in ((1000, 1), (10, 4), (7, 6)):
        before = session.round_trips
        names(session, family, page_size)
        assert session.round_trips - before == pages


def test_slow_reader_is_not_read_ahead_for(
    session: Session, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a server sends to one who does not take it costs the connection (writetimeout)."""
    found = session.find(family, TRUE, ["cn"], SearchScope.ONE_LEVEL, 10)
    before = session.round_trips
    next(found)
    assert session.round_trips - before == 2  # the second page is on its way
    monkeypatch.setattr(searching, "FAST_READER_S", 0.0)
    for _ in range(10):
        next(found)
    assert session.round_trips - before == 2  # not the third: the reader was slow
    assert len(list(found)) == CHILDREN - 11


def test_large_pages_are_not_asked_for_ahead(
    session: Session, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the sockets do not take waits at the server, whose time limit runs while the reader pauses."""
    monkeypatch.setattr(searching, "AHEAD_BYTES_MAX", 1000)
    found = session.find(family, TRUE, ["cn", "description"], SearchScope.ONE_LEVEL, 10)
    before = session.round_trips
    for _ in range(10):
        next(found)
    assert session.round_trips - before == 1
    assert len(list(found)) == CHILDREN - 10


def test_several_searches_at_once_and_other_work_between(session: Session, family: str) -> None:
    """Each has a connection of its own: a server keeps one cookie a connection."""
    several = [session.find(family, TRUE, ["cn"], SearchScope.ONE_LEVEL, size) for size in (3, 5, 7)]
    got: list[list[bytes | None]] = [[], [], []]
    for step in range(CHILDREN):
        for found, into in zip(several, got, strict=True):
            into.append(next(found).first("cn"))
        assert session.references == 3 or step > CHILDREN - 8  # the last page needs no connection
        session.get(family, [])
    assert [next(found, None) for found in several] == [None, None, None]
    assert [sorted(one or b"" for one in into) for into in got] == [ALL, ALL, ALL]
    assert session.references == 0


def test_iterators_that_are_not_read_to_their_end(session: Session, family: str) -> None:
    closed = session.find(family, TRUE, ["cn"], SearchScope.ONE_LEVEL, 5)
    next(closed)
    closed.close()  # type: ignore[attr-defined]
    dropped = session.rows(family, TRUE, ["cn"], scope=SearchScope.ONE_LEVEL, page_size=5)
    next(dropped)
    assert session.references == 1
    del dropped
    gc.collect()
    assert session.references == 0
    for _ in session.find(family, TRUE, ["cn"], SearchScope.ONE_LEVEL, 5):
        break
    gc.collect()
    assert session.references == 0
    assert names(session, family, 5) == ALL


def test_never_started_iterator_takes_nothing(session: Session, family: str) -> None:
    before = session.round_trips
    session.find(family, TRUE, ["cn"])
    assert session.references == 0
    assert session.round_trips == before


class TestCutInTheMiddle:  # test_faults_listings has the rest
    def test_first_page_is_asked_for_again(self, session: Session, proxy: Proxy, family: str) -> None:
        """Nothing was handed out yet, so nothing can be doubled."""
        fault = proxy.arm(down=300)
        assert names(session, family, 1000) == ALL
        assert fault.struck.is_set()


class TestLimits:
    def test_ordinary_users_page_past_the_size_limit(self) -> None:
        with OpenLdapServer(durable=False, size_limit=5) as server:
            user, password = server.add_user("limited")
            with Session.open(options_for(server, user=user, password=password)) as session:
                assert len(list(session.find(server.base_dn, TRUE, [], page_size=2))) > 5

    @pytest.mark.spec("MS-MQDSSM 3.1.6.15")
    @pytest.mark.parametrize(("code", "words"), [(4, "size.prtotal"), (3, "time limit"), (11, "limit")])
    def test_cut_by_a_limit_is_an_error(self, code: int, words: str) -> None:
        def cut_short(number: int) -> bytes:
            return answers.entry(number, "CN=a") + answers.search_done(number, code)

        script = answers.conversation(answers.bind_done, answers.openldap_root_dse, cut_short)
        with scripted_server(script) as port:
            options = ConnectionOptions.of(f"ldap://127.0.0.1:{port}", tls="none")
            with Session.open(options) as session:
                found = session.find("dc=x", TRUE, [])
                with pytest.raises(GenericDirectoryError) as caught:
                    list(found)
        assert caught.value.ldap_code == code
        assert words in caught.value.hint

    @pytest.mark.parametrize(
        ("pages", "kind", "words"),
        [
            ([b"same", b"same", b"same"], GenericDirectoryError, "empty pages again"),
            ([b"%d" % number for number in range(1_002)], GenericDirectoryError, "empty pages again"),
            ([b"%d" % number for number in range(100)] + [b""], None, ""),
            ([None], None, ""),
        ],
        ids=["endless", "endless, with other cookies", "some empty pages", "control ignored"],
    )
    def test_servers_that_page_oddly(
        self, pages: list[bytes | None], kind: type[Exception] | None, words: str
    ) -> None:
        replies = [
            lambda number, cookie=cookie: answers.search_done(number, cookie=cookie) for cookie in pages
        ]
        script = answers.conversation(answers.bind_done, answers.openldap_root_dse, *replies)
        with scripted_server(script) as port:
            options = ConnectionOptions.of(f"ldap://127.0.0.1:{port}", tls="none", operation_timeout_s=2)
            with Session.open(options) as session:
                found = session.find("dc=x", TRUE, [])
                if kind is None:
                    assert list(found) == []
                    return
                with pytest.raises(kind, match=words):
                    list(found)

    @pytest.mark.spec("MS-MQDSSM 3.1.6.15")
    def test_the_time_limit_counts_for_each_page(
        self, session: Session, family: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Decision M58, with a limit of a second instead of two minutes."""
        monkeypatch.setattr(session_module, "SEARCH_TIME_LIMIT_S", 1)
        got = []
        for entry in session.find(family, TRUE, ["cn"], SearchScope.ONE_LEVEL, 10):
            got.append(entry.first("cn") or b"")
            if len(got) in {5, 15, 25}:
                time.sleep(0.8)
        assert sorted(got) == ALL

    def test_a_page_has_the_whole_limit_for_itself(
        self, openldap_server: OpenLdapServer, family: str
    ) -> None:
        """Time that the reader spends between pages does not count."""
        with Session.open(options_for(openldap_server, operation_timeout_s=0.5)) as session:
            found = session.find(family, TRUE, ["cn"], SearchScope.ONE_LEVEL, 15)
            got = []
            for entry in found:
                got.append(entry.first("cn"))
                if len(got) in {10, 25}:
                    time.sleep(0.6)
            assert sorted(one or b"" for one in got) == ALL
