"""A listing whose server goes away in the middle: nothing is lost, nothing comes twice (decision M72)."""

import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import UUID, uuid4

import pytest
from support.servers import answers
from support.servers.proxy import Proxy, scripted_server
from support.servers.sessions import clear_text, container, options_for, scratch

import mqdssm
from mqdssm.directory import searching
from mqdssm.directory.filters import TRUE
from mqdssm.directory.options import ConnectionOptions
from mqdssm.directory.requests import SearchScope
from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryNotConnected, GenericDirectoryError
from mqdssm.pipeline.frames.bulk_pages import EntryDecoder
from mqdssm.testing.openldap import OpenLdapServer

CHILDREN = 40
PAGE = 7
ALL = [f"n{number:04}" for number in range(CHILDREN)]

Listing = Callable[[Session, str], Iterator[str]]


def _entries(session: Session, place: str, *wanted: str) -> Iterator[str]:
    for entry in session.find(place, TRUE, ["cn", *wanted], SearchScope.ONE_LEVEL, PAGE):
        assert ("objectguid" in entry.attributes) == ("objectGUID" in wanted)
        yield (entry.first("cn") or b"").decode()


def _rows(session: Session, place: str, *wanted: str) -> Iterator[str]:
    columns = [*wanted, "cn"]
    for row in session.rows(place, TRUE, columns, scope=SearchScope.ONE_LEVEL, page_size=PAGE):
        assert len(row) == len(columns) + 1
        yield row[-1].decode()


def _many_valued_rows(session: Session, place: str) -> Iterator[str]:
    columns, multi = ["cn", "objectGUID"], frozenset({"objectGUID", "cn"})
    for row in session.rows(place, TRUE, columns, multi, scope=SearchScope.ONE_LEVEL, page_size=PAGE):
        yield row[1][0].decode()


def _columns(session: Session, place: str, *wanted: str) -> Iterator[str]:
    """As exports read."""
    columns = ["cn", *wanted]
    for entries in session.read_portions(place, TRUE, columns, lambda asked: EntryDecoder(asked).entries):
        for name, dn in zip(entries.columns[0].to_pylist(), entries.names.to_pylist(), strict=True):
            if dn.lower() != place.lower():
                yield name.decode()


LISTINGS: dict[str, Listing] = {
    "entries": _entries,
    "entries with GUIDs": lambda session, place: _entries(session, place, "objectGUID"),
    "rows": _rows,
    "rows with GUIDs": lambda session, place: _rows(session, place, "objectGUID"),
    "rows of lists": _many_valued_rows,
    "columns": _columns,
}


@pytest.fixture(scope="module")
def proxy(openldap_server: OpenLdapServer) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", openldap_server.port) as running:
        yield running


@pytest.fixture
def session(openldap_server: OpenLdapServer, proxy: Proxy) -> Iterator[Session]:
    with Session.open(clear_text(openldap_server, proxy, page_size=PAGE)) as opened:
        yield opened
    proxy.disarm()
    proxy.refuse = False


@pytest.fixture(scope="module")
def family(openldap_server: OpenLdapServer) -> Iterator[str]:
    """A container with `CHILDREN` children."""
    with Session.open(options_for(openldap_server)) as session, scratch(session) as place:
        fill(session, place)
        yield place


def fill(session: Session, place: str, guids: dict[str, UUID] | None = None) -> None:
    for name in ALL:
        session.add(f"CN={name},{place}", container((guids or {}).get(name) or uuid4()))


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "RESUME_PAUSES_S", (0.0,) * len(searching.RESUME_PAUSES_S))


