"""Filters ([MS-MQDMPR] 3.1.7.1.20) and conditions, evaluated in plain Python on abstract objects."""

import operator
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import mqdssm
from mqdssm.model.dn import DN
from mqdssm.model.expressions import AllOf, AnyOf, Condition, Existence, Opposite, Pattern, ValueComparison

OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
DN_ATTRIBUTES = {"FullPath"}


def key(attribute: str, value: Any) -> Any:
    """What counts when two values of an attribute are compared: of text not the case, of DNs the parts.

    Text is prepared as for caseIgnoreMatch ([RFC4518]).
    """
    if attribute in DN_ATTRIBUTES:
        return DN.parse(value).normalized
    if attribute == "DirectoryPath":
        return DN.parse(value.removeprefix("LDAP://")).normalized
    match value:
        case str():
            return " ".join(unicodedata.normalize("NFKC", value).lower().split())
        case UUID():
            return value.bytes
        case tuple() | list():
            return sorted(key(attribute, each) for each in value)
        case _:
            return value


def satisfies(obj: mqdssm.DirectoryObject, expression: mqdssm.Filter) -> bool:
    """Whether an object, as a read without filters returned it, satisfies an expression.

    What an object does not have satisfies nothing; one value against a list asks whether it is in it.
    """
    name, sign, wanted = expression.attribute, expression.operator, expression.value
    if not obj.is_populated(name):
        return False
    actual = getattr(obj, obj.field_name(name))
    if isinstance(actual, tuple) and not isinstance(wanted, tuple | list):
        if sign in {"==", "!="}:
            return (wanted in actual) is (sign == "==")
        wanted = (wanted,)
    return bool(OPERATORS[sign](key(name, actual), key(name, wanted)))


def fulfils(obj: mqdssm.DirectoryObject, condition: mqdssm.Filter | Condition[Any]) -> bool:
    """Whether an object, as a read without filters returned it, fulfils a filter or condition."""
    if isinstance(condition, mqdssm.Filter):
        return satisfies(obj, condition)
    match condition.resolve():
        case ValueComparison() as node:
            return satisfies(obj, node.test)
        case Opposite() as node:
            return not fulfils(obj, node.operand)
        case AllOf() as node:
            return all(fulfils(obj, each) for each in node.operands)
        case AnyOf() as node:
            return any(fulfils(obj, each) for each in node.operands)
        case Existence() as node:
            return getattr(obj, obj.field_name(node.attribute)) not in {None, "", b"", ()}
        case Pattern() as node:
            text = getattr(obj, obj.field_name(node.attribute))
            return text is not None and _looks_like(text, node.parts)
    raise AssertionError(condition)


def _looks_like(text: str, parts: Sequence[str]) -> bool:
    first, *middle, last = [re.sub(" +", " ", unicodedata.normalize("NFKC", part).lower()) for part in parts]
    wanted = [first.lstrip(" "), *middle, last.rstrip(" ")]
    return re.fullmatch(".*".join(map(re.escape, wanted)), key("Label", text), re.DOTALL) is not None


def matching(
    objects: Iterable[mqdssm.DirectoryObject], expressions: Sequence[mqdssm.Filter | Condition[Any]]
) -> list[mqdssm.DirectoryObject]:
    """The objects that satisfy all expressions."""
    return [obj for obj in objects if all(fulfils(obj, one) for one in expressions)]


def ordered(
    objects: Iterable[mqdssm.DirectoryObject], keys: Sequence[mqdssm.SortKey]
) -> list[mqdssm.DirectoryObject]:
    """The objects in the order of some sort keys; of equal ones the given order stays."""

    def of(obj: mqdssm.DirectoryObject, name: str) -> tuple[bool, Any]:
        value = getattr(obj, obj.field_name(name))
        return (True, 0) if value is None else (False, key(name, value))

    result = list(objects)
    for one in sorted((each for each in reversed(keys) if each.priority), key=lambda each: each.priority):
        result.sort(key=lambda obj: of(obj, one.attribute), reverse=not one.ascending)
    return result


def names(objects: Iterable[mqdssm.DirectoryObject]) -> list[UUID]:
    """Identifiers, which tell objects apart."""
    found = (obj.identifier for obj in objects)
    return sorted((guid for guid in found if guid is not None), key=lambda guid: guid.bytes)
