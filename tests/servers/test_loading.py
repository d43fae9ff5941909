"""The loader on a real slapd: an outcome for each change, whatever is there already."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from uuid import UUID, uuid4

import pytest
from support.servers.sessions import container, options_for, scratch

from mqdssm.directory.loading.items import Action, Effect, Item, LoadOptions, Outcome
from mqdssm.directory.session import Session
from mqdssm.errors import ConfigError, GenericDirectoryError, ObjectNotFound
from mqdssm.testing.openldap import OpenLdapServer

rows = count(1)


@pytest.fixture(scope="module")
def session(openldap_server: OpenLdapServer) -> Iterator[Session]:
    with Session.open(options_for(openldap_server)) as opened:
        yield opened


@pytest.fixture
def place(session: Session) -> Iterator[str]:
    with scratch(session) as dn:
        yield dn


def added(dn: str, guid: UUID | None = None, **more: list[bytes]) -> Item:
    return Item(row=next(rows), action=Action.ADD, dn=dn, attributes=container(guid or uuid4(), **more))


def queue(dn: str, **more: tuple[bytes, ...]) -> Item:
    values = {"objectClass": (b"mSMQQueue",), "objectGUID": (uuid4().bytes_le,), **more}
    return Item(row=next(rows), action=Action.ADD, dn=dn, attributes=values, ldap_class="mSMQQueue")


def changed(dn: str, before: dict | None = None, **values: tuple[bytes, ...]) -> Item:
    return Item(row=next(rows), action=Action.MODIFY, dn=dn, attributes=values, before=before)


def deleted(dn: str, before: dict | None = None) -> Item:
    return Item(row=next(rows), action=Action.DELETE, dn=dn, before=before)


def load(session: Session, *items: Item, **options) -> list[Outcome]:
    """The outcomes, in the order of the items."""
    found = {one.row: one for one in session.loader.load(items, LoadOptions(**options))}
    assert len(found) == len(items)
    return [found[item.row] for item in items]


def effects(outcomes: list[Outcome]) -> list[Effect]:
    return [one.effect for one in outcomes]


def test_adds_many_and_finds_them_equal_the_second_time(session, place):
    items = [added(f"CN=o{n},{place}", description=[b"%d" % n]) for n in range(700)]
    outcomes = load(session, *items)
    assert set(effects(outcomes)) == {Effect.ADDED}
    assert outcomes[3].guid == UUID(bytes_le=items[3].attributes["objectGUID"][0])
    assert set(effects(load(session, *items))) == {Effect.EQUAL}
    assert session.get(f"CN=o699,{place}", ["description"]).first("description") == b"699"


def test_parents_come_first_though_all_are_sent_at_once(session, place):
    items = []
    for n in range(60):
        parent = f"CN=p{n},{place}"
        items += [added(parent), added(f"CN=c,{parent}"), added(f"CN=g,CN=c,{parent}")]
    assert set(effects(load(session, *items))) == {Effect.ADDED}
    backwards = [deleted(item.dn) for item in reversed(items)]
    assert set(effects(load(session, *backwards))) == {Effect.DELETED}
    assert set(effects(load(session, *backwards))) == {Effect.MISSING}


def test_changes_of_one_object_keep_their_order(session, place):
    dn = f"CN=o,{place}"
    items = [added(dn), *(changed(dn, description=(b"%d" % n,)) for n in range(50))]
    assert effects(load(session, *items)) == [Effect.ADDED] + [Effect.UPDATED] * 50
    assert session.get(dn, ["description"]).first("description") == b"49"


def test_a_missing_parent(session, place):
    (outcome,) = load(session, added(f"CN=a,CN=nowhere,{place}"))
    assert (outcome.effect, outcome.code, outcome.is_done) == (Effect.MISSING_PARENT, 32, False)
    assert place in outcome.text


def test_something_else_is_there(session, place):
    dn, guid = f"CN=o,{place}", uuid4()
    load(session, added(dn, guid, description=[b"old"]))
    again = added(dn.upper(), guid, description=[b"new"])
    (conflict,) = load(session, again)
    assert (conflict.effect, conflict.attributes) == (Effect.CONFLICT, ("description",))
    assert conflict.guid == guid
    (outcome,) = load(session, again, update=True)
    assert (outcome.effect, outcome.attributes) == (Effect.UPDATED, ("description",))
    assert session.get(dn, ["description"]).all("description") == [b"new"]
    (outcome,) = load(session, queue(dn, mSMQLabelEx=(b"x",)), update=True)
    assert outcome.effect is Effect.CONFLICT
    assert "another class" in outcome.text


def test_another_object_has_the_guid(session, place):
    guid = uuid4()
    load(session, added(f"CN=one,{place}", guid))
    (outcome,) = load(session, added(f"CN=two,{place}", guid))
    assert (outcome.effect, outcome.attributes) == (Effect.CONFLICT, ("objectGUID",))
    assert "cn=one" in outcome.text.lower()


def test_what_was_changed_since_is_left_alone(session, place):
    dn = f"CN=o,{place}"
    load(session, added(dn, description=[b"now"]))
    old = {"description": (b"then",)}
    outcomes = load(session, changed(dn, old, description=(b"new",)))
    assert effects(outcomes) == [Effect.CONFLICT]
    assert effects(load(session, deleted(dn, old))) == [Effect.CONFLICT]
    assert effects(load(session, changed(dn, old, description=(b"NOW",)))) == [Effect.EQUAL]
    assert effects(load(session, changed(dn, {"description": (b"now",)}, description=(b"new",)))) == [
        Effect.UPDATED
    ]
    assert effects(load(session, deleted(dn, {"description": (b"new",)}))) == [Effect.DELETED]
    assert effects(load(session, deleted(dn, {"description": (b"new",)}))) == [Effect.MISSING]


def test_a_refused_change_names_the_guilty_attribute_and_writes_the_others(session, place):
    dn = f"CN=q,{place}"
    load(session, queue(dn))
    wrong = changed(dn, mSMQLabelEx=(b"good",), mSMQJournal=(b"maybe",), mSMQBasePriority=(b"2",))
    (outcome,) = load(session, wrong)
    assert (outcome.effect, outcome.attributes, outcome.code) == (Effect.REJECTED, ("mSMQJournal",), 21)
    entry = session.get(dn, ["mSMQLabelEx", "mSMQBasePriority"])
    assert (entry.first("mSMQLabelEx"), entry.first("mSMQBasePriority")) == (b"good", b"2")


def test_a_refused_add_names_the_attribute_that_the_server_names(session, place):
    outcomes = load(
        session,
        queue(f"CN=q1,{place}", mSMQJournal=(b"maybe",)),
        queue(f"CN=q2,{place}", mSMQCost=(b"1",)),
        queue(f"CN=q3,{place}", mSMQLabelEx=(b"fine",)),
    )
    assert effects(outcomes) == [Effect.REJECTED, Effect.REJECTED, Effect.ADDED]
    assert [one.attributes for one in outcomes] == [("mSMQJournal",), ("mSMQCost",), ()]


def test_what_cannot_be_sent_is_refused(session, place):
    outcomes = load(
        session, added("no name"), added(f"CN=o,{place}", description=[]), added(f"CN=fine,{place}")
    )
    assert effects(outcomes) == [Effect.REJECTED, Effect.REJECTED, Effect.ADDED]
    assert "no distinguished name" in outcomes[0].text
    assert "description has no value" in outcomes[1].text


def test_a_session_that_only_reads_loads_nothing(openldap_server, place):
    with (
        Session.open(options_for(openldap_server, read_only=True)) as reader,
        pytest.raises(GenericDirectoryError, match="read only"),
    ):
        list(reader.loader.load([added(f"CN=o,{place}")]))


def test_items_are_taken_as_they_are_sent(session, place):
    taken = []

    def endless() -> Iterator[Item]:
        for n in count():
            taken.append(n)
            yield added(f"CN=o{n},{place}")

    outcomes = session.loader.load(endless(), LoadOptions(window=10))
    assert next(outcomes).effect is Effect.ADDED
    outcomes.close()
    assert len(taken) <= 200
    assert session.get(place, ["1.1"])  # the session is as good as before


@pytest.mark.parametrize("window", [1, 16, 256])
def test_when_there_is_enough_what_is_under_way_ends_and_nothing_else_begins(session, place, window):
    items = [replace(added(f"CN=o{n},{place}"), attributes={"objectClass": [b"none"]}) for n in range(700)]
    failed, taken = [], []
    source = (taken.append(one) or one for one in items)
    for one in session.loader.load(source, LoadOptions(window=window), is_enough=lambda: len(failed) > 3):
        assert one.effect is Effect.REJECTED
        failed.append(one.row)
    assert 3 < len(failed) <= 3 + window
    assert len(taken) < 700
    assert set(effects(load(session, added(f"CN=after,{place}")))) == {Effect.ADDED}


@pytest.mark.parametrize("window", [1, 16, 256])
def test_look_ups_after_enough_are_finished(session, place, window):
    load(session, *(added(f"CN=o{n},{place}") for n in range(600)))
    items = [added(f"CN=o{n},{place}", description=[b"other"]) for n in range(600)]
    failed = []
    for one in session.loader.load(items, LoadOptions(window=window), is_enough=lambda: len(failed) > 3):
        assert one.effect is Effect.CONFLICT
        failed.append(one.row)
    assert 3 < len(failed) <= 3 + 2 * window


def test_a_split_change_is_finished_though_there_is_enough(session, place):
    """Its parts may have been made: without an outcome nobody would undo them."""
    dn, asked = f"CN=o,{place}", []
    load(session, added(dn))
    parts = {"mSMQQuota": (b"none",), "description": (b"new",), "displayName": (b"new",)}

    def enough() -> bool:  # as soon as the whole was sent
        asked.append(1)
        return len(asked) > 2

    items = iter([changed(dn, **parts), *(added(f"CN=c{n},{place}") for n in range(50))])
    found = {one.row: one for one in session.loader.load(items, LoadOptions(window=1), is_enough=enough)}
    (outcome,) = found.values()
    assert (outcome.effect, outcome.attributes) == (Effect.REJECTED, ("mSMQQuota",))
    assert session.get(dn, ["description"]).first("description") == b"new"


def test_nothing_is_begun_where_there_is_enough_from_the_start(session, place):
    taken = []
    items = (taken.append(n) or added(f"CN=o{n},{place}") for n in range(10))
    assert list(session.loader.load(items, is_enough=lambda: True)) == []
    assert taken == []


@pytest.mark.parametrize("options", [{"window": 0}, {"window": 1000}, {"transactions": -1}, {"max_rate": 0}])
def test_numbers_out_of_range(options):
    with pytest.raises(ConfigError):
        LoadOptions(**options)


@pytest.mark.parametrize("window", [1, 256])
def test_what_has_to_be_looked_at_is_not_overtaken_by_deletions(session, place, window):
    old = added(f"CN=parent,{place}", description=[b"old"])
    load(session, old)
    outcomes = load(
        session,
        added(f"CN=parent,{place}", UUID(bytes_le=old.attributes["objectGUID"][0]), description=[b"new"]),
        added(f"CN=child,CN=parent,{place}"),
        changed(f"CN=child,CN=parent,{place}", description=(b"changed",)),
        deleted(f"CN=child,CN=parent,{place}"),
        deleted(f"CN=parent,{place}"),
        update=True,
        window=window,
    )
    assert effects(outcomes) == [Effect.UPDATED, Effect.ADDED, Effect.UPDATED, Effect.DELETED, Effect.DELETED]
    with pytest.raises(ObjectNotFound):
        session.get(f"CN=parent,{place}", ())
