"""Conditions on elements, made of the attributes of their classes.

``Queue.label.startswith("Paid") & (Queue.quota > 1000) | ~Queue.transactional`` is a `Condition` that a
search accepts in place of `Filter`. An attribute that was never written has its default; one without a value
and without a default satisfies no comparison. So a condition is either true or false of an element, also
below ``~``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, Generic, NoReturn, TypeVar, Union, get_args, get_origin

from mqdssm.model.filters import Filter, Operator

_E = TypeVar("_E")
_V = TypeVar("_V")

_ADVICE: Final = "conditions have no truth value: join them with & | ~, each comparison in parentheses"


class Condition(Generic[_E]):
    """Condition on elements of one class; ``&``, ``|`` and ``~`` join conditions.

    Comparisons need parentheses: ``(Queue.quota > 5) & (Queue.label != "")``.
    """

    __slots__ = ()

    def resolve(self) -> "Condition[_E]":
        """Return the condition; of a boolean attribute, its comparison with True."""
        return self

    def __and__(self, other: "Condition[_E]") -> "Condition[_E]":
        return _join(AllOf, self, other) if _is_condition(other) else NotImplemented

    def __or__(self, other: "Condition[_E]") -> "Condition[_E]":
        return _join(AnyOf, self, other) if _is_condition(other) else NotImplemented

    def __invert__(self) -> "Condition[_E]":
        return Opposite(self.resolve())

    def __bool__(self) -> NoReturn:
        raise TypeError(_ADVICE)


@dataclass(frozen=True, slots=True, repr=False)
class ValueComparison(Condition[_E]):
    """ValueComparison of an attribute with a value.

    Attributes:
        kind: class of the elements.
        test: attribute, operator and value.
    """

    kind: type[_E]
    test: Filter

    def __repr__(self) -> str:
        return f"{self.kind.__name__}.{self.test.attribute} {self.test.operator} {self.test.value!r}"


@dataclass(frozen=True, slots=True, repr=False)
class Pattern(Condition[_E]):
    """Text that has some parts, in this order, and anything between two parts.

    Attributes:
        kind: class of the elements.
        attribute: the specification's name of the attribute.
        parts: at least two. The first one is at the beginning of the text and the last one at the end; either
            may be empty, the others may not.
    """

    kind: type[_E]
    attribute: str
    parts: tuple[str, ...]

    def __repr__(self) -> str:
        text = "*".join(f'"{part}"' if "*" in part else part for part in self.parts)
        return f"{self.kind.__name__}.{self.attribute} like {text!r}"


@dataclass(frozen=True, slots=True, repr=False)
class Existence(Condition[_E]):
    """True of elements in which an attribute has a value that is not empty.

    Attributes:
        kind: class of the elements.
        attribute: the specification's name of the attribute.
    """

    kind: type[_E]
    attribute: str

    def __repr__(self) -> str:
        return f"{self.kind.__name__}.{self.attribute} exists"


@dataclass(frozen=True, slots=True, repr=False)
class Opposite(Condition[_E]):
    """True where another condition is false."""

    operand: Condition[_E]

    def __repr__(self) -> str:
        return f"not ({self.operand!r})"


@dataclass(frozen=True, slots=True, repr=False)
class _Joined(Condition[_E]):
    """Several conditions."""

    WORD: ClassVar[str]

    operands: tuple[Condition[_E], ...]

    def __repr__(self) -> str:
        return "(" + f" {self.WORD} ".join(map(repr, self.operands)) + ")"


class AllOf(_Joined[_E]):
    """True where all of several conditions are true; without a condition everywhere."""

    __slots__ = ()
    WORD: ClassVar[str] = "and"


class AnyOf(_Joined[_E]):
    """True where one of several conditions is true; without a condition nowhere."""

    __slots__ = ()
    WORD: ClassVar[str] = "or"


def _is_condition(value: object) -> bool:
    return isinstance(value, Condition)


def _join(
    kind: type[AllOf[_E]] | type[AnyOf[_E]], first: Condition[_E], second: Condition[_E]
) -> Condition[_E]:
    """Join two conditions; ``a & b & c`` has three operands, and does not nest."""
    operands: list[Condition[_E]] = []
    for condition in (first.resolve(), second.resolve()):
        operands += condition.operands if isinstance(condition, kind) else (condition,)
    return kind(tuple(operands))


class Attribute(Generic[_E, _V]):
    """Attribute of a class of elements: its comparisons are conditions.

    Args:
        kind: class of the elements.
        name: the specification's name of the attribute.
    """

    __slots__ = ("_kind", "_name")

    def __init__(self, kind: type[_E], name: str) -> None:
        self._kind = kind
        self._name = name

    def __repr__(self) -> str:
        return f"{self._kind.__name__}.{self._name}"

    def __eq__(self, value: _V) -> Condition[_E]:  # type: ignore[override]  # the result is no bool
        return self._compare("==", value)

    def __ne__(self, value: _V) -> Condition[_E]:  # type: ignore[override]  # the result is no bool
        return self._compare("!=", value)

    __hash__ = None  # type: ignore[assignment]  # equality is no truth value

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r}: {_ADVICE}")

    def in_(self, values: Iterable[_V]) -> Condition[_E]:
        """Return the condition that the attribute equals one of some values.

        Without a value it is false.
        """
        if isinstance(values, str | bytes):
            raise TypeError(f"{self!r}.in_({values!r}): give a list of values")
        return AnyOf(tuple(self._compare("==", value) for value in values))

    def exists(self) -> Condition[_E]:
        """Return the condition that the attribute has a value that is not empty.

        An attribute with a default other than an empty value always has a value: a search refuses this
        condition for it.
        """
        return Existence(self._kind, self._name)

    def _compare(self, operator: Operator, value: Any) -> Condition[_E]:
        if value is None:
            raise TypeError(f"{self!r} {operator} None: use exists() or ~exists()")
        if isinstance(value, Attribute | Condition):
            raise TypeError(f"{self!r} {operator} {value!r}: attributes are compared with values only")
        return ValueComparison(self._kind, Filter(self._name, operator, value))


class OrderedAttribute(Attribute[_E, _V]):
    """Attribute with values that have an order: numbers, times, enumerations, text."""

    __slots__ = ()

    def __lt__(self, value: _V) -> Condition[_E]:
        return self._compare("<", value)

    def __le__(self, value: _V) -> Condition[_E]:
        return self._compare("<=", value)

    def __gt__(self, value: _V) -> Condition[_E]:
        return self._compare(">", value)

    def __ge__(self, value: _V) -> Condition[_E]:
        return self._compare(">=", value)


class TextAttribute(OrderedAttribute[_E, _V]):
    """Attribute with text. Letter case does not count, and blanks count as in LDAP."""

    __slots__ = ()

    def startswith(self, text: str) -> Condition[_E]:
        """Return the condition that the text begins with another text."""
        return make_pattern(self._kind, self._name, (text, ""))

    def endswith(self, text: str) -> Condition[_E]:
        """Return the condition that the text ends with another text."""
        return make_pattern(self._kind, self._name, ("", text))

    def contains(self, text: str) -> Condition[_E]:
        """Return the condition that the text contains another text."""
        return make_pattern(self._kind, self._name, ("", text, ""))


class BooleanAttribute(Attribute[_E, bool], Condition[_E]):
    """Attribute that is true or false: a condition by itself."""

    __slots__ = ()

    def resolve(self) -> Condition[_E]:
        """Return the comparison with True."""
        return self._compare("==", value=True)


class ListAttribute(Attribute[_E, Sequence[_V]], Generic[_E, _V]):
    """Attribute with a list of values, without an order."""

    __slots__ = ()

    def contains(self, item: _V) -> Condition[_E]:
        """Return the condition that the list has an item."""
        if isinstance(item, list | tuple | set | frozenset):
            raise TypeError(f"{self!r}.contains({item!r}): give one item")
        return self._compare("==", item)


def attribute_of(kind: type[_E], name: str, annotation: Any) -> "Attribute[_E, Any]":
    """Return the expression for an attribute of a class.

    Args:
        kind: the class.
        name: the specification's name of the attribute.
        annotation: the type of its field.
    """
    while (origin := get_origin(annotation)) in {Annotated, Union, UnionType}:
        annotation = get_args(annotation)[0]  # of an optional one None is the second
    if origin is tuple:
        return ListAttribute(kind, name)
    if annotation is bool:
        return BooleanAttribute(kind, name)
    if annotation is str:
        return TextAttribute(kind, name)
    return OrderedAttribute(kind, name) if issubclass(annotation, int) else Attribute(kind, name)


def make_pattern(kind: type[_E], name: str, parts: tuple[str, ...]) -> Condition[_E]:
    """Return the condition that a text has some parts: see `Pattern`.

    Raises:
        TypeError: a part that is no text.
        ValueError: no part, or an empty one between others.
    """
    for part in parts:
        if not isinstance(part, str):
            raise TypeError(f"{kind.__name__}.{name}: give a text to look for, not {part!r}")
    if not any(parts) or not all(parts[1:-1]):
        raise ValueError(f"{kind.__name__}.{name}: the text to look for is empty")
    return Pattern(kind, name, parts)
