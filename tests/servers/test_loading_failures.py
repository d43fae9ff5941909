"""The loader when connections break, servers die and transactions fail: nothing is lost or made twice."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeVar
from uuid import uuid4

import pytest
from support.servers.proxy import Proxy
from support.servers.sessions import clear_text, container, options_for, scratch

from mqdssm.directory.filters import Equal
from mqdssm.directory.loading.items import Action, Effect, Item, LoadOptions
from mqdssm.directory.requests import SearchScope
from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryNotConnected
from mqdssm.testing.openldap import OpenLdapServer

T = TypeVar("T")


def adds(place: str, number: int, first: int = 0) -> list[Item]:
    return [
        Item(row=n, action=Action.ADD, dn=f"CN=o{n},{place}", attributes=container(uuid4()))
        for n in range(first, first + number)
    ]


def names_below(session: Session, place: str) -> set[str]:
    wanted = Equal("objectClass", b"container")
    found = [entry.dn for entry in session.find(place, wanted, ["1.1"], SearchScope.ONE_LEVEL)]
    assert len(found) == len(set(found))
    return {dn.partition(",")[0].lower() for dn in found}


def when_it_is_back(look: Callable[[], T]) -> T:
    """Look as soon as the server answers again."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return look()
        except DirectoryNotConnected:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.fixture
def behind(openldap_server: OpenLdapServer) -> Iterator[tuple[Session, Proxy, str]]:
    """A session through a proxy, and a place to write to."""
    with ExitStack() as stack:
        proxy = stack.enter_context(Proxy("127.0.0.1", openldap_server.port))
        straight = stack.enter_context(Session.open(options_for(openldap_server)))
        place = stack.enter_context(scratch(straight))
        session = stack.enter_context(Session.open(clear_text(openldap_server, proxy)))
        yield session, proxy, place


@pytest.mark.parametrize("fault", [{"up": 0}, {"up": 999}, {"up": 20_000}, {"down": 0}, {"down": 333}])
def test_a_connection_that_is_cut(behind, fault):
    session, proxy, place = behind
    items = adds(place, 300)
    proxy.arm(**fault)
    outcomes = list(session.loader.load(items))
    assert [one.row for one in sorted(outcomes, key=lambda one: one.row)] == list(range(300))
    assert {one.effect for one in outcomes} == {Effect.ADDED}
    assert len(names_below(session, place)) == 300


def test_changes_and_deletions_survive_a_cut(behind):
    session, proxy, place = behind
    items = adds(place, 100)
    list(session.loader.load(items))
    proxy.arm(down=100)
    changes = [
        Item(row=item.row, action=Action.MODIFY, dn=item.dn, attributes={"description": (b"x",)})
        for item in items
    ]
    assert {one.effect for one in session.loader.load(changes)} == {Effect.UPDATED}
    proxy.arm(down=100)
    deletions = [Item(row=item.row, action=Action.DELETE, dn=item.dn) for item in items]
    assert {one.effect for one in session.loader.load(deletions)} == {Effect.DELETED}
    assert names_below(session, place) == set()


def test_a_server_that_does_not_come_back(behind):
    session, proxy, place = behind
    items = adds(place, 300)
    proxy.arm(down=500, for_good=True)
    outcomes = []
    with pytest.raises(DirectoryNotConnected):
        outcomes.extend(session.loader.load(items, LoadOptions(reconnect_s=0.5)))
    proxy.refuse = False
    outcomes += session.loader.load(items)  # again: what was done is equal
    assert {one.effect for one in outcomes} <= {Effect.ADDED, Effect.EQUAL}
    assert len(names_below(session, place)) == 300


def test_a_slapd_that_dies_in_the_middle():
    with OpenLdapServer(durable=False) as server, Session.open(options_for(server)) as session:
        place = f"CN=Computers,{session.naming.root}"
        answered = threading.Event()
        killed = []

        def kill() -> None:
            answered.wait(60)
            server.kill()
            killed.append(server.pid)
            server.start()

        killer = threading.Thread(target=kill)
        killer.start()
        outcomes = []
        for one in session.loader.load(adds(place, 1500), LoadOptions(window=100)):
            outcomes.append(one)
            if len(outcomes) == 400:
                answered.set()
        killer.join(60)
        assert killed == [None]
        assert {one.effect for one in outcomes} == {Effect.ADDED}
        assert len(names_below(session, place)) == 1500


# -- transactions: on servers of their own, see docs/loading.md


