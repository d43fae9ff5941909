r"""Queue names, and their ``cn`` and ``mSMQQueueNameExt`` (decision M7).

A directory stores a queue name in these two attributes.
One pair of functions serves every event: :func:`rdn_of` writes, :func:`name_of` reads. Lengths are counted in
UTF-16 code units, as in Windows and the ranges of Active Directory's schema. No value is escaped for a DN:
:mod:`mqdssm.model.dn` does that.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

QUEUE_NAME_UNITS_MAX: Final = 124
"""Longest queue name that may be created, in UTF-16 code units ([MS-MQMQ] 2.1.1)."""
STORED_NAME_UNITS_MAX: Final = 147
"""Longest queue name that a directory can hold: 55 in ``cn``, 92 in ``mSMQQueueNameExt``."""
WHOLE_NAME_UNITS_MAX: Final = 63
"""Longest queue name that ``cn`` holds whole ([MS-MQDSSM] 3.1.6.1.2.5)."""
HEAD_UNITS: Final = 55
"""Code units of a longer name that ``cn`` keeps, before the dash and the hash."""
HASH_DIGITS: Final = 8
EXTENSION_UNITS_MAX: Final = 92
"""Upper range of ``mSMQQueueNameExt`` in Active Directory's schema, in UTF-16 code units (M28)."""

_POLYNOMIAL: Final = 0x9B619023  # reflected; the published table is its CRC-32 table (M1)
_TAIL: Final = re.compile(r"-[0-9A-Fa-f]{8}\Z")
_BACKSLASHED: Final = frozenset("\n/#><=")
# the set of version 4 and later in [MS-MQMQ] 2.1.1: no quote, plus, comma, semicolon or backslash
_NEW_NAME: Final = re.compile(r"[!#-*\--:<-\[\]-\x7f]*\Z")
_NEVER_STORED: Final = {"\0": "NUL", "\\": "a backslash", ";": "a semicolon"}


def _build_crc_table(polynomial: int) -> tuple[int, ...]:
    """Return the 256 entries of the table in [MS-MQDSSM] 2.2.5.

    The entries are generated so that no digit can be mistyped (M1).
    """
    table = []
    for index in range(256):
        value = index
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        table.append(value)
    return tuple(table)


HASH_TABLE: Final = _build_crc_table(_POLYNOMIAL)


def units_of(text: str) -> int:
    """Return the length of a text in UTF-16 code units."""
    return len(text) + sum(character > "\uffff" for character in text)


def lower_each(text: str) -> str:
    """Convert a text to lower case by single characters.

    The number of UTF-16 units stays the same.
    ``str.lower`` depends on the context (a final sigma) and may lengthen the text (U+0130). Both would change
    the hash and the cut of a name, which count single units.
    """
    if text.isascii():
        return text.lower()
    return "".join(map(_lower_unit, text))


@lru_cache(maxsize=4096)
def _lower_unit(character: str) -> str:
    lowered = character.lower()
    return lowered if len(lowered) == 1 and character <= "\uffff" else character


def hash_string(name: str) -> str:
    """Return the eight hexadecimal digits that distinguish long names.

    The names have the same head ([MS-MQDSSM] 2.2.5, M1).

    Args:
        name: the queue name; its UTF-16 code units are lower-cased and hashed, high byte first.

    Returns:
        Eight lower-case hexadecimal digits.
    """
    value = 0
    for byte in lower_each(name).encode("utf-16-be", "surrogatepass"):
        value = value >> 8 ^ HASH_TABLE[byte ^ value & 0xFF]
    return f"{value:08x}"


class QueueRdn(NamedTuple):
    """The two values that store a queue name ([MS-MQDSSM] 3.1.6.1.2.5).

    Attributes:
        cn: the value of the queue's first RDN, not escaped.
        extension: the value of ``mSMQQueueNameExt``; None where the attribute is absent.
    """

    cn: str
    extension: str | None


def rdn_of(name: str) -> QueueRdn:
    """Return the ``cn`` and ``mSMQQueueNameExt`` of a queue name.

    See [MS-MQDSSM] 3.1.6.1.2.5 and decision M7.
    The form is that of Windows where it is legal, else the raw one. The name is not checked, except for being
    empty: :func:`check_new_name` and :func:`check_stored_name` check it.

    Raises:
        ValueError: an empty name.
    """
    return list_rdn_candidates(name)[0]


def list_rdn_candidates(name: str) -> tuple[QueueRdn, ...]:
    """Return the forms in which a queue may be stored.

    The first is that of :func:`rdn_of`, then comes the raw one.

    Raises:
        ValueError: an empty name.
    """
    if not name:
        raise ValueError("a queue name may not be empty")
    if len(name) <= WHOLE_NAME_UNITS_MAX // 2:  # neither backslashes nor surrogates make this too long
        return (QueueRdn(name, None),)
    raw = _build_raw_form(name)
    windows = _build_windows_form(name)
    return (raw,) if windows is None or windows == raw else (windows, raw)


