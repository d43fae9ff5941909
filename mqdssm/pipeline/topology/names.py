"""Names of MSMQ's objects in the alphabet of another message broker, and back.

An encoded name is ``kind.computer.queue``. Letters and digits of ASCII stay. Other characters that a broker
does not allow are written as the octets of their UTF-8, in hexadecimal behind an escape character. A name
that would be too long ends with a hash in its place. Different names have different codes, and a code
without a hash can be decoded without a table.
"""

import hashlib
import string
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from mqdssm.errors import ConfigError

_PLAIN: Final = frozenset(string.ascii_letters + string.digits)
_HEX: Final = frozenset("0123456789ABCDEF")
_SEPARATOR: Final = "."
_HASHED: Final = "h"
"""Letter behind the escape character that begins a hash: no hexadecimal digit."""
HASH_CHARS: Final = 32
SHORTEST_MAX: Final = 48
"""Smallest limit of a length: kind, separator and hash have room in it."""


class NameKind(StrEnum):
    """Kind of an object, the first part of its code."""

    QUEUE = "queue"
    JOURNAL = "journal"
    DEAD_LETTER = "deadletter"
    MULTICAST = "multicast"
    ENTRY = "entry"
    ACCOUNT = "account"

    @property
    def has_computer(self) -> bool:
        """True if the name has two parts: a computer and a queue."""
        return self in {NameKind.QUEUE, NameKind.JOURNAL, NameKind.ENTRY}


@dataclass(frozen=True, slots=True)
class SourceName:
    r"""Name of an object in MSMQ.

    Attributes:
        kind: kind of the object.
        name: of the queue, the computer (dead letters), the multicast address or the account.
        computer: of the queue; empty for other kinds.

    Raises:
        ValueError: an empty part, or a computer for a kind without one.
    """

    kind: NameKind
    name: str
    computer: str = ""

    def __post_init__(self) -> None:
        if not self.name or bool(self.computer) != self.kind.has_computer:
            raise ValueError(f"{self.kind} {self.computer!r} {self.name!r}: a part is missing or too much")

    @property
    def text(self) -> str:
        r"""Name for people, as ``computer\queue``."""
        return f"{self.computer}\\{self.name}" if self.computer else self.name

    @classmethod
    def of_path(cls, kind: NameKind, path: str) -> Self:
        r"""Return the name of a queue, its journal or its entry, from ``computer\queue``."""
        computer, _, name = path.partition("\\")
        return cls(kind, name, computer)


@dataclass(frozen=True, slots=True)
class NameCode:
    """Encoding of names for one broker.

    Attributes:
        length_max: most characters of a name.
        allowed: characters beside letters and digits that the broker allows; among them the separator.
        escape: one of them, that begins an escape.
        ignores_case: the broker takes names that differ in case alone for one name.
    """

    length_max: int
    allowed: frozenset[str]
    escape: str
    ignores_case: bool = False

    def __post_init__(self) -> None:
        if self.length_max < SHORTEST_MAX or not {_SEPARATOR, self.escape} <= self.allowed:
            raise ValueError("a code needs room for a hash, the separator and the escape character")

    def encode(self, source: SourceName) -> str:
        """Return the code of a name."""
        tokens = [source.kind.value, _SEPARATOR]
        if source.computer:
            tokens += [*self._split_into_tokens(source.computer, dots=False), _SEPARATOR]
        tokens += self._split_into_tokens(source.name, dots=True)
        if tokens[-1] in self.allowed or tokens[-1] == self.escape * 2:  # a code ends with a letter or digit
            tokens[-1] = self._encode_octets(source.name[-1])
        code = "".join(tokens)
        return code if len(code) <= self.length_max else self._shorten(source, tokens)

    def decode(self, code: str) -> SourceName | None:
        """Return the name of a code; None if the code holds a hash.

        Raises:
            ValueError: it is no code.
        """
        kind_name, _, rest = code.partition(_SEPARATOR)
        if kind_name not in set(NameKind) or not rest:
            raise ValueError(f"{code!r} is no name of this program")
        kind = NameKind(kind_name)
        parts = rest.split(_SEPARATOR, 1) if kind.has_computer else [rest]
        texts = [self._decode_part(part, code) for part in parts]
        if None in texts:
            return None
        if len(texts) <= kind.has_computer:
            raise ValueError(f"{code!r} lacks a part")
        return SourceName(kind, str(texts[-1]), str(texts[0]) if kind.has_computer else "")

    def _split_into_tokens(self, text: str, *, dots: bool) -> Iterator[str]:
        for character in text:
            if character == self.escape:
                yield self.escape * 2
            elif character in _PLAIN or (character in self.allowed and (dots or character != _SEPARATOR)):
                yield character
            else:
                yield self._encode_octets(character)

    def _encode_octets(self, character: str) -> str:
        return "".join(f"{self.escape}{octet:02X}" for octet in character.encode("utf-8", "surrogatepass"))

    def _shorten(self, source: SourceName, tokens: list[str]) -> str:
        """Return the beginning of a code with a hash of the whole name."""
        whole = f"{source.kind}\0{source.computer}\0{source.name}".encode("utf-8", "surrogatepass")
        tail = f"{self.escape}{_HASHED}{hashlib.sha256(whole).hexdigest()[:HASH_CHARS]}"
        head, room = "", self.length_max - len(tail)
        for token in tokens:
            if len(head) + len(token) > room:
                break
            head += token
        return head + tail

    def _decode_part(self, text: str, code: str) -> str | None:
        """Return the text of a part of a code; None if it holds a hash.

        Raises:
            ValueError: it is no part of a code.
        """
        octets, position = bytearray(), 0
        while position < len(text):
            character = text[position]
            if character != self.escape:
                octets += character.encode()
                position += 1
                continue
            behind = text[position + 1 : position + 3]
            if behind[:1] == self.escape:
                octets += self.escape.encode()
                position += 2
            elif behind[:1] == _HASHED:
                return None
            elif len(behind) == 2 and _HEX.issuperset(behind):
                octets.append(int(behind, 16))
                position += 3
            else:
                raise ValueError(f"{code!r} has no escape of this program at {text[position:]!r}")
        return octets.decode("utf-8", "surrogatepass")


@dataclass(slots=True)
class NameTable:
    """Names of one conversion, in both directions.

    Attributes:
        code: encoding of the names.
    """

    code: NameCode
    _codes: dict[SourceName, str] = field(default_factory=dict)
    _sources: dict[str, SourceName] = field(default_factory=dict)

    def encode(self, source: SourceName) -> str:
        """Return the code of a name, and remember it.

        Raises:
            ConfigError: another name has the same code.
        """
        first_code = self._codes.get(source)
        if first_code is not None:
            return first_code
        code = self.code.encode(source)
        key = code.casefold() if self.code.ignores_case else code
        other = self._sources.setdefault(key, source)
        if other != source:
            raise ConfigError(
                f"{source.text} and {other.text} would both be named {code}: rename one of them"
            )
        self._codes[source] = code
        return code

    def list_items(self) -> Iterator[tuple[SourceName, str]]:
        """Yield all names with their codes, in the order of their first use."""
        yield from self._codes.items()
