"""Change Notification Messages: hand-made vectors both ways, and what is refused, with field and offset."""

import tracemalloc
from dataclasses import replace

import pytest
from support.notification.strategies import IMAGES, VECTORS
from support.wire.interpreted import decode_interpreted, encode_interpreted
from support.wire.strategies import assert_length_is_law

from mqdssm.errors import DecodeError
from mqdssm.model.guid import NULL_GUID, Guid
from mqdssm.model.names import PrivateFormatName
from mqdssm.model.notification import (
    NotificationBody,
    NotificationCommand,
    NotificationEvent,
    NotificationUpdate,
    NotificationUpdates,
    NotificationVersion,
)
from mqdssm.model.propids import PROPIDS, ObjectType, Propid
from mqdssm.model.transport import NOTIFICATION_QUEUE_NUMBER
from mqdssm.wire.mqcn import (
    LAYOUTS,
    MESSAGE_BYTES_MAX,
    NOTIFICATION_UPDATE,
    decode,
    encode,
    show_message,
    update_bytes,
)
from mqdssm.wire.show import to_json_value

NAMED = {vector["id"]: vector for vector in VECTORS}
QUEUE = Guid.parse("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")
MACHINE = Guid.parse("deadbeef-0001-0002-0003-000400050006")
MASTER = Guid.parse("a1b2c3d4-e5f6-4789-8a9b-acbdcedfe0f1")
TYPE = Guid.parse("01234567-89ab-cdef-0123-456789abcdef")
MEMORY_TIMES_MAX = 40

CREATION = NotificationUpdate(
    command=NotificationCommand.CREATE,
    path_name="WEB01\\orders",
    guid_master_id=MASTER,
    properties=(
        (Propid.Q_TYPE, TYPE),
        (Propid.Q_INSTANCE, QUEUE),
        (Propid.Q_JOURNAL, 1),
        (Propid.Q_BASEPRIORITY, -5),
        (Propid.Q_LABEL, "Orders"),
    ),
)
CHANGE = NotificationUpdate(
    command=NotificationCommand.UPDATE,
    guid_identifier=MACHINE,
    guid_master_id=MASTER,
    properties=((Propid.QM_MACHINE_ID, MACHINE), (Propid.QM_FOREIGN, 0), (Propid.QM_QUOTA, 2_097_152)),
)
DELETION = NotificationUpdate(
    command=NotificationCommand.DELETE,
    guid_identifier=QUEUE,
    guid_master_id=MASTER,
    properties=((Propid.D_SCOPE, 1), (Propid.D_OBJTYPE, 1)),
)


def body(event, guid, name):
    return NotificationBody(event=event, object_guid=guid, domain_controller=name)


MESSAGES = {
    "updates": NotificationUpdates(updates=(CREATION, CHANGE, DELETION)),
    "updates-none": NotificationUpdates(),
    "queue-created": body(NotificationEvent.CREATE_QUEUE, QUEUE, "dc01.example.com"),
    "queue-changed": body(NotificationEvent.CHANGE_QUEUE, QUEUE, "DC01"),
    "queue-deleted": body(NotificationEvent.DELETE_QUEUE, QUEUE, "x"),
    "machine-changed": body(NotificationEvent.CHANGE_QUEUE_MANAGER, MACHINE, "dc01.example.com"),
}


@pytest.mark.spec("MS-MQCN 2.2")
@pytest.mark.spec("MS-MQCN 2.2.1")
@pytest.mark.spec("MS-MQCN 2.2.4")
@pytest.mark.spec("MS-MQCN 2.2.5")
@pytest.mark.spec("MS-MQCN 2.2.6")
@pytest.mark.parametrize("name", list(NAMED))
def test_vectors(name):
    image, message = IMAGES[name], MESSAGES[name]
    layout = LAYOUTS[message.version]
    assert type(message).__name__ == NAMED[name]["message"]
    assert layout.encode(message) == encode_interpreted(layout, message) == image
    assert decode(image) == decode_interpreted(layout, image) == message
    assert_length_is_law(image, layout.decode)


def test_every_message_has_a_vector():
    assert {message.version for message in MESSAGES.values()} == set(NotificationVersion)
    assert MESSAGES.keys() == NAMED.keys()


@pytest.mark.spec("MS-MQCN 3.3.5.3")
@pytest.mark.parametrize("name", list(NAMED))
def test_one_unused_byte_follows_a_message(name):
    """Decision C3: it is written, and says nothing when it is read; a second one is no message."""
    image, message = IMAGES[name], MESSAGES[name]
    assert encode(message) == image + b"\0"
    for byte in range(256):
        assert decode(image + bytes([byte])) == message
    assert show_message(image + b"\xff") == show_message(image)
    with pytest.raises(DecodeError, match=r"end at offset .*: 2 bytes left over, at most 1"):
        decode(image + b"\xff\0")


