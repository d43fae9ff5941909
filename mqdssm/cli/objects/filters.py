"""Filter expressions on the command line.

An expression has comparisons such as ``Label==Orders``, joined by ``&&``, ``||``, ``!`` and parentheses. An
asterisk in the value of ``==`` and ``!=`` stands for any text. Quotes around a value, or around a part
between asterisks, make all characters in it ordinary ones.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from mqdssm.cli.exits import UsageProblem, words_of
from mqdssm.cli.objects.arguments import CommandType, check_typed, item_of, parts_of
from mqdssm.errors import DirectoryError

if TYPE_CHECKING:
    from mqdssm.model.expressions import Condition
    from mqdssm.model.filters import Filter, Operator

DEPTH_MAX: Final = 40
"""Levels of parentheses."""

_NAME: Final = re.compile(r"\s*(?P<name>\w+)")
# blanks around the operator belong to nobody; without one before it, one behind it is part of the value
_OPERATOR: Final = re.compile(r" +(?P<spaced>==|!=|<=|>=|<|>) ?|(?P<tight>==|!=|<=|>=|<|>)")
_PLAIN: Final = re.compile(r"(?:(?!\|\||&&)[^*()])+")
_QUOTED: Final = re.compile(
    r" *(?P<quote>[\"'])(?P<text>(?:(?!(?P=quote)).|(?P=quote){2})*)(?P=quote)(?!(?P=quote))", re.DOTALL
)
_ANYTHING: Final = None
"""Part of a value: an asterisk that stands for any text."""


def filter_of(kind: CommandType, text: str) -> "Filter | Condition[Any]":
    """Parse a filter expression, as ``Label==Paid* || Quota>1000``.

    Raises:
        UsageProblem: it is none; with the position.
        GenericDirectoryError: an attribute that no directory keeps.
        ValueError: the type has no such attribute, or it cannot have the value.
    """
    from mqdssm.events.conditions import check_condition
    from mqdssm.model.expressions import ValueComparison

    condition = _Parser(kind, text).parse()
    check_condition(kind.table, condition)
    return condition.test if isinstance(condition, ValueComparison) else condition


def build_equal_filters(
    kind: CommandType, assignments: Mapping[str, tuple[str, ...]]
) -> "list[Filter | Condition[Any]]":
    """Return filters for equality with given values."""
    return [_filter(kind, name, "==", text) for name, texts in assignments.items() for text in texts]


def _filter(kind: CommandType, name: str, operator: str, text: str) -> "Filter":
    from mqdssm.events.criteria import check_value
    from mqdssm.model.filters import Filter

    check_typed(kind, [name])
    row = kind.table.row(name)
    value: Any = item_of(row, text)
    if row.multi and ("," in text or not text):
        value = tuple(item_of(row, part) for part in parts_of(text))
    check_value(kind.table, row, value)  # what cannot be is refused before anybody connects
    return Filter(name, cast("Operator", operator), value)


@dataclass(slots=True)
class _Parser:
    """Parser of one expression.

    Attributes:
        kind: type of the objects.
        text: the expression.
        place: index of the next character.
        depth: number of open parentheses.
    """

    kind: CommandType
    text: str
    place: int = 0
    depth: int = 0

    def parse(self) -> "Condition[Any]":
        condition = self._parse_disjunction()
        if rest := self.text[self.place :].lstrip():
            self.place = len(self.text) - len(rest)
            closed = "a parenthesis is closed that was not opened"
            raise self._make_problem(closed if rest.startswith(")") else "&& or || is expected")
        return condition

    def _make_problem(self, words: str, hint: str = "") -> UsageProblem:
        return UsageProblem(
            f"{self.text!r} is no filter, as Label==Orders with one of == != < <= > >=: "
            f"at character {self.place + 1} {words}{hint}"
        )

    def _has(self, sign: str) -> bool:
        """Skip blanks and a sign; return False if the sign does not follow."""
        blanks = len(self.text) - self.place - len(self.text[self.place :].lstrip())
        if not self.text.startswith(sign, self.place + blanks):
            return False
        self.place += blanks + len(sign)
        return True

    def _parse_disjunction(self) -> "Condition[Any]":
        condition = self._parse_conjunction()
        while self._has("||"):
            condition = condition | self._parse_conjunction()
        return condition

    def _parse_conjunction(self) -> "Condition[Any]":
        condition = self._parse_term()
        while self._has("&&"):
            condition = condition & self._parse_term()
        return condition

    def _parse_term(self) -> "Condition[Any]":
        negations = 0
        while self._has("!"):
            negations += 1
        if not self._has("("):
            condition = self._parse_comparison()
        else:
            opened = self.place
            self.depth += 1
            if self.depth > DEPTH_MAX:
                raise self._make_problem(f"more than {DEPTH_MAX} parentheses are open")
            condition = self._parse_disjunction()
            if not self._has(")"):
                self.place = opened - 1
                raise self._make_problem("a parenthesis is opened that is not closed")
            self.depth -= 1
        return ~condition if negations % 2 else condition

    def _parse_comparison(self) -> "Condition[Any]":
        start = self.place
        name = _NAME.match(self.text, start)
        operator = _OPERATOR.match(self.text, name.end() if name else start)
        if name is None or operator is None:
            self.place = name.end() if name else start
            words = "an operator is expected" if name else "an attribute is expected"
            wrong = name is not None and re.match(r" *=(?!=)", self.text[self.place :])
            hint = f": did you mean {_with_two_signs(self.text, self.place)!r}?" if wrong else ""
            raise self._make_problem(words, hint)
        self.place = operator.end()
        sign = operator["spaced"] or operator["tight"]
        try:
            return self._compare(name["name"], sign, self._parse_value())
        except UsageProblem:
            raise
        except (ValueError, DirectoryError) as error:
            if start == 0 and self.place == len(self.text):
                raise
            raise UsageProblem(
                f"filter {self.text!r}, at character {name.start('name') + 1}: {words_of(error)}"
            ) from None

    def _parse_value(self) -> list[str | None]:
        """Return the parts of a value: texts, and `_ANYTHING` for each asterisk."""
        parts: list[str | None] = []
        depth = 0
        while self.place < len(self.text):
            begins = not parts or parts[-1] is _ANYTHING
            quoted = _QUOTED.match(self.text, self.place) if begins else None
            if begins and quoted is None and re.match(r" *[\"']", self.text[self.place :]):
                raise self._make_problem(
                    "quotes are opened that are not closed: put the value in other quotes"
                )
            if quoted is not None:
                parts.append(quoted["text"].replace(quoted["quote"] * 2, quoted["quote"]))
                self.place = quoted.end()
                if self.text.startswith("*", self.place):
                    continue
                if not re.match(r"\s*(?:\|\||&&|\)|$)", self.text[self.place :]):
                    raise self._make_problem(
                        "an asterisk, an operator or the end is expected behind the quotes"
                    )
                return parts
            character = self.text[self.place]
            if character == "*":
                parts.append(_ANYTHING)
            elif (plain := _PLAIN.match(self.text, self.place)) is not None:
                _append(parts, plain[0])
                self.place = plain.end()
                continue
            elif character == "(" or (character == ")" and (depth or not self.depth)):
                depth += 1 if character == "(" else -1 if depth else 0
                _append(parts, character)
            else:
                break  # an operator, or the end of a group
            self.place += 1
        if self.place < len(self.text) and parts and parts[-1] is not None:
            parts[-1] = parts[-1].rstrip()
        return parts

    def _compare(self, name: str, sign: str, parts: Sequence[str | None]) -> "Condition[Any]":
        from mqdssm.model.expressions import Existence, ValueComparison, make_pattern

        element: type[Any] = self.kind.element
        if _ANYTHING not in parts:
            text = "".join(part for part in parts if part is not None)
            return ValueComparison(element, _filter(self.kind, name, sign, text))
        check_typed(self.kind, [name])
        if sign not in {"==", "!="}:
            raise UsageProblem(
                f"{self.text!r}: an asterisk goes with == and !=; put an ordinary one in quotes"
            )
        existence = Existence(element, name)
        texts = _split(parts)
        if not any(texts):
            return existence if sign == "==" else ~existence
        pattern = make_pattern(element, name, texts)
        if sign == "==":
            return pattern
        # as != has it, what has neither value nor default differs from nothing
        return ~pattern if self.kind.table.row(name).has_default else existence & ~pattern


def _append(parts: list[str | None], text: str) -> None:
    if parts and (last := parts[-1]) is not None:
        parts[-1] = last + text
    else:
        parts.append(text)


def _split(parts: Sequence[str | None]) -> tuple[str, ...]:
    """Return the texts between asterisks; several asterisks in a row count as one."""
    texts = [""]
    for part in parts:
        if part is not _ANYTHING:
            texts[-1] += part or ""
        elif len(texts) == 1 or texts[-1]:
            texts.append("")
    return tuple(texts)


def _with_two_signs(text: str, place: int) -> str:
    return text[:place] + text[place:].replace("=", "==", 1)
