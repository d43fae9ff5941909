"""LDAP answers as a server sends them ([RFC4511] 4)."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from mqdssm.directory.ber import ENUMERATED, SET, integer, octet_string, sequence, tlv
from mqdssm.directory.requests import PAGED_RESULTS_OID
from mqdssm.directory.responses import CONTROLS_TAG, SEARCH_DONE, SEARCH_ENTRY


def encode_message(number: int, operation: bytes, controls: bytes = b"") -> bytes:
    """Encode an LDAPMessage."""
    return sequence(integer(number), operation, controls)


def encode_result(
    number: int,
    tag: int,
    code: int = 0,
    *,
    matched: str = "",
    text: str = "",
    more: bytes = b"",
    controls: bytes = b"",
) -> bytes:
    """Encode a message with an LDAPResult; `more` follows its usual fields."""
    fields = integer(code, ENUMERATED) + octet_string(matched) + octet_string(text) + more
    return encode_message(number, tlv(tag, fields), controls)


def search_done(number: int, code: int = 0, *, cookie: bytes | None = None) -> bytes:
    """Encode a SearchResultDone, with the control of [RFC2696] if there is a cookie."""
    return encode_result(number, SEARCH_DONE, code, controls=b"" if cookie is None else _make_paging(cookie))


@lru_cache
def _make_paging(cookie: bytes) -> bytes:
    value = sequence(integer(0), octet_string(cookie))
    return sequence(sequence(octet_string(PAGED_RESULTS_OID), octet_string(value)), tag=CONTROLS_TAG)


def encode_entry_content(dn: str, attributes: Iterable[tuple[str, Sequence[bytes]]]) -> bytes:
    """Encode name and attributes of a SearchResultEntry."""
    listed = [
        sequence(octet_string(name), sequence(*map(octet_string, values), tag=SET))
        for name, values in attributes
    ]
    return octet_string(dn) + sequence(*listed)


def encode_entry_message(number: int, content: bytes) -> bytes:
    """Encode a message with a SearchResultEntry."""
    return encode_message(number, tlv(SEARCH_ENTRY, content))
