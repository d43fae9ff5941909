"""Errors keep their class on the way from a worker to the driver."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm import errors
from mqdssm.pipeline.failures import MqdssmSparkError, pack, unpack

SPARK = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "source.py", line 1, in read
mqdssm.pipeline.failures.{}
SQLSTATE: 38000"""


def through_spark(error: Exception) -> str:
    packed = pack(error)
    return SPARK.format(f"{type(packed).__name__}: {packed}")


@pytest.mark.parametrize(
    "cls",
    [
        errors.ConfigError,
        errors.MappingError,
        errors.DirectoryNotConnected,
        errors.ObjectNotFound,
        errors.GenericDirectoryError,
        errors.OutcomeUnknown,
    ],
)
def test_class_and_words_survive(cls: type[errors.MqdssmError]) -> None:
    found = unpack(through_spark(cls("no\nsuch\\n [thing]")))
    assert type(found) is cls
    assert str(found) == "no\nsuch\\n [thing]"


def test_all_that_an_error_says_survives() -> None:
    error = errors.ObjectNotFound("gone", dn="CN=q", ldap_code=32, server_text="no", hint="look")
    assert str(unpack(through_spark(error))) == "gone; object: CN=q; LDAP result 32 'no'; look"


def test_a_decode_error_loses_its_fields_only() -> None:
    found = unpack(through_spark(errors.DecodeError("[MS-DTYP] 2.4.6", "Sbz1", 1, "bad")))
    assert type(found) is errors.MappingError
    assert str(found) == "[MS-DTYP] 2.4.6 Sbz1 at offset 1: bad"


def test_an_unknown_class_is_named() -> None:
    assert str(unpack("MqdssmSparkError: [code=Strange] words")) == "Strange: words"


def test_other_errors_are_not_ours() -> None:
    assert unpack("java.lang.OutOfMemoryError: heap") is None
    assert unpack(SPARK.format("ValueError: x")) is None


def test_packing_twice_is_packing_once() -> None:
    packed = pack(errors.ConfigError("x"))
    assert pack(packed) is packed
    assert isinstance(packed, MqdssmSparkError)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_words_survive(words: str) -> None:
    assert str(unpack(through_spark(errors.ConfigError(words)))) == words
