"""Texts of rules: Spark SQL expressions, their columns, and messages with expressions."""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mqdssm.pipeline.validate.rules.trees import parsed

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

DIALECT: Final = "spark"
SHOWN_CHARS_MAX: Final = 200
"""Limit of the characters of a value in a message."""
NOT_SET: Final = "not set"

_PART: Final = re.compile(r"\{([^{}]+)\}")


class MessagePart(NamedTuple):
    """A piece of a message.

    Attributes:
        text: the piece itself, or the Spark SQL expression.
        is_expression: True for an expression.
    """

    text: str
    is_expression: bool


@lru_cache(maxsize=1024)
def parse(text: str) -> "Expression":
    """Parse a Spark SQL expression.

    Raises:
        ValueError: it is no expression; the text names the fault.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        found: Any = sqlglot.parse_one(text, dialect=DIALECT)
    except SqlglotError as error:
        first = getattr(error, "errors", None) or [{}]
        words = first[0].get("description") or str(error).splitlines()[0]
        raise ValueError(f"{words} in {text!r}") from None
    return found  # type: ignore[no-any-return]


def columns_in(text: str) -> frozenset[str]:
    """Return the columns that an expression uses; those of another object as ``other.Name``.

    Raises:
        ValueError: the expression cannot be parsed.
    """
    return parsed(text).columns


@lru_cache(maxsize=1024)
def template(text: str) -> tuple[MessagePart, ...]:
    """Divide a message into pieces of text and expressions."""
    parts = [MessagePart(piece, bool(number % 2)) for number, piece in enumerate(_PART.split(text))]
    return tuple(part for part in parts if part.text)


def columns_of_template(text: str) -> frozenset[str]:
    """Return the columns that a message uses.

    Raises:
        ValueError: an expression in it cannot be parsed.
    """
    return frozenset().union(*(columns_in(part.text) for part in template(text) if part.is_expression))


def literal(value: str) -> str:
    """Return a string literal of Spark SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
