"""Text from a directory in lines, JSON and CSV: it steers no terminal, and ends no line or cell."""

import re
from typing import Final

_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7e]")
_CONTROLS: Final = {"\r": "\\r", "\n": "\\n", "\t": "\\t"}


def visible(text: str) -> str:
    """Return a text in one line, with escapes for characters that are not seen (controls, C1, bidi)."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escape(one) for one in text)


def visible_lines(text: str) -> str:
    """Return a text whose line feeds end lines, with escapes for all else that is not seen."""
    return "\n".join(map(visible, text.split("\n")))


def printable_json(text: str) -> str:
    r"""Return a JSON text with ``\u`` escapes for characters that are not seen; it means what it meant.

    Args:
        text: JSON as `json.dumps` writes it, in which ASCII control characters stand in no string.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return _BEYOND_ASCII.sub(_json_escape, text)


def csv_cell(text: str) -> str:
    """Return a text as a cell of CSV, always in quotation marks (RFC 4180)."""
    return '"' + text.replace('"', '""') + '"'


def _escape(character: str) -> str:
    number = ord(character)
    if character in _CONTROLS:
        return _CONTROLS[character]
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x1_0000 else f"\\U{number:08x}"


def _json_escape(match: re.Match[str]) -> str:
    character = match[0]
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
