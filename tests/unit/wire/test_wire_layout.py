"""The declaration language: what can be said with it, what it refuses to be told, and how it refuses bytes.

The structures are those of the protocols that will use it: discovery, replication, notification.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.wire.interpreted import decode_interpreted, encode_interpreted
from support.wire.strategies import assert_length_is_law
from support.wire.structures import (
    CHANGE,
    CHANGE_BY_GUID,
    CHANGE_REQUEST,
    EXAMPLES,
    MESSAGE,
    NUMBERS,
    REPLY,
    REQUEST,
    TAIL,
    A,
    Change,
    ChangeRequest,
    Command,
    Message,
    Numbers,
    Reply,
    Request,
    Tail,
)

from mqdssm.errors import DecodeError
from mqdssm.wire.codecs import U32, Text16Z
from mqdssm.wire.fields import Count, Flag, Items, Nested, Value, when
from mqdssm.wire.layout import Layout

PACKETS = {
    vector["id"]: vector
    for vector in json.loads((Path(__file__).parents[2] / "vectors" / "discovery.json").read_text())
    if vector["published"]
}


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
    assert encode_interpreted(layout, made) == image
    assert layout.decode(image) == decode_interpreted(layout, image) == made
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
        assert compiled == outcome(lambda case=case: decode_interpreted(layout, case))
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
    for encode in (layout.encode, partial(encode_interpreted, layout)):
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
    for encode in (layout.encode, partial(encode_interpreted, layout)):
        with pytest.raises(ValueError, match="PSCNameOffset: is 0 though it must announce something"):
            encode(ChangeRequest(requester="", psc="x", change=CHANGE_BY_GUID))


def test_an_object_of_another_class():
    for encode in (REPLY.encode, partial(encode_interpreted, REPLY)):
        with pytest.raises(TypeError, match="is no Reply"):
            encode(CHANGE_BY_GUID)  # type: ignore[arg-type]


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
