"""Plan of a layout: checked declaration, fields of fixed size joined to runs."""

import dataclasses
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, is_dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from mqdssm.wire import fields
from mqdssm.wire.codecs import Scalar

FIXED: Final = (
    fields.Value,
    fields.Const,
    fields.Ignored,
    fields.Count,
    fields.ByteSize,
    fields.Flag,
    fields.Select,
    fields.TotalSize,
    fields.Bits,
)


@dataclass(frozen=True, slots=True)
class FieldRun:
    """Neighbouring fields of fixed size, read at once."""

    slots: tuple[fields.Fixed, ...]
    packer: struct.Struct

    @property
    def size(self) -> int:
        """Size of all fields in bytes."""
        return self.packer.size


@dataclass(frozen=True, slots=True)
class Branch:
    """Steps that a `When` makes optional."""

    when: fields.When
    steps: "tuple[Step, ...]"


Body: TypeAlias = fields.Value | fields.Items | fields.Keyed | fields.Choice | fields.Bytes | fields.Text16
Step: TypeAlias = FieldRun | Body | Branch | fields.Align
_BODIES: Final = (fields.Value, fields.Items, fields.Keyed, fields.Choice, fields.Bytes, fields.Text16)
Path: TypeAlias = tuple[fields.When, ...]


class PlanVisitor(ABC):
    """Base of visitors of a plan's steps, with a method for each kind of step."""

    __slots__ = ()

    def steps(self, steps: "Sequence[Step]") -> None:
        """Process steps in order."""
        for step in steps:
            self.step(step)

    def step(self, step: "Step") -> None:
        """Process one step."""
        match step:
            case FieldRun():
                self.run(step)
            case Branch():
                self.branch(step)
            case fields.Items():
                self.items(step)
            case fields.Keyed():
                self.keyed(step)
            case fields.Choice():
                self.choice(step)
            case fields.Align():
                self.align(step)
            case fields.Bytes() | fields.Text16():
                self.body(step)
            case fields.Value():
                self.value(step)

    @abstractmethod
    def run(self, run: FieldRun) -> None:
        """Process neighbouring fields of fixed size."""

    @abstractmethod
    def branch(self, branch: Branch) -> None:
        """Process optional steps."""

    @abstractmethod
    def items(self, step: fields.Items) -> None:
        """Process the elements of a tuple."""

    @abstractmethod
    def keyed(self, step: fields.Keyed) -> None:
        """Process keys, then their values."""

    @abstractmethod
    def choice(self, step: fields.Choice) -> None:
        """Process a value of a selected form."""

    @abstractmethod
    def align(self, step: fields.Align) -> None:
        """Process padding."""

    @abstractmethod
    def body(self, step: fields.Bytes | fields.Text16) -> None:
        """Process bytes or text."""

    @abstractmethod
    def value(self, step: fields.Value) -> None:
        """Process a value of variable size."""


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """Plan of a layout, for its compiled and its interpreted form.

    Attributes:
        steps: in the order of the bytes.
        guards: for each field with a count, size or flag before it, the field of that number.
        defaults: for each optional field of the dataclass, its value when absent.
        names: the fields of the dataclass, in the order of the bytes.
        least: size of the shortest structure in bytes.
    """

    steps: tuple[Step, ...]
    guards: Mapping[str, fields.Guard]
    defaults: Mapping[str, Any]
    names: tuple[str, ...]
    least: int

    @property
    def total(self) -> fields.TotalSize | None:
        """The field that holds the size of the whole structure, if there is one."""
        runs = (step for step in self.steps if isinstance(step, FieldRun))
        return next((slot for run in runs for slot in run.slots if isinstance(slot, fields.TotalSize)), None)


def _is_fixed(field: fields.Field) -> bool:
    return isinstance(field, FIXED) and isinstance(field.codec, Scalar)


def choose_scalar(slot: fields.Fixed) -> Scalar:
    """Return the codec of a field of fixed size."""
    if not isinstance(slot.codec, Scalar):
        raise TypeError(f"{fields.label(slot)} has no fixed size")
    return slot.codec


