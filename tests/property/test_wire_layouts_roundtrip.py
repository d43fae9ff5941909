"""Any declaration: the compiled and the interpreted form do the same, byte for byte and word for word."""

from collections.abc import Callable
from dataclasses import field, make_dataclass
from enum import IntEnum
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.wire.interpreted import decode_interpreted, encode_interpreted

from mqdssm.errors import DecodeError
from mqdssm.wire.codecs import (
    BIT,
    BOOL16,
    GUID,
    I8,
    I16,
    I32,
    I64,
    SEQUENCE_NUMBER,
    U8,
    U16,
    U32,
    U64,
    Counted,
    Scalar,
    SizedBytes,
    Text16Z,
    big_endian,
    enum_of,
    raw,
    unsigned,
)
from mqdssm.wire.fields import (
    Align,
    Bytes,
    ByteSize,
    Choice,
    Const,
    Count,
    Declared,
    Field,
    Flag,
    Ignored,
    Items,
    Keyed,
    Nested,
    Select,
    Text16,
    TotalSize,
    Value,
    bits,
    group,
    header,
    unless,
    when,
    when_left,
)
from mqdssm.wire.layout import Layout


class Colour(IntEnum):
    RED = 0
    BLUE = 7


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=9)
SCALARS: list[tuple[Scalar, st.SearchStrategy[Any]]] = [
    *(
        (scalar, st.integers(0, 2 ** (8 * scalar.size) - 1))
        for scalar in (U8, U16, U32, U64, SEQUENCE_NUMBER, big_endian(3))
    ),
    *((scalar, signed(8 * scalar.size)) for scalar in (I8, I16, I32, I64)),
    (GUID, st.uuids()),
    (BOOL16, st.booleans()),
    (raw(3), st.binary(min_size=3, max_size=3)),
    (enum_of(U8, Colour), st.sampled_from(Colour)),
    (enum_of(U16, Colour, keep_unknown=True), st.sampled_from([*Colour, 5, 65535])),
]
INNER = make_dataclass("Inner", [("n", int), ("text", str)], frozen=True, slots=True)
INNER_LAYOUT = Layout(INNER, "[MS-TEST] 1", Value("n", U8, "N"), Value("text", Text16Z(20), "T"))
GROWING: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (SizedBytes(U16, 20), st.binary(max_size=20)),
    (Counted(U8, U16, 5), st.lists(st.integers(0, 65535), max_size=5).map(tuple)),
    (Counted(U32, Text16Z(20), 3), st.lists(TEXT, max_size=3).map(tuple)),
]
ELEMENTS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    *SCALARS,
    (Text16Z(20), TEXT),
    *GROWING,
    (Nested(INNER_LAYOUT), st.builds(INNER, n=st.integers(0, 255), text=TEXT)),
]
NUMBERS = st.sampled_from([U8, U16, U32, I8, I32])

KEYED = {number: codec for number, (codec, _) in enumerate(ELEMENTS, 1)}
PAIRS = st.lists(
    st.sampled_from(sorted(KEYED)).flatmap(lambda key: st.tuples(st.just(key), ELEMENTS[key - 1][1])),
    max_size=4,
    unique_by=lambda pair: pair[0],
).map(tuple)

# name -> the fields, the default, the values that go with them
Piece = tuple[list[Field], Any, st.SearchStrategy[Any]]


@st.composite
def pieces(draw: st.DrawFn, name: str) -> Piece:
    number, (codec, values) = draw(NUMBERS), draw(st.sampled_from(ELEMENTS))
    listed = st.lists(values, max_size=5).map(tuple)
    sized = Text16(name, "Text", terminated=draw(st.booleans()))
    made: list[Piece] = [
        ([Value(name, codec, "V")], None, values),
        ([Count(name, number, "C", high=5), Items(name, codec, "I")], (), listed),
        ([Count(name, number, "C", high=5), Keyed(name, U16, KEYED, "V", "K")], (), PAIRS),
        ([Count(name, number, "C", high=5), when(name, Items(name, codec, "I"))], (), listed),
        ([ByteSize(name, number, "S", high=100), Bytes(name, "B")], b"", st.binary(max_size=30)),
        ([ByteSize(name, number, "S", high=100), sized], "", TEXT),
        ([ByteSize(name, number, "S", high=100), Const("K", U16, 7), when(name, sized)], "", TEXT),
        ([Flag(name, number, "F", yes=3), when(name, Value(name, codec, "V"))], None, st.none() | values),
        (
            [
                Flag(name, number, "F"),
                unless(name, Ignored("G", U32, 9)),
                when(name, Value(name, codec, "V")),
            ],
            None,
            st.none() | values,
        ),
        *bit_pieces(name, codec, values),
    ]
    return draw(st.sampled_from(made))


