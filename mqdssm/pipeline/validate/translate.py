"""Translation of rules' Spark SQL conditions into Arrow operations.

Workers apply these operations to arrays.
Only expressions with exactly the same meaning in both are translated, with types known beforehand; others are
`Untranslatable` and stay with Spark. A property test compares both forms.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mqdssm.pipeline.frames import arrow_functions as functions
from mqdssm.pipeline.validate.rules.trees import NOT_SET, SHOWN_CHARS_MAX, Tree, parse_sql, split_template

Columns = Mapping[str, "pa.Array | pa.Scalar"]
"""Columns of a batch by name."""
Evaluate = Callable[[Columns], "pa.Array | pa.Scalar"]
Types = Mapping[str, pa.DataType]

_STRING: Final = pa.string()
_BINARY: Final = pa.binary()
_LONG: Final = pa.int64()
_BOOL: Final = pa.bool_()
_NULL: Final = pa.null()
# above this share of rows it is faster to compute a costly condition for all rows
_FEW: Final = 0.5
_INT_END: Final = 2**31


class Untranslatable(ValueError):  # noqa: N818  not an error: Spark evaluates it
    """An expression that only Spark can evaluate; the text names the part."""


@dataclass(frozen=True, slots=True)
class TranslatedExpression:
    """A translated expression.

    Attributes:
        type: of its values.
        evaluate: returns its values for the columns of a batch.
        costly: it processes texts.
        columns: names of the columns that it uses.
        is_int: Spark computes it with 32 bits.
        may_fail: it raises an error for some values, so it is computed only for rows for which Spark does.
    """

    type: pa.DataType
    evaluate: Evaluate
    costly: bool = False
    columns: frozenset[str] = frozenset()
    is_int: bool = False
    may_fail: bool = False


def translate(text: str, types: Types) -> TranslatedExpression:
    """Translate a Spark SQL expression.

    Args:
        text: the expression.
        types: columns and their types.

    Raises:
        Untranslatable: a part may have another meaning in Arrow.
        ValueError: it cannot be parsed.
    """
    return _translate_tree(parse_sql(text).tree, types)


def translate_condition(text: str, types: Types) -> Callable[[Columns, int], pa.Array]:
    """Translate a condition into a function with true or false for every row.

    NULL counts as false.

    Raises:
        Untranslatable: as `translate`; also for an expression that is no condition.
    """
    expression = _expect(translate(text, types), _BOOL)

    def evaluate(columns: Columns, rows: int) -> pa.Array:
        return pc.fill_null(_repeat_scalar(expression.evaluate(columns), rows), False)

    return evaluate


def translate_message(text: str, types: Types) -> Callable[[Columns, int], pa.Array]:
    """Translate a message with expressions between braces.

    Raises:
        Untranslatable: as `translate`; also a value that cannot be shown.
    """
    parts: list[Evaluate] = []
    for part in split_template(text):
        if part.is_expression:
            expression = translate(part.text, types)
            parts.append(_show_values(expression))
        else:
            parts.append(_make_constant(part.text, _STRING))

    def evaluate(columns: Columns, rows: int) -> pa.Array:
        pieces = [_repeat_scalar(part(columns), rows) for part in parts]
        if len(pieces) == 1:
            return pieces[0]
        return pc.binary_join_element_wise(*pieces, "")

    return evaluate


def _show_values(expression: TranslatedExpression) -> Evaluate:
    show = functions.display_function(expression.type, SHOWN_CHARS_MAX)
    if show is None:
        raise Untranslatable(f"values of type {expression.type} are not shown")
    return lambda columns: pc.fill_null(show(expression.evaluate(columns)), NOT_SET)


def _repeat_scalar(values: "pa.Array | pa.Scalar", rows: int) -> pa.Array:
    return pa.repeat(values, rows) if isinstance(values, pa.Scalar) else values


def _make_constant(value: Any, kind: pa.DataType) -> Evaluate:
    scalar = pa.scalar(value, kind)
    return lambda _: scalar


def _expect(expression: TranslatedExpression, kind: pa.DataType) -> TranslatedExpression:
    if expression.type not in {kind, _NULL}:
        raise Untranslatable(f"{expression.type} where {kind} is expected")
    if expression.type == _NULL:
        return TranslatedExpression(kind, _make_constant(None, kind))
    return expression


# -- the kinds of expression


def _translate_tree(tree: Tree, types: Types) -> TranslatedExpression:
    maker = _MAKERS.get(tree[0])
    if maker is None:
        raise Untranslatable(f"{tree[1]} is not known outside Spark")
    return maker(tree, types)


def _column(tree: Tree, types: Types) -> TranslatedExpression:
    name = tree[1]
    if name not in types:
        raise Untranslatable(f"there is no column {name}")
    return TranslatedExpression(
        types[name], lambda columns: functions.decode_dictionary(columns[name]), columns=frozenset({name})
    )


def _translate_stored(tree: Tree, types: Types) -> TranslatedExpression:
    """Translate a column without decoding a dictionary.

    Some functions are faster on dictionaries.
    """
    expression = _translate_tree(tree, types)
    if tree[0] == "column":
        (name,) = expression.columns
        return TranslatedExpression(
            expression.type, lambda columns: columns[name], columns=expression.columns
        )
    return expression


def _text(tree: Tree, _: Types) -> TranslatedExpression:
    return TranslatedExpression(_STRING, _make_constant(tree[1], _STRING))


def _number(tree: Tree, _: Types) -> TranslatedExpression:
    return TranslatedExpression(_LONG, _make_constant(tree[1], _LONG), is_int=tree[1] < _INT_END)


def _boolean(tree: Tree, _: Types) -> TranslatedExpression:
    return TranslatedExpression(_BOOL, _make_constant(tree[1], _BOOL))


def _null(_: Tree, __: Types) -> TranslatedExpression:
    return TranslatedExpression(_NULL, _make_constant(None, _NULL))


def _apply(
    kind: pa.DataType,
    function: Callable[..., Any],
    *parts: TranslatedExpression,
    costly: bool = False,
    may_fail: bool = False,
) -> TranslatedExpression:
    evaluators = [part.evaluate for part in parts]
    return TranslatedExpression(
        kind,
        lambda columns: function(*(evaluate(columns) for evaluate in evaluators)),
        costly=costly or any(part.costly for part in parts),
        columns=frozenset().union(*(part.columns for part in parts)),
        is_int=kind == _LONG and all(part.is_int for part in parts),
        may_fail=may_fail or any(part.may_fail for part in parts),
    )


def _negative(tree: Tree, types: Types) -> TranslatedExpression:
    expression = _expect(_translate_tree(tree[1], types), _LONG)
    return _apply(_LONG, pc.negate_checked, expression, may_fail=bool(expression.columns))


def _arithmetic(function: Callable[..., Any]) -> Callable[[Tree, Types], TranslatedExpression]:
    def make(tree: Tree, types: Types) -> TranslatedExpression:
        left, right = (_expect(_translate_tree(side, types), _LONG) for side in tree[1:])
        if left.is_int and right.is_int:
            raise Untranslatable(f"{tree[0]} of two numbers of 32 bits")
        return _apply(_LONG, function, left, right, may_fail=True)

    return make


def _modulo(tree: Tree, types: Types) -> TranslatedExpression:
    divisor = tree[2]

    def rest(datum: Any) -> Any:
        return pc.subtract(datum, pc.multiply(pc.divide(datum, divisor), divisor))

    return _apply(_LONG, rest, _expect(_translate_tree(tree[1], types), _LONG))


def _not(tree: Tree, types: Types) -> TranslatedExpression:
    return _apply(_BOOL, pc.invert, _expect(_translate_tree(tree[1], types), _BOOL))


def _or(tree: Tree, types: Types) -> TranslatedExpression:
    left, right = (_expect(_translate_tree(side, types), _BOOL) for side in tree[1:])
    if right.may_fail:
        return _combine_where_open(left, right, pc.or_kleene, is_open_while=False)
    return _apply(_BOOL, pc.or_kleene, left, right)


def _and(tree: Tree, types: Types) -> TranslatedExpression:
    left, right = (_expect(_translate_tree(side, types), _BOOL) for side in tree[1:])
    if not right.costly and not right.may_fail:
        return _apply(_BOOL, pc.and_kleene, left, right)
    return _combine_where_open(left, right, pc.and_kleene, is_open_while=True)


def _combine_where_open(
    left: TranslatedExpression, right: TranslatedExpression, both: Callable[..., Any], *, is_open_while: bool
) -> TranslatedExpression:
    """Combine two conditions.

    The right one is computed only for rows that the left one does not decide.
    """

    def evaluate(columns: Columns) -> "pa.Array | pa.Scalar":
        first = left.evaluate(columns)
        if isinstance(first, pa.Scalar):
            is_decided = first.is_valid and first.as_py() is not is_open_while
            return first if is_decided else both(first, right.evaluate(columns))
        open_rows = pc.fill_null(pc.equal(first, is_open_while), True)
        count = open_rows.true_count
        if count == 0:
            return first
        if count > _FEW * len(first) and not right.may_fail:
            return both(first, right.evaluate(columns))
        some = {name: _filter_rows(columns[name], open_rows) for name in right.columns}
        second = _repeat_scalar(right.evaluate(some), count)
        return pc.replace_with_mask(first, open_rows, both(first.filter(open_rows), second))

    may_fail = left.may_fail or right.may_fail
    return TranslatedExpression(
        _BOOL, evaluate, costly=True, columns=left.columns | right.columns, may_fail=may_fail
    )


def _filter_rows(values: "pa.Array | pa.Scalar", mask: pa.Array) -> "pa.Array | pa.Scalar":
    return values if isinstance(values, pa.Scalar) else values.filter(mask)


def _comparison(function: Callable[..., Any]) -> Callable[[Tree, Types], TranslatedExpression]:
    def make(tree: Tree, types: Types) -> TranslatedExpression:
        left, right = _expect_alike(_translate_tree(tree[1], types), _translate_tree(tree[2], types))
        return _apply(_BOOL, function, left, right)

    return make


def _expect_alike(
    left: TranslatedExpression, right: TranslatedExpression
) -> tuple[TranslatedExpression, TranslatedExpression]:
    kind = left.type if left.type != _NULL else right.type
    if pa.types.is_nested(kind) or kind == _NULL:
        raise Untranslatable(f"a comparison of {kind}")
    return _expect(left, kind), _expect(right, kind)


def _is_null(tree: Tree, types: Types) -> TranslatedExpression:
    return _apply(_BOOL, pc.is_null, _translate_stored(tree[1], types))


def _in(tree: Tree, types: Types) -> TranslatedExpression:
    expression = _translate_tree(tree[1], types)
    kind = {_STRING: "text", _LONG: "number"}.get(expression.type)
    if any(item[0] != kind for item in tree[2:]):
        raise Untranslatable("IN with literals of another type")
    values = pa.array([item[1] for item in tree[2:]], expression.type)
    return _apply(_BOOL, lambda datum: functions.is_in(datum, values), expression)


def _like(tree: Tree, types: Types) -> TranslatedExpression:
    pattern = tree[2]
    if "\\" in pattern:
        raise Untranslatable("LIKE with an escape")
    expression = _expect(_translate_tree(tree[1], types), _STRING)
    return _apply(_BOOL, lambda datum: pc.match_like(datum, pattern), expression, costly=True)


def _rlike(tree: Tree, types: Types) -> TranslatedExpression:
    expression = _expect(_translate_tree(tree[1], types), _STRING)
    pattern = functions.check_pattern(tree[2])
    if pattern is None:
        raise Untranslatable(f"the regular expression {tree[2]!r}")
    return _apply(_BOOL, lambda datum: pc.match_substring_regex(datum, pattern), expression, costly=True)


def _replace(tree: Tree, types: Types) -> TranslatedExpression:
    expression = _expect(_translate_tree(tree[1], types), _STRING)
    if tree[2] != functions.FIRST_RDN or tree[3]:
        raise Untranslatable("regexp_replace with another pattern than that of a DN's first part")
    return _apply(_STRING, functions.without_first_rdn, expression, costly=True)


def _text_test(function: Callable[..., Any]) -> Callable[[Tree, Types], TranslatedExpression]:
    def make(tree: Tree, types: Types) -> TranslatedExpression:
        expression = _expect(_translate_tree(tree[1], types), _STRING)
        return _apply(_BOOL, lambda datum: function(datum, tree[2]), expression, costly=True)

    return make


def _utf16_length(tree: Tree, types: Types) -> TranslatedExpression:
    return _as_int(
        _apply(_LONG, functions.utf16_octets, _expect(_translate_tree(tree[1], types), _STRING), costly=True)
    )


def _length(tree: Tree, types: Types) -> TranslatedExpression:
    expression = _translate_stored(tree[1], types)
    count = pc.utf8_length if expression.type == _STRING else pc.binary_length
    if expression.type != _STRING:
        expression = _expect(expression, _BINARY)
    return _as_int(_apply(_LONG, lambda datum: functions.of_distinct(count, datum).cast(_LONG), expression))


def _as_int(expression: TranslatedExpression) -> TranslatedExpression:
    return replace(expression, is_int=True)


def _case_of(function: Callable[..., Any]) -> Callable[[Tree, Types], TranslatedExpression]:
    def make(tree: Tree, types: Types) -> TranslatedExpression:
        return _apply(_STRING, function, _expect(_translate_tree(tree[1], types), _STRING), costly=True)

    return make


def _coalesce(tree: Tree, types: Types) -> TranslatedExpression:
    parts = _of_one_type([_translate_tree(operand, types) for operand in tree[1:]], "coalesce")
    if any(part.may_fail for part in parts[1:]):
        raise Untranslatable("coalesce of what may fail")
    return _apply(parts[0].type, pc.coalesce, *parts)


def _of_one_type(parts: list[TranslatedExpression], function_name: str) -> list[TranslatedExpression]:
    kind = next((part.type for part in parts if part.type != _NULL), _NULL)
    if kind == _NULL or pa.types.is_nested(kind):
        raise Untranslatable(f"{function_name} of {kind}")
    return [_expect(part, kind) for part in parts]


def _if(tree: Tree, types: Types) -> TranslatedExpression:
    test = _expect(_translate_tree(tree[1], types), _BOOL)
    yes, no = _of_one_type([_translate_tree(operand, types) for operand in tree[2:]], "if")
    if yes.may_fail or no.may_fail:
        raise Untranslatable("if with what may fail")

    def choose(mask: Any, first: Any, other: Any) -> Any:
        return pc.if_else(pc.fill_null(mask, False), first, other)

    expression = _apply(yes.type, choose, test, yes, no)
    return replace(expression, is_int=yes.is_int and no.is_int)


def _size(tree: Tree, types: Types) -> TranslatedExpression:
    expression = _translate_tree(tree[1], types)
    if not pa.types.is_list(expression.type):
        raise Untranslatable(f"size of {expression.type}")
    return _as_int(_apply(_LONG, lambda datum: pc.list_value_length(datum).cast(_LONG), expression))


def _exists(tree: Tree, types: Types) -> TranslatedExpression:
    expression = _translate_tree(tree[1], types)
    if not pa.types.is_list(expression.type):
        raise Untranslatable(f"exists in {expression.type}")
    name = tree[2]
    try:
        body = _expect(_translate_tree(tree[3], {name: expression.type.value_type}), _BOOL)
    except Untranslatable as unknown:
        raise Untranslatable(f"exists or array_contains: {unknown}") from None
    if body.may_fail:
        raise Untranslatable("exists with what may fail")

    def evaluate(datum: Any) -> Any:
        return functions.any_of(datum, lambda flat: _repeat_scalar(body.evaluate({name: flat}), len(flat)))

    return _apply(_BOOL, evaluate, expression, costly=True)


def _part(*, first: bool) -> Callable[[Tree, Types], TranslatedExpression]:
    def make(tree: Tree, types: Types) -> TranslatedExpression:
        expression = _expect(_translate_tree(tree[1], types), _STRING)
        return _apply(
            _STRING, lambda datum: functions.part_of(datum, tree[2], first=first), expression, costly=True
        )

    return make


def _substring(tree: Tree, types: Types) -> TranslatedExpression:
    expression, start, size = _expect(_translate_tree(tree[1], types), _STRING), tree[2] - 1, tree[3]
    end = None if size is None else start + size
    return _apply(_STRING, lambda datum: pc.utf8_slice_codeunits(datum, start, end), expression, costly=True)


def _trim(tree: Tree, types: Types) -> TranslatedExpression:
    trim = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}[tree[2]]
    expression = _expect(_translate_tree(tree[1], types), _STRING)
    return _apply(_STRING, lambda datum: trim(datum, characters=" "), expression, costly=True)


def _concat(tree: Tree, types: Types) -> TranslatedExpression:
    parts = [_expect(_translate_tree(operand, types), _STRING) for operand in tree[1:]]
    return _apply(_STRING, lambda *datums: pc.binary_join_element_wise(*datums, ""), *parts, costly=True)


def _bits(tree: Tree, types: Types) -> TranslatedExpression:
    left, right = (_expect(_translate_tree(side, types), _LONG) for side in tree[1:])
    return _apply(_LONG, pc.bit_wise_and, left, right)


_MAKERS: Final[Mapping[str, Callable[[Tree, Types], TranslatedExpression]]] = {
    "column": _column,
    "text": _text,
    "number": _number,
    "bool": _boolean,
    "null": _null,
    "neg": _negative,
    "not": _not,
    "and": _and,
    "or": _or,
    "=": _comparison(pc.equal),
    "<>": _comparison(pc.not_equal),
    "<": _comparison(pc.less),
    "<=": _comparison(pc.less_equal),
    ">": _comparison(pc.greater),
    ">=": _comparison(pc.greater_equal),
    "same": _comparison(functions.equal_or_both_null),
    "is_null": _is_null,
    "in": _in,
    "like": _like,
    "rlike": _rlike,
    "replace": _replace,
    "contains": _text_test(functions.contains),
    "startswith": _text_test(pc.starts_with),
    "endswith": _text_test(pc.ends_with),
    "length": _length,
    "utf16_length": _utf16_length,
    "lower": _case_of(functions.lower),
    "upper": _case_of(functions.upper),
    "coalesce": _coalesce,
    "if": _if,
    "size": _size,
    "exists": _exists,
    "first_part": _part(first=True),
    "last_part": _part(first=False),
    "substring": _substring,
    "trim": _trim,
    "concat": _concat,
    "&": _bits,
    "+": _arithmetic(pc.add_checked),
    "-": _arithmetic(pc.subtract_checked),
    "*": _arithmetic(pc.multiply_checked),
    "%": _modulo,
}
