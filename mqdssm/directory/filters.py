"""LDAP search filters as values, as BER ([RFC4511] 4.5.1.7) and text ([RFC4515]).

Values are octets; nothing is ever pasted into a filter as text, so that no name can become a part
of one. The text form is for people, for logs and for filters that people type.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias, assert_never

from mqdssm.directory.ber import OCTET_STRING, SEQUENCE, boolean, octet_string, tlv

#: Filters nest no deeper ([RFC4515] gives no limit; slapd's is 1,000): recursion stays shallow.
FILTER_DEPTH_MAX: Final = 100
#: Text of a filter is no longer than this, in characters.
FILTER_TEXT_CHARS_MAX: Final = 16 * 1024 * 1024

#: Tags of filters and of their parts; those of comparisons and sets are in `TAGS`.
NOT_TAG: Final = 0xA2
SUBSTRINGS_TAG: Final = 0xA4
PRESENT_TAG: Final = 0x87
EXTENSIBLE_TAG: Final = 0xA9
INITIAL_TAG, ANY_TAG, FINAL_TAG = 0x80, 0x81, 0x82
RULE_TAG, TYPE_TAG, VALUE_TAG, DN_ATTRIBUTES_TAG = 0x81, 0x82, 0x83, 0x84

_KEYSTRING: Final = r"[A-Za-z][A-Za-z0-9-]*"
_NUMERIC_OID: Final = r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))+"
_OPTIONS: Final = r"(?:;[A-Za-z0-9-]+)*"
_DESCRIPTION: Final = rf"(?:{_KEYSTRING}|{_NUMERIC_OID}){_OPTIONS}"
_ATTRIBUTE: Final = re.compile(_DESCRIPTION)
_OID: Final = re.compile(rf"{_KEYSTRING}|{_NUMERIC_OID}")


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Comparison of an attribute with a value."""

    attribute: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Equal(_Comparison):
    """``(attribute=value)``."""


@dataclass(frozen=True, slots=True)
class GreaterOrEqual(_Comparison):
    """``(attribute>=value)``, by the attribute's ordering rule."""


@dataclass(frozen=True, slots=True)
class LessOrEqual(_Comparison):
    """``(attribute<=value)``, by the attribute's ordering rule."""


@dataclass(frozen=True, slots=True)
class Approx(_Comparison):
    """``(attribute~=value)``, by the server's approximate matching rule."""


