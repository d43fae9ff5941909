"""Errors that cross from a Python worker through the JVM to the driver.

Spark keeps neither the class nor the attributes of an exception that a worker raised, only its text. So a
worker raises `MqdssmSparkError`, whose text begins with the name of the original class, and the driver raises
an error of that class again.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Final

from mqdssm import errors

_MESSAGE: Final = re.compile(r"MqdssmSparkError: \[code=(\w+)\] ([^\r\n]*)")


class MqdssmSparkError(errors.MqdssmError):
    """Error of a Spark worker, as one line of text with its code.

    The form of the text is ``[code=<class of errors.py>] <one line of text>``.
    """


class SparkFailed(errors.MqdssmError):
    """Spark or Java itself failed: no disk space, no memory, a broken file."""


def pack(error: Exception) -> MqdssmSparkError:
    """Return an error whose text carries the class of `error` to the driver."""
    if isinstance(error, MqdssmSparkError):
        return error
    text = str(error).replace("\\", r"\\").replace("\n", r"\n").replace("\r", r"\r")
    return MqdssmSparkError(f"[code={type(error).__name__}] {text}")


@contextlib.contextmanager
def pack_errors() -> Iterator[None]:
    """Raise errors of this package in the form that reaches the driver.

    Raises:
        MqdssmSparkError: any error of this package.
    """
    try:
        yield
    except errors.MqdssmError as error:
        raise pack(error) from None


def unpack(text: str) -> errors.MqdssmError | None:
    """Find the error of a worker in the text of an exception from Spark.

    Args:
        text: ``str()`` of the exception that PySpark raised in the driver.

    Returns:
        The error of the worker, with its class if `mqdssm.errors` has it; None if the text has none.
    """
    match = _MESSAGE.search(text)
    if match is None:
        return None
    code, packed = match.groups()
    words = re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r"}.get(m[1], m[1]), packed)
    cls = getattr(errors, code, None)
    if not (isinstance(cls, type) and issubclass(cls, errors.MqdssmError)):
        return errors.MqdssmError(f"{code}: {words}")
    if issubclass(cls, errors.DecodeError):
        return errors.MappingError(words)  # its own fields are lost on the way
    return cls(words)
