"""Replication messages as bytes ([MC-MQDSRP] 2.2).

All numbers are little-endian, except sequence numbers.

:func:`encode` and :func:`decode` convert the bodies of messages; the layouts also serve tests and programs
that show a message.
"""

from collections.abc import Mapping
from typing import Any, Final

from mqdssm.errors import DecodeError
from mqdssm.model import messages as msg
from mqdssm.wire.codecs import BOOL8, GUID_PACKET, SEQUENCE_NUMBER, U8, U16, U32, Text16Z, enum_of
from mqdssm.wire.fields import Const, Count, Flag, Group, Items, Nested, Value, group, unless, when
from mqdssm.wire.layout import Layout, encode_one
from mqdssm.wire.propvalue import VALUE_BYTES_MAX, properties
from mqdssm.wire.show import Shown, show, show_header

MESSAGE_BYTES_MAX: Final = VALUE_BYTES_MAX
"""Longest message: an MSMQ message carries at most 4 MiB (decision R24)."""
MACHINE_NAME: Final = Text16Z(256)
"""Machine name: at most 256 characters ([MC-MQDSRP] 3.1.1.2.1)."""
PATH_NAME: Final = Text16Z(1_024)
"""Path name of an object; no document gives a limit (decision R24)."""
PROPERTIES_MAX: Final = 255
"""Most properties of a change: NumberOfProperties is one byte (decision R18)."""
CHANGES_MAX: Final = 65_535
"""Most changes of a message: Count is two bytes in a ChangePropagationMessage (decision R18)."""
_OPERATION_AT: Final = 17  # behind Version and SiteID


PARTITION_SEQ_NUMBERS: Final = Layout(
    msg.PartitionSeqNumbers,
    "[MC-MQDSRP] 2.2.3",
    Value("partition_id", GUID_PACKET, "PartitionID"),
    Value("last_seq_number", SEQUENCE_NUMBER, "LastSeqNumber"),
    Value("purged_seq_number", SEQUENCE_NUMBER, "PurgedSeqNumber"),
)

DIRECTORY_CHANGE: Final = Layout(
    msg.DirectoryChange,
    "[MC-MQDSRP] 2.2.4",
    Value("command", enum_of(U8, msg.Command), "Command"),
    Flag("guid_identifier", U8, "UseGuid"),
    unless("guid_identifier", Value("path_name", PATH_NAME, "PathName")),
    when("guid_identifier", Value("guid_identifier", GUID_PACKET, "GuidIdentifier")),
    Value("partition_id", GUID_PACKET, "PartitionID"),
    Value("previous_seq_number", SEQUENCE_NUMBER, "PreviousSeqNumber"),
    Value("seq_number", SEQUENCE_NUMBER, "SeqNumber"),
    Value("purged_seq_number", SEQUENCE_NUMBER, "PurgedSeqNumber"),
    Count("properties", U8, "NumberOfProperties", low=1, high=PROPERTIES_MAX),  # decision R19
    properties("properties"),
)

_SITE_ID: Final = Value("site_id", GUID_PACKET, "SiteID")

BASE_REPLICATION_HEADER: Final = Layout(
    msg.BaseReplicationHeader,
    "[MC-MQDSRP] 2.2.5.1",
    Const("Version", U8, msg.VERSION),
    _SITE_ID,
    Value("operation", enum_of(U8, msg.Operation), "Operation"),
)

SEQ_NUMBER_HEADER: Final = Layout(
    msg.SeqNumberHeader,
    "[MC-MQDSRP] 2.2.5.4",
    Count("partition_seq_numbers", U16, "Count"),
    when(
        "partition_seq_numbers",
        Value("machine_name", MACHINE_NAME, "MachineName"),
        Items("partition_seq_numbers", Nested(PARTITION_SEQ_NUMBERS), "PartitionSeqNumbers"),
    ),
)


def _make_header(message: type[msg.ReplicationMessage]) -> Group:
    """Make the BaseReplicationHeader of a kind of messages ([MC-MQDSRP] 2.2.5.1)."""
    return group(
        "BaseReplicationHeader",
        Const("Version", U8, msg.VERSION),
        _SITE_ID,
        Const("Operation", enum_of(U8, msg.Operation), message.operation),
    )


def _name_units(message: msg.ChangeRequestMessage) -> int:
    """Return the offset of PSCName in WCHARs, from the beginning of RequesterName.

    See [MC-MQDSRP] 2.2.5.2.
    """
    return len(MACHINE_NAME.write(message.requester_name)) // 2


CHANGE_REQUEST: Final = Layout(
    msg.ChangeRequestMessage,
    "[MC-MQDSRP] 2.2.6.2",
    group(
        "ChangeRequestHeader",  # 2.2.5.2
        _make_header(msg.ChangeRequestMessage),
        Value("partition_id", GUID_PACKET, "PartitionID"),
        Value("request_identifier", U32, "RequestIdentifier"),
        Flag("psc_name", U32, "PSCNameOffset", yes=_name_units),
        Value("requester_name", MACHINE_NAME, "RequesterName"),
        when("psc_name", Value("psc_name", MACHINE_NAME, "PSCName")),
    ),
    Value("directory_change", Nested(DIRECTORY_CHANGE), "DirectoryChange"),
)

CHANGE_REPLY: Final = Layout(
    msg.ChangeReplyMessage,
    "[MC-MQDSRP] 2.2.6.3",
    _make_header(msg.ChangeReplyMessage),
    Value("request_identifier", U32, "RequestIdentifier"),
    Value("result", U32, "Result"),
    Value("requester_name", MACHINE_NAME, "RequesterName"),
)

