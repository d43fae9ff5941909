"""Interpreted form of a layout, which reports the exact problem.

It follows the plan, field by field.

The compiled form is tested against it, and it explains every refusal.
"""

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from mqdssm.errors import DecodeError
from mqdssm.wire import fields
from mqdssm.wire.codecs import Scalar, dump_sized_text, load_sized_text, need, pack_one
from mqdssm.wire.plan import Branch, FieldRun, LayoutPlan, PlanVisitor, Step, branch_names

if TYPE_CHECKING:
    from mqdssm.wire.layout import Layout


def _range_problem(value: int, low: int | None, high: int | None) -> str:
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
        return _range_problem(number, guard.low, guard.high)
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
            need(self.layout.section, fields.label(slot), offset, _size(slot), self.end)
            offset += _size(slot)
        self.offset, at = offset, self.offset
        for slot, raw in zip(run.slots, run.packer.unpack_from(self.data, at), strict=True):
            self.slot(slot, raw, at)
            at += _size(slot)

    def slot(self, slot: fields.Fixed, raw: Any, at: int) -> None:
        """Process one decoded number: keep it, compare it or ignore it."""
        if isinstance(slot, fields.Ignored):
            return
        value = self.load(slot.codec, fields.label(slot), raw, at)
        problem = ""
        match slot:
            case fields.Value():
                problem = _range_problem(value, slot.low, slot.high)
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
        if problem := _range_problem(value, None, slot.high):
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
        if bool(number) is not branch.when.there:
            for absent in branch_names(branch.steps):
                self.values[absent] = self.layout.plan.defaults[absent]
            return
        at = self.offset
        self.steps(branch.steps)
        if branch.when.there and name in branch_names(branch.steps):
            value = self.values[name]
            if not there(self.layout.plan, branch, value):
                self.refuse(name, at, "is announced and empty")


def there(plan: LayoutPlan, branch: Branch, value: Any) -> bool:
    """Return True if this value of a `when`'s field means that the field is present."""
    if branch.when.left:
        return bool(value != plan.defaults[branch.when.name])
    if isinstance(plan.guards[branch.when.name], fields.Flag):
        return value is not None
    return bool(value)


def _size(slot: fields.Fixed) -> int:
    return slot.codec.size if isinstance(slot.codec, Scalar) else 0


def read(layout: "Layout[Any]", data: bytes, offset: int, end: int) -> tuple[Any, int]:
    """Decode the structure at `offset`; return the object and the offset behind it.

    Raises:
        DecodeError: when it is wrong or does not fit before `end`.
    """
    return StructureReader(layout, data, offset, end).read()


