"""Conditions as LDAP filters that lose nothing, and as tests of elements."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from mqdssm import Filter, Queue, QueueManager, RoutingLink, Site, User
from mqdssm.directory.filters import to_text
from mqdssm.directory.profiles import PROFILES
from mqdssm.errors import GenericDirectoryError
from mqdssm.events.conditions import (
    CONDITION_DEPTH_MAX,
    describe,
    list_conjuncts,
    to_server_filter,
    to_test,
)
from mqdssm.tables import table_of

NOTHING: frozenset[str] = frozenset()
SITE = "CN=s,DC=x"
ABOVE_1000 = "(|(|(mSMQQueueQuota>=1000)(mSMQQueueQuota<=-1))(!(mSMQQueueQuota=*)))"


def terms_of(kind, condition, *, profile: str = "openldap", part_only: bool = False) -> list[tuple]:
    session = SimpleNamespace(profile=PROFILES[profile])
    table = table_of(kind)
    found = [
        to_server_filter(table, each, session, lambda _: SITE, part_only=part_only)
        for each in list_conjuncts(table, [condition])
    ]
    return [(term.filter and to_text(term.filter), term.is_exact) for term in found]


@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.parametrize(
    ("condition", "text", "is_exact"),
    [
        (~Queue.transactional, "(!(mSMQTransactional=TRUE))", True),
        (
            Queue.label.startswith("Paid") & (Queue.quota > 1000) | ~Queue.transactional,
            f"(|(&(mSMQLabelEx=Paid*){ABOVE_1000})(!(mSMQTransactional=TRUE)))",
            False,
        ),
        (Queue.label.contains("a  b"), "(mSMQLabelEx=*a*b*)", False),
        (Queue.label.startswith("a b "), "(mSMQLabelEx=a*b*)", False),
        (Queue.label.endswith("*)(x"), r"(mSMQLabelEx=*\2a\29\28x)", False),
        (~Queue.label.contains("a"), None, False),
        (~(Queue.label.contains("a") | Queue.journaling), "(!(mSMQJournal=TRUE))", False),
        (~(Queue.label.contains("a") & Queue.journaling), None, False),
        (
            ~(Queue.journaling | Queue.transactional),
            "(&(!(mSMQJournal=TRUE))(!(mSMQTransactional=TRUE)))",
            True,
        ),
        (~~Queue.journaling, "(mSMQJournal=TRUE)", True),
        (Queue.label.exists(), "(mSMQLabelEx=*)", True),
        (~Queue.label.exists(), "(!(mSMQLabelEx=*))", True),
        (Queue.label.in_(["a", ""]), "(|(mSMQLabelEx=a)(!(mSMQLabelEx=*)))", True),
        (Queue.label.in_([]), "(!(objectClass=*))", True),
        (~Queue.label.in_([]), "(objectClass=*)", True),
        (~(Queue.base_priority > 3), "(!(&(mSMQBasePriority>=3)(!(mSMQBasePriority=3))))", True),
        (Queue.quota < 7, "(&(mSMQQueueQuota>=0)(mSMQQueueQuota<=7))", False),
        (Queue.quota <= 2**32 - 2, "(|(mSMQQueueQuota>=0)(mSMQQueueQuota<=-2))", False),
        (~(Queue.quota < 7), None, False),
        (Queue.pathname.startswith("a"), None, False),
        (Queue.security.exists(), None, False),
        (Queue.create_time.exists(), None, False),
    ],
)  # fmt: skip
def test_filters(condition, text, is_exact, profile):
    assert terms_of(Queue, condition, profile=profile) == [(text, is_exact)]


def test_what_is_joined_by_and_is_several_filters():
    condition = (Queue.label == "a") & Queue.journaling & (Queue.quota > 5) & ~Queue.transactional
    conjuncts = list_conjuncts(table_of(Queue), [condition, Filter("Quota", "<", 9)])
    assert conjuncts[:3] == [
        Filter("Label", "==", "a"),
        Filter("Journaling", "==", True),
        Filter("Quota", ">", 5),
    ]
    assert conjuncts[-1] == Filter("Quota", "<", 9)


def test_sites_and_attributes_with_several_values():
    assert terms_of(RoutingLink, ~(RoutingLink.site1_identifier == UUID(int=1))) == [
        ("(!(mSMQSite1=CN=s,DC=x))", True)
    ]
    assert terms_of(Site, ~Site.foreign_site) == [(None, False)]
    assert terms_of(Site, Site.name.startswith("B")) == [("(cn=B*)", False)]
    assert terms_of(User, User.certificate_digest_list.exists()) == [("(mSMQDigests=*)", True)]


def test_what_a_catalog_lacks_is_not_asked_for():
    version = QueueManager.queue_manager_version
    for condition in (version == "x", version.contains("x"), version.exists(), ~(version == "x")):
        assert terms_of(QueueManager, condition | QueueManager.foreign_system, part_only=True) == [
            (None, False)
        ]
        test = to_test(table_of(QueueManager), condition)
        assert test.attributes == {"QueueManagerVersion"}
        assert test.judge(QueueManager(), test.attributes) is None
    either = to_test(table_of(QueueManager), (version == "x") | QueueManager.foreign_system)
    both = to_test(table_of(QueueManager), (version == "x") & QueueManager.foreign_system)
    unknown = frozenset({"QueueManagerVersion"})
    foreign, own = QueueManager(foreign_system=True), QueueManager(foreign_system=False)
    assert (either.judge(foreign, unknown), either.judge(own, unknown)) == (True, None)
    assert (both.judge(foreign, unknown), both.judge(own, unknown)) == (None, False)


@pytest.mark.parametrize(
    ("kind", "condition", "error", "words"),
    [
        (Queue, Site.name == "x", GenericDirectoryError, "Site.Name is no attribute of Queue"),
        (Queue, ~(Site.foreign_site | Queue.journaling), GenericDirectoryError, "Site.ForeignSite"),
        (Site, Site.primary_site_controller.exists(), GenericDirectoryError, "not kept"),
        (Queue, Queue.quota == "x", ValueError, "Quota must be a whole number, not 'x'"),
        (Queue, ~(Queue.label == "x" * 125), ValueError, "Label is 125 UTF-16 code units long"),
        (Queue, Queue.quota.exists(), ValueError, "Queue.Quota always has a value, 4294967295"),
        (Queue, ~Queue.transactional.exists(), ValueError, "Queue.Transactional always has a value, False"),
        (Queue, Queue.label.contains(" "), ValueError, "blanks alone"),
        (Queue, Queue.label.contains("a\0"), ValueError, "cannot contain"),
        (Queue, Queue.label.contains("\ud800"), ValueError, "cannot contain"),
        (User, User.security_identifier.startswith("S-1"), ValueError, "has no text to look into"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_for(kind, condition, error, words):
    with pytest.raises(error, match=words):
        list_conjuncts(table_of(kind), [condition])


def test_conditions_nest_to_a_limit():
    condition = Queue.journaling
    for _ in range(CONDITION_DEPTH_MAX - 1):
        condition = ~condition
    list_conjuncts(table_of(Queue), [condition])
    with pytest.raises(ValueError, match=f"deeper than {CONDITION_DEPTH_MAX} levels"):
        list_conjuncts(table_of(Queue), [~condition])


@pytest.mark.parametrize(
    ("text", "condition", "expected"),
    [
        ("Paid orders", Queue.label.startswith("paid  OR"), True),
        ("  Paid  orders ", Queue.label.startswith("paid o"), True),
        ("Paid", Queue.label.startswith("Paid "), False),
        ("Paid x", Queue.label.startswith(" Paid "), True),
        ("Paid orders", Queue.label.contains("d o"), True),
        ("Paid orders", Queue.label.contains("do"), False),
        ("Paid orders", Queue.label.endswith("ERS "), True),
        ("Paid orders", Queue.label.endswith(" ers"), False),
        ("ZOË", Queue.label.endswith("oë"), True),
        ("a*b", Queue.label.contains("*"), True),
        ("axb", Queue.label.contains("*"), False),
        ("", Queue.label.contains("a"), False),
    ],
)
def test_text_is_looked_into_as_ldap_does(text, condition, expected):
    test = to_test(table_of(Queue), condition)
    assert test.judge(Queue(label=text), NOTHING) is expected
    assert to_test(table_of(Queue), ~condition).judge(Queue(label=text), NOTHING) is not expected


def test_what_is_not_populated_satisfies_nothing_but_the_opposite():
    table = table_of(QueueManager)
    for condition in (
        QueueManager.clustered,
        QueueManager.clustered == False,  # noqa: E712
        QueueManager.computer_name != "x",
        QueueManager.computer_name.contains("x"),
        QueueManager.computer_name.exists(),
    ):
        assert to_test(table, condition.resolve()).judge(QueueManager(), NOTHING) is False
        assert to_test(table, ~condition).judge(QueueManager(), NOTHING) is True


def test_an_object_has_the_guid_that_it_had_elsewhere():
    """Decision M37: as the LDAP filter for an Identifier has it."""
    former, now = UUID(int=1), UUID(int=2)
    moved = Queue.from_directory({"identifier": now}, former)
    for guid, expected in ((former, True), (now, True), (UUID(int=3), False)):
        for condition, wanted in (
            (Queue.identifier == guid, expected),
            (Queue.identifier != guid, not expected),
        ):
            assert to_test(table_of(Queue), condition).judge(moved, NOTHING) is wanted


def test_lists_are_described_without_their_order() -> None:
    """The texts of a set have another order in each process: a token must not depend on it."""
    guids = [str(UUID(int=number)) for number in range(1, 6)]
    table = table_of(QueueManager)
    described = {
        describe(table, Filter("SiteIdentifierList", "==", given))
        for given in (guids, guids[::-1], tuple(guids), set(guids))
    }
    assert len(described) == 1
    assert described != {describe(table, Filter("SiteIdentifierList", "==", guids[1:]))}
