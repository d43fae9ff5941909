"""What became of planted defects in a migration: each is accounted for, or it is told."""

from collections import Counter

import pytest

from mqdssm.samples.fault_table import FAULTS
from mqdssm.samples.faults import MQIS, Truth
from mqdssm.samples.planted_outcomes import LEFT_OUT, MADE_GOOD, Arrived, RejectedRow, follow_planted
from mqdssm.tables.mqis import MQIS_TABLES

REJECTED = Truth("name-required", "site", "s1", None)
FOUND = Truth("queue-times", "queue", "q1", None)
LEFT = Truth("link-gates-exist", "routing-link", "l1", None)
GOOD = Truth("queue-create-time-required", "queue", "q2", None)
ALL = Counter([REJECTED, FOUND, LEFT, GOOD])
SITE = RejectedRow("site", "s1", frozenset(), "it is missing")
FINDINGS = (FOUND._replace(dn="cn=q1"),)


def arrived(rejected=(SITE,), left_out=(("l1", "PROPID_L_GATES"),), guids=("q2",), found=FINDINGS):
    return Arrived(tuple(rejected), frozenset(left_out), frozenset(guids), found)


def test_every_fate_is_counted():
    got = follow_planted(ALL, arrived())
    assert (got.planted, got.rejected, got.reported, got.left_out, got.made_good) == (4, 1, 1, 1, 1)
    assert (got.missed, got.unplanted, got.followed, got.is_settled) == ((), (), 0, True)


@pytest.mark.parametrize(
    ("what", "missed"),
    [
        ({"rejected": ()}, REJECTED),
        ({"left_out": [("l1", "PROPID_L_SEQNUM")]}, LEFT),
        ({"guids": ()}, GOOD),
        ({"found": ()}, FOUND),
    ],
)
def test_what_nothing_shows_is_missed(what, missed):
    got = follow_planted(ALL, arrived(**what))
    assert (got.missed, got.unplanted, got.is_settled) == ((missed,), (), False)


def test_what_follows_from_a_rejected_row_is_no_surprise():
    link = RejectedRow("routing-link", "l9", frozenset({"s1", "s9"}), "there is no site s1")
    alone = Truth("site-unreachable", "site", "s9", None)
    got = follow_planted(ALL, arrived([SITE, link], found=(*FINDINGS, alone)))
    assert (got.followed, got.unplanted, got.is_settled) == (2, (), True)


def test_what_nothing_explains_is_told():
    row = RejectedRow("queue", "q9", frozenset({"m9"}), "too long")
    twice = Truth("site-unreachable", "site", "s2", None)
    got = follow_planted(ALL, arrived([SITE, row], found=(*FINDINGS, FOUND, twice)))
    assert got.unplanted == (Truth("rejected: too long", "queue", "q9", None), FOUND, twice)
    assert (got.missed, got.is_settled) == ((), False)


def test_two_of_one_guid_are_two():
    same = Truth("guid-unique", "queue", "q1", None)
    row = RejectedRow("queue", "q1", frozenset(), "the same GUID")
    assert follow_planted(Counter([same, same]), arrived([row, row], found=())).rejected == 2
    assert follow_planted(Counter([same, same]), arrived([row], found=())).missed == (same,)


def test_the_tables_name_what_there_is():
    planted = {fault.rule for fault in FAULTS if fault.forms & MQIS}
    assert planted >= {*LEFT_OUT, *MADE_GOOD}
    columns = {column.name for table in MQIS_TABLES.values() for column in table.columns}
    assert columns >= set(LEFT_OUT.values())
