"""Structures field by field, as far as their bytes can be read.

Names are those of the specification.

For people who read a message: the fields that a layout decodes into objects, the fields that it drops
(counts, flags, reserved fields), and of damaged bytes all fields before the damage.
"""

import struct
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from mqdssm.errors import DecodeError
from mqdssm.model.guid import Guid
from mqdssm.model.propids import PREFIX
from mqdssm.model.seqnum import SEQUENCE_NUMBER_BYTES, SequenceNumber
from mqdssm.wire.codecs import finish, need
from mqdssm.wire.fields import (
    AnyCodec,
    Bits,
    Bytes,
    ByteSize,
    Count,
    Fixed,
    Flag,
    Items,
    Keyed,
    Nested,
    Select,
    Text16,
    Value,
    label,
)
from mqdssm.wire.layout import Layout
from mqdssm.wire.plan import FieldRun, choose_scalar, size_of
from mqdssm.wire.structure_reader import StructureReader

SEQUENCE_SUFFIX: Final = "_SEQNUM"
"""Suffix of the names of properties whose bytes are a sequence number ([MS-MQMQ] 2.3.1.17 and others)."""

Tree: TypeAlias = dict[str, Any]
"""Fields by the specification's names, in their order: values, trees, or lists of either."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Readable fields of a structure, [MC-MQDSRP] 2.2.6 and any other.

    Attributes:
        fields: the structure's fields, groups and inner structures within.
        error: reason why reading ended early; None: it did not.
    """

    fields: Tree
    error: DecodeError | None


@dataclass(slots=True)
class _Tracer(StructureReader):
    """Reader that decodes like the interpreted form, and keeps each valid field."""

    fields: Tree = field(default_factory=dict)
    _keep: Callable[[str, Any], None] | None = None

    def keep(self, name: str, value: Any) -> None:
        """Put a field into its list or its groups."""
        if self._keep is not None:
            self._keep(name, value)
            return
        *headers, leaf = name.split(".")
        into = self.fields
        for group in (*self.layout.groups.get(name, ()), *headers):
            into = into.setdefault(group, {})
        into[leaf] = value

    def run(self, run: FieldRun) -> None:
        """Decode neighbouring fields of fixed size.

        If they are cut off, those before the cut are kept.
        """
        at, end = self.offset, self.end
        if run.size > end - at:
            with suppress(DecodeError):  # the error is raised below
                for slot in run.slots:
                    packer = struct.Struct(f"<{choose_scalar(slot).code}")
                    need(self.layout.section, label(slot), at, packer.size, end)
                    (raw,) = packer.unpack_from(self.data, at)
                    self.slot(slot, raw, at)
                    at += packer.size
            self.end = end
        StructureReader.run(self, run)

    def slot(self, slot: Fixed, raw: Any, at: int) -> None:
        """Decode one number, and keep it."""
        StructureReader.slot(self, slot, raw, at)
        match slot:
            case Value():
                value = self.values[slot.name]
            case Count() | ByteSize() | Flag() | Select():
                value = self.numbers[slot.name]
            case Bits():
                return  # its parts are kept
            case _:
                value = self.load(slot.codec, label(slot), raw, at)
        self.keep(label(slot), value)

    def one(self, codec: AnyCodec, name: str) -> Any:
        """Decode one value, and keep it; of a structure keep the readable fields."""
        if not isinstance(codec, Nested):
            value = StructureReader.one(self, codec, name)
            self.keep(name, value)
            return value
        inner = _Tracer(codec.layout, self.data, self.offset, self.end)
        self.keep(name, inner.fields)
        value, self.offset = inner.read()
        return value

    def cut(self, codec: AnyCodec, name: str, least: int) -> None:
        """Keep the readable values if they need more bytes than are left."""
        at = self.offset
        if least > self.end - at:
            with suppress(DecodeError):  # the error about all of them is raised later
                while True:
                    self.one(codec, name)
        self.offset = at

    def items(self, step: Items) -> None:
        """Decode the elements of a tuple into a list."""
        items: list[Any] = []
        self.keep(label(step), items)
        self._keep = lambda _, value: items.append(value)
        self.cut(step.codec, label(step), self.numbers.get(step.name, 0) * size_of(step.codec))
        StructureReader.items(self, step)
        self._keep = None

    def keyed(self, step: Keyed) -> None:
        """Decode all keys into a list, then the values under the names of their keys."""
        keys: list[str] = []
        values: Tree = {}
        self.keep(step.spec_key or step.name, keys)
        self.keep(label(step), values)

        def keep(name: str, value: Any) -> None:
            if name.startswith(label(step)):
                values[name.removeprefix(label(step)).strip()] = value
            else:
                keys.append(step.key_name(value))

        self._keep = keep
        self.cut(step.key, step.spec_key or step.name, self.numbers[step.name] * step.key.size)
        StructureReader.keyed(self, step)
        self._keep = None

    def body(self, step: Bytes | Text16) -> None:
        """Decode bytes or text, and keep them."""
        StructureReader.body(self, step)
        self.keep(label(step), self.values[step.name])


def show(layout: Layout[Any], data: bytes) -> Shown:
    """Read bytes that hold one structure, as far as they can be read.

    The structures are those of [MC-MQDSRP] 2.2.6 and any other.
    """
    data = bytes(data)
    tracer = _Tracer(layout, data, 0, len(data))
    try:
        _, end = tracer.read()
        finish(layout.section, end, len(data))
    except DecodeError as error:
        return Shown(tracer.fields, error)
    return Shown(tracer.fields, None)


def show_header(layout: Layout[Any], data: bytes, error: DecodeError, *, name: str | None = None) -> Shown:
    """Read only the header, of bytes that no layout can decode.

    The headers are those of [MC-MQDSRP] 2.2.6 and any other.

    Args:
        layout: layout of the header.
        data: the bytes, which begin with the header or its beginning.
        error: reason why no layout can decode them.
        name: name of the header among the fields of a message; None: its fields stand alone.
    """
    header = show(layout, data).fields  # bytes behind the header are an error, which drops no field
    return Shown({name: header} if name and header else header, error)


def to_json_value(name: str, value: Any) -> Any:
    """Convert a field for JSON.

    GUIDs become text ([MS-DTYP] 2.3.4.3), other bytes become base64.

    Args:
        name: name of the field; it tells which bytes are a sequence number.
        value: a value of a tree, or a tree.
    """
    if isinstance(value, Mapping):
        return {key: to_json_value(key, item) for key, item in value.items()}
    if isinstance(value, Guid):
        return str(value)
    if isinstance(value, bytes):
        number = read_sequence_number(name, value)
        return b64encode(value).decode() if number is None else int(number)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json_value(name, item) for item in value]
    return value


def read_sequence_number(name: str, value: bytes) -> SequenceNumber | None:
    """Return the sequence number in a property's bytes ([MC-MQDSRP] 2.2.2).

    The property is known by its name. None if it is not a sequence number.
    """
    is_one = name.startswith(PREFIX) and name.endswith(SEQUENCE_SUFFIX)
    if not is_one or len(value) != SEQUENCE_NUMBER_BYTES:
        return None
    return SequenceNumber.unpack(value)