@dataclass(frozen=True, slots=True)
class Present:
    """``(attribute=*)``."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Substrings:
    """``(attribute=initial*any*final)``.

    Raises:
        ValueError: no part at all (that is `Present`), or an empty one.
    """

    attribute: str
    initial: bytes | None = None
    any: tuple[bytes, ...] = ()
    final: bytes | None = None

    def __post_init__(self) -> None:
        parts = [part for part in (self.initial, *self.any, self.final) if part is not None]
        if not parts or not all(parts):
            raise ValueError(f"substrings of {self.attribute}: at least one part, and none of them empty")


@dataclass(frozen=True, slots=True)
class Extensible:
    """``(attribute:dn:rule:=value)``, an extensible match.

    Active Directory's bitwise and chained rules are of this form.

    Raises:
        ValueError: neither an attribute nor a rule.
    """

    attribute: str | None
    rule: str | None
    value: bytes
    dn_attributes: bool = False

    def __post_init__(self) -> None:
        if self.attribute is None and self.rule is None:
            raise ValueError("an extensible match needs an attribute or a matching rule")


@dataclass(frozen=True, slots=True)
class Not:
    """``(!(filter))``."""

    operand: "LdapFilter"


@dataclass(frozen=True, slots=True)
class _Set:
    """Set of filters."""

    operands: tuple["LdapFilter", ...]

    def __post_init__(self) -> None:
        if not self.operands:
            raise ValueError("a set of filters needs at least one operand: see all_of and any_of")


@dataclass(frozen=True, slots=True)
class And(_Set):
    """``(&(filter)(filter)…)``; use `all_of` where there may be none.

    Raises:
        ValueError: no operand. Not every server knows the empty set of [RFC4526].
    """


@dataclass(frozen=True, slots=True)
class Or(_Set):
    """``(|(filter)(filter)…)``; use `any_of` where there may be none.

    Raises:
        ValueError: no operand. Not every server knows the empty set of [RFC4526].
    """


LdapFilter: TypeAlias = (
    And | Or | Not | Equal | Substrings | GreaterOrEqual | LessOrEqual | Present | Approx | Extensible
)

TAGS: Final[dict[type, int]] = {
    And: 0xA0,
    Or: 0xA1,
    Equal: 0xA3,
    GreaterOrEqual: 0xA5,
    LessOrEqual: 0xA6,
    Approx: 0xA8,
}
_EQUAL_TAG: Final = TAGS[Equal]
_SIGNS: Final[dict[type, str]] = {
    And: "&",
    Or: "|",
    Equal: "=",
    GreaterOrEqual: ">=",
    LessOrEqual: "<=",
    Approx: "~=",
}

#: Every entry. Active Directory does not know ``(&)`` of [RFC4526], so this is the form all servers know.
TRUE: Final[LdapFilter] = Present("objectClass")
#: No entry; see `TRUE`.
FALSE: Final[LdapFilter] = Not(TRUE)


def all_of(*operands: LdapFilter) -> LdapFilter:
    """Return the filter that matches all operands.

    No operand gives `TRUE`, a single one itself.
    """
    if not operands:
        return TRUE
    return operands[0] if len(operands) == 1 else And(operands)


def any_of(*operands: LdapFilter) -> LdapFilter:
    """Return the filter that matches at least one operand.

    No operand gives `FALSE`, a single one itself.
    """
    if not operands:
        return FALSE
    return operands[0] if len(operands) == 1 else Or(operands)


@lru_cache(maxsize=4096)
def encode_description(name: str) -> bytes:
    """Check an attribute description and encode it as UTF-8 ([RFC4512] 2.5).

    Raises:
        ValueError: neither a short name nor a dotted number, with options or without.
    """
    if not _ATTRIBUTE.fullmatch(name):
        raise ValueError(f"{name!r} is no attribute description: letters, digits, '-', or a dotted number")
    return name.encode("ascii")


def encode(search_filter: LdapFilter) -> bytes:
    """Encode a filter for a SearchRequest ([RFC4511] 4.5.1.7).

    Raises:
        ValueError: an attribute name that is none, or nesting deeper than `FILTER_DEPTH_MAX`.
    """
    return _encode(search_filter, 1)


def _encode(node: LdapFilter, depth: int) -> bytes:
    _check_depth(depth)
    if isinstance(node, Equal):  # most of all: ranges of numbers have dozens
        return _encode_assertion(_EQUAL_TAG, node.attribute, node.value)
    match node:
        case GreaterOrEqual() | LessOrEqual() | Approx():
            return _encode_assertion(TAGS[type(node)], node.attribute, node.value)
        case Present(attribute):
            return tlv(PRESENT_TAG, encode_description(attribute))
        case And(operands) | Or(operands):
            return tlv(TAGS[type(node)], b"".join([_encode(operand, depth + 1) for operand in operands]))
        case Not(operand):
            return tlv(NOT_TAG, _encode(operand, depth + 1))
        case Substrings():
            return _encode_substrings(node)
        case Extensible():
            return _encode_extensible(node)
        case _:
            assert_never(node)


def _encode_assertion(tag: int, attribute: str, value: bytes) -> bytes:
    return tlv(tag, _encode_attribute(attribute) + tlv(OCTET_STRING, value))


@lru_cache(maxsize=4096)
def _encode_attribute(attribute: str) -> bytes:
    return tlv(OCTET_STRING, encode_description(attribute))


def _encode_substrings(node: Substrings) -> bytes:
    parts = [tlv(ANY_TAG, part) for part in node.any]
    if node.initial is not None:
        parts.insert(0, tlv(INITIAL_TAG, node.initial))
    if node.final is not None:
        parts.append(tlv(FINAL_TAG, node.final))
    attribute = tlv(OCTET_STRING, encode_description(node.attribute))
    return tlv(SUBSTRINGS_TAG, attribute + tlv(SEQUENCE, b"".join(parts)))


def _encode_extensible(node: Extensible) -> bytes:
    content = b""
    if node.rule is not None:
        content += octet_string(_check_rule(node.rule), RULE_TAG)
    if node.attribute is not None:
        content += tlv(TYPE_TAG, encode_description(node.attribute))
    content += tlv(VALUE_TAG, node.value)
    if node.dn_attributes:  # DEFAULT FALSE: encoded only when true ([RFC4511] 5.1, fourth restriction)
        content += boolean(value=True, tag=DN_ATTRIBUTES_TAG)
    return tlv(EXTENSIBLE_TAG, content)


def _check_rule(rule: str) -> str:
    if not _OID.fullmatch(rule):
        raise ValueError(f"{rule!r} is no matching rule: a name or a dotted number")
    return rule


def _check_depth(depth: int) -> None:
    if depth > FILTER_DEPTH_MAX:
        raise ValueError(f"the filter nests deeper than {FILTER_DEPTH_MAX} levels")


def to_text(search_filter: LdapFilter) -> str:
    """Return a filter in the string form of [RFC4515].

    Characters that must be escaped are, and every octet of a value that is no printable text. Blanks at the
    ends of a value are escaped, too, because some programs drop them.

    Raises:
        ValueError: as `encode`.
    """
    return _format_filter(search_filter, 1)


def _format_filter(node: LdapFilter, depth: int) -> str:
    _check_depth(depth)
    match node:
        case And(operands) | Or(operands):
            inner = "".join([_format_filter(operand, depth + 1) for operand in operands])
            return f"({_SIGNS[type(node)]}{inner})"
        case Not(operand):
            return f"(!{_format_filter(operand, depth + 1)})"
        case Substrings() | Extensible():
            return _text_of_parts(node)
        case Present(attribute):
            return f"({_check_name(attribute)}=*)"
        case Equal() | GreaterOrEqual() | LessOrEqual() | Approx():
            return f"({_check_name(node.attribute)}{_SIGNS[type(node)]}{escape(node.value)})"
        case _:
            assert_never(node)


def _text_of_parts(node: Substrings | Extensible) -> str:
    if isinstance(node, Substrings):
        parts = "*".join([escape(node.initial or b""), *map(escape, node.any), escape(node.final or b"")])
        return f"({_check_name(node.attribute)}={parts})"
    name = "" if node.attribute is None else _check_name(node.attribute)
    rule = "" if node.rule is None else f":{_check_rule(node.rule)}"
    return f"({name}{':dn' if node.dn_attributes else ''}{rule}:={escape(node.value)})"


def _check_name(attribute: str) -> str:
    encode_description(attribute)
    return attribute


_ESCAPES: Final = {code: f"\\{code:02x}" for code in (*range(0x20), *b"()*\\", 0x7F)}


def escape(value: bytes) -> str:
    """Escape a value for the text of a filter ([RFC4515] 3)."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or not text:  # octets: a stray letter of another script would only confuse
        return "".join([chr(octet) if _is_plain(octet) else f"\\{octet:02x}" for octet in value])
    inner = text.strip(" ")
    if not inner:
        return "\\20" * len(text)
    leading_blanks = len(text) - len(text.lstrip(" "))
    right = len(text) - len(inner) - leading_blanks
    return "\\20" * leading_blanks + inner.translate(_ESCAPES) + "\\20" * right


