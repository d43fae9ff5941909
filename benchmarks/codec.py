"""Encoding and decoding a directory change: [codec]."""

import timeit
from typing import Any, Final

from benchmarks.harness import Goal, Outcome, Skipped, interleaved
from benchmarks.world import World
from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, DirectoryChange
from mqdssm.model.propids import Propid, Variant
from mqdssm.model.seqnum import SequenceNumber
from mqdssm.wire.mqdsrp import DIRECTORY_CHANGE

BATCH: Final = 2_000
"""Changes that are encoded and decoded in one run."""

CODEC: Final = Goal(
    name="codec",
    title="encoding and decoding the DirectoryChange that creates a queue, 16 properties, 383 bytes",
    against="the same layout in construct, the faster of its two forms",
    goal=5,
    direction="at_least",
)


def _guid(number: int) -> Guid:
    return Guid(bytes(range(number, number + 16)))


TYPICAL: Final = DirectoryChange(
    command=Command.CREATE,
    path_name="web01\\orders",
    partition_id=_guid(1),
    previous_seq_number=SequenceNumber(41_233),
    seq_number=SequenceNumber(41_234),
    purged_seq_number=SequenceNumber(40_000),
    properties=(
        (Propid.Q_PATHNAME, "web01\\orders"),
        (Propid.Q_INSTANCE, _guid(2)),
        (Propid.Q_TYPE, _guid(3)),
        (Propid.Q_JOURNAL, 0),
        (Propid.Q_QUOTA, 0xFFFF_FFFF),
        (Propid.Q_BASEPRIORITY, -1),
        (Propid.Q_JOURNAL_QUOTA, 0xFFFF_FFFF),
        (Propid.Q_LABEL, "Orders of the web shop"),
        (Propid.Q_CREATE_TIME, 1_100_000_000),
        (Propid.Q_MODIFY_TIME, 1_100_000_000),
        (Propid.Q_AUTHENTICATE, 0),
        (Propid.Q_PRIV_LEVEL, 1),
        (Propid.Q_TRANSACTION, 1),
        (Propid.Q_SCOPE, 1),
        (Propid.Q_QMID, _guid(4)),
        (Propid.Q_SECURITY, bytes(range(100))),
    ),
)
"""What the creation of a queue sends."""


def construct_layout() -> Any:
    """DirectoryChange ([MC-MQDSRP] 2.2.4) as construct's users would declare it.

    It is given what it is good at: GUIDs and sequence numbers stay bytes, where ours are a type each.

    Raises:
        Skipped: construct is not installed.
    """
    try:
        import construct as c
    except ImportError:
        raise Skipped("codec: construct is not installed") from None
    values = {
        Variant.UI1: c.Int8ul,
        Variant.UI2: c.Int16ul,
        Variant.UI4: c.Int32ul,
        Variant.I2: c.Int16sl,
        Variant.I4: c.Int32sl,
        Variant.LPWSTR: c.CString("utf_16_le"),
        Variant.CLSID: c.Bytes(16),
        Variant.BLOB: c.Prefixed(c.Int32ul, c.GreedyBytes),
        Variant.BYTES: c.Prefixed(c.Int32ul, c.GreedyBytes),
        Variant.CLSIDS: c.PrefixedArray(c.Int32ul, c.Bytes(16)),
        Variant.LPWSTRS: c.PrefixedArray(c.Int32ul, c.CString("utf_16_le")),
    }
    value = c.Switch(
        lambda ctx: ctx.PropertyID[ctx["_index"]], {int(one): values[one.variant] for one in Propid}
    )
    return c.Struct(
        "Command" / c.Int8ul,
        "UseGuid" / c.Int8ul,
        "PathName" / c.If(c.this.UseGuid == 0, c.CString("utf_16_le")),
        "GuidIdentifier" / c.If(c.this.UseGuid == 1, c.Bytes(16)),
        "PartitionID" / c.Bytes(16),
        "PreviousSeqNumber" / c.Bytes(8),
        "SeqNumber" / c.Bytes(8),
        "PurgedSeqNumber" / c.Bytes(8),
        "NumberOfProperties" / c.Int8ul,
        "PropertyID" / c.Array(c.this.NumberOfProperties, c.Int32ul),
        "PropertyValue" / c.Array(c.this.NumberOfProperties, value),
    )


def construct_value(change: DirectoryChange) -> dict[str, Any]:
    """A change as construct's layout takes it."""
    return {
        "Command": int(change.command),
        "UseGuid": int(change.guid_identifier is not None),
        "PathName": change.path_name,
        "GuidIdentifier": change.guid_identifier,
        "PartitionID": bytes(change.partition_id),
        "PreviousSeqNumber": bytes(change.previous_seq_number),
        "SeqNumber": bytes(change.seq_number),
        "PurgedSeqNumber": bytes(change.purged_seq_number),
        "NumberOfProperties": len(change.properties),
        "PropertyID": [int(one) for one, _ in change.properties],
        "PropertyValue": [value for _, value in change.properties],
    }


def faster_form(layout: Any, image: bytes, made: dict[str, Any]) -> Any:
    """The layout as it is, or compiled by construct where that works and is faster."""

    def seconds(form: Any) -> float:
        return min(timeit.repeat(lambda: form.build(form.parse(image)), number=100, repeat=3))

    try:
        compiled = layout.compile()
        if compiled.build(made) != image or compiled.parse(image) != layout.parse(image):
            return layout
    except Exception:  # noqa: BLE001  what construct cannot compile it says in many ways
        return layout
    return min((layout, compiled), key=seconds)


def codec(world: World | None, *, quick: bool) -> Outcome:
    """Encode and decode the same change on both sides; the directory is not needed."""
    del world
    image, made = DIRECTORY_CHANGE.encode(TYPICAL), construct_value(TYPICAL)
    layout = construct_layout()
    if layout.build(made) != image or DIRECTORY_CHANGE.decode(image) != TYPICAL:
        raise AssertionError("the two layouts are not the same")
    theirs_layout = faster_form(layout, image, made)
    batch = BATCH // 10 if quick else BATCH

    def ours() -> None:
        encode, decode = DIRECTORY_CHANGE.encode, DIRECTORY_CHANGE.decode
        for _ in range(batch):
            decode(encode(TYPICAL))

    def theirs() -> None:
        build, parse = theirs_layout.build, theirs_layout.parse
        for _ in range(batch):
            parse(build(made))

    return interleaved(ours, theirs, 3 if quick else 15).speed(CODEC, batch, "changes")


ROWS: Final = {CODEC: codec}