SYNC_REQUEST: Final = Layout(
    msg.SyncRequestMessage,
    "[MC-MQDSRP] 2.2.6.4",
    _make_header(msg.SyncRequestMessage),
    Value("partition_id", GUID_PACKET, "PartitionID"),
    Value("from_seq_number", SEQUENCE_NUMBER, "FromSeqNumber"),
    Value("to_seq_number", SEQUENCE_NUMBER, "ToSeqNumber"),
    Value("known_purged_seq_number", SEQUENCE_NUMBER, "KnownPurgedSeqNumber"),
    Value("is_sync0", BOOL8, "IsSync0"),
    Value("scope", enum_of(U8, msg.Scope), "Scope"),
    Value("requester_name", MACHINE_NAME, "RequesterName"),
)

SYNC_REPLY: Final = Layout(
    msg.SyncReplyMessage,
    "[MC-MQDSRP] 2.2.6.5",
    group(
        "SyncReplyHeader",  # 2.2.5.3
        _make_header(msg.SyncReplyMessage),
        Value("partition_id", GUID_PACKET, "PartitionID"),
        Value("from_seq_number", SEQUENCE_NUMBER, "FromSeqNumber"),
        Value("to_seq_number", SEQUENCE_NUMBER, "ToSeqNumber"),
        Value("purged_seq_number", SEQUENCE_NUMBER, "PurgedSeqNumber"),
        Count("directory_changes", U32, "Count", high=CHANGES_MAX),
        Value("complete_sync0", enum_of(U32, msg.CompleteSync0), "CompleteSync0"),
    ),
    Items("directory_changes", Nested(DIRECTORY_CHANGE), "DirectoryChanges"),
)

BSC_ACK: Final = Layout(
    msg.BSCAckMessage,
    "[MC-MQDSRP] 2.2.6.6",
    _make_header(msg.BSCAckMessage),
    Value("bsc_machine_id", GUID_PACKET, "BSCMachineID"),
    Value("bsc_name", MACHINE_NAME, "BSCName"),
)

PSC_ACK: Final = Layout(
    msg.PSCAckMessage,
    "[MC-MQDSRP] 2.2.6.7",
    _make_header(msg.PSCAckMessage),
    Value("psc_site_id", GUID_PACKET, "PSCSiteID"),
    Value("acked_partition_id", GUID_PACKET, "AckedPartitionID"),
    Value("acked_seq_number", SEQUENCE_NUMBER, "AckedSeqNumber"),
    Value("psc_name", MACHINE_NAME, "PSCName"),
)

ALREADY_PURGED: Final = Layout(
    msg.AlreadyPurgedMessage,
    "[MC-MQDSRP] 2.2.6.8",
    _make_header(msg.AlreadyPurgedMessage),
    Value("partition_id", GUID_PACKET, "PartitionID"),
    Value("purged_seq_number", SEQUENCE_NUMBER, "PurgedSeqNumber"),
)

CHANGE_PROPAGATION: Final = Layout(
    msg.ChangePropagationMessage,
    "[MC-MQDSRP] 2.2.6.9",
    _make_header(msg.ChangePropagationMessage),
    Value("flush", BOOL8, "Flush"),
    Count("directory_changes", U16, "Count", high=CHANGES_MAX),
    Items("directory_changes", Nested(DIRECTORY_CHANGE), "DirectoryChanges"),
    Value("seq_number_header", Nested(SEQ_NUMBER_HEADER), "SeqNumberHeader"),
)

LAYOUTS: Final[Mapping[int, Layout[Any]]] = {
    int(layout.cls.operation): layout
    for layout in (
        CHANGE_PROPAGATION,
        CHANGE_REQUEST,
        SYNC_REQUEST,
        SYNC_REPLY,
        CHANGE_REPLY,
        ALREADY_PURGED,
        PSC_ACK,
        BSC_ACK,
    )
}
"""Layout of each message by its Operation."""
_OF_CLASS: Final[Mapping[type, Layout[Any]]] = {layout.cls: layout for layout in LAYOUTS.values()}


def layout_of(data: bytes) -> Layout[Any]:
    """Return the layout of a message by its header.

    Raises:
        DecodeError: another version, an unknown operation, an incomplete header, or too long a message.
    """
    if len(data) > MESSAGE_BYTES_MAX:
        raise DecodeError("[MC-MQDSRP] 2.2.6", "message", 0, f"has more than {MESSAGE_BYTES_MAX} bytes")
    layout = LAYOUTS.get(data[_OPERATION_AT]) if len(data) > _OPERATION_AT else None
    if layout is None or data[0] != msg.VERSION:
        # this always raises the error: headers that it accepts have a layout
        header, _ = BASE_REPLICATION_HEADER.read(data, 0, len(data))
        return LAYOUTS[header.operation]
    return layout


def decode(data: bytes) -> msg.ReplicationMessage:
    """Decode the body of a replication message ([MC-MQDSRP] 2.2.6).

    Raises:
        DecodeError: with section, field, offset and problem.
    """
    data = bytes(data)
    message: msg.ReplicationMessage = layout_of(data).decode(data)
    return message


def encode(message: msg.ReplicationMessage) -> bytes:
    """Encode a replication message, as the body of an MSMQ message.

    Raises:
        ValueError: naming the field that cannot be encoded (more than 255 properties or 65,535 changes:
            decision R18), or for a message longer than `MESSAGE_BYTES_MAX`.
        TypeError: not a replication message.
    """
    return encode_one(_OF_CLASS, message, called="replication message", bytes_max=MESSAGE_BYTES_MAX)


def show_message(data: bytes) -> Shown:
    """Read a replication message's body field by field, as far as possible."""
    try:
        layout = layout_of(data)
    except DecodeError as error:
        return show_header(BASE_REPLICATION_HEADER, data, error, name="BaseReplicationHeader")
    return show(layout, data)
