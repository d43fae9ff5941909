"""Fields of a declared layout: their kinds and their order in a structure.

Each field has the name of a dataclass field (`name`), or only a name in the specification (`spec`), which
errors print.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from mqdssm.wire.codecs import Codec, Scalar

if TYPE_CHECKING:
    from mqdssm.wire.layout import Layout


class FieldError(ValueError):
    """Error of a dataclass's `__post_init__` about one of its fields.

    The error has the dataclass's own name of the field.
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Nested:
    """The codec of a structure inside another one."""

    layout: "Layout[Any]"

    @property
    def least(self) -> int:
        """Size of the shortest structure in bytes."""
        return self.layout.least


AnyCodec: TypeAlias = Scalar | Nested | Codec


@dataclass(frozen=True, slots=True)
class Value:
    """A field of the dataclass, unconverted; `low` and `high` are inclusive."""

    name: str
    codec: AnyCodec
    spec: str = ""
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Const:
    """A field of the specification that has one legal value."""

    spec: str
    codec: Scalar
    value: Any


@dataclass(frozen=True, slots=True)
class Ignored:
    """A field of the specification that is sent as `send` and ignored when received."""

    spec: str
    codec: Scalar
    send: Any = 0


@dataclass(frozen=True, slots=True)
class Count:
    """The number of elements of the tuple `name`."""

    name: str
    codec: Scalar
    spec: str = ""
    low: int = 0
    high: int | None = None


@dataclass(frozen=True, slots=True)
class ByteSize:
    """The size of `name` in bytes, or of a text in units of `unit` bytes.

    The NUL of a text is included.
    """

    name: str
    codec: Scalar
    spec: str = ""
    low: int = 0
    high: int | None = None
    unit: int = 1


@dataclass(frozen=True, slots=True)
class Flag:
    """Number that says if `name` is present (is not None).

    The number is 0, or `yes`, or `yes(object)`.
    """

    name: str
    codec: Scalar
    spec: str = ""
    yes: int | Callable[[Any], int] = 1


@dataclass(frozen=True, slots=True)
class Select:
    """A number that selects the form of `name`, a `Choice`."""

    name: str
    codec: Scalar
    spec: str = ""


@dataclass(frozen=True, slots=True)
class TotalSize:
    """The number of bytes of the whole structure, this field included.

    Attributes:
        spec: the specification's name.
        codec: codec of the number.
        high: largest number of bytes.
        uncounted: name of an optional structure at the end that does not count; its `Flag` stands before.
        uncounted_bytes: size of that structure.
    """

    spec: str
    codec: Scalar
    high: int | None = None
    uncounted: str = ""
    uncounted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Bits:
    """A number that consists of fields of some bits each.

    The first field has the lowest bits.

    Raises:
        TypeError: the fields have more or fewer bits than the number.
    """

    spec: str
    codec: Scalar
    parts: tuple["Part", ...]

    def __post_init__(self) -> None:
        if sum(width for _, _, width in self.shifted) != 8 * self.codec.size:
            raise TypeError(f"{self.spec}: its parts do not have {8 * self.codec.size} bits")

    @property
    def shifted(self) -> "tuple[tuple[Part, int, int], ...]":
        """The parts, each with the number of its lowest bit and its width in bits."""
        parts, shift = [], 0
        for part in self.parts:
            width = part.codec.width if isinstance(part.codec, Scalar) else 0
            parts.append((part, shift, width))
            shift += width
        return tuple(parts)


