"""Distinguished names: RFC 4514 text, and their comparison.

One function normalises names for all comparisons (M3, M36).
"""

import re
import unicodedata
from functools import lru_cache
from typing import Final, NoReturn

Rdn = tuple[tuple[str, str], ...]
"""One relative distinguished name: its (type, unescaped value) pairs, nearly always a single one."""

_SAME_TYPE: Final = {
    "2.5.4.3": "cn",
    "commonname": "cn",
    "2.5.4.4": "sn",
    "surname": "sn",
    "2.5.4.6": "c",
    "countryname": "c",
    "2.5.4.7": "l",
    "localityname": "l",
    "2.5.4.8": "st",
    "stateorprovincename": "st",
    "2.5.4.9": "street",
    "streetaddress": "street",
    "2.5.4.10": "o",
    "organizationname": "o",
    "2.5.4.11": "ou",
    "organizationalunitname": "ou",
    "0.9.2342.19200300.100.1.1": "uid",
    "userid": "uid",
    "0.9.2342.19200300.100.1.25": "dc",
    "domaincomponent": "dc",
}
_TYPE: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)+")
# a value that needs no escape: no special character anywhere, no blank or number sign at its ends
_PLAIN_VALUE: Final = r'[^\\"+,;<>#=\x00-\x20\x7f](?:[^\\"+,;<>=\x00-\x1f\x7f]*[^\\"+,;<>=\x00-\x20\x7f])?'
_PLAIN_PAIR: Final = rf"[A-Za-z][A-Za-z0-9-]*={_PLAIN_VALUE}"
_PLAIN_DN: Final = re.compile(rf"{_PLAIN_PAIR}(?:,{_PLAIN_PAIR})*")
_UNQUOTED: Final = re.compile(r'[^\\"+,;<>\x00]+')
_QUOTED: Final = re.compile(r'[^\\"]+')
_HEX_PAIRS: Final = re.compile(r"(?:\\[0-9A-Fa-f]{2})+")
_HEX_VALUE: Final = re.compile(r"#((?:[0-9A-Fa-f]{2})+)")
_MUST_ESCAPE: Final = re.compile(r'[\x00-\x1f\x7f"+,;<>\\]')
_BETTER_ESCAPED: Final = re.compile(r'[\x00-\x1f\x7f"+,;<=>\\]')  # Samba takes no bare "=" in a value
# BER strings that a #hex value may hold: tag -> codec
_BER_TEXT: Final = {4: "utf-8", 12: "utf-8", 19: "ascii", 22: "ascii", 28: "utf-32-be", 30: "utf-16-be"}
_CACHED_DNS: Final = 16_384
_CACHED_ABOVE_MAX: Final = 32  # longest DN whose parents are cached: thousands of DNs share them
_UNICODE: Final = unicodedata.ucd_3_2_0
"""LDAP compares names by the rules of Unicode 3.2 ([RFC4518] 2)."""
_CASED: Final = frozenset({"Lu", "Lt"})


