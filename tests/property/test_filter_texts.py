"""Filters on the command line: any condition written as text is read as it was meant; tokens of pages too."""

import contextlib
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm import Queue
from mqdssm.cli.objects.arguments import CommandType
from mqdssm.cli.objects.filters import filter_of
from mqdssm.errors import MqdssmError
from mqdssm.events.pages import _decode, _encode
from mqdssm.model.expressions import Condition, ValueComparison, make_pattern
from mqdssm.model.filters import Filter

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
NAMES = ("Label", "Pathname", "QualifiedPathname")
Written = tuple[str, Condition[Any]]


def quoted(text: str, quote: str) -> str:
    return f"{quote}{text.replace(quote, quote * 2)}{quote}"


QUOTES = st.sampled_from("\"'")
BLANKS = st.sampled_from(["", " ", "  "])


@st.composite
def comparisons(draw: st.DrawFn) -> Written:
    value, sign, blank = draw(TEXTS), draw(st.sampled_from(["==", "!=", "<", "<=", ">", ">="])), draw(BLANKS)
    text = f"{blank}Label{blank}{sign}{blank}{quoted(value, draw(QUOTES))}"
    return text, ValueComparison(Queue, Filter("Label", sign, value))  # type: ignore[arg-type]  # one of them


@st.composite
def patterns(draw: st.DrawFn) -> Written:
    parts = draw(st.lists(TEXTS.filter(str.strip), min_size=1, max_size=3))
    begins, ends = draw(st.booleans()), draw(st.booleans())
    if len(parts) == 1 and begins and ends:
        ends = False  # no asterisk is no pattern
    texts = ([] if begins else [""]) + parts + ([] if ends else [""])
    quote = draw(QUOTES)
    value = "*".join(quoted(part, quote) if part else "" for part in texts)
    return f"Label=={value}", make_pattern(Queue, "Label", tuple(texts))


def joined(sign: str, one: Written, other: Written) -> Written:
    condition = one[1] & other[1] if sign == "&&" else one[1] | other[1]
    return f"({one[0]}){sign}({other[0]} )", condition


PRESENCE = st.sampled_from([("Label==*", Queue.label.exists()), ("Label!=*", ~Queue.label.exists())])
WRITTEN: st.SearchStrategy[Written] = st.recursive(
    st.one_of(comparisons(), patterns(), PRESENCE),
    lambda inner: st.one_of(
        st.builds(joined, st.sampled_from(["&&", "||"]), inner, inner),
        inner.map(lambda written: (f" !({written[0]})", ~written[1])),
    ),
    max_leaves=6,
)


@given(WRITTEN)
def test_a_condition_is_read_as_it_was_written(written: Written) -> None:
    text, condition = written
    found = filter_of(CommandType.QUEUE, text)
    assert (ValueComparison(Queue, found) if isinstance(found, Filter) else found) == condition, text


@given(st.text(st.sampled_from("LabelQuota=!<>&|()*\"' x5")) | st.text())
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError, MqdssmError):
        filter_of(CommandType.QUEUE, text)


@given(st.uuids(), st.binary(min_size=8, max_size=8), st.integers(0, 38), st.characters())
def test_tokens_of_pages(last: UUID, query: bytes, place: int, character: str) -> None:
    token = _encode(last, query)
    assert _decode(token, query) == last
    damaged = f"{token[:place]}{character}{token[place + 1 :]}"
    if damaged != token:
        with pytest.raises(ValueError, match="is no token of a page"):
            _decode(damaged, query)
    with pytest.raises(ValueError, match="belongs to another query"):
        _decode(token, bytes(octet ^ 1 for octet in query))
