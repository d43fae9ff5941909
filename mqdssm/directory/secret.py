"""Passwords that do not appear in logs, tracebacks or errors."""

import hmac
from pathlib import Path
from typing import Final

from mqdssm.errors import ConfigError

PASSWORD_BYTES_MAX: Final = 64 * 1024
"""Maximum size of a password file; a larger file was named by mistake."""
_HIDDEN: Final = "***"


class Secret:
    """Text that only `reveal` returns.

    ``str``, ``repr``, ``format`` and f-strings print three stars.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text; do not store it."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return f"Secret({_HIDDEN})"

    def __str__(self) -> str:
        return _HIDDEN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode("utf-8"), other._text.encode("utf-8"))

    def __hash__(self) -> int:
        return hash((Secret, self._text))


def read_password(file: Path) -> str:
    """Read the password from a file, without its line end.

    Raises:
        ConfigError: the file cannot be read, or holds none.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(PASSWORD_BYTES_MAX + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"the password file {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"the password file {file} holds no UTF-8 text") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text or len(data) > PASSWORD_BYTES_MAX:
        raise ConfigError(f"the password file {file} {'is empty' if not text else 'is too long'}")
    return text


def remove_frames(error: Exception) -> Exception:
    """Return an error and its causes without tracebacks.

    The variables of tracebacks may hold the password.

    Programs that log tracebacks with variables would log the password.
    """
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__
    return error