def _is_plain(octet: int) -> bool:
    return 0x20 < octet < 0x7F and octet not in b"()*\\"


_VALUE_TEXT: Final = re.compile(r"(?:[^\x00()*\\]|\\[0-9A-Fa-f]{2})*+")
_HEX_PAIR: Final = re.compile(rb"\\([0-9A-Fa-f]{2})")
_ITEM: Final = re.compile(rf"({_DESCRIPTION})(=|>=|<=|~=)")
_EXTENSIBLE_ITEM: Final = re.compile(rf"({_DESCRIPTION})?(:[dD][nN])?(?::({_KEYSTRING}|{_NUMERIC_OID}))?:=")
_COMPARISONS: Final[dict[str, Callable[[str, bytes], LdapFilter]]] = {
    ">=": GreaterOrEqual,
    "<=": LessOrEqual,
    "~=": Approx,
}


def parse_text(text: str) -> LdapFilter:
    """Parse the string form of [RFC4515] strictly.

    There may be no blanks between the parts; all parentheses must be present.

    ``(&)`` and ``(|)`` of [RFC4526] become `TRUE` and `FALSE`.

    Raises:
        ValueError: anything else, with the position; nesting deeper than `FILTER_DEPTH_MAX`.
    """
    if len(text) > FILTER_TEXT_CHARS_MAX:
        raise ValueError(f"a filter of {len(text)} characters, more than {FILTER_TEXT_CHARS_MAX}")
    node, position = _parse(text, 0, 1)
    if position != len(text):
        raise _make_error(text, position, "the filter ends here, but the text does not")
    return node