class TestCuts:
    @pytest.mark.spec("MS-MQDSSM 3.1.6.15")
    @pytest.mark.parametrize("listing", LISTINGS)
    @pytest.mark.parametrize("after", range(1, CHILDREN, 3))
    def test_at_every_object(
        self, session: Session, proxy: Proxy, family: str, listing: str, after: int
    ) -> None:
        found = LISTINGS[listing](session, family)
        got = [next(found) for _ in range(after)]
        proxy.cut_all()
        assert sorted([*got, *found]) == ALL
        assert session.references == 0

    @pytest.mark.parametrize("listing", ["entries", "rows"])
    def test_at_many_bytes_of_the_answers(
        self, session: Session, proxy: Proxy, family: str, listing: str
    ) -> None:
        """Within an entry, between entries, before a result and behind it; read ahead or not."""
        list(LISTINGS[listing](session, family))  # a connection is there
        before = len(proxy.recordings[-1].down)
        assert sorted(LISTINGS[listing](session, family)) == ALL
        whole = len(proxy.recordings[-1].down) - before
        assert whole > 3000
        for passed in range(0, whole, 61):
            session.get(family, [])
            fault = proxy.arm(down=passed)
            assert sorted(LISTINGS[listing](session, family)) == ALL, passed
            assert fault.struck.is_set()

    @pytest.mark.parametrize("listing", ["entries", "rows"])
    def test_at_many_bytes_of_the_requests(
        self, session: Session, proxy: Proxy, family: str, listing: str
    ) -> None:
        list(LISTINGS[listing](session, family))
        before = len(proxy.recordings[-1].up)
        assert sorted(LISTINGS[listing](session, family)) == ALL
        whole = len(proxy.recordings[-1].up) - before
        for passed in range(0, whole, 23):
            session.get(family, [])
            fault = proxy.arm(up=passed)
            assert sorted(LISTINGS[listing](session, family)) == ALL, passed
            assert fault.struck.is_set()

    def test_in_every_page(
        self,
        session: Session,
        proxy: Proxy,
        family: str,
        no_pauses: None,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """As long as each attempt brings something new, it goes on."""
        monkeypatch.setattr(searching, "AHEAD_BYTES_MAX", 0)  # else the next page may be here already
        connections = len(proxy.recordings)
        got = []
        for name in _entries(session, family):
            got.append(name)
            if len(got) % PAGE == 1:
                proxy.cut_all()
        assert sorted(got) == ALL
        assert len(proxy.recordings) - connections >= 5

    def test_nobody_answers_any_more(
        self, session: Session, proxy: Proxy, family: str, no_pauses: None
    ) -> None:
        """A search that broke off is an error, never a short answer."""
        found = _entries(session, family)
        got = [next(found) for _ in range(PAGE + 1)]
        proxy.refuse = True
        proxy.cut_all()
        with pytest.raises(DirectoryNotConnected, match=r"broke off after \d+ entries") as caught:
            got.extend(found)
        assert "search again" in caught.value.hint
        assert PAGE < len(got) < CHILDREN
        assert f"after {len(got)} entries" in str(caught.value)
        assert session.references == 0
        proxy.refuse = False
        assert sorted(_entries(session, family)) == ALL

    def test_a_server_that_is_back_after_a_moment(
        self, session: Session, proxy: Proxy, family: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waited = []

        def wait(seconds: float) -> None:
            waited.append(seconds)
            proxy.refuse = len(waited) < 3

        monkeypatch.setattr(searching.time, "sleep", wait)
        found = _entries(session, family)
        got = [next(found)]
        proxy.refuse = True
        proxy.cut_all()
        assert sorted([*got, *found]) == ALL
        assert waited == list(searching.RESUME_PAUSES_S[:3])

    def test_a_server_that_falls_silent(
        self, openldap_server: OpenLdapServer, proxy: Proxy, family: str
    ) -> None:
        """Silence has used up the time of the page."""
        options = clear_text(openldap_server, proxy, operation_timeout_s=0.4)
        with Session.open(options) as session:
            found = _entries(session, family)
            next(found)
            proxy.arm(down=0, stall=True)
            with pytest.raises(DirectoryNotConnected, match="broke off after"):
                list(found)
            proxy.disarm()
            proxy.cut_all()

    def test_a_session_that_is_closed_meanwhile(
        self, openldap_server: OpenLdapServer, proxy: Proxy, family: str
    ) -> None:
        with Session.open(clear_text(openldap_server, proxy)) as session:
            found = _entries(session, family)
            next(found)
        proxy.cut_all()
        with pytest.raises(DirectoryNotConnected, match="session is closed"):
            list(found)


class TestAttempts:
    @staticmethod
    def page(number: int) -> bytes:
        return answers.entry(number, "CN=a") + answers.search_done(number, cookie=b"next")

    def test_they_are_bounded_where_none_brings_anything(self, no_pauses: None) -> None:
        connections: list[int] = []

        def first_page_only(connection: socket.socket) -> None:
            connections.append(1)
            replies = [answers.bind_done, answers.openldap_root_dse] if len(connections) == 1 else []
            script = [*(replies or [answers.bind_done]), self.page]
            serve = iter(script)
            splitter = answers.MessageSplitter()
            while data := connection.recv(65536):
                for request in splitter.feed(data)[1]:
                    reply = next(serve, None)
                    if reply is None:
                        return
                    connection.sendall(reply(request.id))

        with scripted_server(first_page_only) as port:
            options = ConnectionOptions.of(f"ldap://127.0.0.1:{port}", tls="none", operation_timeout_s=5)
            with Session.open(options) as session:
                found = session.find("dc=x", TRUE, [])
                assert next(found).dn == "CN=a"
                with pytest.raises(DirectoryNotConnected, match="broke off after 1 entries"):
                    next(found)
        assert len(connections) == 1 + len(searching.RESUME_PAUSES_S)

    def test_an_error_of_the_server_ends_it(self) -> None:
        """What the server refuses once it refuses again."""

        def refused(number: int) -> bytes:
            return answers.search_done(number, 11)

        script = answers.conversation(answers.bind_done, answers.openldap_root_dse, self.page, refused)
        with scripted_server(script) as port:
            options = ConnectionOptions.of(f"ldap://127.0.0.1:{port}", tls="none", operation_timeout_s=2)
            with Session.open(options) as session:
                found = session.find("dc=x", TRUE, [])
                next(found)
                with pytest.raises(GenericDirectoryError) as caught:
                    list(found)
        assert caught.value.ldap_code == 11


class TestRestarts:
    def test_killed_and_started_again(self) -> None:
        with (
            OpenLdapServer() as server,
            Session.open(options_for(server)) as session,
            scratch(session) as place,
        ):
            fill(session, place)
            for after in (1, PAGE, PAGE + 1, 20, CHILDREN - 1):
                found = _rows(session, place)
                got = [next(found) for _ in range(after)]
                server.kill()
                server.start()
                assert sorted([*got, *found]) == ALL, after

    def test_it_does_not_come_back(self, no_pauses: None) -> None:
        with OpenLdapServer(durable=False) as server, Session.open(options_for(server)) as session:
            found = session.find(server.base_dn, TRUE, ["*"], page_size=2)
            next(found)
            server.kill()
            with pytest.raises(DirectoryNotConnected, match="broke off"):
                list(found)

    @pytest.mark.parametrize("listing", ["entries", "rows"])
    def test_what_changes_meanwhile(self, session: Session, proxy: Proxy, listing: str) -> None:
        """Who was there all the while comes once, under the old name or the new one."""
        with scratch(session) as place:
            fill(session, place)
            found = LISTINGS[listing](session, place)
            got = [next(found) for _ in range(2 * PAGE + 1)]
            order = list(LISTINGS[listing](session, place))
            seen, unseen = order[0], order[-1]
            for name in (order[1], order[-2]):
                session.delete(f"CN={name},{place}")
            for name in ("new1", "new2"):
                session.add(f"CN={name},{place}", container(uuid4()))
            session.rename(f"CN={seen},{place}", "CN=renamed1")
            session.rename(f"CN={unseen},{place}", "CN=renamed2")
            proxy.cut_all()
            got.extend(found)
        counts = Counter(got)
        assert max(counts.values()) == 1
        stayed = set(ALL) - {order[1], order[-2], unseen}
        assert stayed <= set(got)
        assert "renamed1" not in got  # it came before, under its old name
        assert len({unseen, "renamed2"} & set(got)) == 1
        assert set(got) - stayed <= {order[1], order[-2], unseen, "renamed2", "new1", "new2"}


@pytest.fixture(scope="module")
def twins() -> Iterator[tuple[OpenLdapServer, OpenLdapServer, str]]:
    """Two servers with the same objects, in another order, and the place they are in."""
    with ExitStack() as stack:
        first, second = (stack.enter_context(OpenLdapServer()) for _ in range(2))
        place, guids = f"CN=family,CN=Computers,{first.base_dn}", {name: uuid4() for name in ALL}
        for server, names in ((first, ALL), (second, ALL[::-1])):
            with Session.open(options_for(server)) as session:
                session.add(place, container(uuid4()))
                twin = {"objectClass": [b"user"], "objectGUID": [uuid4().bytes_le], "userPassword": [b"twin"]}
                session.add(f"CN=twin,CN=Users,{first.base_dn}", twin)
                for name in names:
                    session.add(f"CN={name},{place}", container(guids[name]))
        yield first, second, place


def on_both(twins: tuple[OpenLdapServer, OpenLdapServer, str], **more: object) -> ConnectionOptions:
    first, second, _ = twins
    settings = {
        "user": f"CN=twin,CN=Users,{first.base_dn}",
        "password": "twin",
        "tls": "none",
        "page_size": PAGE,
    } | more
    return ConnectionOptions.of([first.url, second.url], **settings)  # type: ignore[arg-type]


class TestFailOver:
    @pytest.mark.parametrize("listing", LISTINGS)
    @pytest.mark.parametrize("after", [1, PAGE, PAGE + 1, 25, CHILDREN - PAGE, CHILDREN - 1])
    def test_to_a_server_with_the_same_objects(
        self, twins: tuple[OpenLdapServer, OpenLdapServer, str], listing: str, after: int
    ) -> None:
        first, second, place = twins
        with Session.open(on_both(twins)) as session:
            found = LISTINGS[listing](session, place)
            got = [next(found) for _ in range(after)]
            first.kill()
            try:
                assert sorted([*got, *found]) == ALL
                if after < CHILDREN - PAGE:  # behind that, the last page may be here already
                    assert session.server_url == second.url
            finally:
                first.start()

    def test_there_and_back(self, twins: tuple[OpenLdapServer, OpenLdapServer, str]) -> None:
        first, second, place = twins
        with Session.open(on_both(twins)) as session:
            found = _rows(session, place)
            got = [next(found) for _ in range(10)]
            first.kill()
            try:
                got += [next(found) for _ in range(10)]
            finally:
                first.start()
            second.kill()
            try:
                assert sorted([*got, *found]) == ALL
                assert session.server_url == first.url
            finally:
                second.start()

    def test_the_other_server_lacks_the_place(
        self, twins: tuple[OpenLdapServer, OpenLdapServer, str]
    ) -> None:
        """There "no such object" does not mean that the list is at its end."""
        first, _, _ = twins
        only_here = f"CN=here,CN=Computers,{first.base_dn}"
        with Session.open(options_for(first)) as session:
            session.add(only_here, container(uuid4()))
            fill(session, only_here)
        try:
            with Session.open(on_both(twins)) as session:
                found = _rows(session, only_here)
                next(found)
                first.kill()
                with pytest.raises(GenericDirectoryError, match="broke off after"):
                    list(found)
        finally:
            first.start()
            with Session.open(options_for(first)) as session:
                for name in ALL:
                    session.delete(f"CN={name},{only_here}")
                session.delete(only_here)


class TestEvents:
    """What is above the session gains by it without knowing."""

    @pytest.fixture
    def directory(self, openldap_server: OpenLdapServer, proxy: Proxy) -> Iterator[mqdssm.Directory]:
        with mqdssm.connect(
            proxy.url,
            user=openldap_server.user,
            password=openldap_server.password,
            tls="none",
            page_size=PAGE,
        ) as opened:
            yield opened

    @pytest.fixture
    def managers(
        self, openldap_server: OpenLdapServer, directory: mqdssm.Directory
    ) -> Iterator[dict[str, tuple[UUID, ...]]]:
        """Queue managers by name, with the routing servers of each."""
        site = directory.create(mqdssm.Site(name=f"S{uuid4().hex[:8]}"))
        made: dict[str, tuple[UUID, ...]] = {}
        guids: list[UUID] = []
        prefix = f"F{uuid4().hex[:6]}".upper()
        for number in range(3 * PAGE):
            name = f"{prefix}{number}"
            openldap_server.add_computer(name)
            routing = tuple(guids[-2:])
            manager = mqdssm.QueueManager(
                computer_name=name, site_identifier_list=[site], out_routing_server_identifier_list=routing
            )
            guids.append(directory.create(manager))
            made[name] = routing
        yield made
        for guid in guids:
            directory.delete(mqdssm.QueueManager(identifier=guid))
        directory.delete(mqdssm.Site(identifier=site))

    @pytest.mark.spec("MS-MQDSSM 3.1.6.4")
    def test_search_with_what_the_objects_refer_to(
        self, directory: mqdssm.Directory, proxy: Proxy, managers: dict[str, tuple[UUID, ...]]
    ) -> None:
        got = []
        for found in directory.search(mqdssm.QueueManager):
            if found.computer_name in managers:
                got.append(found.computer_name)
                assert set(found.out_routing_server_identifier_list) == set(managers[found.computer_name])
            if len(got) in {3, PAGE + 1}:
                proxy.cut_all()
        assert sorted(got) == sorted(managers)

    @pytest.mark.spec("MS-MQDSSM 3.1.6.5")
    def test_iterators(
        self, directory: mqdssm.Directory, proxy: Proxy, managers: dict[str, tuple[UUID, ...]]
    ) -> None:
        handle = directory.read_begin(mqdssm.QueueManager, attributes=["ComputerName"])
        got = []
        while True:
            try:
                found = directory.read_next(handle)
            except mqdssm.EndOfData:
                break
            assert isinstance(found, mqdssm.QueueManager)
            got.append(found.computer_name)
            if len(got) == PAGE:
                proxy.cut_all()
        directory.read_end(handle)
        assert sorted(name for name in got if name in managers) == sorted(managers)
        assert len(set(got)) == len(got)
