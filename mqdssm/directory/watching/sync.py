"""Controls and messages of content synchronization, syncrepl ([RFC4533] 2)."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias
from uuid import UUID

from mqdssm.directory.ber import (
    BOOLEAN,
    ENUMERATED,
    OCTET_STRING,
    SEQUENCE,
    SET,
    BerReader,
    integer,
    octet_string,
    sequence,
)
from mqdssm.directory.requests import LdapControl
from mqdssm.directory.responses import INTERMEDIATE_RESPONSE, MessageBounds
from mqdssm.errors import DecodeError

REQUEST_OID: Final = "1.3.6.1.4.1.4203.1.9.1.1"
STATE_OID: Final = "1.3.6.1.4.1.4203.1.9.1.2"
INFO_OID: Final = "1.3.6.1.4.1.4203.1.9.1.4"
REFRESH_REQUIRED: Final = 4096
"""e-syncRefreshRequired: the cookie cannot be used any more ([RFC4533] 2.6)."""
UUID_BYTES: Final = 16
COOKIE_BYTES_MAX: Final = 64 * 1024
"""Maximum size of a cookie; slapd uses some 70 octets for each of its replicas."""
IDS_MAX: Final = 1 << 20
"""Maximum ids in one message; slapd sends 256."""

_REFRESH_AND_PERSIST: Final = 3
_NEW_COOKIE: Final = 0x80
_REFRESH_DELETE: Final = 0xA1
_REFRESH_PRESENT: Final = 0xA2
_ID_SET: Final = 0xA3
_RESPONSE_NAME: Final = 0x80
_RESPONSE_VALUE: Final = 0x81


class EntryState(IntEnum):
    """State of an entry in the sync state control ([RFC4533] 2.3)."""

    PRESENT = 0
    ADD = 1
    MODIFY = 2
    DELETE = 3


@dataclass(frozen=True, slots=True)
class SyncState:
    """Sync state control of an entry ([RFC4533] 2.3).

    Attributes:
        state: what happened.
        key: its entryUUID as text.
        cookie: where to go on behind it, if the server says so.
    """

    state: EntryState
    key: str
    cookie: bytes | None = None


@dataclass(frozen=True, slots=True)
class NewCookie:
    """New cookie without changes of matching entries: newcookie ([RFC4533] 2.5)."""

    cookie: bytes


@dataclass(frozen=True, slots=True)
class PhaseEnds:
    """End of a phase of the refresh: refreshDelete or refreshPresent ([RFC4533] 2.5).

    Attributes:
        present: it was a present phase: entries that it did not mention are deleted.
        done: the refresh is over: what follows are changes as they are made.
        cookie: where to go on.
    """

    present: bool
    done: bool
    cookie: bytes | None = None


@dataclass(frozen=True, slots=True)
class IdSet:
    """Set of entry ids: syncIdSet ([RFC4533] 2.5).

    Attributes:
        keys: their entryUUIDs as texts.
        deletes: they are gone; else they are as they were.
        cookie: where to go on.
    """

    keys: tuple[str, ...]
    deletes: bool
    cookie: bytes | None = None


Info: TypeAlias = NewCookie | PhaseEnds | IdSet


def request_control(cookie: bytes | None) -> LdapControl:
    """Return the control that requests changes since a cookie ([RFC4533] 2.2).

    Changes from now on are requested as well.

    Args:
        cookie: None: everything there is comes first.
    """
    parts = [integer(_REFRESH_AND_PERSIST, ENUMERATED)]
    if cookie is not None:
        parts.append(octet_string(cookie))
    return LdapControl(REQUEST_OID, critical=True, value=sequence(*parts))


def decode_state(controls: tuple[LdapControl, ...]) -> SyncState:
    """Decode the sync state control of an entry.

    Raises:
        DecodeError: there is none, or it breaks its grammar.
    """
    section = "[RFC4533] 2.3"
    value = next((control.value for control in controls if control.oid == STATE_OID), None)
    if value is None:
        raise DecodeError(section, "syncStateValue", 0, "an entry comes without it")
    outer = BerReader.of(value, section)
    reader = outer.enter(SEQUENCE, "syncStateValue")
    outer.finish("syncStateValue")
    number = reader.integer("state", ENUMERATED)
    if number not in set(EntryState):
        raise DecodeError(section, "state", 0, f"{number} is none")
    key = _parse_key(reader, "entryUUID")
    cookie = _parse_cookie(reader)
    reader.finish("syncStateValue")
    return SyncState(EntryState(number), key, cookie)


def decode_info(buffer: bytes, message: MessageBounds) -> Info | None:
    """Decode a sync info message, an intermediate response ([RFC4533] 2.5).

    Returns:
        The message; None for another kind of intermediate response.

    Raises:
        DecodeError: it breaks its grammar.
    """
    section = "[RFC4533] 2.5"
    if message.tag != INTERMEDIATE_RESPONSE:
        raise DecodeError(section, "protocolOp", message.start, f"tag 0x{message.tag:02x}")
    outer = BerReader(buffer, message.start, message.end, section)
    name = outer.name("responseName", _RESPONSE_NAME) if outer.at(_RESPONSE_NAME) else ""
    if name != INFO_OID:
        return None
    value = outer.octets("responseValue", _RESPONSE_VALUE)
    outer.finish("IntermediateResponse")
    reader = BerReader.of(value, section)
    if reader.at(_NEW_COOKIE):
        cookie = _limit_cookie(reader.octets("newcookie", _NEW_COOKIE))
        reader.finish("syncInfoValue")
        return NewCookie(cookie)
    if reader.at(_ID_SET):
        inner = reader.enter(_ID_SET, "syncIdSet")
        reader.finish("syncInfoValue")
        return _parse_id_set(inner)
    present = reader.at(_REFRESH_PRESENT)
    inner = reader.enter(_REFRESH_PRESENT if present else _REFRESH_DELETE, "refresh")
    reader.finish("syncInfoValue")
    new_cookie = _parse_cookie(inner)
    is_done = inner.boolean("refreshDone") if inner.at(BOOLEAN) else True
    inner.finish("refresh")
    return PhaseEnds(present=present, done=is_done, cookie=new_cookie)


def _parse_id_set(reader: BerReader) -> IdSet:
    cookie = _parse_cookie(reader)
    deletes = reader.boolean("refreshDeletes") if reader.at(BOOLEAN) else False
    ids = reader.enter(SET, "syncUUIDs")
    reader.finish("syncIdSet")
    keys: list[str] = []
    while ids.has_more():
        if len(keys) == IDS_MAX:
            raise DecodeError("[RFC4533] 2.5", "syncUUIDs", ids.position, f"more than {IDS_MAX}")
        keys.append(_parse_key(ids, "syncUUID"))
    return IdSet(tuple(keys), deletes, cookie)


def _parse_key(reader: BerReader, field: str) -> str:
    octets = reader.octets(field)
    if len(octets) != UUID_BYTES:
        raise DecodeError(reader.section, field, reader.position, f"{len(octets)} octets are no UUID")
    return str(UUID(bytes=octets))


def _parse_cookie(reader: BerReader) -> bytes | None:
    return _limit_cookie(reader.octets("cookie")) if reader.at(OCTET_STRING) else None


def _limit_cookie(cookie: bytes) -> bytes:
    if len(cookie) > COOKIE_BYTES_MAX:
        raise DecodeError("[RFC4533] 2.1.2", "cookie", 0, f"{len(cookie)} octets are too many")
    return cookie