def _make_error(text: str, position: int, problem: str) -> ValueError:
    excerpt = text[max(position - 20, 0) : position + 20]
    return ValueError(f"no filter: at character {position} (near {excerpt!r}): {problem}")


def _parse(text: str, position: int, depth: int) -> tuple[LdapFilter, int]:
    _check_depth(depth)
    if not text.startswith("(", position):
        raise _make_error(text, position, "'(' is missing")
    position += 1
    node: LdapFilter
    match text[position : position + 1]:
        case "&":
            operands, position = _parse_list(text, position + 1, depth)
            node = And(operands) if operands else TRUE
        case "|":
            operands, position = _parse_list(text, position + 1, depth)
            node = Or(operands) if operands else FALSE
        case "!":
            operand, position = _parse(text, position + 1, depth + 1)
            node = Not(operand)
        case _:
            node, position = _parse_item(text, position)
    if not text.startswith(")", position):
        raise _make_error(text, position, "')' is missing")
    return node, position + 1


def _parse_list(text: str, position: int, depth: int) -> tuple[tuple[LdapFilter, ...], int]:
    operands: list[LdapFilter] = []
    while text.startswith("(", position):
        operand, position = _parse(text, position, depth + 1)
        operands.append(operand)
    return tuple(operands), position


def _parse_item(text: str, position: int) -> tuple[LdapFilter, int]:
    if match := _ITEM.match(text, position):
        attribute, operator = match.group(1, 2)
        if operator == "=":
            return _parse_equality(text, match.end(), attribute)
        value, position = _parse_value(text, match.end())
        return _COMPARISONS[operator](attribute, value), position
    if match := _EXTENSIBLE_ITEM.match(text, position):
        name, dn, rule = match.group(1, 2, 3)
        if name is None and rule is None:
            raise _make_error(text, position, "neither an attribute nor a matching rule")
        value, end = _parse_value(text, match.end())
        return Extensible(name, rule, value, dn is not None), end
    raise _make_error(text, position, "no attribute, or no comparison behind it")


def _parse_equality(text: str, position: int, attribute: str) -> tuple[LdapFilter, int]:
    start = position
    value, position = _parse_value(text, position)
    parts = [value]
    while text.startswith("*", position):
        value, position = _parse_value(text, position + 1)
        parts.append(value)
    if len(parts) == 1:
        return Equal(attribute, parts[0]), position
    if parts == [b"", b""]:
        return Present(attribute), position
    initial, *middle, final = parts
    if not all(middle):
        raise _make_error(text, start, "two asterisks without anything between")
    return Substrings(attribute, initial or None, tuple(middle), final or None), position


def _parse_value(text: str, position: int) -> tuple[bytes, int]:
    match = _VALUE_TEXT.match(text, position)
    end = position if match is None else match.end()
    if text.startswith("\\", end):
        raise _make_error(text, end, "a backslash is followed by two hex digits")
    octets = text[position:end].encode()
    return _HEX_PAIR.sub(lambda pair: bytes((int(pair.group(1), 16),)), octets), end
