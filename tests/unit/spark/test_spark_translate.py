"""Conditions for workers: what is not known to mean the same is left to Spark, and never an error."""

import pyarrow as pa
import pytest

from mqdssm.spark.translate import Untranslatable, condition

TYPES = {"Quota": pa.int64(), "Label": pa.string(), "Keys": pa.list_(pa.string())}
COLUMNS = {
    "Quota": pa.array([1, None, 2**32 - 1]),
    "Label": pa.array(["a\nb", None, "axb"]),
    "Keys": pa.array([["a", "b"], None, []], TYPES["Keys"]),
}


def rows(text: str) -> list[bool]:
    return condition(text, TYPES)(COLUMNS, 3).to_pylist()


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
        "Label like 'a_b'",
        "Label like null",
        "Quota + 1 > 2",
        "Missing = 1",
        "Keys = Keys",
    ],
)
def test_what_spark_alone_can_do(text: str) -> None:
    with pytest.raises(Untranslatable):
        rows(text)
