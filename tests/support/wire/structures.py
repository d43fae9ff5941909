"""Structures of discovery and replication as layouts, and some of no protocol: what the language can say."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any
from uuid import UUID

from mqdssm.wire.codecs import (
    BOOL16,
    GUID,
    I8,
    I16,
    I32,
    I64,
    SEQUENCE_NUMBER,
    U8,
    U16,
    U32,
    U64,
    Counted,
    SizedBytes,
    Text16Z,
    big_endian,
    enum_of,
    raw,
)
from mqdssm.wire.fields import (
    Bytes,
    ByteSize,
    Const,
    Count,
    FieldError,
    Flag,
    Ignored,
    Items,
    Keyed,
    Nested,
    Text16,
    TotalSize,
    Value,
    group,
    unless,
    when,
    when_left,
)
from mqdssm.wire.layout import Layout

A, B = UUID("e6eaba62-d1c6-11db-baac-0003ff4e2d22"), UUID("e6eaba60-d1c6-11db-baac-0003ff4e2d22")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    correlation_id: UUID
    networks: tuple[UUID, ...]
    network_mask: int = 0
    site: UUID | None = None
    servers: str = ""


REPLY = Layout(
    Reply,
    "[MS-MQSD] 2.2.3",
    Ignored("Version", U8),
    Const("Type", U8, 2),
    Ignored("Reserved", U16),
    Value("correlation_id", GUID, "CorrelationID"),
    Count("networks", U32, "ConnectedNetworkCount", low=1, high=32),
    Value("network_mask", U32, "ConnectedNetworkMask"),
    ByteSize("servers", U32, "DirectoryServiceServerSize", high=1024),
    Items("networks", GUID, "ConnectedNetworkArray"),
    when(
        "servers",
        Value("site", GUID, "RespondingSiteID"),
        Text16("servers", "DirectoryServiceServerArray"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    enterprise: UUID
    request: UUID
    site: UUID
    ipx_networks: tuple[int, ...] = ()


REQUEST = Layout(
    Request,
    "[MS-MQSD] 2.2.2",
    Ignored("Version", U8),
    Const("Type", U8, 1),
    Ignored("Reserved", U16),
    Value("enterprise", GUID, "EnterpriseID"),
    Value("request", GUID, "RequestID"),
    Value("site", GUID, "SiteID"),
    when_left(
        "ipx_networks",
        Count("ipx_networks", U32, "IPXNetworkCount", low=1, high=32),
        Items("ipx_networks", U32, "IPXNetworkNumberArray"),
    ),
)


class Command(IntEnum):
    CREATE = 0
    UPDATE = 1
    DELETE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    command: Command
    path: str = ""
    guid: UUID | None = None
    previous: int = 0
    sequence: int = 1
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.previous >= self.sequence:
            raise FieldError("sequence", f"{self.sequence} does not follow {self.previous}")


CHANGE = Layout(
    Change,
    "[MC-MQDSRP] 2.2.4",
    Value("command", enum_of(U8, Command), "Command"),
    Flag("guid", U8, "UseGuid"),
    unless("guid", Value("path", Text16Z(64), "PathName")),
    when("guid", Value("guid", GUID, "GuidIdentifier")),
    Value("previous", SEQUENCE_NUMBER, "PreviousSeqNumber"),
    Value("sequence", SEQUENCE_NUMBER, "SeqNumber"),
    Count("tags", U8, "NumberOfProperties"),
    Items("tags", Text16Z(16), "PropertyValue"),
)


def name_units(message: Any) -> int:
    return len(message.requester) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    requester: str
    psc: str | None = None
    change: Change


CHANGE_REQUEST = Layout(
    ChangeRequest,
    "[MC-MQDSRP] 2.2.6.2",
    Const("Version", U8, 0),
    Flag("psc", U32, "PSCNameOffset", yes=name_units),
    Value("requester", Text16Z(16), "RequesterName"),
    when("psc", Value("psc", Text16Z(16), "PSCName")),
    Value("change", Nested(CHANGE), "DirectoryChange"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    kind: int = 7
    big: int = 0
    flag: bool = False
    numbers: tuple[int, ...] = (0, 0, 0, 0)
    key: bytes = b"abc"
    machine: str = ""
    changes: tuple[Change, ...] = ()
    note: str = ""
    rest: bytes = b""

    def __post_init__(self) -> None:
        if self.kind == 99:
            raise ValueError("nobody sends 99")


MESSAGE = Layout(
    Message,
    "[MS-TEST] 1",
    Const("Magic", raw(4), b"RSA1"),
    TotalSize("Length", U32),
    Value("kind", enum_of(U16, Command, keep_unknown=True), "Kind"),
    Value("big", big_endian(3), "Big", low=0, high=0xFFFF),
    Value("flag", BOOL16, "Flag"),
    Count("numbers", I8, "NumberCount", high=4),
    Items("numbers", I64, "Numbers"),
    Value("key", raw(3), "Key"),
    Count("changes", I16, "Count", high=3),
    when(
        "changes",
        Value("machine", Text16Z(8), "MachineName"),
        Items("changes", Nested(CHANGE), "Changes"),
    ),
    ByteSize("note", U64, "NoteSize", high=20),
    Text16("note", "Note", terminated=False),
    Ignored("Reserved", I32, send=-1),
    Bytes("rest", "Rest", high=6),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    items: tuple[str, ...] = ()


TAIL = Layout(Tail, "[MS-TEST] 2", Items("items", Text16Z(4), "Items", high=3))


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    numbers: tuple[int, ...] = ()


NUMBERS = Layout(Numbers, "[MS-TEST] 3", Items("numbers", U16, "Numbers", high=3))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    kind: int = 0
    pairs: tuple[tuple[int, Any], ...] = ()
    note: str = ""


def key_name(number: int) -> str:
    return {1: "ONE", 2: "TWO"}.get(number, str(number))


PAIRS = Layout(
    Pairs,
    "[MS-TEST] 4",
    group(
        "Outer",
        group("Inner", Const("Magic", U16, 7), Value("kind", U8, "Kind")),
        Count("pairs", U8, "Count", low=1, high=4),
        when(
            "pairs",
            Keyed(
                "pairs",
                U16,
                {
                    1: U32,
                    2: Text16Z(8),
                    3: SizedBytes(U16, 9),
                    4: Counted(U8, GUID, 2),
                    5: Counted(U16, Text16Z(3), 3),
                    6: Nested(CHANGE),
                },
                "Values",
                "Keys",
                key_name,
            ),
        ),
    ),
    Value("note", Text16Z(4), "Note"),
)

CHANGE_BY_GUID = Change(command=Command.DELETE, guid=A, previous=1, sequence=2**63, tags=("a", ""))
CHANGE_BY_PATH = Change(command=Command.CREATE, path="web01\\q\ud800", sequence=5)
EXAMPLES: list[tuple[Layout[Any], Any]] = [
    (REPLY, Reply(correlation_id=A, networks=(B,))),
    (REPLY, Reply(correlation_id=A, networks=(A, B), network_mask=3, site=B, servers="10nt4pec,01x")),
    (REQUEST, Request(enterprise=A, request=B, site=A)),
    (REQUEST, Request(enterprise=A, request=B, site=A, ipx_networks=(1, 2**32 - 1))),
    (CHANGE, CHANGE_BY_GUID),
    (CHANGE, CHANGE_BY_PATH),
    (CHANGE_REQUEST, ChangeRequest(requester="web01", psc="", change=CHANGE_BY_GUID)),
    (CHANGE_REQUEST, ChangeRequest(requester="", change=CHANGE_BY_PATH)),
    (MESSAGE, Message()),
    (MESSAGE, Message(kind=Command.UPDATE, big=0xFFFF, flag=True, numbers=(), note="n\0te", rest=b"123456")),
    (MESSAGE, Message(numbers=(-1, 2**63 - 1), machine="pec", changes=(CHANGE_BY_GUID, CHANGE_BY_PATH))),
    (TAIL, Tail()),
    (TAIL, Tail(items=("a", "", "abcd"))),
    (NUMBERS, Numbers(numbers=(1, 2, 3))),
    (PAIRS, Pairs(pairs=((2, "x"), (1, 7)), note="n")),
    (PAIRS, Pairs(pairs=((3, b"abc"), (6, CHANGE_BY_GUID), (4, (A, B)), (5, ("", "abc"))))),
]
