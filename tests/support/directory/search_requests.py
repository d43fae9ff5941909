"""Whole SearchRequests, with message id and controls ([RFC4511] 4.1.1)."""

from collections.abc import Iterable, Sequence
from typing import Any

from mqdssm.directory.requests import LdapControl, SearchScope, encode_message, encode_search_operation


def encode_search(
    message_id: int,
    base: str,
    scope: SearchScope,
    search_filter: bytes,
    attributes: Iterable[str],
    *,
    controls: Sequence[LdapControl] = (),
    **limits: Any,
) -> bytes:
    """Encode a message with a SearchRequest; `limits` are those of `encode_search_operation`."""
    operation = encode_search_operation(base, scope, search_filter, attributes, **limits)
    return encode_message(message_id, operation, controls)
