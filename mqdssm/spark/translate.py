"""Spark SQL conditions of rules as operations on Arrow arrays, for workers that read the files themselves.

Only what means exactly the same in both is translated, with types known beforehand; the rest is
`Untranslatable` and stays with Spark. Both forms are held against each other by a property test.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import expressions as exp

from mqdssm.spark import arrow_functions as functions
from mqdssm.spark.rules.expressions import NOT_SET, SHOWN_CHARS_MAX, parse, template

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

Columns = Mapping[str, "pa.Array | pa.Scalar"]
"""Columns of a batch by name."""
Evaluate = Callable[[Columns], "pa.Array | pa.Scalar"]
Types = Mapping[str, pa.DataType]

_STRING: Final = pa.string()
_BINARY: Final = pa.binary()
_LONG: Final = pa.int64()
_BOOL: Final = pa.bool_()
_NULL: Final = pa.null()
# beyond this share of rows it is cheaper to compute a costly condition for all of them
_FEW: Final = 0.5


class Untranslatable(ValueError):  # noqa: N818  it is no error: Spark does it
    """An expression that only Spark can evaluate; the text says what in it."""


@dataclass(frozen=True, slots=True)
class Made:
    """A translated expression.

    Attributes:
        type: of its values.
        evaluate: gives its values for the columns of a batch.
        costly: it looks into texts.
        columns: names of the columns that it uses.
    """

    type: pa.DataType
    evaluate: Evaluate
    costly: bool = False
    columns: frozenset[str] = frozenset()


def translate(text: str, types: Types) -> Made:
    """Translate a Spark SQL expression.

    Args:
        text: the expression.
        types: columns and their types.

    Raises:
        Untranslatable: it has something that we do not know to mean the same.
        ValueError: it cannot be parsed.
    """
    return _made(parse(text), types)


def condition(text: str, types: Types) -> Callable[[Columns, int], pa.Array]:
    """Translate a condition: what is given back is true or false for every row, NULL being false.

    Raises:
        Untranslatable: as `translate`; also what is no condition.
    """
    made = _expect(translate(text, types), _BOOL)

    def evaluate(columns: Columns, rows: int) -> pa.Array:
        return pc.fill_null(_full(made.evaluate(columns), rows), False)

    return evaluate


def message(text: str, types: Types) -> Callable[[Columns, int], pa.Array]:
    """Translate a message with expressions between braces.

    Raises:
        Untranslatable: as `translate`; also a value that cannot be shown.
    """
    parts: list[Evaluate] = []
    for part in template(text):
        if part.is_expression:
            made = translate(part.text, types)
            parts.append(_showing(made))
        else:
            parts.append(_constant(part.text, _STRING))

    def evaluate(columns: Columns, rows: int) -> pa.Array:
        pieces = [_full(part(columns), rows) for part in parts]
        if len(pieces) == 1:
            return pieces[0]
        return pc.binary_join_element_wise(*pieces, "")

    return evaluate


def _showing(made: Made) -> Evaluate:
    show = functions.shown(made.type, SHOWN_CHARS_MAX)
    if show is None:
        raise Untranslatable(f"values of type {made.type} are not shown")
    return lambda columns: pc.fill_null(show(made.evaluate(columns)), NOT_SET)


def _full(values: "pa.Array | pa.Scalar", rows: int) -> pa.Array:
    return pa.repeat(values, rows) if isinstance(values, pa.Scalar) else values


def _constant(value: Any, kind: pa.DataType) -> Evaluate:
    scalar = pa.scalar(value, kind)
    return lambda _: scalar


def _expect(made: Made, kind: pa.DataType) -> Made:
    if made.type not in {kind, _NULL}:
        raise Untranslatable(f"{made.type} where {kind} is expected")
    if made.type == _NULL:
        return Made(kind, _constant(None, kind))
    return made


# -- the kinds of expression


def _made(node: "Expression", types: Types) -> Made:
    maker = _MAKERS.get(type(node))
    if maker is None:
        raise Untranslatable(f"{node.sql(dialect='spark')} is not known outside Spark")
    return maker(node, types)


def _column(node: Any, types: Types) -> Made:
    name = f"{node.table}.{node.name}" if getattr(node, "table", "") else str(node.name)
    if name not in types:
        raise Untranslatable(f"there is no column {name}")
    return Made(types[name], lambda columns: functions.decoded(columns[name]), columns=frozenset({name}))


def _stored(node: Any, types: Types) -> Made:
    """A column as it is, perhaps as a dictionary: for functions that gain by it."""
    made = _made(node, types)
    if isinstance(node, exp.Column):
        (name,) = made.columns
        return Made(made.type, lambda columns: columns[name], columns=made.columns)
    return made


def _literal(node: Any, types: Types) -> Made:
    del types
    if node.is_string:
        return Made(_STRING, _constant(str(node.this), _STRING))
    return Made(_LONG, _constant(_number(node), _LONG))


def _number(node: Any) -> int:
    text = str(node.this)
    if not (text.isascii() and text.isdigit()) or int(text) >= 2**63:
        raise Untranslatable(f"the number {text}")
    return int(text)


def _raw(node: Any, types: Types) -> Made:
    del types
    return Made(_STRING, _constant(str(node.this), _STRING))


def _boolean(node: Any, types: Types) -> Made:
    del types
    return Made(_BOOL, _constant(bool(node.this), _BOOL))


def _null(node: Any, types: Types) -> Made:
    del node, types
    return Made(_NULL, _constant(None, _NULL))


def _negative(node: Any, types: Types) -> Made:
    return _apply(_LONG, pc.negate_checked, _expect(_made(node.this, types), _LONG))


def _apply(kind: pa.DataType, function: Callable[..., Any], *parts: Made, costly: bool = False) -> Made:
    evaluators = [part.evaluate for part in parts]
    return Made(
        kind,
        lambda columns: function(*(evaluate(columns) for evaluate in evaluators)),
        costly=costly or any(part.costly for part in parts),
        columns=frozenset().union(*(part.columns for part in parts)),
    )


def _paren(node: Any, types: Types) -> Made:
    return _made(node.this, types)


def _not(node: Any, types: Types) -> Made:
    return _apply(_BOOL, pc.invert, _expect(_made(node.this, types), _BOOL))


def _or(node: Any, types: Types) -> Made:
    left, right = (_expect(_made(side, types), _BOOL) for side in (node.left, node.right))
    return _apply(_BOOL, pc.or_kleene, left, right)


def _and(node: Any, types: Types) -> Made:
    left, right = (_expect(_made(side, types), _BOOL) for side in (node.left, node.right))
    if not right.costly:
        return _apply(_BOOL, pc.and_kleene, left, right)

    def evaluate(columns: Columns) -> "pa.Array | pa.Scalar":
        """Compute the right side only for rows that the left one has not decided."""
        first = left.evaluate(columns)
        if isinstance(first, pa.Scalar):
            return pc.and_kleene(first, right.evaluate(columns))
        open_rows = pc.fill_null(first, True)
        count = open_rows.true_count
        if count == 0:
            return first
        if count > _FEW * len(first):
            return pc.and_kleene(first, right.evaluate(columns))
        some = {name: _filtered(columns[name], open_rows) for name in right.columns}
        second = _full(right.evaluate(some), count)
        decided = pc.and_kleene(first.filter(open_rows), second)
        return pc.replace_with_mask(first, open_rows, decided)

    return Made(_BOOL, evaluate, costly=True, columns=left.columns | right.columns)


def _filtered(values: "pa.Array | pa.Scalar", mask: pa.Array) -> "pa.Array | pa.Scalar":
    return values if isinstance(values, pa.Scalar) else values.filter(mask)


def _comparison(function: Callable[..., Any]) -> Callable[[Any, Types], Made]:
    def make(node: Any, types: Types) -> Made:
        left, right = _alike(_made(node.this, types), _made(node.expression, types))
        return _apply(_BOOL, function, left, right)

    return make


def _alike(left: Made, right: Made) -> tuple[Made, Made]:
    kind = left.type if left.type != _NULL else right.type
    if pa.types.is_nested(kind) or kind == _NULL:
        raise Untranslatable(f"a comparison of {kind}")
    return _expect(left, kind), _expect(right, kind)


def _same_or_null(node: Any, types: Types) -> Made:
    left, right = _alike(_made(node.this, types), _made(node.expression, types))
    return _apply(_BOOL, functions.equal_or_both_null, left, right)


def _is(node: Any, types: Types) -> Made:
    made = _stored(node.this, types)
    if isinstance(node.expression, exp.Null):
        return _apply(_BOOL, pc.is_null, made)
    raise Untranslatable("IS with anything but NULL")


def _in(node: Any, types: Types) -> Made:
    made = _made(node.this, types)
    listed = node.args.get("expressions") or []
    literals = [one for one in listed if isinstance(one, exp.Literal)]
    if not listed or len(literals) < len(listed) or made.type not in {_STRING, _LONG}:
        raise Untranslatable("IN with anything but literals")
    if any(one.is_string is not (made.type == _STRING) for one in literals):
        raise Untranslatable("IN with literals of another type")
    values = pa.array([str(one.this) if one.is_string else _number(one) for one in literals], made.type)
    return _apply(_BOOL, lambda found: functions.is_in(found, values), made)


def _between(node: Any, types: Types) -> Made:
    low = exp.GTE(this=node.this, expression=node.args["low"])
    high = exp.LTE(this=node.this, expression=node.args["high"])
    return _and(exp.And(this=low, expression=high), types)


def _like(node: Any, types: Types) -> Made:
    made = _expect(_made(node.this, types), _STRING)
    pattern = _text_of(node.expression)
    if "_" in pattern or "\\" in pattern or node.args.get("escape"):
        raise Untranslatable("LIKE with _ or an escape")
    return _apply(_BOOL, lambda found: pc.match_like(found, pattern), made, costly=True)


def _text_of(node: Any) -> str:
    if isinstance(node, exp.RawString) or (isinstance(node, exp.Literal) and node.is_string):
        return str(node.this)
    raise Untranslatable("a pattern that is no literal")


def _rlike(node: Any, types: Types) -> Made:
    made = _expect(_made(node.this, types), _STRING)
    pattern = functions.checked_pattern(_text_of(node.expression))
    if pattern is None:
        raise Untranslatable(f"the regular expression {node.expression.sql()}")
    return _apply(_BOOL, lambda found: pc.match_substring_regex(found, pattern), made, costly=True)


def _regexp_replace(node: Any, types: Types) -> Made:
    made = _expect(_made(node.this, types), _STRING)
    if _text_of(node.expression) != functions.FIRST_RDN or _text_of(node.args["replacement"]):
        raise Untranslatable("regexp_replace with another pattern than that of a DN's first part")
    return _apply(_STRING, functions.without_first_rdn, made, costly=True)


def _text_test(function: Callable[..., Any]) -> Callable[[Any, Types], Made]:
    def make(node: Any, types: Types) -> Made:
        made = _expect(_made(node.this, types), _STRING)
        pattern = _text_of(node.expression)
        return _apply(_BOOL, lambda found: function(found, pattern), made, costly=True)

    return make


def _length(node: Any, types: Types) -> Made:
    inner = node.this
    if isinstance(inner, exp.Encode):
        if _text_of(inner.args["charset"]).upper() != "UTF-16BE":
            raise Untranslatable("encode with another character set than UTF-16BE")
        return _apply(_LONG, functions.utf16_octets, _expect(_made(inner.this, types), _STRING), costly=True)
    made = _stored(inner, types)
    count = pc.utf8_length if made.type == _STRING else pc.binary_length
    if made.type != _STRING:
        made = _expect(made, _BINARY)
    return _apply(_LONG, lambda found: functions.of_distinct(count, found).cast(_LONG), made)


def _lower(node: Any, types: Types) -> Made:
    return _apply(_STRING, functions.lower, _expect(_made(node.this, types), _STRING), costly=True)


def _coalesce(node: Any, types: Types) -> Made:
    parts = [_made(one, types) for one in (node.this, *node.expressions)]
    kind = next((part.type for part in parts if part.type != _NULL), _NULL)
    if kind == _NULL or pa.types.is_nested(kind):
        raise Untranslatable(f"coalesce of {kind}")
    return _apply(kind, pc.coalesce, *(_expect(part, kind) for part in parts))


def _size(node: Any, types: Types) -> Made:
    made = _made(node.this, types)
    if not pa.types.is_list(made.type):
        raise Untranslatable(f"size of {made.type}")
    return _apply(_LONG, lambda found: pc.list_value_length(found).cast(_LONG), made)


def _exists(node: Any, types: Types) -> Made:
    made = _made(node.this, types)
    test = node.expression
    if not pa.types.is_list(made.type) or not isinstance(test, exp.Lambda) or len(test.expressions) != 1:
        raise Untranslatable("exists without a list and a condition with one name")
    name = str(test.expressions[0].name)
    inner = {name: made.type.value_type}
    body = _expect(_made(test.this, inner), _BOOL)

    def evaluate(found: Any) -> Any:
        return functions.any_of(found, lambda flat: _full(body.evaluate({name: flat}), len(flat)))

    return _apply(_BOOL, evaluate, made, costly=True)


def _substring_index(node: Any, types: Types) -> Made:
    made = _expect(_made(node.this, types), _STRING)
    delimiter = _text_of(node.args["delimiter"])
    count = node.args["count"].sql(dialect="spark")
    if count not in {"1", "-1"} or not delimiter:
        raise Untranslatable("substring_index with another count than 1 and -1")
    first = count == "1"
    return _apply(_STRING, lambda found: functions.part_of(found, delimiter, first=first), made, costly=True)


def _bits(node: Any, types: Types) -> Made:
    left, right = (_expect(_made(side, types), _LONG) for side in (node.this, node.expression))
    return _apply(_LONG, pc.bit_wise_and, left, right)


_MAKERS: Final[Mapping[type, Callable[[Any, Types], Made]]] = {
    exp.Column: _column,
    exp.Identifier: _column,
    exp.Literal: _literal,
    exp.RawString: _raw,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Neg: _negative,
    exp.Paren: _paren,
    exp.Not: _not,
    exp.And: _and,
    exp.Or: _or,
    exp.EQ: _comparison(pc.equal),
    exp.NEQ: _comparison(pc.not_equal),
    exp.LT: _comparison(pc.less),
    exp.LTE: _comparison(pc.less_equal),
    exp.GT: _comparison(pc.greater),
    exp.GTE: _comparison(pc.greater_equal),
    exp.NullSafeEQ: _same_or_null,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.RegexpLike: _rlike,
    exp.RegexpReplace: _regexp_replace,
    exp.Contains: _text_test(functions.contains),
    exp.StartsWith: _text_test(pc.starts_with),
    exp.EndsWith: _text_test(pc.ends_with),
    exp.Length: _length,
    exp.Lower: _lower,
    exp.Coalesce: _coalesce,
    exp.ArraySize: _size,
    exp.Exists: _exists,
    exp.SubstringIndex: _substring_index,
    exp.BitwiseAnd: _bits,
}