def _plan_steps(declared: Sequence[fields.Field]) -> Iterator[Step]:
    for in_run, group in groupby(declared, key=_is_fixed):
        members = tuple(group)
        if in_run:
            slots = tuple(member for member in members if isinstance(member, FIXED))
            yield FieldRun(slots, struct.Struct("<" + "".join(choose_scalar(slot).code for slot in slots)))
            continue
        for member in members:
            if isinstance(member, fields.When):
                yield Branch(member, tuple(_plan_steps(member.fields)))
            elif isinstance(member, (*_BODIES, fields.Align)):
                yield member
            else:
                raise TypeError(f"{fields.label(member)}: a number must have a fixed size")


def list_fields(declared: Sequence[fields.Field], path: Path = ()) -> Iterator[tuple[fields.Field, Path]]:
    """Yield all fields, also optional ones, with the `When` fields around each."""
    for field in declared:
        yield field, path
        if isinstance(field, fields.When):
            yield from list_fields(field.fields, (*path, field))
        elif isinstance(field, fields.Bits):
            yield from ((part, path) for part in field.parts)


def count_least_bytes(steps: Sequence[Step], guards: Mapping[str, Any]) -> int:
    """Return the least number of bytes of these steps."""
    total = 0
    for step in steps:
        if isinstance(step, FieldRun):
            total += step.size
        elif isinstance(step, fields.Value) and not isinstance(step.codec, Scalar):
            total += step.codec.least
        elif isinstance(step, fields.Items) and step.name in guards:
            total += guards[step.name].low * size_of(step.codec)
        elif isinstance(step, fields.Keyed):
            total += guards[step.name].low * (step.key.size + count_least_value(step))
        elif isinstance(step, fields.Choice):
            total += min(0 if codec is None else size_of(codec) for codec in step.codecs.values())
    return total


def size_of(codec: fields.AnyCodec) -> int:
    """Return the least number of bytes of a value."""
    return codec.size if isinstance(codec, Scalar) else codec.least


def count_least_value(keyed: fields.Keyed) -> int:
    """Return the size of the shortest value in bytes, for any key."""
    return min(map(size_of, keyed.codecs.values()))


def _find_default(of: Any, name: str, section: str) -> Any:
    if of.default is not MISSING:
        return of.default
    if of.default_factory is not MISSING:
        return of.default_factory()
    raise TypeError(f"{section}: {name} is optional and has no default")


def _find_guards(section: str, walked: Sequence[tuple[fields.Field, Path]]) -> dict[str, fields.Guard]:
    guards: dict[str, fields.Guard] = {}
    bodies: dict[str, tuple[fields.Field, Path, int]] = {}
    places: dict[str, tuple[Path, int]] = {}
    for at, (field, path) in enumerate(walked):
        if isinstance(field, fields.Guard):
            if field.name in guards:
                raise TypeError(f"{section}: two numbers announce {field.name}")
            guards[field.name], places[field.name] = field, (path, at)
        elif isinstance(field, _BODIES):
            bodies[field.name] = (field, path, at)
    kinds: dict[type, type | tuple[type, ...]] = {
        fields.Count: (fields.Items, fields.Keyed),
        fields.ByteSize: (fields.Bytes, fields.Text16),
        fields.Flag: fields.Value,
        fields.Select: fields.Choice,
    }
    _prove_whens(section, walked, places)
    for name, guard in guards.items():
        field, path, at = bodies.get(name, (guard, (), 0))
        if not isinstance(field, kinds[type(guard)]):
            raise TypeError(f"{section}: {fields.label(guard)} announces {name}, which it cannot")
        own_path, before = places[name]
        inner = path[len(own_path) :]
        if (
            before > at
            or path[: len(own_path)] != own_path
            or [step.name for step in inner] not in ([], [name])
        ):
            raise TypeError(f"{section}: {fields.label(guard)} must stand before {name}, equally often")
        if inner and not inner[0].is_with:
            raise TypeError(f"{section}: {name} must not stand among fields that are present only without it")
        if isinstance(guard, fields.Flag) and not inner:
            raise TypeError(f"{section}: {name} has a Flag and must be in when({name!r}, ...)")
    return guards


def _prove_whens(
    section: str, walked: Sequence[tuple[fields.Field, Path]], places: Mapping[str, tuple[Path, int]]
) -> None:
    for at, (field, path) in enumerate(walked):
        if not isinstance(field, fields.When) or field.left:
            continue
        if field.name not in places:
            raise TypeError(f"{section}: when({field.name!r}) needs a Count, ByteSize or Flag")
        own_path, before = places[field.name]
        if before > at or path[: len(own_path)] != own_path:
            raise TypeError(f"{section}: when({field.name!r}) needs a number that is always read before")


