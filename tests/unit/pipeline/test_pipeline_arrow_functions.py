"""Functions on Arrow arrays give what the plain way gives, however they are computed."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm.pipeline.frames.arrow_functions import contains, first_of_pairs, matches, without_first_rdn
from mqdssm.pipeline.runner import StopRequest
from mqdssm.pipeline.validate import scan
from mqdssm.pipeline.validate.datasets import read_dataset
from mqdssm.pipeline.validate.rules.rule import Repeated
from mqdssm.pipeline.validate.scan import Part, are_surely_different, find_repeated

TEXTS = st.lists(st.none() | st.text("aL:0\\\n,é", max_size=6), max_size=8)


@given(TEXTS, st.integers(0, 4), st.text("aL:0\\\n,é", max_size=3))
def test_contains_with_and_without_a_look_at_each_value(
    texts: list[str | None], begin: int, pattern: str
) -> None:
    values = pa.array(texts, pa.string()).slice(begin)

    assert contains(values, pattern).to_pylist() == pc.match_substring(values, pattern).to_pylist()


def test_what_stands_outside_a_slice_is_not_in_it() -> None:
    values = pa.array(["\\0ADEL:x", "plain", None, "\\0ADEL:y"]).slice(1, 2)

    assert contains(values, "\\0ADEL:").to_pylist() == [False, None]


@given(st.lists(st.lists(st.sampled_from(["aaaa", "aaab", "baaa", "aaaabbbb", "bbbbaaaa"]), max_size=4)))
def test_what_is_surely_different_is_there_once(lists: list[list[str]]) -> None:
    texts = [text for one in lists for text in one]
    chunks = [pa.array(["zzzz", *one], pa.string()).slice(1) for one in lists]

    if are_surely_different(chunks):
        assert len(set(texts)) == len(texts)
    elif all(len({len(text) for text in one}) <= 1 for one in lists):
        assert len(set(texts)) < len(texts)


def test_texts_of_other_lengths_are_left_to_counting() -> None:
    assert not are_surely_different([pa.array(["abc"])])
    assert not are_surely_different([pa.array(["abcd", "abcdefgh"])])
    assert not are_surely_different([pa.array(["abcd"]), pa.array([1])])
    assert not are_surely_different([pa.array(["", ""])])
    assert not are_surely_different([pa.array(["abcd", "", ""]).slice(1)])
    assert are_surely_different([])


@given(
    st.lists(st.text("aL:0é", max_size=6) | st.sampled_from(["", "aL", "La"]), max_size=12), st.integers(0, 4)
)
def test_a_value_is_in_one_part_wherever_it_stands(texts: list[str], begin: int) -> None:
    values = pa.array([*"begin", *texts], pa.string()).slice(begin)
    masks = [Part(number, 3).select_values(values).to_pylist() for number in range(3)]
    assert [sum(row) for row in zip(*masks, strict=True)] == [1] * len(values)
    for place, text in enumerate(values.to_pylist()):
        alone = [
            Part(number, 3).select_values(pa.array([text.encode()])).to_pylist()[0] for number in range(3)
        ]
        assert alone == [mask[place] for mask in masks]


def test_repeated_values_are_found_in_parts_that_bound_memory(tmp_path, monkeypatch) -> None:
    texts = [f"web\\q{number - (number % 50 == 49)}" for number in range(400)]  # eight have that of another
    table = pa.table({"FullPath": [f"CN={number}" for number in range(400)], "Pathname": texts})
    pq.write_table(table, tmp_path / "queue.parquet", row_group_size=100)
    sets = {"queue": read_dataset("queue", [tmp_path / "queue.parquet"])}
    rule = Repeated(
        id="own",
        types=("queue",),
        attribute="Pathname",
        section="",
        requirement="",
        message="{value}",
        key="Pathname",
    )
    held: list[int] = []

    def counted(chunks):
        held.append(sum(map(len, chunks)))
        return False

    monkeypatch.setattr(scan, "are_surely_different", counted)

    def found(held_max: int) -> list[dict[str, str]]:
        batches = find_repeated(rule, sets, {}, held_max, StopRequest())
        return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["dn"])

    whole = found(400)
    assert held == [400]
    assert len(whole) == 16
    assert found(40) == whole
    assert len(held[1:]) == 10
    assert (sum(held[1:]), max(held[1:]) < 80) == (400, True)


@given(TEXTS, st.integers(0, 4))
def test_the_parent_of_a_dn_in_a_slice(texts: list[str | None], begin: int) -> None:
    values = pa.array(texts, pa.string())
    whole = without_first_rdn(values).to_pylist()

    assert without_first_rdn(values.slice(begin)).to_pylist() == whole[begin:]


@pytest.mark.parametrize("remembered", [0, 10], ids=["Arrow's table", "a set"])
def test_a_reference_without_target(tmp_path: Path, remembered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "REMEMBERED_KEYS_MAX", remembered)
    path = tmp_path / "machine.parquet"
    pq.write_table(pa.table({"FullPath": ["CN=a", "CN=b"]}), path)
    machines = read_dataset("queue-manager", [path])

    lost = scan._without_target(pa.array(["cn=b", "cn=c", "cn=a", "cn=c"]), machines, "lower(FullPath)")

    assert lost.to_pylist() == [False, True, False, True]


KEYS = st.lists(st.none() | st.sampled_from("abcd"), max_size=8)


@given(KEYS, KEYS)
def test_matches_are_all_pairs_of_equal_values(values: list[str | None], keys: list[str | None]) -> None:
    left, right = matches(pa.array(values, pa.string()), pa.array(keys, pa.string()))
    wanted = [
        (here, there)
        for here, value in enumerate(values)
        for there, key in enumerate(keys)
        if value is not None and value == key
    ]
    assert list(zip(left.to_pylist(), right.to_pylist(), strict=True)) == wanted


@given(st.lists(st.tuples(st.integers(0, 3), st.none() | st.sampled_from("ab")), max_size=8))
def test_the_first_of_each_pair(pairs: list[tuple[int, str | None]]) -> None:
    parents, values = ([pair[at] for pair in pairs] for at in (0, 1))
    found = first_of_pairs(pa.array(parents, pa.int64()), pa.array(values, pa.string())).to_pylist()
    assert found == [number for number, pair in enumerate(pairs) if pairs.index(pair) == number]
