"""The row decoder: equal to the generic one whatever comes, and learning shapes within bounds."""

import itertools
import random

import pytest

from mqdssm.directory import rows as lib
from mqdssm.directory.ber import tlv
from mqdssm.directory.entries import PartialValues
from mqdssm.directory.responses import split_messages
from mqdssm.directory.rows import SHAPE_SEEN_MIN, RowDecoder
from mqdssm.errors import DecodeError


def short(tag, content):
    return tlv(tag, content)


def long(tag, content):
    if tag == 0x04:
        return tlv(tag, content)
    return bytes((tag, 0x84)) + len(content).to_bytes(4, "big") + content


def attribute(name, *values, form=short):
    content = form(0x31, b"".join(form(0x04, value) for value in values))
    return form(0x30, form(0x04, name) + content)


def entry(dn, *attributes, form=short):
    return form(0x04, dn) + form(0x30, b"".join(attributes))


def laid_out(contents):
    """Messages one behind the other, and where the entries lie."""
    octets = b"".join(tlv(0x30, b"\x02\x01\x05" + tlv(0x64, content)) for content in contents)
    messages, rest = split_messages(octets)
    assert rest == len(octets)
    return octets, [(one.start, one.end) for one in messages]


def decode(decoder, contents):
    return decoder.rows(*laid_out(contents))


def taught(columns, content, multi=frozenset()):
    """A decoder that has compiled the shape of this entry."""
    decoder = RowDecoder(columns, multi)
    decode(decoder, [content] * SHAPE_SEEN_MIN)
    assert len(decoder._shapes) == 1
    return decoder


def compiled_row(decoder, content):
    """What the first compiled shape says of the entry; None when it does not fit."""
    _, match, make = decoder._shapes[0]
    found = match(content, 0, len(content))
    return None if found is None else make(found.groups(), len(content))


COLUMNS = ["mSMQLabelEx", "objectGUID", "mSMQSites", "mSMQOwnerID"]
QUEUE = entry(
    "CN=ö,DC=x".encode(),
    attribute(b"objectGUID", bytes(range(0x20, 0x30))),
    attribute(b"mSMQLabelEx", b"0000"),
    attribute(b"mSMQSites", b"a", b"b"),
)


@pytest.mark.spec("MS-MQDSSM 3.1.6.15")
def test_values_in_the_order_asked_for_and_empty_where_there_is_none():
    decoder = taught(COLUMNS, QUEUE, frozenset({"mSMQSites"}))
    row = ("CN=ö,DC=x", b"0000", bytes(range(0x20, 0x30)), [b"a", b"b"], None)
    assert compiled_row(decoder, QUEUE) == row
    assert decoder.decode_generic_row(QUEUE, 0, len(QUEUE)) == row
    assert decode(decoder, [QUEUE]) == [row]


def test_entries_beyond_the_bound_of_patterns(monkeypatch):
    decoder = taught(COLUMNS, QUEUE, frozenset({"mSMQSites"}))
    expected = decode(decoder, [QUEUE])
    monkeypatch.setattr(lib, "SHAPE_ENTRY_BYTES_MAX", len(QUEUE))
    assert decode(decoder, [QUEUE]) == expected
    monkeypatch.setattr(lib, "SHAPE_ENTRY_BYTES_MAX", len(QUEUE) - 1)
    calls = []
    real = decoder.decode_generic_row
    monkeypatch.setattr(
        RowDecoder, "decode_generic_row", lambda self, *span: calls.append(span) or real(*span)
    )
    assert decode(decoder, [QUEUE]) == expected
    assert len(calls) == 1


def test_names_are_compared_without_regard_to_case():
    content = entry(b"CN=a", attribute(b"MSMQLABELEX", b"l"), attribute(b"msmqownerid;binary", b"o"))
    decoder = taught(COLUMNS, content)
    assert decode(decoder, [content]) == [("CN=a", b"l", None, None, b"o")]
    assert compiled_row(decoder, content) == ("CN=a", b"l", None, None, b"o")


@pytest.mark.parametrize("form", [short, long])
@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("multi", [frozenset(), frozenset({"x"})])
def test_columns_of_one_and_of_many_values(form, count, multi):
    values = [b"v%d" % number for number in range(count)]
    content = entry(b"CN=a", attribute(b"x", *values, form=form), form=form)
    decoder = taught(["x"], content, multi)
    expected = values if multi else (values[0] if values else None)
    assert compiled_row(decoder, content) == ("CN=a", expected)
    assert decode(decoder, [content]) == [("CN=a", expected)]


def test_entries_without_attributes():
    decoder = taught(["x"], entry(b"CN=000,DC=0"))
    for dn in ("CN=000,DC=0", "", "0", "CN=" + "0" * 500):
        content = entry(dn.encode())
        assert compiled_row(decoder, content) == (dn, None)