@pytest.mark.spec("MS-MQCN 2.2.5")
@pytest.mark.parametrize("name", list(NAMED))
def test_the_text_of_version_2_may_end_with_a_terminator(name):
    """Decision C31: it is read, before the unused byte, and not written."""
    image, message = IMAGES[name], MESSAGES[name]
    if message.version is NotificationVersion.UPDATES:
        with pytest.raises(DecodeError, match="2 bytes left over"):
            decode(image + b"\0\0")
        return
    for behind in (b"\0\0", b"\0\0\0", b"\0\0\xff"):
        assert decode(image + behind) == message
        assert show_message(image + behind) == show_message(image)
    for behind in (b"\0\0\0\0", b"\0\xff", b"\0\0\xff\0"):
        with pytest.raises(DecodeError, match="bytes left over"):
            decode(image + behind)


@pytest.mark.parametrize("name", list(NAMED))
def test_shown_under_the_specifications_names(name):
    shown = show_message(IMAGES[name])
    assert shown.error is None
    assert to_json_value("", shown.fields) == NAMED[name]["fields"]


def attempt(data):
    """What is made of bytes, or how they are refused."""
    try:
        return decode(data), None
    except DecodeError as error:
        return None, error


@pytest.mark.parametrize("name", list(NAMED))
def test_one_byte_changed_is_refused_or_means_something_else(name):
    """Every byte counts, but the 24 of Reserved."""
    image, message = IMAGES[name], MESSAGES[name]
    reserved, at = set(), 0
    for part, digits in NAMED[name]["parts"]:
        reserved |= set(range(at, at + len(digits) // 2)) if part == "Reserved" else set()
        at += len(digits) // 2
    for at in range(len(image)):
        for flip in (0x01, 0x80, 0xFF):
            changed = image[:at] + bytes([image[at] ^ flip]) + image[at + 1 :]
            made, refused = attempt(changed)
            if refused is not None:
                assert 0 <= refused.offset <= len(image)
                assert str(show_message(changed).error) == str(refused)
                continue
            assert (made == message) is (at in reserved)


def edited(name, field, new, number=0):
    """A vector with the part of a field replaced, and that part's offset."""
    parts = NAMED[name]["parts"]
    at = [index for index, (part, _) in enumerate(parts) if part == field][number]
    before = "".join(part for _, part in parts[:at])
    return bytes.fromhex(before + new + "".join(part for _, part in parts[at + 1 :])), len(before) // 2


@pytest.mark.spec("MS-MQCN 2.2.4")
@pytest.mark.spec("MS-MQCN 2.2.6")
@pytest.mark.parametrize(
    ("name", "field", "new", "problem"),
    [
        ("updates", "Version", "00", "is 0, which is no NotificationVersion"),
        ("updates", "Version", "03", "is 3, which is no NotificationVersion"),
        ("queue-created", "NumberOfUpdateNotifications", "02", "is 2, must be 1"),
        ("queue-created", "NumberOfUpdateNotifications", "00", "is 0, must be 1"),
        ("updates", "Command", "03", "is 3, which is no NotificationCommand"),
        ("updates", "UseGuid", "02", "is 2, must be 0 or 1"),
        ("updates", "NumberOfProperties", "00", "is 0, at least 1"),
        ("updates", "PathName", "6100" * 1025 + "0000", "longer than 1024 characters"),
    ],
)
def test_refusals_name_field_and_offset(name, field, new, problem):
    image, offset = edited(name, field, new)
    with pytest.raises(DecodeError) as caught:
        decode(image)
    assert (caught.value.field, caught.value.offset, caught.value.problem) == (field, offset, problem)
    assert caught.value.section.startswith("[MS-MQCN] 2.2.")


@pytest.mark.spec("MS-MQCN 2.2.4")
@pytest.mark.parametrize(("number", "words"), [("02", "bytes left over"), ("04", "Command at offset")])
def test_the_number_of_updates_must_be_right(number, words):
    image, _ = edited("updates", "NumberOfUpdateNotifications", number)
    with pytest.raises(DecodeError, match=words):
        decode(image)


@pytest.mark.spec("MS-MQCN 2.2.2")
@pytest.mark.spec("MS-MQCN 2.2.6")
def test_properties_that_nobody_knows_or_that_come_twice():
    """Decision C11."""
    unknown, offset = edited("updates", "PropertyId", "ca000000" + "0f270000" + "d6000000", 1)
    with pytest.raises(DecodeError, match=r"PropertyId at offset .*is 9999, which we do not know") as caught:
        decode(unknown)
    assert caught.value.offset == offset + 4
    twice, offset = edited("updates", "PropertyId", "ca000000" * 2 + "d6000000", 1)
    with pytest.raises(DecodeError, match="is PROPID_QM_MACHINE_ID a second time") as caught:
        decode(twice)
    assert caught.value.offset == offset + 4
    with pytest.raises(ValueError, match="C11"):
        replace(CHANGE, properties=CHANGE.properties * 2)
    with pytest.raises(ValueError, match="C11"):
        replace(CHANGE, properties=())


@pytest.mark.spec("MS-MQCN 2.2.6")
def test_a_path_name_is_one():
    """PathName follows the rules of PROPID_Q_PATHNAME, on both sides."""
    for wrong in ("orders", "\\orders", "WEB01\\", ""):
        with pytest.raises(ValueError, match="is no path name"):
            replace(CREATION, path_name=wrong)
        image, _ = edited("updates", "PathName", (wrong + "\0").encode("utf-16-le").hex())
        with pytest.raises(DecodeError, match=r"\[MS-MQCN\] 2\.2\.6 .*is no path name"):
            decode(image)


@pytest.mark.spec("MS-MQCN 2.2.6")
def test_an_update_names_its_object_in_one_way():
    for wrong in ({"path_name": None}, {"guid_identifier": NULL_GUID}):
        with pytest.raises(ValueError, match="one of them"):
            replace(CREATION, **wrong)


@pytest.mark.spec("MS-MQCN 3.2.5.1")
def test_what_tells_the_type_of_an_object():
    """The first property; of a deletion the value of the second one."""
    assert [one.object_type for one in (CREATION, CHANGE, DELETION)] == [
        ObjectType.QUEUE,
        ObjectType.MACHINE,
        ObjectType.QUEUE,
    ]
    secured = replace(CHANGE, properties=((Propid.QM_SECURITY, b""), (Propid.Q_LABEL, "x")))
    assert (int(Propid.QM_SECURITY), secured.object_type) == (1201, ObjectType.MACHINE)
    assert secured.get(Propid.Q_LABEL) == "x"
    assert secured.get(Propid.Q_QUOTA) is None
    for number, kind in ((2, ObjectType.MACHINE), (0, None), (200, None)):
        pairs = (DELETION.properties[0], (Propid.D_OBJTYPE, number))
        assert replace(DELETION, properties=pairs).object_type is kind
    assert replace(DELETION, properties=DELETION.properties[:1]).object_type is None
    assert replace(DELETION, properties=CHANGE.properties).object_type is None


@pytest.mark.spec("MS-MQCN 2.2.2.1")
def test_the_constants_of_properties():
    """Name and number as printed; each can be sent."""
    printed = {
        "Q_ADS_PATH": 126,
        "Q_AUTHENTICATE": 111,
        "Q_BASEPRIORITY": 106,
        "Q_CREATE_TIME": 109,
        "Q_INSTANCE": 101,
        "Q_JOURNAL": 104,
        "Q_JOURNAL_QUOTA": 107,
        "Q_LABEL": 108,
        "Q_MODIFY_TIME": 110,
        "Q_MULTICAST_ADDRESS": 125,
        "Q_PATHNAME": 103,
        "Q_PRIV_LEVEL": 112,
        "Q_SCOPE": 114,
        "Q_QMID": 115,
        "Q_QUOTA": 105,
        "Q_SECURITY": 1101,
        "Q_TRANSACTION": 113,
        "Q_TYPE": 102,
        "QM_CNS": 207,
        "QM_FOREIGN": 219,
        "QM_JOURNAL_QUOTA": 215,
        "QM_SITE_ID": 201,
        "QM_MACHINE_ID": 202,
        "QM_ADDRESS": 206,
        "QM_QUOTA": 214,
        "QM_MACHINE_TYPE": 216,
        "QM_MODIFY_TIME": 218,
        "QM_OS": 220,
        "QM_SECURITY": 1201,
        "D_SCOPE": 1403,
        "D_OBJTYPE": 1404,
    }
    assert {name: int(Propid[name]) for name in printed} == printed
    values = {
        **dict.fromkeys(("VT_UI1", "VT_UI2", "VT_UI4", "VT_I2", "VT_I4"), 7),
        **dict.fromkeys(("VT_BLOB", "VT_VECTOR|VT_UI1"), b"7"),
        "VT_LPWSTR": "7",
        "VT_CLSID": QUEUE,
        "VT_VECTOR|VT_CLSID": (QUEUE, TYPE),
    }
    update = replace(
        CHANGE,
        properties=tuple((PROPIDS[number], values[PROPIDS[number].variant]) for number in printed.values()),
    )
    message = NotificationUpdates(updates=(update,))
    assert decode(encode(message)) == message


@pytest.mark.spec("MS-MQCN 1.9")
def test_the_queue_for_notifications():
    """NOTIFY_QUEUE_PRIVATE."""
    queue = PrivateFormatName(MACHINE.uuid, NOTIFICATION_QUEUE_NUMBER)
    assert str(queue) == f"PRIVATE={str(MACHINE).upper()}\\3"


@pytest.mark.spec("MS-MQCN 2.2.4")
def test_no_more_updates_than_a_byte_can_count():
    message = NotificationUpdates(updates=(DELETION,) * 255)
    image = encode(message)
    assert image[1] == 255
    assert decode(image) == message
    assert len(image) == 2 + 255 * update_bytes(DELETION) + 1
    with pytest.raises(ValueError, match="NumberOfUpdateNotifications: is 256, at most 255"):
        encode(NotificationUpdates(updates=(DELETION,) * 256))


@pytest.mark.spec("MS-MQCN 2.2.6")
def test_no_more_properties_than_a_byte_can_count():
    """Two properties alike are refused before the codec, so the count is met from below."""
    update = replace(CHANGE)
    many = tuple((list(Propid)[number % len(Propid)], 1) for number in range(256))
    object.__setattr__(update, "properties", many)
    with pytest.raises(ValueError, match="NumberOfProperties: is 256, at most 255"):
        NOTIFICATION_UPDATE.encode(update)


def test_messages_are_no_longer_than_msmq_carries_them():
    """Decision C12."""
    big = replace(CHANGE, properties=((Propid.QM_SECURITY, bytes(2**20)),))
    message = NotificationUpdates(updates=(big,) * 3)
    assert decode(encode(message)) == message
    with pytest.raises(ValueError, match=f"at most {MESSAGE_BYTES_MAX}"):
        encode(NotificationUpdates(updates=(big,) * 4))
    with pytest.raises(DecodeError, match=f"has more than {MESSAGE_BYTES_MAX} bytes"):
        decode(b"\x01" + bytes(MESSAGE_BYTES_MAX))


@pytest.mark.spec("MS-MQCN 5.1")
@pytest.mark.parametrize(
    "image",
    [
        b"\x01\xff" + bytes(3_000_000),
        b"\x01\xff" + b"\x00\x00" + b"a\0" * 1_000_000,
        b"\x01\x01\x02\x01" + bytes(56) + b"\x01" + (1201).to_bytes(4, "little") + b"\xff" * 1_000_000,
        b"\x02\x01" + b"<\0" * 1_000_000,
    ],
    ids=["zeros", "long name", "promised blob", "long body"],
)
def test_refusing_costs_no_memory(image):
    tracemalloc.start()
    with pytest.raises(DecodeError):
        decode(image)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000


def test_accepting_costs_memory_in_proportion():
    every = tuple((one, 7) for one in Propid if one.variant == "VT_UI1")
    image = encode(NotificationUpdates(updates=(replace(CHANGE, properties=every),) * 255))
    tracemalloc.start()
    made = decode(image)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(made.updates) == 255
    assert peak < MEMORY_TIMES_MAX * len(image)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"guid_master_id": b"short"}, "GuidMasterId: b'short' is no GUID packet"),
        ({"path_name": "a\\b\0"}, "contains NUL"),
        ({"path_name": "a\\" + "b" * 1023}, "PathName: has 1025 characters, at most 1024"),
        ({"command": 3}, "Command: 3 is not a valid NotificationCommand"),
        ({"properties": ((9999, 1),)}, "PropertyId: is 9999"),
        ({"properties": ((Propid.Q_LABEL, 7),)}, "PropertyValue PROPID_Q_LABEL"),
    ],
)
def test_what_cannot_be_read_back_is_not_sent(wrong, problem):
    with pytest.raises(ValueError, match=problem):
        encode(NotificationUpdates(updates=(replace(CREATION, **wrong),)))


@pytest.mark.parametrize(("field", "value"), [("event", 5), ("object_guid", b"short")])
def test_a_body_that_cannot_be_read_back_is_not_sent(field, value):
    with pytest.raises(ValueError, match=r"\[MS-MQCN\] 2\.2\.5"):
        encode(replace(MESSAGES["queue-created"], **{field: value}))


def test_what_is_no_message_is_not_sent():
    with pytest.raises(TypeError, match="is no Change Notification Message"):
        encode(CREATION)


def test_nothing_and_half_a_header():
    for data in (b"", b"\x01", b"\x02"):
        with pytest.raises(DecodeError, match="left"):
            decode(data)
        assert show_message(data).error is not None
