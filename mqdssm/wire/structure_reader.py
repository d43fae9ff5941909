"""Decoder that interprets a layout field by field, and reports the exact problem.

The compiled form only refuses: this one explains each refusal.
"""

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from mqdssm.errors import DecodeError
from mqdssm.wire import fields
from mqdssm.wire.codecs import Scalar, load_sized_text, need
from mqdssm.wire.plan import Branch, FieldRun, LayoutPlan, PlanVisitor, Step, list_branch_names

if TYPE_CHECKING:
    from mqdssm.wire.layout import Layout


def check_range(value: int, low: int | None, high: int | None) -> str:
    """Return the problem of a number outside a range, or an empty text."""
    if low is not None and value < low:
        return f"is {value}, at least {low}"
    if high is not None and value > high:
        return f"is {value}, at most {high}"
    return ""


def guard_problem(guard: fields.Guard, number: int) -> str:
    """Return the problem of a number that announces a field.

    An empty text if it has none. A `Choice` has a check of its own.
    """
    if isinstance(guard, fields.Select):
        return ""
    if not isinstance(guard, fields.Flag):
        return check_range(number, guard.low, guard.high)
    if isinstance(guard.yes, int) and number not in {0, guard.yes}:
        return f"is {number}, must be 0 or {guard.yes}"
    return ""


