"""Escapes for directory text in lines, JSON and CSV: no control of terminals, no early end of a line."""

import re
from typing import Final

_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7e]")
_CONTROLS: Final = {"\r": "\\r", "\n": "\\n", "\t": "\\t"}


def visible(text: str) -> str:
    """Return a text in one line, with escapes for invisible characters (controls, C1, bidi)."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escape(one) for one in text)


def visible_lines(text: str) -> str:
    """Return a text whose line feeds end lines, with escapes for all other invisible characters."""
    return "\n".join(map(visible, text.split("\n")))


def printable_json(text: str) -> str:
    r"""Return a JSON text with ``\u`` escapes for invisible characters; its value does not change.

    Args:
        text: JSON as `json.dumps` writes it: no string holds a bare ASCII control character.
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
