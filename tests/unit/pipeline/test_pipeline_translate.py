"""Conditions for workers: what is not known to mean the same is left to Spark, and never an error."""

import pyarrow as pa
import pytest

from mqdssm.pipeline.validate.translate import Untranslatable, translate_condition

TYPES = {"Quota": pa.int64(), "Label": pa.string(), "Keys": pa.list_(pa.string())}
COLUMNS = {
    "Quota": pa.array([1, None, 2**32 - 1]),
    "Label": pa.array(["a\nb", None, "axb"]),
    "Keys": pa.array([["a", "b"], None, []], TYPES["Keys"]),
}


def rows(text: str) -> list[bool]:
    return translate_condition(text, TYPES)(COLUMNS, 3).to_pylist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Quota in (1, 4294967295)", [True, False, True]),
        ("Quota not in (1, 7)", [False, False, True]),  # of NULL nothing is true
        ("not (Quota > 1)", [True, False, False]),
        ("Quota <=> null", [False, True, False]),
        ("Quota is null or Quota = 007", [False, True, False]),
        ("Label like 'a%b'", [True, False, True]),  # also across lines
        ("not (Label in ('axb'))", [True, False, False]),
        ("exists(Keys, x -> x = 'b')", [True, False, False]),
        ("size(Keys) = 0 or size(Keys) is null", [False, True, True]),
        ("Quota & 3 = 1 and length(Label) = 3", [True, False, False]),
        ("Label like 'a_b'", [True, False, True]),
        ("Label not like 'ax%'", [True, False, False]),
        ("not (Label not like 'ax%')", [False, False, True]),
        ("Label not rlike '^ax'", [True, False, False]),
        ("Quota not between 0 and 7", [False, False, True]),
        ("exists(Keys, x -> x not like 'a%')", [True, False, False]),
        ("Quota + 1 > 2", [False, False, True]),
        ("Quota % 2 = 1 and -Quota < -1", [False, False, True]),
        ("Quota = 7 and Quota + 9223372036854775807 > 0", [False, False, False]),  # as Spark: not computed
        ("upper(Label) = 'AXB' or isnull(Quota)", [False, True, True]),
        ("trim(concat(' ', Label, ' ')) = Label", [True, False, True]),
        ("Label || 'c' = 'axbc'", [False, False, True]),
        ("if(Quota > 1, Label, 'x') = 'x'", [True, True, False]),
        ("case when Quota = 1 then 'a' when Quota > 1 then 'b' end = 'b'", [False, False, True]),
        ("case Quota when 1 then true else false end", [True, False, False]),
        ("substring(Label, 2, 1) = 'x' or left(Label, 2) = 'a\\n'", [True, False, True]),
        ("array_contains(Keys, 'b')", [True, False, False]),
        ("nullif(Label, 'axb') is null", [False, True, True]),
    ],
)
def test_what_is_true(text: str, expected: list[bool]) -> None:
    assert rows(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Quota in (99999999999999999999)",
        "Quota in (1.5)",
        "Quota in (1e3)",
        "Quota in (1, null)",
        "Quota in ('1')",
        "Quota in (1L)",
        "Quota = 1.5",
        "Quota = 9223372036854775808",
        "Label = 1",
        "Label in (1)",
        r"Label like 'a\\_b'",
        "Label like null",
        "Label not like 'a' escape '/'",
        "Label rlike 'a{,3}'",
        "Label rlike '{x}'",
        "Label rlike 'a{'",
        "Label not ilike 'A%'",
        "Label not like any ('a', 'b')",
        "regexp_replace(Label, 'a', 'b', 2) = 'a'",
        "Quota between symmetric 7 and 1",
        "Quota not in (1, null)",
        "length(Label) * 2000000000 > 2",
        "1 + 1 = Quota",
        "Quota / 2 = 1",
        "Quota % 0 = 1",
        "Quota % Quota = 1",
        "if(Quota > 1, Quota + 1, 2) = 3",
        "substring(Label, 0, 2) = 'a'",
        "left(Label, -1) = 'a'",
        "trim('x' from Label) = 'a'",
        "concat(Label, Quota) = 'a'",
        "Missing = 1",
        "Keys = Keys",
        "array_contains(Keys, null)",
        "array_contains(Keys, 1)",
        "array_contains(Keys, Label)",
        "exists(Keys, one -> true) and array_contains(Keys, one)",
    ],
)
def test_what_spark_alone_can_do(text: str) -> None:
    with pytest.raises(Untranslatable):
        rows(text)


@pytest.mark.parametrize(
    "text",
    ["Quota > 1 or Quota + 9223372036854775807 < 0", "Quota > 5 and Quota * 9223372036854775807 > 0"],
)
def test_an_overflow_is_an_error_as_spark_has_it(text: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        rows(text)
