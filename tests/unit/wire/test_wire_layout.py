"""The declaration language: what can be said with it, what it refuses to be told, and how it refuses bytes.

The structures are those of the protocols that will use it: discovery, replication, notification.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from wire_strategies import assert_length_is_law

from mqdssm.errors import DecodeError
from mqdssm.wire.layout import (
    BOOL16,
    GUID,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    U64BE,
    Bytes,
    ByteSize,
    Const,
    Count,
    FieldError,
    Flag,
    Ignored,
    Items,
    Layout,
    Nested,
    Text16,
    Text16Z,
    TotalSize,
    Value,
    big_endian,
    enum_of,
    raw,
    unless,
    when,
    when_left,
)

PACKETS = {
    vector["id"]: vector
    for vector in json.loads((Path(__file__).parents[2] / "vectors" / "discovery.json").read_text())
}
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
    Value("previous", U64BE, "PreviousSeqNumber"),
    Value("sequence", U64BE, "SeqNumber"),
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
]
NAMED = [
    pytest.param(layout, made, id=f"{made.__class__.__name__}{n}")
    for n, (layout, made) in enumerate(EXAMPLES)
]


@pytest.mark.parametrize("name", list(PACKETS))
def test_published_packets(name):
    layout: Layout[Any] = REQUEST if name == "mqsd-request" else REPLY
    packet, fields = bytes.fromhex(PACKETS[name]["hex"]), PACKETS[name]["fields"]
    made = layout.decode(packet)
    assert layout.encode(made) == packet
    if layout is REPLY:
        assert f"{{{made.correlation_id}}}" == fields["CorrelationID"]
        assert [f"{{{network}}}" for network in made.networks] == fields["ConnectedNetworkArray"]
        assert made.servers == ("10nt4pec" if "RespondingSiteID" in fields else "")
    else:
        assert f"{{{made.request}}}" == fields["RequestID"]
    assert_length_is_law(packet, layout.decode)


@pytest.mark.parametrize(("layout", "made"), NAMED)
def test_both_forms_both_ways(layout, made):
    image = layout.encode(made)
    assert layout.encode_interpreted(made) == image
    assert layout.decode(image) == layout.decode_interpreted(image) == made
    assert len(image) >= layout.least
    assert layout.read(b"xx" + image, 2, 2 + len(image)) == (made, 2 + len(image))


def outcome(act: Callable[[], Any]) -> tuple[type, str]:
    try:
        return type(None), repr(act())
    except DecodeError as error:
        return type(error), str(error)


@pytest.mark.parametrize(("layout", "made"), NAMED)
def test_both_forms_refuse_alike(layout, made):
    image = layout.encode(made)
    cases = [image[:size] for size in range(len(image))] + [image + b"\0", image + b"\0\0"]
    for at in range(len(image)):
        cases += [
            image[:at] + bytes([byte]) + image[at + 1 :] for byte in (0, 1, 0x7F, 0xFF) if byte != image[at]
        ]
    for case in cases:
        compiled = outcome(lambda case=case: layout.decode(case))
        assert compiled == outcome(lambda case=case: layout.decode_interpreted(case))
        assert compiled[0] in {type(None), DecodeError}


def test_what_decodes_encodes_to_the_same_bytes():
    """Except what is ignored on purpose: nothing is normalized away."""
    for layout, made in EXAMPLES[4:8]:
        image = layout.encode(made)
        for at in range(len(image)):
            changed = image[:at] + bytes([image[at] ^ 1]) + image[at + 1 :]
            try:
                decoded = layout.decode(changed)
            except DecodeError:
                continue
            assert layout.encode(decoded) == changed


@pytest.mark.parametrize(
    ("layout", "image", "problem"),
    [
        (REPLY, "", r"\[MS-MQSD\] 2\.2\.3 Version at offset 0: needs 1 bytes, 0 left"),
        (REPLY, "0001", r"Reserved at offset 2: needs 2 bytes, 0 left"),
        (REPLY, "00010000" + "00" * 28, "Type at offset 1: is 1, must be 2"),
        (REPLY, "00020000" + "00" * 28, "ConnectedNetworkCount at offset 20: is 0, at least 1"),
        (
            REPLY,
            "00020000" + "00" * 16 + "21000000" + "00" * 8,
            "ConnectedNetworkCount at offset 20: is 33, at most 32",
        ),
        (
            REPLY,
            "00020000" + "00" * 16 + "02000000" + "00" * 8,
            "ConnectedNetworkArray at offset 32: needs 32 bytes, 0",
        ),
        (
            REPLY,
            "00020000" + "00" * 16 + "0100000000000000" + "03000000" + "00" * 32 + "000000",
            "DirectoryServiceServerArray at offset 64: has 3 bytes, which is no whole number",
        ),
        (
            REPLY,
            "00020000" + "00" * 16 + "0100000000000000" + "02000000" + "00" * 32 + "6100",
            "DirectoryServiceServerArray at offset 64: has no NUL at its end",
        ),
        (
            REPLY,
            "00020000" + "00" * 16 + "0100000000000000" + "02000000" + "00" * 32 + "0000",
            "servers at offset 48: is announced and empty",
        ),
        (
            REPLY,
            "00020000" + "00" * 16 + "0100000000000000" + "06000000" + "00" * 32 + "000061000000",
            "DirectoryServiceServerArray at offset 64: holds a NUL before its end",
        ),
        (REQUEST, "00010000" + "00" * 48 + "00000000", "IPXNetworkCount at offset 52: is 0, at least 1"),
        (REQUEST, "00010000" + "00" * 48 + "01", "IPXNetworkCount at offset 52: needs 4 bytes, 1 left"),
        (CHANGE, "03", "UseGuid at offset 1: needs 1 bytes, 0 left"),
        (CHANGE, "0300", "Command at offset 0: is 3, which is no Command"),
        (CHANGE, "0002", "UseGuid at offset 1: is 2, must be 0 or 1"),
        (CHANGE, "0000" + "6100" * 64, "PathName at offset 2: no NUL at its end"),
        (CHANGE, "0000" + "6100" * 70, "PathName at offset 2: longer than 64 characters"),
        (CHANGE, "0000" + "0061" + "00", "PathName at offset 2: no NUL at its end"),
        (CHANGE, "0000" + "0000" + "00" * 16 + "00", "SeqNumber at offset 12: 0 does not follow 0"),
        (
            CHANGE,
            "0000" + "0000" + "00" * 15 + "01" + "09",
            "PropertyValue at offset 21: needs 18 bytes, 0 left",
        ),
        (CHANGE_REQUEST, "00" + "01000000", "RequesterName at offset 5: needs 2 bytes, 0 left"),
        (
            CHANGE_REQUEST,
            "00" + "02000000" + "0000" + "0000" + "0000" + "0000" + "00" * 15 + "0100",
            "PSCNameOffset at offset 0: is 2, must be 1",
        ),
        (MESSAGE, "52534132" + "00" * 36, "Magic at offset 0: is b'RSA2', must be b'RSA1'"),
        (
            MESSAGE,
            "52534131" + "0b000000" + "00" * 8,
            "Length at offset 4: is 11, less than the fields before",
        ),
        (MESSAGE, "52534131" + "ff000000" + "00" * 8, "Length at offset 0: needs 255 bytes, 16 left"),
        (
            MESSAGE,
            "52534131" + "10000000" + "0000" + "010000" + "0000" + "00",
            "Big at offset 10: is 65536, at most",
        ),
        (
            MESSAGE,
            "52534131" + "10000000" + "0000" + "000000" + "0100" + "00",
            "Flag at offset 13: is 0x0001, must be",
        ),
        (
            MESSAGE,
            "52534131" + "10000000" + "0000" + "000000" + "0000" + "ff",
            "NumberCount at offset 15: is -1, at",
        ),
        (TAIL, "0000" * 4, "Items at offset 6: more than 3 elements"),
        (NUMBERS, "0000" * 4, "Numbers at offset 6: more than 3 elements"),
        (NUMBERS, "000000", "Numbers at offset 2: needs 2 bytes, 1 left"),
    ],
)
def test_refusals_name_section_field_and_offset(layout, image, problem):
    with pytest.raises(DecodeError, match=problem) as caught:
        layout.decode(bytes.fromhex(image))
    assert caught.value.section == layout.section


def test_objections_of_the_class_itself():
    image = bytearray(MESSAGE.encode(Message()))
    image[8] = 99
    with pytest.raises(DecodeError, match=r"\[MS-TEST\] 1 Message at offset 0: nobody sends 99"):
        MESSAGE.decode(image)
    image = bytearray(MESSAGE.encode(Message()) + b"1234567")
    image[4] += 7
    with pytest.raises(DecodeError, match="Rest at offset 65: has 7 bytes, at most 6"):
        MESSAGE.decode(image)


@pytest.mark.parametrize(
    ("layout", "make", "problem"),
    [
        (REPLY, lambda: Reply(correlation_id=A, networks=()), "ConnectedNetworkCount: is 0, at least 1"),
        (
            REPLY,
            lambda: Reply(correlation_id=A, networks=(A,) * 33),
            "ConnectedNetworkCount: is 33, at most 32",
        ),
        (
            REPLY,
            lambda: Reply(correlation_id=A, networks=(A,), site=A),
            "site: cannot be sent without servers",
        ),
        (
            REPLY,
            lambda: Reply(correlation_id=A, networks=(A,), servers="x"),
            "RespondingSiteID: None is no GUID",
        ),
        (REPLY, lambda: Reply(correlation_id=A, networks=(A,), site=A, servers="a\0b"), "holds a NUL"),
        (
            REPLY,
            lambda: Reply(correlation_id=A, networks=(A,), site=A, servers="x" * 512),
            "is 1026, at most 1024",
        ),
        (REPLY, lambda: Reply(correlation_id="A", networks=(A,)), "CorrelationID: 'A' is no GUID"),
        (
            REPLY,
            lambda: Reply(correlation_id=A, networks=(A,), network_mask=2**32),
            "ConnectedNetworkMask: 4294967296",
        ),
        (
            REPLY,
            lambda: Reply(correlation_id=A, networks=(A,), network_mask=1.5),
            "ConnectedNetworkMask: 1.5 is no U32",
        ),
        (
            REQUEST,
            lambda: Request(enterprise=A, request=A, site=A, ipx_networks=(1,) * 33),
            "IPXNetworkCount: is 33",
        ),
        (CHANGE, lambda: Change(command=7, guid=A), "Command: 7 is not a valid Command"),
        (
            CHANGE,
            lambda: Change(command=Command.CREATE, guid=A, path="x"),
            "path: cannot be sent together with guid",
        ),
        (
            CHANGE,
            lambda: Change(command=Command.CREATE, path="x" * 65),
            "PathName: has 65 characters, at most 64",
        ),
        (CHANGE, lambda: Change(command=Command.CREATE, path="a\0"), "PathName: holds a NUL"),
        (
            CHANGE,
            lambda: Change(command=Command.CREATE, previous=-1),
            "PreviousSeqNumber: -1 is no unsigned 64-bit",
        ),
        (
            CHANGE_REQUEST,
            lambda: ChangeRequest(requester="", change=Change(command=Command.CREATE, tags=("a" * 17,))),
            "DirectoryChange: .*PropertyValue: has 17 characters",
        ),
        (MESSAGE, lambda: Message(key=b"ab"), "Key: has 2 bytes, must have 3"),
        (MESSAGE, lambda: Message(rest=b"1234567"), "Rest: is 7, at most 6"),
        (MESSAGE, lambda: Message(rest=7), "Rest: memoryview"),
        (MESSAGE, lambda: Message(machine="pec"), "machine: cannot be sent without changes"),
        (MESSAGE, lambda: Message(big=0x10000), "Big: is 65536, at most 65535"),
        (TAIL, lambda: Tail(items=("",) * 4), "Items: is 4, at most 3"),
        (NUMBERS, lambda: Numbers(numbers=(1, 2, 3, 4)), "Numbers: is 4, at most 3"),
        (NUMBERS, lambda: Numbers(numbers=(65536,)), "Numbers: 65536 is no U16"),
    ],
)
def test_what_cannot_be_encoded(layout, make, problem):
    for encode in (layout.encode, layout.encode_interpreted):
        with pytest.raises(ValueError, match=problem) as caught:
            encode(make())
        assert not isinstance(caught.value, DecodeError), "our caller's mistake, not the peer's"


def test_an_offset_of_nothing_cannot_be_sent():
    layout = Layout(
        ChangeRequest,
        "[MS-TEST] 4",
        Flag("psc", U32, "PSCNameOffset", yes=lambda _: 0),
        Value("requester", Text16Z(16)),
        when("psc", Value("psc", Text16Z(16))),
        Value("change", Nested(CHANGE)),
    )
    for encode in (layout.encode, layout.encode_interpreted):
        with pytest.raises(ValueError, match="PSCNameOffset: is 0 though it must announce something"):
            encode(ChangeRequest(requester="", psc="x", change=CHANGE_BY_GUID))


def test_an_object_of_another_class():
    for encode in (REPLY.encode, REPLY.encode_interpreted):
        with pytest.raises(TypeError, match="is no Reply"):
            encode(CHANGE_BY_GUID)  # type: ignore[arg-type]


@dataclass(frozen=True)
class One:
    a: Any = 0
    b: Any = field(default_factory=tuple)


@dataclass(frozen=True)
class Bare:
    a: Any
    b: Any = None


A8, B8 = Value("a", U8), Value("b", U8)


@pytest.mark.parametrize(
    ("cls", "declared", "problem"),
    [
        (int, (A8,), "int is no dataclass"),
        (One, (A8,), r"One has \['a', 'b'\], laid out are \['a'\]"),
        (One, (A8, B8, A8), "laid out are"),
        (One, (A8, B8, Value("c", U8)), "laid out are"),
        (One, (TotalSize("x", U8), TotalSize("y", U8), A8, B8), "two fields hold the size"),
        (One, (when("b", TotalSize("x", U8)), A8, B8), "needs a Count"),
        (One, (A8, Count("b", U8), when("b", TotalSize("x", U8), Items("b", U8))), "x must not be optional"),
        (One, (A8, Items("b", U8), Count("b", U8)), "b must stand before b"),
        (One, (A8, Count("b", U8), Count("b", U8), Items("b", U8)), "two numbers announce b"),
        (One, (A8, Count("b", U8), Bytes("b")), "b announces b, which it cannot"),
        (One, (A8, ByteSize("b", U8), Items("b", U8)), "which it cannot"),
        (One, (A8, B8, Count("c", U8)), "c announces c, which it cannot"),
        (One, (A8, Flag("b", U8), B8), "has a Flag and must be in when"),
        (One, (A8, Flag("b", U8), unless("b", B8)), "cannot be there unless"),
        (One, (A8, Flag("b", U8), when("b", B8)), "the default of b must be None"),
        (Bare, (Flag("b", U8), when("b", A8, B8)), "a is optional and has no default"),
        (One, (A8, Text16("b")), "b needs a ByteSize"),
        (One, (Items("b", U8), A8), "it must be last and have a limit"),
        (One, (A8, Items("b", U8)), "it must be last and have a limit"),
        (One, (Bytes("b", high=1), A8), "it must be last and have a limit"),
        (One, (A8, when("b", B8)), "needs a Count, ByteSize or Flag"),
        (One, (when("b", A8), Count("b", U8), Items("b", U8)), "always read before"),
        (One, (A8, B8, when("b")), "without fields"),
        (One, (when_left("b", B8), A8), "must hold it, and be last"),
        (One, (A8, when_left("c", B8)), "must hold it, and be last"),
        (One, (A8, Count("b", Text16Z(1)), Items("b", U8)), "a number must have a fixed size"),  # type: ignore[arg-type]
    ],
)
def test_declarations_are_proven_at_import(cls, declared, problem):
    with pytest.raises(TypeError, match=problem):
        Layout(cls, "[MS-TEST] 9", *declared)


def test_source_can_be_read():
    assert "def read(data, offset, end):" in REPLY.source
    assert "def write(made):" in REPLY.source
    assert repr(REPLY) == "<Layout of [MS-MQSD] 2.2.3 Reply>"


def test_counts_do_not_allocate_before_they_are_checked():
    """A count of four thousand million in sixty bytes is refused by arithmetic, not by memory."""

    @dataclass(frozen=True)
    class Many:
        items: tuple[Any, ...] = ()

    for codec in (U32, Nested(CHANGE), Text16Z(4)):
        layout = Layout(Many, "[MS-TEST] 5", Count("items", U32), Items("items", codec))
        with pytest.raises(DecodeError, match="items at offset 4: needs"):
            layout.decode(b"\xff" * 60)
