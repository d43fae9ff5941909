"""Bounds of slices: evenly over the keys, in bounded memory, and none where keys are hidden."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mqdssm.directory.filters import to_text
from mqdssm.spark.partitions import SAMPLE_MAX, Sample, Slice


@given(st.sets(st.integers(1, 2**63)), st.integers(1, 9))
def test_every_key_is_in_one_slice(keys: set[int], count: int) -> None:
    sample = Sample()
    sample.take(b"%d" % key for key in keys)
    bounds = [int(bound) for bound in sample.bounds(count)]
    assert bounds == sorted(set(bounds))
    assert len(bounds) < count
    ends = [0, *bounds, 2**64]
    sizes = [sum(low <= key < high for key in keys) for low, high in pairwise(ends)]
    assert sum(sizes) == len(keys)
    assert max(sizes) - min(sizes) <= 1 or len(keys) < count


def test_many_keys_are_thinned_out_evenly() -> None:
    sample = Sample()
    many = 5 * SAMPLE_MAX
    sample.take(b"%d" % key for key in range(many))
    sample.take(b"%d" % key for key in range(many, 2 * many))
    (middle,) = sample.bounds(2)
    assert abs(int(middle) - many) < many / 1000


def test_a_hidden_key_is_noticed() -> None:
    sample = Sample()
    sample.take([b"1", b"2"])
    assert not sample.hidden
    sample.take([b"3", None])
    assert sample.hidden


def test_ends_of_slices() -> None:
    assert Slice("ldap://a").wanted is None
    middle = Slice("ldap://a", "uSNCreated", b"5", b"9").wanted
    assert middle is not None
    assert to_text(middle) == "(&(uSNCreated>=5)(!(uSNCreated>=9)))"
