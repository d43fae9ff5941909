"""Expressions of rules as trees.

A translator can read them without an SQL parser.
sqlglot parses users' rules, at 0.3 s of processor time. The trees of built-in rules are kept in
``trees.json``.

Texts of rules: Spark SQL expressions, their columns, and messages with expressions.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

DIALECT: Final = "spark"
SHOWN_CHARS_MAX: Final = 200
"""Limit of the characters of a value in a message."""
NOT_SET: Final = "not set"

_LACKS_PART: Final = re.compile(r"Required keyword: '\w+' missing for <class")
"""Beginning of sqlglot's text about an expression that lacks a part; the rest is a class of sqlglot."""
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
        tree: Any = sqlglot.parse_one(text, dialect=DIALECT)
    except SqlglotError as error:
        first = getattr(error, "errors", None) or [{}]
        words = first[0].get("description") or str(error).splitlines()[0]
        if _LACKS_PART.match(words):
            words = "an operand or argument is missing"
        raise ValueError(f"{words} in {text!r}") from None
    return tree  # type: ignore[no-any-return]


def find_columns(text: str) -> frozenset[str]:
    """Return the columns that an expression uses.

    Columns of another object are returned as ``other.Name``.

    Raises:
        ValueError: the expression cannot be parsed.
    """
    return parse_sql(text).columns


@lru_cache(maxsize=1024)
def split_template(text: str) -> tuple[MessagePart, ...]:
    """Divide a message into pieces of text and expressions."""
    parts = [MessagePart(piece, bool(number % 2)) for number, piece in enumerate(_PART.split(text))]
    return tuple(part for part in parts if part.text)


def columns_of_template(text: str) -> frozenset[str]:
    """Return the columns that a message uses.

    Raises:
        ValueError: an expression in it cannot be parsed.
    """
    return frozenset().union(
        *(find_columns(part.text) for part in split_template(text) if part.is_expression)
    )


def quote_literal(value: str) -> str:
    """Return a string literal of Spark SQL.

    Spark would replace ``${env:NAME}`` by an environment variable, also in literals; it does not see an
    escaped dollar sign.
    """
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"


Tree = tuple[Any, ...]
"""Kind of an expression, and its parts: trees, names, texts, numbers, truth values.

``unknown`` stands for an expression that only Spark evaluates; its part is the SQL text.
"""
TREES_NAME: Final = "trees.json"


class Parsed(NamedTuple):
    """Columns and tree of an expression.

    Attributes:
        columns: the columns that it uses; those of another object as ``other.Name``.
        tree: its tree.
    """

    columns: frozenset[str]
    tree: Tree


@lru_cache(maxsize=1024)
def parse_sql(text: str) -> Parsed:
    """Return the columns and the tree of a Spark SQL expression.

    Raises:
        ValueError: it is no expression; the text names the fault.
    """
    entry = _read_trees().get(text)
    if entry is not None:
        return Parsed(frozenset(entry[0]), _to_tuples(entry[1]))
    return parse_anew(text)


def parse_anew(text: str) -> Parsed:
    """Parse an expression with sqlglot, even if its tree is kept."""
    expression = parse(text)
    return Parsed(frozenset(_list_columns(expression)), _tree(expression))


@lru_cache(maxsize=1)
def _read_trees() -> Mapping[str, Any]:
    trees: Mapping[str, Any] = json.loads(files(__package__).joinpath(TREES_NAME).read_text(encoding="utf-8"))
    return trees


def _to_tuples(items: list[Any]) -> Tree:
    return tuple(_to_tuples(item) if isinstance(item, list) else item for item in items)


def _list_columns(expression: "Expression") -> Iterator[str]:
    from sqlglot import expressions as exp

    bound = {
        str(name.name)
        for node in expression.find_all(exp.Lambda)
        for name in node.args.get("expressions") or ()
    }
    for column in expression.find_all(exp.Column):
        name = f"{column.table}.{column.name}" if column.table else str(column.name)
        if name not in bound:
            yield name


# -- trees of sqlglot

_PARTS: Final = frozenset({"this", "expression", "expressions", "negate"})
"""Parts of nodes that are read, whatever the kind."""
_MORE_PARTS: Final[Mapping[str, frozenset[str]]] = {
    "Between": frozenset({"low", "high"}),
    "Case": frozenset({"ifs", "default"}),
    "Column": frozenset({"table"}),
    "Concat": frozenset({"safe", "coalesce"}),
    "DPipe": frozenset({"safe"}),
    "Identifier": frozenset({"quoted"}),
    "If": frozenset({"true", "false"}),
    "Literal": frozenset({"is_string"}),
    "Nvl2": frozenset({"true", "false"}),
    "RegexpReplace": frozenset({"replacement"}),
    "Substring": frozenset({"start", "length"}),
    "SubstringIndex": frozenset({"delimiter", "count"}),
    "Trim": frozenset({"position", "expression"}),
}
"""Parts of nodes of a kind that are also read."""
_ELEMENT: Final = ""
"""Name of an array's element in `array_contains`: no column and no variable of a rule can have it."""


