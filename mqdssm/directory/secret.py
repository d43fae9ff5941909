"""Passwords that do not get into logs, tracebacks or errors by accident."""

import hmac
from typing import Final

_HIDDEN: Final = "***"


class Secret:
    """A text that shows itself only to who asks for it by name.

    ``str``, ``repr``, ``format`` and f-strings print three stars.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself: hand it to what needs it, keep it nowhere."""
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


def without_frames(error: Exception) -> Exception:
    """The error and what led to it, without the library's frames: their variables hold the password.

    Programs that log tracebacks with variables would write it down.
    """
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__cause__ or seen.__context__
    return error