@dataclass(slots=True)
class StructureReader(PlanVisitor):
    """Decoder of one structure."""

    layout: "Layout[Any]"
    data: bytes
    start: int
    end: int
    offset: int = field(init=False)
    values: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    places: dict[str, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.offset = self.start

    def refuse(self, name: str, offset: int, problem: str) -> NoReturn:
        """Raise a DecodeError about a field."""
        raise DecodeError(self.layout.section, name, offset, problem)

    def read(self) -> tuple[Any, int]:
        """Decode the structure; return the object and the offset behind it."""
        plan = self.layout.plan
        self.steps(plan.steps)
        if plan.total is not None and self.offset != self.end:
            self.refuse("end", self.offset, f"{self.end - self.offset} bytes left over")
        try:
            structure = self.layout.cls(**self.values)
        except fields.FieldError as error:
            self.refuse(*self.places.get(error.name, (error.name, self.start)), error.problem)
        except ValueError as error:
            self.refuse(self.layout.cls.__name__, self.start, str(error))
        for name, guard in plan.guards.items():
            if isinstance(guard, fields.Flag) and not isinstance(guard.yes, int) and self.numbers.get(name):
                expected = guard.yes(structure)
                if self.numbers[name] != expected:
                    self.refuse(
                        fields.label(guard), self.start, f"is {self.numbers[name]}, must be {expected}"
                    )
        return structure, self.offset

    def step(self, step: Step) -> None:
        """Decode one step; its place is known before."""
        if isinstance(step, fields.Value | fields.Items | fields.Keyed | fields.Bytes | fields.Text16):
            self.places[step.name] = fields.label(step), self.offset
        PlanVisitor.step(self, step)

    def value(self, step: fields.Value) -> None:
        """Decode one value."""
        self.values[step.name] = self.one(step.codec, fields.label(step))

    def run(self, run: FieldRun) -> None:
        """Decode neighbouring fields of fixed size."""
        offset = self.offset
        for slot in run.slots:
            need(self.layout.section, fields.label(slot), offset, _measure_slot(slot), self.end)
            offset += _measure_slot(slot)
        self.offset, at = offset, self.offset
        for slot, raw in zip(run.slots, run.packer.unpack_from(self.data, at), strict=True):
            self.slot(slot, raw, at)
            at += _measure_slot(slot)

    def slot(self, slot: fields.Fixed, raw: Any, at: int) -> None:
        """Process one decoded number: keep it, compare it or ignore it."""
        if isinstance(slot, fields.Ignored):
            return
        value = self.load(slot.codec, fields.label(slot), raw, at)
        problem = ""
        match slot:
            case fields.Value():
                problem = check_range(value, slot.low, slot.high)
                self.values[slot.name] = value
                self.places[slot.name] = fields.label(slot), at
            case fields.Const() if value != slot.value:
                problem = f"is {value!r}, must be {slot.value!r}"
            case fields.Count() | fields.ByteSize() | fields.Flag() | fields.Select():
                problem = guard_problem(slot, value)
                self.numbers[slot.name] = value
                self.places[slot.name] = fields.label(slot), at
            case fields.Bits():
                for part, shift, width in slot.shifted:
                    self.slot(part, value >> shift & (1 << width) - 1, at)
            case fields.TotalSize():
                problem = self.total(slot, value)
        if problem:
            self.refuse(fields.label(slot), at, problem)

    def total(self, slot: fields.TotalSize, value: int) -> str:
        """Set the end of the structure; return the problem of its size, or an empty text."""
        if problem := check_range(value, None, slot.high):
            return problem
        size = value + (slot.uncounted_bytes if self.numbers.get(slot.uncounted) else 0)
        if self.start + size < self.offset:
            return f"is {value}, less than the fields before its end"
        need(self.layout.section, slot.spec, self.start, size, self.end)
        self.end = self.start + size
        return ""

    def load(self, codec: fields.AnyCodec, name: str, raw: Any, at: int) -> Any:
        """Convert a result of `struct` into the value."""
        if not isinstance(codec, Scalar) or codec.load is None:
            return raw
        try:
            return codec.load(raw)
        except ValueError as error:
            self.refuse(name, at, str(error))

    def one(self, codec: fields.AnyCodec, name: str) -> Any:
        """Decode one value of any kind."""
        if isinstance(codec, Scalar):
            need(self.layout.section, name, self.offset, codec.size, self.end)
            (raw,) = struct.unpack_from(f"<{codec.code}", self.data, self.offset)
            value = self.load(codec, name, raw, self.offset)
            self.offset += codec.size
        elif isinstance(codec, fields.Nested):
            value, self.offset = read(codec.layout, self.data, self.offset, self.end)
        else:
            value, self.offset = codec.read(self.data, self.offset, self.end, self.layout.section, name)
        return value

    def items(self, step: fields.Items) -> None:
        """Decode the elements of a tuple."""
        size = step.codec.size if isinstance(step.codec, Scalar) else step.codec.least
        items: list[Any] = []
        if step.name in self.numbers:
            need(
                self.layout.section, fields.label(step), self.offset, self.numbers[step.name] * size, self.end
            )
            for _ in range(self.numbers[step.name]):
                items.append(self.one(step.codec, fields.label(step)))  # noqa: PERF401  self.one advances the offset
        else:
            while self.offset < self.end:
                if step.high is not None and len(items) == step.high:
                    self.refuse(fields.label(step), self.offset, f"more than {step.high} elements")
                items.append(self.one(step.codec, fields.label(step)))
        self.values[step.name] = tuple(items)

    def keyed(self, step: fields.Keyed) -> None:
        """Decode all keys, then the value of each."""
        section, name = self.layout.section, step.spec_key or step.name
        need(section, name, self.offset, self.numbers[step.name] * step.key.size, self.end)
        keys: list[int] = []
        for _ in range(self.numbers[step.name]):
            at, number = self.offset, self.one(step.key, name)
            if number not in step.known:
                self.refuse(name, at, f"is {number}, which we do not know")
            if number in keys:
                self.refuse(name, at, f"is {step.key_name(number)} a second time")
            keys.append(step.known[number])
        items = [
            (key, self.one(step.codecs[key], f"{fields.label(step)} {step.key_name(key)}")) for key in keys
        ]
        self.values[step.name] = tuple(items)

    def body(self, step: fields.Bytes | fields.Text16) -> None:
        """Decode bytes or text of announced size, or bytes up to the end."""
        guard = self.layout.plan.guards.get(step.name)
        unit = guard.unit if isinstance(guard, fields.ByteSize) else 1
        size = self.numbers[step.name] * unit if step.name in self.numbers else self.end - self.offset
        need(self.layout.section, fields.label(step), self.offset, size, self.end)
        chunk, at = self.data[self.offset : self.offset + size], self.offset
        self.offset += size
        if isinstance(step, fields.Bytes):
            if step.high is not None and size > step.high:
                self.refuse(fields.label(step), at, f"has {size} bytes, at most {step.high}")
            self.values[step.name] = chunk
            return
        try:
            text = load_sized_text(chunk, terminated=step.terminated, omitted=step.omitted)
        except ValueError as error:
            self.refuse(fields.label(step), at, str(error))
        self.values[step.name] = text

    def choice(self, step: fields.Choice) -> None:
        """Decode a value of the form that its number selects."""
        key = self.numbers[step.name]
        if key not in step.codecs:
            forms = ", ".join(str(int(form)) for form in step.codecs)
            name, at = self.places[step.name]
            self.refuse(name, at, f"is {int(key)}, must be one of {forms}")
        codec = step.codecs[key]
        value = None if codec is None else self.one(codec, fields.label(step))
        self.values[step.name] = step.pair(key, value)

    def align(self, step: fields.Align) -> None:
        """Skip padding."""
        size = (self.start - self.offset) % step.to
        need(self.layout.section, step.spec, self.offset, size, self.end)
        self.offset += size

    def branch(self, branch: Branch) -> None:
        """Decode optional steps, or use their defaults."""
        name = branch.when.name
        number = self.end - self.offset if branch.when.left else self.numbers[name]
        if bool(number) is not branch.when.is_with:
            for absent in list_branch_names(branch.steps):
                self.values[absent] = self.layout.plan.defaults[absent]
            return
        at = self.offset
        self.steps(branch.steps)
        if branch.when.is_with and name in list_branch_names(branch.steps):
            value = self.values[name]
            if not is_present(self.layout.plan, branch, value):
                self.refuse(name, at, "is announced and empty")


def is_present(plan: LayoutPlan, branch: Branch, value: Any) -> bool:
    """Return True if this value of a `when`'s field means that the field is present."""
    if branch.when.left:
        return bool(value != plan.defaults[branch.when.name])
    if isinstance(plan.guards[branch.when.name], fields.Flag):
        return value is not None
    return bool(value)


def _measure_slot(slot: fields.Fixed) -> int:
    return slot.codec.size if isinstance(slot.codec, Scalar) else 0


def read(layout: "Layout[Any]", data: bytes, offset: int, end: int) -> tuple[Any, int]:
    """Decode the structure at `offset`; return the object and the offset behind it.

    Raises:
        DecodeError: when it is wrong or does not fit before `end`.
    """
    return StructureReader(layout, data, offset, end).read()