def _tree(node: Any) -> Tree:
    """Return the tree of a node.

    A node with parts that its maker does not read is `unknown`.
    """
    kind = type(node).__name__
    maker = _list_makers().get(kind)
    parts = {
        name for name, part in node.args.items() if part is not None and part is not False and part != []
    }
    is_read = parts <= _PARTS | _MORE_PARTS.get(kind, frozenset())
    tree = maker(node) if maker is not None and is_read else None
    if tree is None:
        return ("unknown", node.sql(dialect="spark"))
    return ("not", tree) if "negate" in parts else tree


def _as_text(node: Any) -> str | None:
    """Return the text of a literal; None for another expression."""
    name = type(node).__name__
    return str(node.this) if name == "RawString" or (name == "Literal" and node.is_string) else None


def _literal(node: Any) -> Tree | None:
    if node.is_string:
        return ("text", str(node.this))
    digits = str(node.this)
    if not (digits.isascii() and digits.isdigit()) or int(digits) >= 2**63:
        return None
    return ("number", int(digits))


def _column(node: Any) -> Tree:
    return ("column", f"{node.table}.{node.name}" if getattr(node, "table", "") else str(node.name))


def _is(node: Any) -> Tree | None:
    right = type(node.expression).__name__
    if right == "Null":
        return ("is_null", _tree(node.this))
    return ("same", _tree(node.this), _tree(node.expression)) if right == "Boolean" else None


def _in(node: Any) -> Tree | None:
    listed = [_tree(operand) for operand in node.args.get("expressions") or ()]
    if not listed or any(item[0] not in {"text", "number"} for item in listed):
        return None
    return ("in", _tree(node.this), *listed)


def _between(node: Any) -> Tree:
    value = _tree(node.this)
    return ("and", (">=", value, _tree(node.args["low"])), ("<=", value, _tree(node.args["high"])))


def _with_text(kind: str) -> Callable[[Any], Tree | None]:
    """Return a function for expressions whose second part is a literal text."""

    def make(node: Any) -> Tree | None:
        pattern = _as_text(node.expression)
        return None if pattern is None else (kind, _tree(node.this), pattern)

    return make


def _regexp_replace(node: Any) -> Tree | None:
    pattern, replacement = _as_text(node.expression), _as_text(node.args["replacement"])
    return (
        None
        if pattern is None or replacement is None
        else ("replace", _tree(node.this), pattern, replacement)
    )


def _length(node: Any) -> Tree | None:
    inner = node.this
    if type(inner).__name__ == "Encode":
        is_utf16 = (_as_text(inner.args["charset"]) or "").upper() == "UTF-16BE"
        return ("utf16_length", _tree(inner.this)) if is_utf16 else None
    return ("length", _tree(inner))


def _exists(node: Any) -> Tree | None:
    test = node.expression
    if type(test).__name__ != "Lambda" or len(test.expressions) != 1:
        return None
    return ("exists", _tree(node.this), str(test.expressions[0].name), _tree(test.this))


def _array_contains(node: Any) -> Tree | None:
    value = _tree(node.expression)
    if value == ("null",):  # Spark refuses it
        return None
    return ("exists", _tree(node.this), _ELEMENT, ("=", ("column", _ELEMENT), value))


def _substring_index(node: Any) -> Tree | None:
    delimiter = _as_text(node.args["delimiter"])
    count = node.args["count"].sql(dialect="spark")
    if count not in {"1", "-1"} or not delimiter:
        return None
    return ("first_part" if count == "1" else "last_part", _tree(node.this), delimiter)


def _substring(node: Any) -> Tree | None:
    start, length = _tree(node.args.get("start")), node.args.get("length")
    size = ("number", None) if length is None else _tree(length)
    if start[0] != "number" or start[1] < 1 or size[0] != "number":
        return None
    return ("substring", _tree(node.this), start[1], size[1])


def _left_substring(node: Any) -> Tree | None:
    size = _tree(node.expression)
    return ("substring", _tree(node.this), 1, size[1]) if size[0] == "number" else None