def name_of(cn: str, extension: str | None) -> str:
    """Return the queue name that ``cn`` and ``mSMQQueueNameExt`` store.

    See [MS-MQDSSM] 3.1.6.11.2.1 and decision M7.

    Args:
        cn: the value of the queue's first RDN, not escaped.
        extension: the value of ``mSMQQueueNameExt``, or None (or empty) if the attribute is absent.

    Returns:
        The name in lower case, character by character.
    """
    if extension and _TAIL.search(cn):
        return lower_each(cn[: -1 - HASH_DIGITS] + extension.replace("\\", ""))
    return lower_each(cn)


def check_new_name(name: str) -> None:
    r"""Refuse a queue name that may not be created ([MS-MQMQ] 2.1.1, versions 4 to 6).

    Raises:
        ValueError: not 1 to 124 characters from 21-7F hexadecimal without ``" + , ; \``.
    """
    if not 1 <= len(name) <= QUEUE_NAME_UNITS_MAX:
        length = units_of(name)
        raise ValueError(f"queue name is {length} characters long: 1 to {QUEUE_NAME_UNITS_MAX} are allowed")
    if not _NEW_NAME.match(name):
        wrong = next(c for c in name if not _NEW_NAME.match(c))
        raise ValueError(
            f"queue name {name!r} contains {wrong!r} (U+{ord(wrong):04X}): blanks, control and non-ASCII "
            'characters and any of " + , ; \\ are not allowed'
        )


def check_stored_name(name: str) -> None:
    """Refuse a queue name that a directory could not return unchanged (M7).

    Raises:
        ValueError: empty, NUL, a backslash, a semicolon, a lone surrogate, or too long for ``cn`` and
            ``mSMQQueueNameExt`` together.
    """
    length = units_of(name)
    if not 1 <= length <= STORED_NAME_UNITS_MAX:
        raise ValueError(f"queue name is {length} UTF-16 units long: 1 to {STORED_NAME_UNITS_MAX} fit")
    for character, called in _NEVER_STORED.items():
        if character in name:
            raise ValueError(f"queue name {name!r} contains {called}")
    if any("\ud800" <= c <= "\udfff" for c in name):
        raise ValueError(f"queue name {name!r} contains half of a surrogate pair")
    extension = rdn_of(name).extension
    if extension is not None and units_of(extension) > EXTENSION_UNITS_MAX:
        raise ValueError(
            f"queue name {name!r} cannot be cut inside a surrogate pair, and "
            f"the {units_of(extension)} units after it exceed the {EXTENSION_UNITS_MAX} of mSMQQueueNameExt"
        )


def _measure_head(widths: Iterable[int]) -> int | None:
    """Return the number of characters that fill HEAD_UNITS units.

    Returns None if a character crosses the cut.
    """
    total = 0
    for count, width in enumerate(widths):
        if total >= HEAD_UNITS:
            return count if total == HEAD_UNITS else None
        total += width
    return None


def _build_windows_form(name: str) -> QueueRdn | None:
    """Return the form that Windows stores, with its backslashes.

    Returns None where that form is not legal (M7).
    """
    widths = [(c in _BACKSLASHED) + 1 + (c > "\uffff") for c in name]
    if sum(widths) <= WHOLE_NAME_UNITS_MAX:
        return QueueRdn(name, None)
    head = _measure_head(widths)
    if head is None or sum(widths) - HEAD_UNITS > EXTENSION_UNITS_MAX:
        return None
    extension = _add_backslashes(name[head:])
    return QueueRdn(f"{name[:head]}-{hash_string(_add_backslashes(name))}", extension)


def _build_raw_form(name: str) -> QueueRdn:
    """Split the bare name; the cut moves one unit ahead of a surrogate pair (M7)."""
    if units_of(name) <= WHOLE_NAME_UNITS_MAX:
        return QueueRdn(name, None)
    widths = [1 + (c > "\uffff") for c in name]
    head = _measure_head(widths)
    if head is None:
        head = next(n for n in range(HEAD_UNITS) if sum(widths[: n + 1]) > HEAD_UNITS)
    return QueueRdn(f"{name[:head]}-{hash_string(name)}", name[head:])


def _add_backslashes(name: str) -> str:
    """Put a backslash before each special character of a name.

    See [MS-MQDSSM] 3.1.6.1.2.5 step 3.
    """
    return "".join("\\" + c if c in _BACKSLASHED else c for c in name)
