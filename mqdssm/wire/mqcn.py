"""Change Notification Messages as bytes ([MS-MQCN] 2.2.4).

Updates are little-endian, events are text.

:func:`encode` and :func:`decode` convert the bodies of messages. A body is the Change Notification Message
and one unused byte ([MS-MQCN] 3.3.5.3, decision C3): `encode` writes it as 0, `decode` accepts any value, or
a body without it; a second byte is too much. The text of version 2 may end with U+0000, which is read and
not written (decision C31).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mqdssm.errors import DecodeError
from mqdssm.model.guid import Guid
from mqdssm.model.notification import (
    DOMAIN_CONTROLLER_CHARS_MAX,
    UPDATES_MAX,
    ChangeNotification,
    NotificationBody,
    NotificationCommand,
    NotificationEvent,
    NotificationUpdate,
    NotificationUpdates,
    NotificationVersion,
    check_domain_controller,
)
from mqdssm.wire.codecs import GUID_PACKET, U8, Text16Z, dump_text16, enum_of, load_text16, raw
from mqdssm.wire.fields import Const, Count, Flag, Ignored, Items, Nested, Value, group, unless, when
from mqdssm.wire.layout import Layout, encode_one
from mqdssm.wire.propvalue import VALUE_BYTES_MAX, properties
from mqdssm.wire.show import Shown, show, show_header

MESSAGE_BYTES_MAX: Final = VALUE_BYTES_MAX
"""Longest message: an MSMQ message carries at most 4 MiB (decision C12)."""
BODY_BYTES_MAX: Final = 4 * 1024
"""Longest message of version 2 (decision C6)."""
TERMINATOR: Final = dump_text16("\0")
"""Optional end of the text of version 2 (decision C31)."""
UNUSED_BYTES: Final = 1
"""Number of unused bytes behind a message in its body ([MS-MQCN] 3.3.5.3)."""
PROPERTIES_MAX: Final = 255
"""Most properties of an update: NumberOfProperties is one byte ([MS-MQCN] 2.2.6)."""
PATH_NAME: Final = Text16Z(1_024)
"""Path name of an object; no document gives a limit (decision C12)."""
RESERVED_BYTES: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationHeader:
    """First field of every message ([MS-MQCN] 2.2.4), with its kind in `version`."""

    version: NotificationVersion


@dataclass(frozen=True, slots=True)
class Element:
    """A piece of a body in UTF-16LE: a text between two fixed strings.

    Nothing here parses XML: the fixed strings are compared byte by byte, and the text ends at the first
    ``<``, which must stand within its limit (decision C6).

    Attributes:
        before: fixed string before the text.
        behind: fixed strings that may follow it; the first one is written.
        units_max: largest number of UTF-16 units of the text.
        load: converts the text into the value; its ValueError explains a refusal.
        dump: converts the value into the text.
    """

    before: str
    behind: tuple[str, ...]
    units_max: int
    load: Callable[[str], Any] = str
    dump: Callable[[Any], str] = str

    @property
    def least(self) -> int:
        """Size of the fixed strings in bytes."""
        return 2 * (len(self.before) + min(map(len, self.behind)))

    def read(self, data: bytes, offset: int, end: int, section: str, field: str) -> tuple[Any, int]:
        """Decode the text and the strings around it.

        Raises:
            DecodeError: when other strings stand there, or the text is wrong.
        """
        at = _find_end_of_text((self.before,), data, offset, end)
        if at is None:
            raise DecodeError(section, field, offset, f"must begin with {self.before}")
        units = data[at : min(end, at + 2 * (self.units_max + 1))]
        text, less_than, _ = load_text16(units[: len(units) // 2 * 2]).partition("<")
        if not less_than:
            problem = (
                f"longer than {self.units_max} characters" if len(text) > self.units_max else "has no end"
            )
            raise DecodeError(section, field, at, problem)
        try:
            value = self.load(text)
        except ValueError as error:
            raise DecodeError(section, field, at, str(error)) from None
        at += len(dump_text16(text))
        behind = _find_end_of_text(self.behind, data, at, end)
        if behind is None:
            raise DecodeError(section, field, at, f"must end with {self.behind[0]}")
        return value, behind

    def write(self, value: Any) -> bytes:
        """Encode the text with the strings around it.

        Raises:
            ValueError: for a value that would not be read again from its text.
        """
        text = self.dump(value)
        if len(text) > self.units_max or "<" in text or self.load(text) != value:
            raise ValueError(f"{value!r} cannot stand in {self.before}")
        return dump_text16(self.before + text + self.behind[0])


def _find_end_of_text(texts: tuple[str, ...], data: bytes, at: int, end: int) -> int | None:
    """Return the offset behind the first of these strings that stands at `at`.

    None if none of them stands there.
    """
    for text in texts:
        literal = dump_text16(text)
        if data.startswith(literal, at, end):
            return at + len(literal)
    return None


def _load_event(text: str) -> NotificationEvent:
    events = {str(int(event)): event for event in NotificationEvent}
    if text not in events:
        raise ValueError(f"is {text!r}, must be one of {', '.join(events)}")
    return events[text]


def _dump_event(event: NotificationEvent) -> str:
    return str(int(event))


def _load_guid(text: str) -> Guid:
    if text.startswith("{"):
        raise ValueError(f"{text!r} has braces (decision C7)")
    return Guid.parse(text)


def _dump_guid(guid: Guid) -> str:
    return str(guid).upper()


EVENT: Final = Element("<Notification><Event>", ("</Event>",), 1, _load_event, _dump_event)
OBJECT_GUID: Final = Element(
    "<ObjectGuid>",
    ("</ObjectGuid>", "</ObjectGuid >"),
    36,
    _load_guid,
    _dump_guid,  # decisions C1, C7
)
DOMAIN_CONTROLLER: Final = Element(
    "<DomainController>",
    ("</DomainController></Notification>",),
    DOMAIN_CONTROLLER_CHARS_MAX,
    check_domain_controller,  # decision C10
)

_VERSION: Final = enum_of(U8, NotificationVersion)

NOTIFICATION_HEADER: Final = Layout(
    NotificationHeader, "[MS-MQCN] 2.2.4", Value("version", _VERSION, "Version")
)

NOTIFICATION_UPDATE: Final = Layout(
    NotificationUpdate,
    "[MS-MQCN] 2.2.6",
    Value("command", enum_of(U8, NotificationCommand), "Command"),
    Flag("guid_identifier", U8, "UseGuid"),
    unless("guid_identifier", Value("path_name", PATH_NAME, "PathName")),
    when("guid_identifier", Value("guid_identifier", GUID_PACKET, "GuidIdentifier")),
    Value("guid_master_id", GUID_PACKET, "GuidMasterId"),
    Ignored("Reserved", raw(RESERVED_BYTES), bytes(RESERVED_BYTES)),
    Count("properties", U8, "NumberOfProperties", low=1, high=PROPERTIES_MAX),  # decision C11
    properties("properties", "PropertyId"),
)

NOTIFICATION_UPDATES: Final = Layout(
    NotificationUpdates,
    "[MS-MQCN] 2.2.4",
    Const("Version", _VERSION, NotificationVersion.UPDATES),
    Count("updates", U8, "NumberOfUpdateNotifications", high=UPDATES_MAX),
    Items("updates", Nested(NOTIFICATION_UPDATE), "Data"),
)

NOTIFICATION_BODY: Final = Layout(
    NotificationBody,
    "[MS-MQCN] 2.2.5",
    Const("Version", _VERSION, NotificationVersion.BODY),
    Const("NumberOfUpdateNotifications", U8, 1),
    group(
        "Data",
        Value("event", EVENT, "Event"),
        Value("object_guid", OBJECT_GUID, "ObjectGuid"),
        Value("domain_controller", DOMAIN_CONTROLLER, "DomainController"),
    ),
)

LAYOUTS: Final[Mapping[int, Layout[Any]]] = {
    int(layout.cls.version): layout for layout in (NOTIFICATION_UPDATES, NOTIFICATION_BODY)
}
"""Layout of each message by its Version."""
_LIMITS: Final[Mapping[type, int]] = {
    NotificationUpdates: MESSAGE_BYTES_MAX,
    NotificationBody: BODY_BYTES_MAX,
}
"""Largest size of a message with the unused byte."""
_OF_CLASS: Final[Mapping[type, Layout[Any]]] = {layout.cls: layout for layout in LAYOUTS.values()}


def layout_of(data: bytes) -> Layout[Any]:
    """Return the layout of a message by its version.

    Raises:
        DecodeError: another version, or too long for a message of this version.
    """
    header, _ = NOTIFICATION_HEADER.read(data, 0, len(data))
    layout = LAYOUTS[header.version]
    if len(data) > _LIMITS[layout.cls]:
        raise DecodeError(layout.section, "message", 0, f"has more than {_LIMITS[layout.cls]} bytes")
    return layout


def decode(data: bytes) -> ChangeNotification:
    """Decode the body of a message: a Change Notification Message.

    The unused byte behind it may be absent.

    Raises:
        DecodeError: with section, field, offset and problem.
    """
    data = bytes(data)
    layout = layout_of(data)
    notification: ChangeNotification
    notification, end = layout.read(data, 0, len(data))
    _finish(layout, data, end)
    return notification


def _finish(layout: Layout[Any], data: bytes, offset: int) -> None:
    """Refuse bytes behind a message.

    The terminator of a text and the unused byte are allowed.

    Raises:
        DecodeError: with the number of bytes left over.
    """
    end = len(data)
    if layout is NOTIFICATION_BODY and data.startswith(TERMINATOR, offset):
        offset += len(TERMINATOR)
    if end - offset > UNUSED_BYTES:
        raise DecodeError(
            layout.section, "end", offset, f"{end - offset} bytes left over, at most {UNUSED_BYTES}"
        )


def encode(message: ChangeNotification) -> bytes:
    """Encode a message as the body of an MSMQ message ([MS-MQCN] 3.3.5.3).

    The unused byte is added.

    Raises:
        ValueError: naming the field that cannot be encoded (more than 255 updates, or properties of one), or
            for a message longer than `MESSAGE_BYTES_MAX`.
        TypeError: not a Change Notification Message.
    """
    return encode_one(
        _OF_CLASS,
        message,
        called="Change Notification Message",
        bytes_max=_LIMITS.get(type(message), 0),
        behind=bytes(UNUSED_BYTES),
    )


def update_bytes(update: NotificationUpdate) -> int:
    """Return the size of an update in a message, for splitting messages.

    Raises:
        ValueError: naming the field that cannot be encoded.
    """
    return len(NOTIFICATION_UPDATE.encode(update))


def show_message(data: bytes) -> Shown:
    """Read a message's body field by field, as far as possible ([MS-MQCN] 2.2.4)."""
    data = bytes(data)
    try:
        layout = layout_of(data)
    except DecodeError as error:
        return show_header(NOTIFICATION_HEADER, data, error)
    try:
        _, end = layout.read(data, 0, len(data))
        _finish(layout, data, end)
    except DecodeError as error:
        return Shown(show(layout, data).fields, error)
    return show(layout, data[:end])
