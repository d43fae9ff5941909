"""Declarations that contradict themselves or their dataclass are refused when they are made, at import."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from mqdssm.wire.codecs import U8, Text16Z
from mqdssm.wire.fields import (
    Bytes,
    ByteSize,
    Count,
    Flag,
    Items,
    Keyed,
    Text16,
    TotalSize,
    Value,
    group,
    unless,
    when,
    when_left,
)
from mqdssm.wire.layout import Layout


@dataclass(frozen=True)
class One:
    a: Any = 0
    b: Any = field(default_factory=tuple)


@dataclass(frozen=True)
class Bare:
    a: Any
    b: Any = None


A8, B8 = Value("a", U8), Value("b", U8)


@pytest.mark.parametrize(
    ("cls", "declared", "problem"),
    [
        (int, (A8,), "int is no dataclass"),
        (One, (A8,), r"One has \['a', 'b'\], laid out are \['a'\]"),
        (One, (A8, B8, A8), "laid out are"),
        (One, (A8, B8, Value("c", U8)), "laid out are"),
        (One, (TotalSize("x", U8), TotalSize("y", U8), A8, B8), "two fields hold the size"),
        (One, (when("b", TotalSize("x", U8)), A8, B8), "needs a Count"),
        (One, (A8, Count("b", U8), when("b", TotalSize("x", U8), Items("b", U8))), "x must not be optional"),
        (One, (A8, Items("b", U8), Count("b", U8)), "b must stand before b"),
        (One, (A8, Count("b", U8), Count("b", U8), Items("b", U8)), "two numbers announce b"),
        (One, (A8, Count("b", U8), Bytes("b")), "b announces b, which it cannot"),
        (One, (A8, ByteSize("b", U8), Items("b", U8)), "which it cannot"),
        (One, (A8, B8, Count("c", U8)), "c announces c, which it cannot"),
        (One, (A8, Flag("b", U8), B8), "has a Flag and must be in when"),
        (One, (A8, Flag("b", U8), unless("b", B8)), "must not stand among fields"),
        (One, (A8, Flag("b", U8), when("b", B8)), "the default of b must be None"),
        (Bare, (Flag("b", U8), when("b", A8, B8)), "a is optional and has no default"),
        (One, (A8, Text16("b")), "b needs a ByteSize"),
        (One, (A8, Keyed("b", U8, {1: U8})), "b needs a Count"),
        (One, (A8, ByteSize("b", U8), Keyed("b", U8, {1: U8})), "which it cannot"),
        (One, (A8, group("G", B8, B8)), "laid out are"),
        (One, (Items("b", U8), A8), "it must be last and have a limit"),
        (One, (A8, Items("b", U8)), "it must be last and have a limit"),
        (One, (Bytes("b", high=1), A8), "it must be last and have a limit"),
        (One, (A8, when("b", B8)), "needs a Count, ByteSize or Flag"),
        (One, (when("b", A8), Count("b", U8), Items("b", U8)), "always read before"),
        (One, (A8, B8, when("b")), "without fields"),
        (One, (when_left("b", B8), A8), "must hold it, and be last"),
        (One, (A8, when_left("c", B8)), "must hold it, and be last"),
        (One, (A8, Count("b", Text16Z(1)), Items("b", U8)), "a number must have a fixed size"),  # type: ignore[arg-type]
    ],
)
def test_declarations_are_proven_at_import(cls, declared, problem):
    with pytest.raises(TypeError, match=problem):
        Layout(cls, "[MS-TEST] 9", *declared)