@pytest.fixture(scope="module")
def server() -> Iterator[OpenLdapServer]:
    with OpenLdapServer(durable=False, restart=True) as started:
        yield started


@pytest.fixture
def own(server: OpenLdapServer) -> Iterator[tuple[Session, str]]:
    with Session.open(options_for(server)) as session:
        place = f"CN=t-{uuid4()},CN=Computers,{session.naming.root}"
        session.add(place, container(uuid4()))
        yield session, place


def test_adds_in_transactions(own):
    session, place = own
    before = session.round_trips
    items = adds(place, 1200)
    outcomes = list(session.loader.load(items, LoadOptions(transactions=500)))
    assert {one.effect for one in outcomes} == {Effect.ADDED}
    assert len(names_below(session, place)) == 1200
    assert session.round_trips - before < 50  # windows of 256, start and end of three transactions


def test_a_transaction_that_fails_leaves_the_others_to_be_added_alone(own):
    session, place = own
    items = adds(place, 500)
    list(session.loader.load(items[100:103]))
    other = Item(row=1000, action=Action.ADD, dn=items[200].dn, attributes=container(uuid4()))
    list(session.loader.load([other]))
    outcomes = {one.row: one for one in session.loader.load(items, LoadOptions(transactions=500))}
    effects = {row: one.effect for row, one in outcomes.items() if one.effect is not Effect.ADDED}
    assert effects == dict.fromkeys((100, 101, 102), Effect.EQUAL) | {200: Effect.CONFLICT}
    assert len(names_below(session, place)) == 500


def test_what_a_transaction_does_not_even_take_is_named(own):
    session, place = own
    items = adds(place, 20)
    values = {"objectClass": (b"mSMQQueue",), "mSMQJournal": (b"maybe",)}
    items.append(Item(row=99, action=Action.ADD, dn=f"CN=wrong,{place}", attributes=values))
    items.append(Item(row=100, action=Action.ADD, dn=f"CN=odd,{place}", attributes={"description": ()}))
    outcomes = {one.row: one for one in session.loader.load(items, LoadOptions(transactions=500))}
    assert {row for row, one in outcomes.items() if one.effect is Effect.ADDED} == set(range(20))
    assert outcomes[99].attributes == ("mSMQJournal",)
    assert outcomes[100].effect is Effect.REJECTED


def test_parents_and_children_in_transactions(own):
    session, place = own
    parents = adds(place, 30)
    children = [
        Item(row=100 + n, action=Action.ADD, dn=f"CN=c,{item.dn}", attributes=container(uuid4()))
        for n, item in enumerate(parents)
    ]
    mixed = [one for pair in zip(parents, children, strict=True) for one in pair]
    outcomes = list(session.loader.load(mixed, LoadOptions(transactions=500)))
    assert {one.effect for one in outcomes} == {Effect.ADDED}


def test_a_cut_in_a_transaction():
    """A connection that breaks in a transaction may crash slapd 2.5: somebody has to start it again."""
    with ExitStack() as stack:
        server = stack.enter_context(OpenLdapServer(durable=False, restart=True))
        proxy = stack.enter_context(Proxy("127.0.0.1", server.port))
        straight = stack.enter_context(Session.open(options_for(server)))
        place = f"CN=Computers,{straight.naming.root}"
        session = stack.enter_context(Session.open(clear_text(server, proxy)))
        for trial, down in enumerate((0, 14, 2000, 7_020)):
            proxy.arm(down=down)
            outcomes = list(session.loader.load(adds(place, 500, 500 * trial), LoadOptions(transactions=500)))
            assert {one.effect for one in outcomes} == {Effect.ADDED}
            assert len(outcomes) == 500
        assert len(when_it_is_back(lambda: names_below(straight, place))) == 2000


@pytest.mark.soak
def test_failing_transactions_do_not_hurt_the_server(server, own):
    """Hundreds of them, with reads beside them: the same slapd answers to the end (docs/loading.md)."""
    (session, place), process = own, server.pid
    (blocker,) = adds(place, 1, first=10_000_000)
    list(session.loader.load([blocker]))
    for number in range(200):
        items = adds(place, 20, first=20 * number)
        again = Item(row=-1, action=Action.ADD, dn=blocker.dn, attributes=container(uuid4()))
        outcomes = list(session.loader.load([*items, again], LoadOptions(transactions=100)))
        assert sum(one.effect is Effect.ADDED for one in outcomes) == 20
        assert session.get(items[0].dn, ["*"])
    assert len(names_below(session, place)) == 200 * 20 + 1
    assert server.pid == process