@dataclass(frozen=True, slots=True)
class Items:
    """Elements of the tuple `name`.

    A `Count` has the number of elements, or they extend to the end.
    """

    name: str
    codec: AnyCodec
    spec: str = ""
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Keyed:
    """Pairs of the tuple `name`: all keys, then all values.

    Each value has the codec of its key. No key occurs twice.

    Attributes:
        name: the field of the dataclass, a tuple of (key, value).
        key: codec of a key, a whole number.
        codecs: codec of the value for each key; decoding returns these keys.
        spec: the specification's name of the values.
        spec_key: the specification's name of the keys.
        key_name: function that names a key in messages.
        known: the keys by their numbers.
    """

    name: str
    key: Scalar
    codecs: Mapping[int, AnyCodec]
    spec: str = ""
    spec_key: str = ""
    key_name: Callable[[int], str] = str
    known: Mapping[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", {int(key): key for key in self.codecs})


def _keep_pair(key: Any, value: Any) -> tuple[Any, Any]:
    return key, value


@dataclass(frozen=True, slots=True)
class Choice:
    """Pair of a key and a value with the codec of that key.

    The pair's `Select` has the key.

    Attributes:
        name: the field of the dataclass.
        codecs: codec of the value for each key; None: no bytes, the value None.
        spec: the specification's name.
        pair: makes the pair.
    """

    name: str
    codecs: Mapping[int, AnyCodec | None]
    spec: str = ""
    pair: Callable[[Any, Any], Any] = _keep_pair


@dataclass(frozen=True, slots=True)
class Align:
    """Bytes up to a multiple of `to` from the structure's beginning.

    Readers ignore these bytes; they are sent as 0.
    """

    to: int
    spec: str = "Padding"


@dataclass(frozen=True, slots=True)
class Bytes:
    """Unconverted bytes.

    A `ByteSize` has the number of bytes, or they extend to the end.
    """

    name: str
    spec: str = ""
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Text16:
    """UTF-16LE text, whose size is in its `ByteSize`.

    If it is `terminated`, it has a NUL, which counts.

    `omitted`: an empty text is sent without a NUL, and received with or without it.
    """

    name: str
    spec: str = ""
    terminated: bool = True
    omitted: bool = False


@dataclass(frozen=True, slots=True)
class When:
    """Fields that are present only with `name`, or only without it.

    If `is_with` is true, they are present only with `name`. The Count, ByteSize or Flag of `name` decides.

    `left`: present if any bytes are left; when encoding, if `name` differs from its default.
    """

    name: str
    fields: tuple["Field", ...]
    is_with: bool = True
    left: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Fields that the specification describes as a structure, such as a header.

    The dataclass has no group: its fields are fields of the whole. Groups appear only in output for people.
    """

    spec: str
    fields: tuple["Declared", ...]


Guard: TypeAlias = Count | ByteSize | Flag | Select
"""A number that announces a field."""
Part: TypeAlias = Value | Const | Ignored | Flag | Select
"""A field of some bits of a number."""
Fixed: TypeAlias = Value | Const | Ignored | Count | ByteSize | Flag | Select | TotalSize | Bits
Field: TypeAlias = Fixed | Items | Keyed | Choice | Bytes | Text16 | Align | When
Declared: TypeAlias = Field | Group


def group(spec: str, *declared: Declared) -> Group:
    """Make a group of fields, a structure of its own in the specification.

    Groups may hold groups.
    """
    return Group(spec, declared)


def bits(spec: str, codec: Scalar, *parts: Part) -> Bits:
    """Make a number that consists of fields.

    Errors and output name each ``spec.field``.
    """
    named = tuple(replace(part, spec=f"{spec}.{label(part)}") for part in parts)
    return Bits(spec, codec, named)


def header(spec: str, *declared: Field) -> tuple[Field, ...]:
    """Make the fields of a header among other headers.

    Errors and output name each ``spec.field``.
    """
    return tuple(_qualify_field(spec, field) for field in declared)


def _qualify_field(spec: str, field: Field) -> Field:
    if isinstance(field, When):
        return replace(field, fields=header(spec, *field.fields))
    if isinstance(field, Bits):
        parts = tuple(replace(part, spec=f"{spec}.{part.spec}") for part in field.parts)
        return replace(field, spec=f"{spec}.{field.spec}", parts=parts)
    return replace(field, spec=f"{spec}.{label(field)}")


def when(name: str, *fields: Field) -> When:
    """Make fields that are present only together with `name`."""
    return When(name, fields)


def unless(name: str, *fields: Field) -> When:
    """Make fields that are present only in place of `name`."""
    return When(name, fields, is_with=False)


def when_left(name: str, *fields: Field) -> When:
    """Make fields at the end that are present only when any bytes are left.

    The field `name` and these are present together.
    """
    return When(name, fields, left=True)


def label(field: Field) -> str:
    """Return the name for errors: the specification's, else the dataclass field's."""
    if isinstance(field, Const | Ignored | TotalSize | Bits | Align):
        return field.spec
    if isinstance(field, When):
        return field.name
    return field.spec or field.name
