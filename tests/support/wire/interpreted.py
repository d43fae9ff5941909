"""Layouts without compiled code: the reference that the compiled form is compared with."""

from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from mqdssm.wire import fields, structure_reader
from mqdssm.wire.codecs import Scalar, dump_sized_text, finish, pack_one
from mqdssm.wire.layout import Layout
from mqdssm.wire.plan import Branch, FieldRun, PlanVisitor, list_branch_names
from mqdssm.wire.structure_reader import check_range, guard_problem, is_present

T = TypeVar("T")


def decode_interpreted(layout: Layout[T], data: bytes) -> T:
    """Decode like `Layout.decode`.

    Raises:
        DecodeError: as there.
    """
    data = bytes(data)
    structure: T
    structure, end = structure_reader.read(layout, data, 0, len(data))
    finish(layout.section, end, len(data))
    return structure


def encode_interpreted(layout: Layout[Any], structure: object) -> bytes:
    """Encode like `Layout.encode`.

    Raises:
        ValueError: as there.
    """
    return Writer(layout, structure).write()


@dataclass(slots=True)
class Writer(PlanVisitor):
    """Encoder of one structure."""

    layout: Layout[Any]
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
            self.check(slot.spec, check_range(total, None, slot.high))
            self.parts[index] = self.pack(slot.codec, slot.spec, total)
        return b"".join(self.parts)

    def pack(self, codec: fields.AnyCodec, name: str, value: Any) -> bytes:
        """Encode one value of any kind."""
        try:
            if isinstance(codec, Scalar):
                return pack_one(codec, value)
            if isinstance(codec, fields.Nested):
                return encode_interpreted(codec.layout, value)
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
                self.parts.append(bytes(slot.codec.size))
                return
            case fields.Bits():
                value = sum(self.part(part) << shift for part, shift, _ in slot.shifted)
            case _:
                value = self.raw(slot)
        packed = self.pack(slot.codec, fields.label(slot), value)
        if isinstance(slot, fields.Value):
            self.check(fields.label(slot), check_range(value, slot.low, slot.high))
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
            self.check(fields.label(part), check_range(number, part.low, part.high))
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
            self.check(fields.label(step), check_range(len(packed), None, step.high))
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
        self.check(fields.label(step), check_range(len(value), None, step.high))
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
        if is_present(self.layout.plan, branch, value) is branch.when.is_with:
            self.steps(branch.steps)
            return
        for name in list_branch_names(branch.steps):
            if getattr(self.made, name) != self.layout.plan.defaults[name]:
                other = "without" if branch.when.is_with else "together with"
                self.refuse(name, f"cannot be sent {other} {branch.when.name}")