def bit_pieces(name: str, codec: Any, values: st.SearchStrategy[Any]) -> list[Piece]:
    """Numbers of several fields, selected forms, padding and sizes in units of two bytes."""
    form = bits("B", U8, Select(name, unsigned(4), "S"), Ignored("I", unsigned(4), 3))
    number = bits(
        "B", U8, Ignored("I", unsigned(2)), Value(name, unsigned(5), "V", high=30), Const("K", BIT, True)
    )
    flag = bits(
        "B", U16, Const("E", enum_of(unsigned(3), Colour), Colour.BLUE), Flag(name, unsigned(13), "F", yes=2)
    )
    choice = Choice(name, {0: None, 3: codec, 5: Text16Z(20), 15: U64}, "C")
    return [
        ([ByteSize(name, U8, "S", high=50, unit=2), Text16(name, "Text"), Align(4, "P")], "", TEXT),
        ([number], 0, st.integers(0, 30)),
        ([*header("H", flag, when(name, Value(name, codec, "V"), Align(2)))], None, st.none() | values),
        (
            [form, choice, Align(8)],
            (0, None),
            st.tuples(st.just(3), values)
            | st.tuples(st.just(5), TEXT)
            | st.sampled_from([(0, None), (15, 2**64 - 1)]),
        ),
    ]


@st.composite
def tails(draw: st.DrawFn, name: str) -> Piece:
    codec, values = draw(st.sampled_from(ELEMENTS))
    listed = st.lists(values, max_size=5).map(tuple)
    made: list[Piece] = [
        ([Items(name, codec, "I", high=5)], (), listed),
        ([Bytes(name, "B", high=30)], b"", st.binary(max_size=30)),
        ([when_left(name, Value(name, codec, "V"))], None, st.none() | values),
        ([when_left(name, Count(name, U8, "C", low=1, high=5), Items(name, codec, "I"))], (), listed),
    ]
    return draw(st.sampled_from(made))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Layout[Any], Any]:
    """A random declaration, and an object that it can carry."""
    chosen = {f"f{index}": draw(pieces(f"f{index}")) for index in range(draw(st.integers(1, 4)))}
    if draw(st.booleans()):
        chosen["last"] = draw(tails("last"))
    declared: list[Declared] = [part for parts, _, _ in chosen.values() for part in parts]
    if draw(st.booleans()):
        declared = [group("Group", *declared)]
    if draw(st.booleans()):
        declared.insert(0, TotalSize("Z", U32))
    cls = make_dataclass(
        "Made", [(name, Any, field(default=default)) for name, (_, default, _) in chosen.items()], frozen=True
    )
    made = cls(**{name: draw(values) for name, (_, _, values) in chosen.items()})
    return Layout(cls, "[MS-TEST] 2", *declared), made


def outcome(act: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "made", act()
    except DecodeError as error:
        return type(error).__name__, str(error)


@given(layouts())
def test_round_trip(given_layout):
    layout, made = given_layout
    image = layout.encode(made)
    assert encode_interpreted(layout, made) == image
    assert layout.decode(image) == decode_interpreted(layout, image) == made
    assert len(image) >= layout.least


@given(layouts(), st.data())
def test_both_forms_take_and_refuse_the_same(given_layout, data):
    layout, made = given_layout
    image = bytearray(layout.encode(made))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(image)))
        image[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    compiled = outcome(lambda: layout.decode(image))
    assert compiled == outcome(lambda: decode_interpreted(layout, image))
    if compiled[0] == "made":
        # only ignored fields may differ, and their size is fixed
        assert len(layout.encode(compiled[1])) == len(image)
        assert layout.decode(layout.encode(compiled[1])) == compiled[1]


@given(layouts(), st.binary(max_size=64))
def test_both_forms_agree_on_noise(given_layout, noise):
    layout, _ = given_layout
    assert outcome(lambda: layout.decode(noise)) == outcome(lambda: decode_interpreted(layout, noise))
