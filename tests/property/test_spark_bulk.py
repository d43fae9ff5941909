"""Whatever a directory holds, frames show what the events read of it, value by value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.enterprises.strategies import enterprises, standing
from support.spark.element_batches import batches, columns_of

from mqdssm.pipeline.frames.bulk import read_batches
from mqdssm.pipeline.frames.columns import FRAME_TYPES, TYPES

# what slapd stores and the mapping refuses: attribute -> values
DAMAGE = {
    "mSMQQueue": {
        "mSMQQueueType": [b"short", b"seventeen octets."],
        "mSMQQueueQuota": [b"4294967296", b"-2147483649"],
        "mSMQBasePriority": [b"2147483648"],
        "whenCreated": [b"16001231235959Z", b"2020010112Z"],
    },
    "mSMQConfiguration": {"mSMQOSType": [b"7"], "mSMQServiceType": [b"4294967296"], "mSMQSites": [b"x"]},
    "site": {"mSMQNt4Stub": [b"5"], "mSMQInterval1": [b"99999999999"]},
    "user": {"objectSid": [b"no SID"]},
}


@st.composite
def damaged(draw: st.DrawFn):
    entries = []
    for rdns, ldap_class, values in draw(enterprises()):
        wrong = DAMAGE.get(ldap_class, {})
        if wrong and draw(st.integers(0, 3)) == 0:
            name = draw(st.sampled_from(sorted(wrong)))
            entries.append((rdns, ldap_class, values | {name: [draw(st.sampled_from(wrong[name]))]}))
        else:
            entries.append((rdns, ldap_class, values))
    return entries


@pytest.mark.spec("MS-MQDSSM 3.1.6.11")
def test_frames_are_what_searches_find(openldap_directory, caplog) -> None:
    """Of all types in each example: the entries take longer to make than to read."""
    caplog.set_level("CRITICAL", logger="mqdssm")

    @given(damaged(), st.integers(1, 5))
    def check(entries, rows_max: int) -> None:
        with standing(openldap_directory, entries):
            for name in TYPES:
                _check_frame(openldap_directory, name, rows_max)

    check()


def _check_frame(directory, name: str, rows_max: int) -> None:
    columns = columns_of(TYPES[name])
    expected = rows(batches(directory.search(TYPES[name]), columns))
    found = rows(read_batches(directory, FRAME_TYPES[name], rows_max=rows_max))
    names = [column.name for column in columns]
    assert [{name: row[name] for name in names} for row in found] == expected
    for row in found:
        for problem in row["Unreadable"] or ():
            attribute, _, reason = problem.partition(": ")
            assert not row[attribute] or "where no queue manager is" in reason
            assert reason


def rows(found):
    return [row for batch in found for row in batch.to_pylist()]
