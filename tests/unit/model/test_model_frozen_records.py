"""Frozen dataclasses that are made quickly: they behave as dataclasses do."""

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest
from hypothesis import given
from support.packets.strategies import PACKETS

from mqdssm.model.frozen_records import give_quick_init, make_copier, make_replacer
from mqdssm.model.packets import UserPacket


@dataclass(frozen=True, slots=True)
class Plain:
    """The yardstick."""

    first: int
    second: str = "two"
    third: list[int] = field(default_factory=list)
    fourth: int = field(default=4, kw_only=True)

    def __post_init__(self) -> None:
        if self.first < 0:
            raise ValueError("first is negative")


@give_quick_init
@dataclass(frozen=True, slots=True)
class Quick:
    """The same, made quickly."""

    first: int
    second: str = "two"
    third: list[int] = field(default_factory=list)
    fourth: int = field(default=4, kw_only=True)

    def __post_init__(self) -> None:
        if self.first < 0:
            raise ValueError("first is negative")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((1,), {}),
        ((1, "b", [3]), {"fourth": 5}),
        ((), {"first": 1, "third": [2]}),
        ((-1,), {}),
        ((), {}),
        ((1, "b", [3], 4), {}),
        ((1,), {"fifth": 1}),
    ],
)
def test_it_takes_what_the_dataclass_takes(arguments, named):
    def made(cls):
        try:
            return repr(cls(*arguments, **named)).replace(cls.__name__, "")
        except (TypeError, ValueError) as error:
            return type(error)

    assert made(Quick) == made(Plain)
    plain, quick = (inspect.signature(cls) for cls in (Plain, Quick))
    assert list(quick.parameters) == list(plain.parameters)


@pytest.mark.parametrize("cls", [Plain, Quick])
@pytest.mark.parametrize(
    "changes", [{}, {"second": "b"}, {"first": 3, "fourth": 5}, {"first": -1}, {"fifth": 1}]
)
def test_replacing_attributes_is_as_with_dataclasses(cls, changes):
    def changed(function):
        try:
            return function(cls(1, "a", [3]), **changes)
        except (TypeError, ValueError) as error:
            return type(error)

    assert changed(make_replacer(cls)) == changed(replace)


def test_an_object_is_frozen_and_of_its_class():
    made = Quick(1)
    assert type(made) is Quick
    assert made == Quick(1, third=[])
    assert made.third is not Quick(1).third
    with pytest.raises(FrozenInstanceError):
        made.first = 2
    with pytest.raises(AttributeError):
        object.__setattr__(made, "fifth", 5)
    for again in (copy.copy(made), pickle.loads(pickle.dumps(made)), replace(made, first=1)):
        assert (type(again), again) == (Quick, made)


def test_a_copy_has_the_changed_attributes_alone():
    """Nothing is checked: the caller has."""
    copy_with = make_copier(Quick, "second", "first")
    original = Quick(1, "a", [3], fourth=9)
    changed = copy_with(original, "b", -2)
    assert type(changed) is Quick
    assert (changed.first, changed.second, changed.third, changed.fourth) == (-2, "b", [3], 9)
    assert changed.third is original.third
    with pytest.raises(FrozenInstanceError):
        changed.first = 2


@give_quick_init
@dataclass(frozen=True, slots=True)
class Heir(Plain):
    doubled: int = field(init=False, default=0)
    lists: list[int] = field(init=False, default_factory=list)
    last: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", 2 * self.first)
        object.__setattr__(self, "last", -self.first)


def test_a_class_with_a_base_and_attributes_of_its_own():
    made = Heir(3, fourth=5)
    assert (type(made), made.second, made.fourth) == (Heir, "two", 5)
    assert (made.doubled, made.lists, made.last) == (6, [], -3)
    assert isinstance(made, Plain)
    assert made.lists is not Heir(3).lists
    with pytest.raises(FrozenInstanceError):
        made.doubled = 2


@given(PACKETS)
def test_packets_are_made_as_before(packet):
    """Each attribute has its own value."""
    if isinstance(packet, UserPacket):
        values = {one.name: getattr(packet, one.name) for one in fields(packet)}
        again = UserPacket(**values)
        assert all(getattr(again, name) is value for name, value in values.items())
