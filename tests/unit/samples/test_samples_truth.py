"""The list of what was planted, read and compared."""

from collections import Counter

import pytest

from mqdssm.errors import ConfigError
from mqdssm.samples.faults import Truth, compare_with_truth, read_truth
from mqdssm.samples.forms import FAULTS_NAME

ONE = Truth("link-cost-range", "routing-link", "1", "cn=x")
OTHER = Truth("guid-required", "queue", None, "cn=y")


def test_equal_is_all_and_nothing_else():
    found = compare_with_truth(Counter([ONE, OTHER]), [OTHER, ONE])
    assert (found.missed, found.unplanted) == ((), ())
    missed = compare_with_truth(Counter([ONE, OTHER]), [ONE])
    assert (missed.planted, missed.missed, missed.unplanted) == (2, (OTHER,), ())
    twice = compare_with_truth(Counter([ONE]), [ONE, ONE])
    assert (twice.missed, twice.unplanted) == ((), (ONE,))


@pytest.mark.parametrize("content", [None, "{", '["rule"]', '{"rule": "x"}', '{"rulers": 1}'])
def test_a_list_that_is_none_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / FAULTS_NAME).write_text(content)
    with pytest.raises(ConfigError, match=r"faults\.jsonl is no list of planted defects"):
        read_truth(tmp_path)