def _prove_ends(section: str, walked: Sequence[tuple[fields.Field, Path]], guards: Mapping[str, Any]) -> None:
    last = walked[-1][0]
    for at, (field, path) in enumerate(walked):
        if isinstance(field, fields.When) and field.left:
            inside = {getattr(inner, "name", None) for inner, _ in list_fields(field.fields)}
            at_end = walked[-1][1][:1] == (field,)
            if path or not field.is_with or field.name not in inside or not at_end:
                raise TypeError(f"{section}: when_left({field.name!r}) must hold it, and be last")
        elif isinstance(field, fields.Text16 | fields.Keyed | fields.Choice) and field.name not in guards:
            numbers = {fields.Text16: "ByteSize", fields.Keyed: "Count", fields.Choice: "Select"}
            number = numbers[type(field)]
            raise TypeError(f"{section}: {field.name} needs a {number}")
        elif (
            isinstance(field, fields.Items | fields.Bytes)
            and field.name not in guards
            and (field is not last or path or field.high is None)
        ):
            raise TypeError(f"{section}: {field.name} goes up to the end: it must be last and have a limit")
        elif isinstance(field, fields.TotalSize) and path:
            raise TypeError(f"{section}: {field.spec} must not be optional")
        elif isinstance(field, fields.TotalSize) and field.uncounted:
            flag = guards.get(field.uncounted)
            if not isinstance(flag, fields.Flag) or [leaf for leaf, _ in walked].index(flag) > at:
                raise TypeError(f"{section}: {field.spec} needs the Flag of {field.uncounted} before it")


def flatten_fields(
    declared: Sequence[fields.Declared], path: tuple[str, ...] = ()
) -> Iterator[tuple[fields.Field, tuple[str, ...]]]:
    """Yield the declared fields without their groups.

    Each comes with the names of the groups around it.
    """
    for field in declared:
        if isinstance(field, fields.Group):
            yield from flatten_fields(field.fields, (*path, field.spec))
        else:
            yield field, path


def make_plan(cls: type, section: str, declared: Sequence[fields.Field]) -> LayoutPlan:
    """Turn a declaration into a plan, once, at import.

    Raises:
        TypeError: when the declaration contradicts itself or the dataclass.
    """
    if not is_dataclass(cls):
        raise TypeError(f"{section}: {cls.__name__} is no dataclass")
    walked = tuple(list_fields(declared))
    fields_by_name = {field.name: field for field in dataclasses.fields(cls) if field.init}
    names = [field.name for field, _ in walked if isinstance(field, _BODIES)]
    if sorted(names) != sorted(fields_by_name):
        raise TypeError(
            f"{section}: {cls.__name__} has {sorted(fields_by_name)}, laid out are {sorted(names)}"
        )
    if any(isinstance(field, fields.When) and not field.fields for field, _ in walked):
        raise TypeError(f"{section}: a when() without fields")
    texts = {field.name for field, _ in walked if isinstance(field, fields.Text16)}
    if any(isinstance(f, fields.ByteSize) and f.unit > 1 and f.name not in texts for f, _ in walked):
        raise TypeError(f"{section}: only the size of a text has a unit")
    if sum(isinstance(field, fields.TotalSize) for field, _ in walked) > 1:
        raise TypeError(f"{section}: two fields hold the size of the whole")
    guards = _find_guards(section, walked)
    _prove_ends(section, walked, guards)
    optional = {field.name for field, path in walked if path and isinstance(field, _BODIES)}
    defaults = {
        name: _find_default(fields_by_name[name], name, section) for name in names if name in optional
    }
    for name, guard in guards.items():
        if isinstance(guard, fields.Flag) and defaults[name] is not None:
            raise TypeError(f"{section}: the default of {name} must be None")
    steps = tuple(_plan_steps(declared))
    least = count_least_bytes(steps, guards)
    return LayoutPlan(steps, MappingProxyType(guards), MappingProxyType(defaults), tuple(names), least)


def list_branch_names(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the names of the dataclass's fields within these steps."""
    for step in steps:
        if isinstance(step, FieldRun):
            leaves = (leaf for leaf, _ in list_fields(step.slots))
            yield from (leaf.name for leaf in leaves if isinstance(leaf, fields.Value))
        elif isinstance(step, fields.Align):
            continue
        elif isinstance(step, Branch):
            yield from list_branch_names(step.steps)
        else:
            yield step.name