def test_attributes_that_are_no_column_are_passed_over():
    content = entry(b"CN=a", attribute(b"y", b"1"), attribute(b"x", b"2"), attribute(b"z"))
    decoder = taught(["x"], content)
    assert compiled_row(decoder, content) == ("CN=a", b"2")


@pytest.mark.parametrize(
    "size", [0, 1, 47, 48, 49, 115, 116, 117, 127, 128, 130, 255, 256, 65535, 65536, 70000]
)
@pytest.mark.parametrize("octet", [b"0", b"1", b"\x04", b"\0"])
def test_values_of_every_length(size, octet):
    decoder = taught(["x", "y"], entry(b"CN=a", attribute(b"x", b"1"), attribute(b"y", b"2")))
    content = entry(b"CN=a", attribute(b"x", octet * size), attribute(b"y", octet * size))
    assert decode(decoder, [content]) == [("CN=a", octet * size, octet * size)]
    assert compiled_row(decoder, content) == ("CN=a", octet * size, octet * size)


def test_a_value_that_holds_the_next_header_is_not_cut_there():
    decoder = taught(["x", "y"], entry(b"CN=a", attribute(b"x", b"1"), attribute(b"y", b"2")))
    fake = b"begin" + attribute(b"y", b"fake") + b"end"
    contents = [
        entry(b"CN=a", attribute(b"x", fake), attribute(b"y", b"2")),
        entry(b"CN=a", attribute(b"x", b"1"), attribute(b"y", fake)),
        entry(b"CN=" + fake, attribute(b"x", b"1"), attribute(b"y", b"2")),
        entry(b"CN=" + tlv(0x30, attribute(b"x", b"1")), attribute(b"x", b"1"), attribute(b"y", b"2")),
        entry(b"CN=a", attribute(b"x", fake[:-5]), attribute(b"y", fake[:-4])),
    ]
    values = [(fake, b"2"), (b"1", fake), (b"1", b"2"), (b"1", b"2"), (fake[:-5], fake[:-4])]
    assert [row[1:] for row in decode(decoder, contents)] == values


def every_changed_octet(content):
    for position, octet in enumerate(content):
        for other in {0x00, 0x04, 0x30, 0x31, 0x80, 0x81, 0x84, 0xFF, octet ^ 1, octet + 1 & 255}:
            yield content[:position] + bytes((other,)) + content[position + 1 :]


def both(decoder, content):
    """What the compiled and what the generic decoder say; None for a refusal."""
    try:
        fast = compiled_row(decoder, content)
    except (ValueError, IndexError):
        fast = None
    try:
        generic = decoder.decode_generic_row(content, 0, len(content))
    except DecodeError:
        generic = None
    return fast, generic


@pytest.mark.parametrize("form", [short, long])
def test_a_compiled_shape_accepts_nothing_that_the_generic_decoder_refuses(form):
    """Every octet of an entry changed in ten ways: the lengths of all four levels among them."""
    content = entry(
        b"CN=a",
        attribute(b"x", b"12", form=form),
        attribute(b"y", b"a", b"b", form=form),
        attribute(b"z", form=form),
        form=form,
    )
    decoder = taught(["x", "y"], content, frozenset({"y"}))
    refused = 0
    for changed in every_changed_octet(content):
        fast, generic = both(decoder, changed)
        assert fast is None or fast == generic
        refused += generic is None
        octets, spans = changed + b"\0" * 8, [(0, len(changed))]
        if generic is None:
            with pytest.raises(DecodeError):
                decoder.rows(octets, spans)
        else:
            assert decoder.rows(octets, spans) == [generic]
    assert refused > 100


def test_lengths_that_lie_in_pairs_are_seen_by_both():
    """Any two octets one more or one less: two lengths that agree with each other, but not with the rest."""
    content = entry(b"CN=a", attribute(b"x", b"12"), attribute(b"y", b"a", b"b"), attribute(b"z", b"3"))
    decoder = taught(["x", "y", "z"], content, frozenset({"y"}))
    for one, other in itertools.combinations(range(len(content)), 2):
        for more, less in itertools.product((-1, 1), repeat=2):
            changed = bytearray(content)
            changed[one] = (changed[one] + more) & 0xFF
            changed[other] = (changed[other] + less) & 0xFF
            fast, generic = both(decoder, bytes(changed))
            assert fast is None or fast == generic


def test_every_truncation():
    decoder = taught(COLUMNS, QUEUE, frozenset({"mSMQSites"}))
    for cut in range(len(QUEUE)):
        for octets in (QUEUE, QUEUE[:cut]):
            with pytest.raises(DecodeError):
                decoder.rows(octets, [(0, cut)])
    with pytest.raises(DecodeError):
        decoder.rows(QUEUE + b"\0", [(0, len(QUEUE) + 1)])