@dataclass(slots=True)
class Writer(PlanVisitor):
    """Encoder of one structure."""

    layout: "Layout[Any]"
    made: Any
    parts: list[bytes] = field(default_factory=list)
    total_at: tuple[int, fields.TotalSize] | None = None

    def refuse(self, name: str, problem: object) -> NoReturn:
        """Raise a ValueError about a field: the object is the caller's mistake."""
        raise ValueError(f"{self.layout.section} {name}: {problem}")

    def write(self) -> bytes:
        """Encode the structure."""
        if not isinstance(self.made, self.layout.cls):
            raise TypeError(f"{self.made!r} is no {self.layout.cls.__name__}")
        self.steps(self.layout.plan.steps)
        if self.total_at is not None:
            index, slot = self.total_at
            total = sum(map(len, self.parts))
            if slot.uncounted and getattr(self.made, slot.uncounted) is not None:
                total -= slot.uncounted_bytes
            self.check(slot.spec, _range_problem(total, None, slot.high))
            self.parts[index] = self.pack(slot.codec, slot.spec, total)
        return b"".join(self.parts)

    def pack(self, codec: fields.AnyCodec, name: str, value: Any) -> bytes:
        """Encode one value of any kind."""
        try:
            if isinstance(codec, Scalar):
                return pack_one(codec, value)
            if isinstance(codec, fields.Nested):
                return write(codec.layout, value)
            return codec.write(value)
        except (ValueError, TypeError, AttributeError) as error:
            self.refuse(name, error)

    def value(self, step: fields.Value) -> None:
        """Encode one value."""
        self.parts.append(self.pack(step.codec, fields.label(step), getattr(self.made, step.name)))

    def run(self, run: FieldRun) -> None:
        """Encode neighbouring fields of fixed size."""
        for slot in run.slots:
            self.slot(slot)

    def body(self, step: fields.Bytes | fields.Text16) -> None:
        """Encode bytes or text."""
        self.parts.append(self.sized(step))

    def slot(self, slot: fields.Fixed) -> None:
        """Encode one number."""
        match slot:
            case fields.TotalSize():
                self.total_at = len(self.parts), slot
                self.parts.append(bytes(_size(slot)))
                return
            case fields.Bits():
                value = sum(self.part(part) << shift for part, shift, _ in slot.shifted)
            case _:
                value = self.raw(slot)
        packed = self.pack(slot.codec, fields.label(slot), value)
        if isinstance(slot, fields.Value):
            self.check(fields.label(slot), _range_problem(value, slot.low, slot.high))
        self.parts.append(packed)

    def raw(self, slot: fields.Part | fields.Count | fields.ByteSize) -> Any:
        """Return the value of a field of fixed size."""
        match slot:
            case fields.Value():
                return getattr(self.made, slot.name)
            case fields.Const():
                return slot.value
            case fields.Ignored():
                return slot.send
            case _:
                return self.number(slot)

    def part(self, part: fields.Part) -> int:
        """Return a field of some bits of a number."""
        value = self.raw(part)
        dump = part.codec.dump if isinstance(part.codec, Scalar) else None
        try:
            number = int(value if dump is None else dump(value))
        except (ValueError, TypeError) as error:
            self.refuse(fields.label(part), error)
        if isinstance(part, fields.Value):
            self.check(fields.label(part), _range_problem(number, part.low, part.high))
        return number

    def check(self, name: str, problem: str) -> None:
        """Refuse when there is a problem."""
        if problem:
            self.refuse(name, problem)

    def number(self, guard: fields.Guard) -> int:
        """Compute the number that announces a field."""
        value = getattr(self.made, guard.name)
        if isinstance(guard, fields.Flag):
            if value is None:
                return 0
            number = guard.yes if isinstance(guard.yes, int) else guard.yes(self.made)
            self.check(fields.label(guard), "" if number else "is 0 though it must announce something")
            return number
        if isinstance(guard, fields.Select):
            try:
                number, _ = value
                return int(number)
            except (ValueError, TypeError):
                self.refuse(fields.label(guard), f"{value!r} is no pair of a form and a value")
        if isinstance(guard, fields.Count):
            number = len(value)
        else:
            body = self.layout.bodies[guard.name]
            absent = guard.name in self.layout.plan.defaults and not value
            number = 0 if absent else len(self.sized(body)) // guard.unit
        self.check(fields.label(guard), guard_problem(guard, number))
        return number

    def sized(self, step: fields.Bytes | fields.Text16) -> bytes:
        """Return the octets of bytes or text."""
        value = getattr(self.made, step.name)
        try:
            packed = (
                bytes(memoryview(value))
                if isinstance(step, fields.Bytes)
                else dump_sized_text(value, terminated=step.terminated, omitted=step.omitted)
            )
        except (ValueError, TypeError, AttributeError) as error:
            self.refuse(fields.label(step), error)
        if isinstance(step, fields.Bytes) and step.high is not None:
            self.check(fields.label(step), _range_problem(len(packed), None, step.high))
        return packed

    def choice(self, step: fields.Choice) -> None:
        """Encode a value of the form that it names."""
        key, value = getattr(self.made, step.name)
        if key not in step.codecs:
            self.refuse(fields.label(step), f"cannot be sent in the form {key!r}")
        codec = step.codecs[key]
        if codec is not None:
            self.parts.append(self.pack(codec, fields.label(step), value))
        elif value is not None:
            self.refuse(fields.label(step), f"has no value in the form {key!r}, not {value!r}")

    def align(self, step: fields.Align) -> None:
        """Encode padding."""
        self.parts.append(bytes(-sum(map(len, self.parts)) % step.to))

    def items(self, step: fields.Items) -> None:
        """Encode the elements of a tuple."""
        value = getattr(self.made, step.name)
        self.check(fields.label(step), _range_problem(len(value), None, step.high))
        self.parts.extend(self.pack(step.codec, fields.label(step), item) for item in value)

    def keyed(self, step: fields.Keyed) -> None:
        """Encode all keys, then all values."""
        pairs = [(key, value) for key, value in getattr(self.made, step.name)]
        keys = [key for key, _ in pairs]
        for at, key in enumerate(keys):
            problem = "which we do not know" if key not in step.codecs else ""
            problem = "for a second time" if key in keys[:at] else problem
            self.check(step.spec_key or step.name, f"is {key!r}, {problem}" if problem else "")
            self.parts.append(self.pack(step.key, step.spec_key or step.name, key))
        for key, value in pairs:
            self.parts.append(
                self.pack(step.codecs[key], f"{fields.label(step)} {step.key_name(key)}", value)
            )

    def branch(self, branch: Branch) -> None:
        """Encode optional steps; if they are left out, check that no value is lost."""
        value = getattr(self.made, branch.when.name)
        if there(self.layout.plan, branch, value) is branch.when.there:
            self.steps(branch.steps)
            return
        for name in branch_names(branch.steps):
            if getattr(self.made, name) != self.layout.plan.defaults[name]:
                other = "without" if branch.when.there else "together with"
                self.refuse(name, f"cannot be sent {other} {branch.when.name}")


def write(layout: "Layout[Any]", structure: Any) -> bytes:
    """Encode an object.

    Raises:
        ValueError: naming the field that cannot be encoded.
    """
    return Writer(layout, structure).write()
