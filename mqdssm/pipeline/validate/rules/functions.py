"""Functions that users' rules may call, and the check of a rule's text.

Spark gets the text that was parsed and written again, never the text of the file. So a comment or a quote
that sqlglot and Spark read differently cannot hide a call. Every word before a parenthesis must be in a list
of this module: functions that Spark adds later are refused until they are added here.
"""

import itertools
from typing import Final

from sqlglot import expressions as exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, UnsupportedError
from sqlglot.tokenizer_core import Token, TokenType

from mqdssm.model.suggestions import suggest_name
from mqdssm.pipeline.validate.rules.trees import DIALECT, parse

_TEXT: Final = """
ascii base64 bit_length btrim char char_length character_length chr concat concat_ws contains decode
encode endswith find_in_set format_number format_string get_json_object hex initcap instr lcase left
length levenshtein locate lower lpad ltrim luhn_check octet_length overlay position printf quote
regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace
regexp_substr repeat replace reverse right rlike rpad rtrim soundex space split split_part
startswith str_to_map substr substring substring_index to_number translate trim try_to_number ucase
unbase64 unhex upper url_decode url_encode
"""
_NUMBER: Final = """
abs bigint bin bit_count bit_get bround ceil ceiling conv decimal div double exp float floor getbit
greatest int isnan least ln log log10 log1p log2 mod nanvl negative pmod positive pow power round
shiftleft shiftright sign signum smallint sqrt tinyint try_add try_divide try_multiply try_subtract
"""
_TIME: Final = """
add_months curdate current_date current_timestamp date date_add date_diff date_format date_part
date_sub date_trunc dateadd datediff day dayofmonth dayofweek dayofyear extract from_unixtime
from_utc_timestamp hour last_day localtimestamp make_date make_timestamp minute month months_between
next_day now quarter second timestamp timestamp_micros timestamp_millis timestamp_seconds
timestampadd timestampdiff to_date to_timestamp to_unix_timestamp to_utc_timestamp trunc
try_to_timestamp unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday weekofyear
year
"""
_COLLECTION: Final = """
aggregate array array_append array_compact array_contains array_distinct array_except array_insert
array_intersect array_join array_max array_min array_position array_prepend array_remove
array_repeat array_size array_sort array_union arrays_overlap arrays_zip cardinality element_at
exists filter flatten forall get map map_concat map_contains_key map_entries map_filter
map_from_arrays map_keys map_values named_struct reduce sequence size slice sort_array struct
transform transform_keys transform_values try_element_at zip_with
"""
_OTHER: Final = """
binary boolean cast coalesce crc32 equal_null hash if ifnull isnotnull isnull md5 nullif nvl nvl2
sha sha1 sha2 string try_cast typeof xxhash64
"""
ALLOWED: Final = frozenset(f"{_TEXT} {_NUMBER} {_TIME} {_COLLECTION} {_OTHER}".split())
"""Functions of Spark that users' rules may call, in lower case."""
_BEFORE_PARENTHESIS: Final = """
all and any as between both by case distinct else escape for from ilike in interval is leading like
not null on or rlike some then trailing when
"""
"""Words of SQL after which a parenthesis does not begin a call."""
_LITERALS: Final = frozenset({TokenType.STRING, TokenType.RAW_STRING, TokenType.HEX_STRING})


def check_sql(text: str) -> str:
    """Return an expression that Spark may evaluate.

    The expression was parsed, checked and written again.

    Args:
        text: Spark SQL expression of a user.

    Raises:
        ValueError: it is no expression, a sub-query or command, or calls a function outside `ALLOWED`.
    """
    tree = parse(text)
    _check_quotes(text)
    if tree.find(exp.Query, exp.Table) is not None:
        raise ValueError("sub-queries are refused: a rule looks at one object")
    if not isinstance(tree, exp.Condition):
        raise ValueError(f"{text!r} is neither a condition nor a value")  # noqa: TRY004  one kind of error
    for call in tree.find_all(exp.Func):  # functions without a parenthesis, as SESSION_USER
        if not any(call.args.values()) and call.sql_name().lower() not in ALLOWED:
            raise _make_refusal(call.sql_name())
    try:
        written = tree.sql(dialect=DIALECT, comments=False, unsupported_level=ErrorLevel.RAISE)
    except UnsupportedError as error:
        raise ValueError(f"{text!r} is refused: {error}") from None
    if "${" in written:
        raise ValueError("'${' is refused: Spark would put a setting or an environment variable there")
    _check_calls(written)
    return written


def _split_tokens(text: str) -> list[Token]:
    return Dialect.get_or_raise(DIALECT).tokenize(text)


def _check_quotes(text: str) -> None:
    """Refuse a doubled quote.

    A doubled quote is a quote for Spark, but the end of a text for sqlglot.
    """
    for token, following in itertools.pairwise(_split_tokens(text)):
        are_literals = token.token_type in _LITERALS and following.token_type in _LITERALS
        if are_literals and token.end + 1 == following.start:
            raise ValueError(f"a doubled quote is refused in {text!r}: write \\' for a quote")


def _check_calls(written: str) -> None:
    tokens = _split_tokens(written)
    for number, token in enumerate(tokens[1:], start=1):
        if token.token_type is TokenType.L_PAREN:
            before = tokens[number - 1]
            is_qualified = number > 1 and tokens[number - 2].token_type is TokenType.DOT
            _check_call(before, is_qualified=is_qualified)


def _check_call(before: Token, *, is_qualified: bool) -> None:
    """Refuse a call of anything that is not allowed.

    `before` is the token before the parenthesis.
    """
    name = before.text.lower()
    is_word = before.token_type is TokenType.IDENTIFIER or name.replace("_", "").isalnum()
    if before.token_type in _LITERALS or before.token_type is TokenType.NUMBER:
        is_word = False
    if before.token_type in {TokenType.R_PAREN, TokenType.R_BRACKET} or is_qualified:
        raise ValueError(f"a call by {before.text!r} is refused: write the name of a function of Spark")
    if is_word and name not in ALLOWED and name not in _BEFORE_PARENTHESIS.split():
        raise _make_refusal(before.text)


def _make_refusal(name: str) -> ValueError:
    hint = suggest_name(name.lower(), ALLOWED, otherwise=": docs/validation.md lists them", cutoff=0.8)
    return ValueError(f"{name} is refused: it is none of the functions that rules may call{hint}")