def test_names_that_are_no_utf8_are_refused_by_both():
    good, bad = entry(b"CN=a", attribute(b"x", b"1")), entry(b"CN=\xff", attribute(b"x", b"1"))
    decoder = taught(["x"], good)
    with pytest.raises(DecodeError, match="no UTF-8"):
        decode(decoder, [bad])


def test_names_that_are_too_long_are_refused_by_both():
    decoder = taught(["x"], entry(b"CN=a", attribute(b"x", b"1")))
    content = entry(b"a" * 65537, attribute(b"x", b"1"))
    assert compiled_row(decoder, content) is None
    with pytest.raises(DecodeError):
        decode(decoder, [content])


def test_a_shape_is_compiled_when_it_keeps_coming():
    decoder = RowDecoder(["x"])
    contents = [entry(b"CN=a", attribute(b"x", b"1"))]
    for seen in range(1, SHAPE_SEEN_MIN + 5):
        decode(decoder, contents)
        assert len(decoder._shapes) == (seen >= SHAPE_SEEN_MIN)


def test_many_shapes_stay_within_bounds_and_right(monkeypatch):
    monkeypatch.setattr(lib, "SHAPES_MAX", 5)
    monkeypatch.setattr(lib, "CANDIDATES_MAX", 200)
    monkeypatch.setattr(lib, "HEADERS_MAX", 30)
    chance = random.Random(3)
    names = [b"a", b"b", b"c", b"d", b"e"]
    decoder = RowDecoder(["a", "b", "c", "d", "e"], frozenset({"e"}))
    for number in range(3000):
        chosen = chance.sample(names, chance.randrange(6)) if number % 2 else names[: number % 5]
        values = {name: b"%d" % chance.randrange(10**9) for name in chosen}
        content = entry(b"CN=%d" % number, *[attribute(name, value) for name, value in values.items()])
        (row,) = decode(decoder, [content])
        assert row[1:5] == tuple(values.get(name) for name in names[:4])
        assert row[5] == ([values[b"e"]] if b"e" in values else None)
        assert len(decoder._shapes) <= 5
        assert len(decoder._candidates) <= 200
        assert len(decoder._lengths) <= 30
    assert len({shape for shape, _, _ in decoder._shapes}) == len(decoder._shapes) == 5


def test_a_shape_that_comes_again_is_tried_first():
    decoder = RowDecoder(["a", "b", "c"])
    contents = [entry(b"CN=x", attribute(name, b"1")) for name in (b"a", b"b", b"c")]
    for content in contents:
        decode(decoder, [content] * SHAPE_SEEN_MIN)
    for content in contents:
        decode(decoder, [content])
        assert compiled_row(decoder, content) is not None
        assert len(decoder._shapes) == 3


def test_a_shape_out_of_reach_comes_back_when_it_is_needed(monkeypatch):
    monkeypatch.setattr(lib, "SHAPES_TRIED_MAX", 2)
    test_a_shape_that_comes_again_is_tried_first()


@pytest.mark.parametrize(
    "attributes",
    [
        [attribute(b"x", b"1"), attribute(b"X", b"2")],
        [attribute(b"x"), attribute(b"x;range=0-0", b"1")],
        [attribute(b"x" * 128, b"1")],
        [attribute(b"a%d" % number, b"1") for number in range(129)],
    ],
    ids=["twice", "range", "long name", "wide"],
)
def test_what_no_pattern_can_stand_for_goes_the_generic_way(attributes):
    content = entry(b"CN=a", *attributes)
    decoder = RowDecoder(["x"], frozenset({"x"}))
    rows = decode(decoder, [content] * (SHAPE_SEEN_MIN + 3))
    assert decoder._shapes == []
    assert set(map(repr, rows)) == {repr(decoder.decode_generic_row(content, 0, len(content)))}


def test_ranges_are_marked_in_rows_too():
    content = entry(b"CN=a", attribute(b"x"), attribute(b"x;range=0-1", b"1", b"2"))
    for many in (1, 20):
        row = decode(RowDecoder(["x"], frozenset({"x"})), [content] * many)[-1]
        assert row == ("CN=a", [b"1", b"2"])
        assert isinstance(row[1], PartialValues)
        assert row[1].next_index == 2


@pytest.mark.parametrize("columns", [["a b"], ["*"], [""], ["cn", "CN"], ["cn", "cn;binary"]])
def test_columns_that_are_none(columns):
    with pytest.raises(ValueError, match=r"attribute description|named twice"):
        RowDecoder(columns)


def test_multi_names_columns():
    with pytest.raises(ValueError, match="no column: b"):
        RowDecoder(["a"], frozenset({"b"}))
    assert decode(RowDecoder(["a"], frozenset({"A"})), [entry(b"", attribute(b"a", b"1"))]) == [("", [b"1"])]
    assert decode(RowDecoder([]), [entry(b"CN=a", attribute(b"a", b"1"))] * 20) == [("CN=a",)] * 20


def test_no_entries_no_rows():
    assert RowDecoder(["a"]).rows(b"", []) == []