class DN:
    """A distinguished name (RFC 4514), immutable and hashable.

    Two names are equal when :attr:`normalized` is equal.
    ``DN()`` is the root, whose text is empty. Make others with :meth:`parse`, :meth:`of` and
    :meth:`child`.
    """

    __slots__ = ("_above", "_normalized", "_rdns", "_text")

    _above: "DN | None"  # the parent that it was made from: many DNs share its text
    _text: str | None
    _rdns: tuple[Rdn, ...] | None
    _normalized: str | None

    def __init__(self, rdns: tuple[Rdn, ...] = ()) -> None:
        _set(self, "_above", None)
        _set(self, "_text", None)
        _set(self, "_rdns", rdns)
        _set(self, "_normalized", None)

    @classmethod
    def parse(cls, text: str) -> "DN":
        """Read a DN in the forms of RFC 4514 and RFC 2253.

        RFC 2253 has blanks around ``,`` and ``=``, quotes and ``OID.``.

        Raises:
            ValueError: no distinguished name; the message has the position and the reason.
        """
        if not text.isascii():
            _check_unicode(text)
        if _PLAIN_DN.fullmatch(text):
            return cls._from_canonical(text)
        return cls(_Parser(text).parse_rdns())

    @classmethod
    def of(cls, *rdns: tuple[str, str]) -> "DN":
        """Make a DN from (type, unescaped value) pairs, the lowest RDN first.

        Raises:
            ValueError: no attribute type, an empty value, or one that is no valid Unicode text.
        """
        return cls(tuple(((_check_type(name), _check_value(value)),) for name, value in rdns))

    @classmethod
    def _from_canonical(cls, text: str) -> "DN":
        """Make a DN from text that is known to be canonical.

        The text is split when its parts are needed.
        """
        dn = cls.__new__(cls)
        _set(dn, "_above", None)
        _set(dn, "_text", text)
        _set(dn, "_rdns", None)
        _set(dn, "_normalized", None)
        return dn

    @property
    def rdns(self) -> tuple[Rdn, ...]:
        """All relative distinguished names, the object's own first."""
        if self._rdns is None:
            pairs = (part.partition("=") for part in str(self).split(","))
            _set(self, "_rdns", tuple(((name, value),) for name, _, value in pairs))
        return self._rdns  # type: ignore[return-value]  # set above

    @property
    def rdn(self) -> Rdn:
        """The (type, unescaped value) pairs of the first RDN; nothing for the root."""
        return self.rdns[0] if self.rdns else ()

    @property
    def name(self) -> str:
        """The unescaped value of the first RDN (of its first pair); empty for the root."""
        return self.rdns[0][0][1] if self.rdns else ""

    @property
    def parent(self) -> "DN":
        """Parent DN: the DN without its first RDN (M36).

        Raises:
            ValueError: the root has no parent.
        """
        if self._above is not None:
            return self._above
        if self._rdns is None:
            _, comma, rest = str(self).partition(",")
            return self._from_canonical(rest) if comma else DN()
        if not self._rdns:
            raise ValueError("the root has no parent")
        return DN(self._rdns[1:])

    def child(self, attribute: str, value: str) -> "DN":
        """Return the DN one level below this one; the value is not escaped.

        Raises:
            ValueError: no attribute type, an empty value, or one that is no valid Unicode text.
        """
        dn = DN((((_check_type(attribute), _check_value(value)),), *self.rdns))
        _set(dn, "_above", self)
        return dn

    @property
    def normalized(self) -> str:
        """Comparison key: equal for DNs that name the same object (M3).

        Types in lower case under one name each, values in lower case and NFKC with blanks collapsed, pairs
        of a multi-valued RDN sorted. Commas and plus signs only separate; those of values are escaped.

        Where servers differ, two names stay distinct: ß is not ss, as in slapd.
        """
        if self._normalized is None:
            if self._above:
                normalized = f"{_normalize_rdn(self.rdns[0])},{self._above.normalized}"
            else:
                normalized = ",".join(map(_normalize_rdn, self.rdns))
            _set(self, "_normalized", normalized)
        return self._normalized  # type: ignore[return-value]  # set above

    def is_below(self, other: "DN") -> bool:
        """Return True if this object lies below the other one, at any depth.

        An object does not lie below itself.
        """
        if not other:
            return bool(self)
        return self.normalized.endswith("," + other.normalized)

    def is_at_or_below(self, other: "DN") -> bool:
        """Return True if this object is the other one or lies below it."""
        return self == other or self.is_below(other)

    def __str__(self) -> str:
        """Return canonical RFC 4514 text: no blanks after commas, no needless escapes."""
        if self._text is None:
            if self._above:
                text = f"{_format_rdn(self.rdns[0])},{self._above}"
            else:
                text = ",".join(map(_format_rdn, self.rdns))
            _set(self, "_text", text)
        return self._text  # type: ignore[return-value]  # set above

    def __repr__(self) -> str:
        return f"DN({str(self)!r})"

    def __len__(self) -> int:
        """Return the number of RDNs; 0 for the root."""
        return len(self.rdns)

    def __eq__(self, other: object) -> bool:
        return self.normalized == other.normalized if isinstance(other, DN) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.normalized)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a DN never changes: cannot set {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a DN never changes: cannot delete {name}")

    def __reduce__(self) -> tuple[type["DN"], tuple[tuple[Rdn, ...]]]:
        return DN, (self.rdns,)


_set = object.__setattr__


@lru_cache(maxsize=_CACHED_DNS)
def normalize(text: str) -> str:
    """Return ``DN.parse(text).normalized``.

    The last DNs and their parents are cached.

    Raises:
        ValueError: no distinguished name.
    """
    if text.isascii() and text.count(",") < _CACHED_ABOVE_MAX and _PLAIN_DN.fullmatch(text):
        rdn, comma, above = text.partition(",")
        kind, _, value = rdn.partition("=")
        pair = _normalize_pair(kind, value)
        return f"{pair},{normalize(above)}" if comma else pair
    return DN.parse(text).normalized


def domain_of(dn: DN) -> DN:
    """Return the domain in Active Directory of a DN: its last components ``DC=``."""
    rdns = dn.rdns
    first = len(rdns)
    while first and rdns[first - 1][0][0].lower() == "dc":
        first -= 1
    return DN(rdns[first:])


def first_values(text: str, count: int) -> tuple[str, ...]:
    """Return the unescaped values of the first RDNs of a DN from a server; fast.

    Args:
        text: the DN; only its first RDNs are read.
        count: number of values; fewer are returned if the DN is shorter.

    Raises:
        ValueError: no distinguished name.
    """
    if "\\" in text or '"' in text or "+" in text or "#" in text or not text:
        return tuple(rdn[0][1] for rdn in DN.parse(text).rdns[:count])
    try:
        return tuple([part[part.index("=") + 1 :].strip(" ") for part in text.split(",", count)[:count]])
    except ValueError:
        raise ValueError(f"{text!r} is no distinguished name") from None


def escape_value(value: str) -> str:
    """Escape an attribute value for a DN (RFC 4514 2.4).

    ``=`` is escaped too, since servers differ.
    """
    text = _BETTER_ESCAPED.sub(_escape_match, value)
    if text[:1] in {" ", "#"}:
        text = "\\" + text
    if text[-1:] == " " and text != "\\ ":
        text = text[:-1] + "\\ "
    return text


def _escape_match(match: re.Match[str]) -> str:
    character = match[0]
    return f"\\{ord(character):02X}" if character < " " or character == "\x7f" else "\\" + character


def _format_rdn(rdn: Rdn) -> str:
    return "+".join(f"{name}={escape_value(value)}" for name, value in rdn)


def _normalize_rdn(rdn: Rdn) -> str:
    if len(rdn) == 1:
        return _normalize_pair(*rdn[0])
    return "+".join(sorted(_normalize_pair(name, value) for name, value in rdn))


def _normalize_pair(name: str, value: str) -> str:
    name = name.lower()
    return f"{_SAME_TYPE.get(name, name)}={_normalize_value(value)}"


def fold_case(value: str) -> str:
    """Return a text in the form that LDAP compares (caseIgnoreMatch).

    See [RFC4517] 4.2.11.
    Letter case, runs of blanks and blanks at the ends do not count.
    """
    lower = (
        value.lower() if value.isascii() else _UNICODE.normalize("NFKC", "".join(map(_lower_letter, value)))
    )
    if " " in lower:
        lower = " ".join(part for part in lower.split(" ") if part) or " "
    return lower


def _normalize_value(value: str) -> str:
    return _MUST_ESCAPE.sub(lambda match: f"\\{ord(match[0]):02x}", fold_case(value))


@lru_cache(maxsize=4096)
def _lower_letter(character: str) -> str:
    """Return the simple lower case of a letter.

    A full case fold would make ß equal to ss.
    A server may hold straße beside strasse: one key for both would lead to the wrong object (M64).
    """
    lower = character.lower() if _UNICODE.category(character) in _CASED else character
    return lower if len(lower) == 1 and _UNICODE.category(lower) != "Cn" else character


def _check_type(name: str) -> str:
    if not _TYPE.fullmatch(name):
        raise ValueError(f"{name!r} is no attribute type of a distinguished name")
    return name


def _check_value(value: str) -> str:
    if not value:
        raise ValueError("a value in a distinguished name may not be empty")
    _check_unicode(value)
    return value


def _check_unicode(text: str) -> None:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{text!r} contains half of a surrogate pair: no directory can hold it")


class _Parser:
    """Recursive descent over one DN; every step moves forward, so the time is linear."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse_rdns(self) -> tuple[Rdn, ...]:
        if not self._text.strip(" "):
            return ()
        rdns = [self._parse_rdn()]
        while self._at < len(self._text):
            self._expect(",")
            rdns.append(self._parse_rdn())
        return tuple(rdns)

    def _parse_rdn(self) -> Rdn:
        pairs = [self._parse_pair()]
        while self._peek() == "+":
            self._at += 1
            pairs.append(self._parse_pair())
        return tuple(pairs)

    def _parse_pair(self) -> tuple[str, str]:
        self._skip_blanks()
        if self._text[self._at : self._at + 4].lower() == "oid.":  # RFC 2253 section 4
            self._at += 4
        match = _TYPE.match(self._text, self._at)
        if match is None:
            self._fail("an attribute type should stand here")
        self._at = match.end()
        self._skip_blanks()
        self._expect("=")
        self._skip_blanks()
        value = self._parse_value()
        self._skip_blanks()
        return match[0], value

    def _parse_value(self) -> str:
        start = self._peek()
        if start == "#":
            return self._parse_hex_value()
        if start == '"':
            return self._parse_quoted()
        pieces: list[str] = []
        tail_start = 0  # pieces before this index do not end in an insignificant blank
        while (character := self._peek()) not in {"", ",", "+"}:
            if character == "\\":
                pieces.append(self._escape())
                tail_start = len(pieces)
                continue
            match = _UNQUOTED.match(self._text, self._at)
            if match is None:
                self._fail(f"{character!r} must be escaped")
            self._at = match.end()
            pieces.append(match[0])
        tail = "".join(pieces[tail_start:]).rstrip(" ")
        return "".join(pieces[:tail_start]) + tail

    def _parse_quoted(self) -> str:
        self._at += 1
        pieces: list[str] = []
        while (character := self._peek()) != '"':
            if character == "\\":
                pieces.append(self._escape())
                continue
            match = _QUOTED.match(self._text, self._at)
            if match is None:
                self._fail("a closing quote is missing")
            self._at = match.end()
            pieces.append(match[0])
        self._at += 1
        return "".join(pieces)

    def _escape(self) -> str:
        match = _HEX_PAIRS.match(self._text, self._at)
        if match:
            try:
                value = bytes.fromhex(match[0].replace("\\", "")).decode()
            except UnicodeDecodeError:
                self._fail("the escaped bytes are no UTF-8")
            self._at = match.end()
            return value
        character = self._text[self._at + 1 : self._at + 2]
        # more than RFC 4514 allows: Windows escapes "/" in paths, other writers escape other characters
        if not character or character.isalnum() or character < " ":
            self._fail("a backslash without anything to escape")
        self._at += 2
        return character

    def _parse_hex_value(self) -> str:
        match = _HEX_VALUE.match(self._text, self._at)
        if match is None:
            self._fail("# needs pairs of hexadecimal digits after it")
        value = _decode_ber_text(bytes.fromhex(match[1]))
        if value is None:
            self._fail("the #hexadecimal value is no BER encoding of a text")
        self._at = match.end()
        return value

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip_blanks(self) -> None:
        while self._peek() == " ":
            self._at += 1

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            self._fail(f"{character!r} should stand here")
        self._at += 1

    def _fail(self, why: str) -> NoReturn:
        raise ValueError(f"{self._text!r} is no distinguished name: position {self._at}: {why}")


def _decode_ber_text(encoded: bytes) -> str | None:
    """Decode the BER encoding of a string type; None for all other types."""
    codec = _BER_TEXT.get(encoded[0])
    if codec is None or len(encoded) < 2:
        return None
    length, start = encoded[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(encoded[2:start])
    if length != len(encoded) - start:
        return None
    try:
        return encoded[start:].decode(codec)
    except UnicodeDecodeError:
        return None