def _trim(node: Any) -> Tree | None:
    if node.args.get("expression") is not None:
        return None
    return ("trim", _tree(node.this), str(node.args.get("position") or "BOTH"))


def _concat(node: Any) -> Tree:
    return ("concat", *(_tree(operand) for operand in node.expressions))


def _if(node: Any) -> Tree:
    otherwise = node.args.get("false")
    return (
        "if",
        _tree(node.this),
        _tree(node.args["true"]),
        ("null",) if otherwise is None else _tree(otherwise),
    )


def _case(node: Any) -> Tree:
    otherwise, value = node.args.get("default"), node.args.get("this")
    tree: Tree = ("null",) if otherwise is None else _tree(otherwise)
    for branch in reversed(node.args["ifs"]):
        test = _tree(branch.this) if value is None else ("=", _tree(value), _tree(branch.this))
        tree = ("if", test, _tree(branch.args["true"]), tree)
    return tree


def _modulo(node: Any) -> Tree | None:
    divisor = _tree(node.expression)
    return ("%", _tree(node.this), divisor[1]) if divisor[0] == "number" and divisor[1] > 0 else None


def _anonymous(node: Any) -> Tree | None:
    """Return the tree of a function that sqlglot does not know."""
    name, parts = str(node.this).lower(), [_tree(operand) for operand in node.expressions]
    if name == "isnull" and len(parts) == 1:
        return ("is_null", *parts)
    if name == "isnotnull" and len(parts) == 1:
        return ("not", ("is_null", *parts))
    return ("trim", *parts, "BOTH") if name == "btrim" and len(parts) == 1 else None


def _one_operand(kind: str) -> Callable[[Any], Tree]:
    return lambda node: (kind, _tree(node.this))


def _two_operands(kind: str) -> Callable[[Any], Tree]:
    return lambda node: (kind, _tree(node.this), _tree(node.expression))


@lru_cache(maxsize=1)
def _list_makers() -> Mapping[str, Callable[[Any], Tree | None]]:
    return {
        "Column": _column,
        "Identifier": _column,
        "Literal": _literal,
        "RawString": lambda node: ("text", str(node.this)),
        "Boolean": lambda node: ("bool", bool(node.this)),
        "Null": lambda _: ("null",),
        "Paren": lambda node: _tree(node.this),
        "Is": _is,
        "In": _in,
        "Between": _between,
        "Like": _with_text("like"),
        "RegexpLike": _with_text("rlike"),
        "RegexpReplace": _regexp_replace,
        "Contains": _with_text("contains"),
        "StartsWith": _with_text("startswith"),
        "EndsWith": _with_text("endswith"),
        "Length": _length,
        "Coalesce": lambda node: (
            "coalesce",
            _tree(node.this),
            *(_tree(operand) for operand in node.expressions),
        ),
        "Exists": _exists,
        "ArrayContains": _array_contains,
        "SubstringIndex": _substring_index,
        "Substring": _substring,
        "Left": _left_substring,
        "Trim": _trim,
        "Concat": _concat,
        "If": _if,
        "Case": _case,
        "Mod": _modulo,
        "Nullif": lambda node: ("if", _two_operands("=")(node), ("null",), _tree(node.this)),
        "Nvl2": lambda node: (
            "if",
            ("not", ("is_null", _tree(node.this))),
            _tree(node.args["true"]),
            _tree(node.args["false"]),
        ),
        "Anonymous": _anonymous,
        **{name: _one_operand(kind) for name, kind in _ONE.items()},
        **{name: _two_operands(kind) for name, kind in _TWO.items()},
    }


_ONE: Final = {"Neg": "neg", "Not": "not", "Lower": "lower", "Upper": "upper", "ArraySize": "size"}
_TWO: Final = {
    "And": "and",
    "Or": "or",
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
    "NullSafeEQ": "same",
    "EqualNull": "same",
    "BitwiseAnd": "&",
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "DPipe": "concat",
}


def texts_of_rules() -> Iterator[str]:
    """Return the expressions of all built-in rules."""
    from mqdssm.pipeline.validate.rules import RULES  # they use these trees

    for rule in RULES:
        for part in ("condition", "value", "where", "key"):
            yield from filter(None, [getattr(rule, part, None)])
        yield from (part.text for part in split_template(rule.message) if part.is_expression)


def format_trees() -> str:
    """Return the text of the file."""
    trees = {text: parse_anew(text) for text in texts_of_rules()}
    lines = [
        f"{json.dumps(text)}: {json.dumps([sorted(entry.columns), entry.tree])}"
        for text, entry in sorted(trees.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"
