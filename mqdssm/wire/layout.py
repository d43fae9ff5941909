"""Declared binary layouts: a dataclass, a section and the fields in their order.

For example::

    SERVER_REPLY: Final = Layout(
        TopologyServerReply,
        "[MS-MQSD] 2.2.3",
        Ignored("Version", U8),
        Const("Type", U8, 0x02),
        Ignored("Reserved", U16),
        Value("correlation_id", GUID, "CorrelationID"),
        Count("networks", U32, "ConnectedNetworkCount", low=1, high=32),
        ...
        Items("networks", GUID, "ConnectedNetworkArray"),
        when("servers", Value("site", GUID, "RespondingSiteID"), Text16("servers")),
    )

A layout is checked when it is made (at import): every field of the dataclass is laid out exactly once, every
size and count stands before its field, every optional field has a default. Then it is compiled to Python
source, which decodes and encodes. If that code cannot decode, the interpreted form of the same declaration
explains the refusal. Lengths are strict: short, long, oversized or inconsistent data is a DecodeError, the
only error of `decode`. Objects that cannot be encoded are the caller's mistake: a ValueError that names the
field.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from mqdssm.wire import structure_reader
from mqdssm.wire.codecs import finish
from mqdssm.wire.fields import Bytes, Declared, Text16, label
from mqdssm.wire.plan import Branch, LayoutPlan, Step, flatten_fields, list_fields, make_plan
from mqdssm.wire.source import compile_source, make_source

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Layout(Generic[T]):
    """Binary layout of the objects of one dataclass.

    Attributes:
        cls: the dataclass.
        section: section of the specification, as ``[MS-MQSD] 2.2.3``.
        least: size of the shortest structure in bytes.
        groups: for fields in groups, by their name in errors, the groups' names from the outermost.
        source: the generated Python source, for reading.

    Raises:
        TypeError: when the declaration contradicts itself or the dataclass.
    """

    def __init__(self, cls: type[T], section: str, *declared: Declared) -> None:
        self.cls: Final = cls
        self.section: Final = section
        fields = tuple(flatten_fields(declared))
        self.plan: Final[LayoutPlan] = make_plan(cls, section, [field for field, _ in fields])
        self.groups: Final = {
            label(leaf): path for field, path in fields if path for leaf, _ in list_fields([field])
        }
        self.bodies: Final = _find_bodies(self.plan.steps)
        self.least: Final = self.plan.least
        self.source, namespace = make_source(self)
        compiled = compile_source(f"<layout of {section} {cls.__name__}>", self.source, namespace)
        self._read: Final[Callable[[bytes, int, int], tuple[T, int]]] = compiled["read"]
        self._write: Final[Callable[[T], bytes]] = compiled["write"]

    def __repr__(self) -> str:
        return f"<Layout of {self.section} {self.cls.__name__}>"

    def decode(self, data: bytes) -> T:
        """Decode bytes that hold one structure and nothing else.

        Raises:
            DecodeError: with section, field, offset and problem.
        """
        data = bytes(data)
        structure, end = self.read(data, 0, len(data))
        finish(self.section, end, len(data))
        return structure

    def read(self, data: bytes, offset: int, end: int) -> tuple[T, int]:
        """Decode the structure at `offset`; return the object and the offset behind it.

        Raises:
            DecodeError: when it is wrong or does not fit before `end`.
        """
        try:
            return self._read(data, offset, end)
        except ValueError:
            pass  # the interpreted form explains it
        structure_reader.read(self, data, offset, end)
        raise AssertionError(f"{self!r}: compiled and interpreted form disagree")

    def encode(self, structure: T) -> bytes:
        """Encode an object.

        Raises:
            ValueError: naming the field that cannot be encoded.
            TypeError: when it is no object of this layout's class.
        """
        return self._write(structure)


def _find_bodies(steps: tuple[Step, ...]) -> dict[str, Any]:
    """Find the text and byte fields by name."""
    bodies: dict[str, Any] = {}
    for step in steps:
        if isinstance(step, Branch):
            bodies.update(_find_bodies(step.steps))
        elif isinstance(step, Bytes | Text16):
            bodies[step.name] = step
    return bodies


def encode_one(
    layouts: Mapping[type, Layout[Any]], message: object, *, called: str, bytes_max: int, behind: bytes = b""
) -> bytes:
    """Encode a message by the layout of its class.

    See [MC-MQDSRP] 2.2.6, [MS-MQCN] 2.2.4 and [MS-MQSD] 2.2.

    Args:
        layouts: the layout of each class.
        message: the message.
        called: name of this family of messages, for the error.
        bytes_max: largest size in bytes.
        behind: bytes behind the message, which count.

    Raises:
        ValueError: naming the field that cannot be encoded, or for a message that is too long.
        TypeError: not a message of this family.
    """
    layout = layouts.get(type(message))
    if layout is None:
        raise TypeError(f"{message!r} is no {called}")
    data = layout.encode(message) + behind
    if len(data) > bytes_max:
        raise ValueError(f"{layout.section}: has {len(data)} bytes, at most {bytes_max}")
    return data
