"""Batches of bounded size: every entry once, in order, and never more than the limits."""

from hypothesis import given
from hypothesis import strategies as st

from mqdssm.pipeline.frames.bulk import divide_by_size, measure_row


@given(st.lists(st.integers(0, 50)), st.integers(1, 7), st.integers(1, 100))
def test_every_entry_is_in_one_batch_that_is_no_longer_than_it_must_be(
    sizes: list[int], rows_max: int, bytes_max: int
) -> None:
    found = list(divide_by_size(sizes, lambda size: size, rows_max=rows_max, bytes_max=bytes_max))
    assert [size for batch in found for size in batch] == sizes
    for batch in found:
        assert 1 <= len(batch) <= rows_max
        assert sum(batch[:-1]) < bytes_max
    for batch in found[:-1]:
        assert len(batch) == rows_max or sum(batch) >= bytes_max


def test_a_batch_is_handed_on_before_the_next_entry_is_fetched() -> None:
    """Certificates of 1 MiB: a hundred of them in advance would fill a worker."""
    fetched = []

    def large():
        for number in range(3):
            fetched.append(number)
            yield b"x" * 100

    batches = divide_by_size(large(), len, rows_max=10, bytes_max=100)
    assert next(batches) == [b"x" * 100]
    assert fetched == [0]


def test_the_octets_of_a_row() -> None:
    assert measure_row(("cn=dn", b"abc", None, [b"d", b"ef"], [], {"brought": "along"})) == 6
