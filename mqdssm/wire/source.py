"""Compiled form of a layout: Python source made from the plan, once, at import.

The code that decodes contains the checks without explanations: the interpreted form explains a refusal. The
code that encodes names the field that cannot be encoded.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mqdssm.wire import fields
from mqdssm.wire.codecs import Scalar, dump_sized_text, load_sized_text, pack_one
from mqdssm.wire.plan import Branch, FieldRun, LayoutPlan, PlanVisitor, list_branch_names, list_fields

if TYPE_CHECKING:
    from mqdssm.wire.layout import Layout


class RefusedError(ValueError):
    """Refusal by code that decodes; the interpreted form explains it."""


ENCODING_FAILURES: Final = (ValueError, TypeError, AttributeError, struct.error)
"""Errors of codecs for a value that cannot be encoded."""


def make_reader(codec: fields.AnyCodec) -> Callable[[bytes, int, int, str, str], tuple[Any, int]]:
    """Return the function that decodes a value of any kind.

    The function has the arguments of `Codec.read`.
    """
    if isinstance(codec, fields.Nested):
        read_nested = codec.layout.read
        return lambda data, offset, end, _section, _field: read_nested(data, offset, end)
    if not isinstance(codec, Scalar):
        return codec.read
    size, load, unpack = codec.size, codec.load, struct.Struct(f"<{codec.code}").unpack_from

    def read(data: bytes, offset: int, end: int, _section: str, _field: str) -> tuple[Any, int]:
        if end - offset < size:
            raise RefusedError
        (value,) = unpack(data, offset)
        return value if load is None else load(value), offset + size

    return read


def _find_unpacking(codec: fields.AnyCodec) -> tuple[int, Callable[..., Any], Callable[[Any], Any] | None]:
    """Return size, `unpack_from` and `load` of a value of fixed size.

    For other values: 0, the reader and None.
    """
    if isinstance(codec, Scalar):
        return codec.size, struct.Struct(f"<{codec.code}").unpack_from, codec.load
    return 0, make_reader(codec), None


def make_writer(codec: fields.AnyCodec) -> Callable[[Any], bytes]:
    """Return the function that encodes a value of any kind."""
    if isinstance(codec, fields.Nested):
        return codec.layout.encode
    if not isinstance(codec, Scalar):
        return codec.write
    pack, dump = struct.Struct(f"<{codec.code}").pack, codec.dump
    return pack if dump is None else lambda value: pack(dump(value))


def _read_nothing(_data: bytes, offset: int, _end: int, _section: str, _field: str) -> tuple[None, int]:
    return None, offset


def _write_nothing(_value: None) -> bytes:
    return b""


def _refuse(section: str, name: str, problem: object) -> NoReturn:
    """Raise a ValueError about a field: the object is the caller's mistake."""
    raise ValueError(f"{section} {name}: {problem}") from None


def _check_value(section: str, name: str, codec: fields.AnyCodec, value: Any) -> None:
    """Refuse a value that its codec cannot encode."""
    try:
        if not isinstance(codec, Scalar):
            make_writer(codec)(value)
        elif codec.size:
            pack_one(codec, value)
        elif codec.dump is not None:
            codec.dump(value)
    except ENCODING_FAILURES as error:
        _refuse(section, name, error)


def _explain_slots(section: str, slots: Sequence[fields.Value | fields.Guard], values: Iterable[Any]) -> None:
    for slot, value in zip(slots, values, strict=True):
        _check_value(section, fields.label(slot), slot.codec, value)


def _explain_items(section: str, step: fields.Items, items: Iterable[Any]) -> None:
    for item in items:
        _check_value(section, fields.label(step), step.codec, item)


def _explain_pairs(section: str, step: fields.Keyed, pairs: Iterable[tuple[int, Any]]) -> None:
    keys: list[int] = []
    for key, _ in pairs:
        if key in keys or key not in step.codecs:
            problem = "for a second time" if key in keys else "which we do not know"
            _refuse(section, step.spec_key or step.name, f"is {key!r}, {problem}")
        _check_value(section, step.spec_key or step.name, step.key, key)
        keys.append(key)
    for key, value in pairs:
        _check_value(section, f"{fields.label(step)} {step.key_name(key)}", step.codecs[key], value)


def _describe_text_form(step: fields.Text16) -> str:
    return f"terminated={step.terminated}, omitted={step.omitted}"


class _Writer(PlanVisitor):
    """Lines of source and the objects that they name."""

    def __init__(self, plan: LayoutPlan) -> None:
        self.plan = plan
        self.lines: list[str] = []
        self.depth = 0
        self.namespace: dict[str, Any] = {}

    def line(self, text: str) -> None:
        """Write one line at the present depth."""
        self.lines.append("    " * self.depth + text)

    def refuse_if(self, condition: str, _name: str = "", _problem: str = "") -> None:
        """Write a check: a line that refuses a field under a condition.

        Args:
            condition: expression of the source.
            _name: name of the field.
            _problem: text with expressions in braces.
        """
        self.line(f"if {condition}: raise RefusedError")

    def bind(self, kind: str, value: Any) -> str:
        """Name an object in the source; return the name."""
        for name, bound in self.namespace.items():
            if bound is value and name.startswith(f"{kind}_"):
                return name
        name = f"{kind}_{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def literal(self, value: Any) -> str:
        """Return small numbers as text, and bind any other value."""
        return str(value) if type(value) is int else self.bind("constant", value)

    def presence_condition(self, branch: Branch) -> str:
        """Return the condition under which the field of a `when` is present."""
        name = branch.when.name
        if branch.when.left:
            return f"v_{name} != {self.bind('default', self.plan.defaults[name])}"
        if isinstance(self.plan.guards[name], fields.Flag):
            return f"v_{name} is not None"
        return f"v_{name}"

    def check_range(self, number: str, low: int | None, high: int | None, name: str) -> None:
        """Write the check of an inclusive range."""
        if low is not None:
            self.refuse_if(f"{number} < {low}", name, f"is {{{number}}}, at least {low}")
        if high is not None:
            self.refuse_if(f"{number} > {high}", name, f"is {{{number}}}, at most {high}")

    def check_guard(self, number: str, guard: fields.Guard) -> None:
        """Write the check of a number that announces a field; a `Choice` checks its own."""
        if isinstance(guard, fields.Select):
            return
        if not isinstance(guard, fields.Flag):
            can_be_less = guard.low > 0 or guard.codec.code.islower()
            self.check_range(number, guard.low if can_be_less else None, guard.high, fields.label(guard))
        elif isinstance(guard.yes, int):
            problem = f"is {{{number}}}, must be 0 or {guard.yes}"
            self.refuse_if(f"{number} != 0 and {number} != {guard.yes}", fields.label(guard), problem)


class _ReadWriter(_Writer):
    """Generator of the function that decodes."""

    def function(self, layout: "Layout[Any]") -> None:
        self.line("def read(data, offset, end):")
        self.depth = 1
        self.line("start = offset")
        self.steps(self.plan.steps)
        if self.plan.total is not None:
            self.refuse_if("offset != end")
        arguments = ", ".join(f"{name}=v_{name}" for name in self.plan.names)
        self.line(f"made = {self.bind('cls', layout.cls)}({arguments})")
        for name, guard in self.plan.guards.items():
            if isinstance(guard, fields.Flag) and not isinstance(guard.yes, int):
                self.refuse_if(f"g_{name} and g_{name} != {self.bind('yes', guard.yes)}(made)")
        self.line("return made, offset")
        self.depth = 0

    def value(self, step: fields.Value) -> None:
        self.one(f"v_{step.name}", step.codec, fields.label(step))

    def target(self, slot: fields.Fixed) -> str:
        match slot:
            case fields.Ignored():
                return "_"
            case fields.Value():
                return f"v_{slot.name}"
            case fields.Count() | fields.ByteSize() | fields.Flag() | fields.Select():
                return f"g_{slot.name}"
        return "number"

    def run(self, run: FieldRun) -> None:
        self.refuse_if(f"end - offset < {run.size}")
        targets = [
            self.target(slot)
            if isinstance(slot, fields.Ignored | fields.Value)
            else f"{self.target(slot)}_{index}"
            for index, slot in enumerate(run.slots)
        ]
        unpack = self.bind("unpack", run.packer.unpack_from)
        self.line(f"{', '.join(targets)}, = {unpack}(data, offset)")
        self.line(f"offset += {run.size}")
        for slot, raw in zip(run.slots, targets, strict=True):
            self.slot(slot, raw)

    def slot(self, slot: fields.Fixed, raw: str) -> None:
        if isinstance(slot, fields.Ignored):
            return
        if isinstance(slot, fields.Bits):
            for part, shift, width in slot.shifted:
                self.slot(part, f"({raw} >> {shift} & {(1 << width) - 1})")
            return
        target, codec = self.target(slot), slot.codec
        if isinstance(codec, Scalar) and codec.load is not None:
            self.line(f"{target} = {self.bind('load', codec.load)}({raw})")
        elif raw != target:
            self.line(f"{target} = {raw}")
        match slot:
            case fields.Value():
                self.check_range(target, slot.low, slot.high, fields.label(slot))
            case fields.Const():
                self.refuse_if(f"{target} != {self.literal(slot.value)}")
            case fields.Count() | fields.ByteSize() | fields.Flag() | fields.Select():
                self.check_guard(target, slot)
            case fields.TotalSize():
                self.check_range(target, None, slot.high, slot.spec)
                if slot.uncounted:
                    self.line(f"if g_{slot.uncounted}: {target} += {slot.uncounted_bytes}")
                self.refuse_if(f"{target} > end - start or start + {target} < offset")
                self.line(f"end = start + {target}")

    def one(self, target: str, codec: fields.AnyCodec, name: str) -> None:
        if isinstance(codec, fields.Nested):
            self.line(f"{target}, offset = {self.bind('read', codec.layout.read)}(data, offset, end)")
        elif not isinstance(codec, Scalar):
            read = self.bind("read", codec.read)
            self.line(f"{target}, offset = {read}(data, offset, end, section, {name!r})")

    def items(self, step: fields.Items) -> None:
        target, counted = f"v_{step.name}", step.name in self.plan.guards
        if isinstance(step.codec, Scalar):
            self.scalars(step, step.codec, target, counted=counted)
            return
        self.line("made = []")
        if counted:
            self.refuse_if(f"g_{step.name} * {step.codec.least} > end - offset")
            self.line(f"for _ in range(g_{step.name}):")
        else:
            self.line("while offset < end:")
        self.depth += 1
        if not counted:
            self.refuse_if(f"len(made) == {step.high}")
        self.one("item", step.codec, fields.label(step))
        self.line("made.append(item)")
        self.depth -= 1
        self.line(f"{target} = tuple(made)")

    def scalars(self, step: fields.Items, codec: Scalar, target: str, *, counted: bool) -> None:
        if counted:
            self.line(f"size = g_{step.name} * {codec.size}")
            self.refuse_if("size > end - offset")
        else:
            self.line("size = end - offset")
            self.refuse_if(f"size % {codec.size} or size > {(step.high or 0) * codec.size}")
        packer = struct.Struct(f"<{codec.code}")
        unpacked = f"{self.bind('iterate', packer.iter_unpack)}(data[offset:offset + size])"
        load = f"{self.bind('load', codec.load)}(x)" if codec.load is not None else "x"
        self.line(f"{target} = tuple([{load} for x, in {unpacked}])")
        self.line("offset += size")

    def keyed(self, step: fields.Keyed) -> None:
        keys = self.bind(
            "keys", {int(key): (key, *_find_unpacking(codec)) for key, codec in step.codecs.items()}
        )
        self.line(f"size = g_{step.name} * {step.key.size}")
        self.refuse_if("size > end - offset")
        iterate = self.bind("iterate", struct.Struct(f"<{step.key.code}").iter_unpack)
        load = f"{self.bind('load', step.key.load)}(x)" if step.key.load is not None else "x"
        self.line(f"found = [{keys}.get({load}) for x, in {iterate}(data[offset:offset + size])]")
        self.refuse_if("None in found or len(set(found)) != len(found)")
        self.line("offset += size")
        self.line("made = []")
        self.line("for key, size, unpack, load in found:")
        self.depth += 1
        self.line("if size:")
        self.depth += 1
        self.refuse_if("size > end - offset")
        self.line("item, = unpack(data, offset)")
        self.line("if load: item = load(item)")
        self.line("offset += size")
        self.depth -= 1
        self.line(f"else: item, offset = unpack(data, offset, end, section, {fields.label(step)!r})")
        self.line("made.append((key, item))")
        self.depth -= 1
        self.line(f"v_{step.name} = tuple(made)")

    def choice(self, step: fields.Choice) -> None:
        codecs = step.codecs.items()
        readers = {int(key): _read_nothing if codec is None else make_reader(codec) for key, codec in codecs}
        self.line(f"read = {self.bind('readers', readers)}.get(g_{step.name})")
        self.refuse_if("read is None")
        self.line(f"item, offset = read(data, offset, end, section, {fields.label(step)!r})")
        self.line(f"v_{step.name} = {self.bind('pair', step.pair)}(g_{step.name}, item)")

    def align(self, step: fields.Align) -> None:
        self.line(f"size = (start - offset) % {step.to}")
        self.refuse_if("size > end - offset")
        self.line("offset += size")

    def body(self, step: fields.Bytes | fields.Text16) -> None:
        guard = self.plan.guards.get(step.name)
        unit = f" * {guard.unit}" if isinstance(guard, fields.ByteSize) and guard.unit > 1 else ""
        self.line("size = end - offset" if guard is None else f"size = g_{step.name}{unit}")
        self.refuse_if("size > end - offset")
        if isinstance(step, fields.Bytes):
            self.check_range("size", None, step.high, fields.label(step))
            self.line(f"v_{step.name} = data[offset:offset + size]")
        else:
            load = self.bind("load", load_sized_text)
            self.line(f"v_{step.name} = {load}(data[offset:offset + size], {_describe_text_form(step)})")
        self.line("offset += size")

    def branch(self, branch: Branch) -> None:
        name = branch.when.name
        number = "offset < end" if branch.when.left else f"g_{name}"
        self.line(f"if {number}:" if branch.when.is_with else f"if not {number}:")
        self.depth += 1
        self.steps(branch.steps)
        names = tuple(list_branch_names(branch.steps))
        if branch.when.is_with and name in names:
            self.refuse_if(f"not ({self.presence_condition(branch)})")
        self.depth -= 1
        if names:
            self.line("else:")
        self.depth += 1
        for absent in names:
            self.line(f"v_{absent} = {self.bind('default', self.plan.defaults[absent])}")
        self.depth -= 1


class _WriteWriter(_Writer):
    """Generator of the function that encodes; its errors name the field."""

    def __init__(self, layout: "Layout[Any]", namespace: dict[str, Any]) -> None:
        super().__init__(layout.plan)
        self.layout = layout
        self.namespace = namespace

    def refuse_if(self, condition: str, name: str = "", problem: str = "") -> None:
        self.line(f"if {condition}: refuse({name!r}, f{problem!r})")

    def trying(self, statement: str, on_failure: str) -> None:
        """Write a statement, and what explains its failure."""
        self.line(f"try: {statement}")
        self.line(f"except ENCODING_FAILURES as error: {on_failure}")

    def function(self, layout: "Layout[Any]") -> None:
        self.line("def write(made):")
        self.depth = 1
        cls = self.bind("cls", layout.cls)
        problem = "{made!r} is no " + layout.cls.__name__
        self.line(f"if not isinstance(made, {cls}): raise TypeError(f{problem!r})")
        for name in self.plan.names:
            self.line(f"v_{name} = made.{name}")
        self.line("parts = []")
        self.steps(self.plan.steps)
        for step in self.plan.steps:
            if isinstance(step, FieldRun) and self.plan.total is not None and self.plan.total in step.slots:
                self.total(self.plan.total, step)
        self.line('return b"".join(parts)')
        self.depth = 0

    def total(self, slot: fields.TotalSize, run: FieldRun) -> None:
        self.line("total = sum(map(len, parts))")
        if slot.uncounted:
            self.line(f"if g_{slot.uncounted}: total -= {slot.uncounted_bytes}")
        self.check_range("total", None, slot.high, slot.spec)
        self.pack(run, "parts[total_at] = {}")

    def number(self, guard: fields.Guard) -> None:
        name, spec = guard.name, fields.label(guard)
        match guard:
            case fields.Flag():
                yes = str(guard.yes) if isinstance(guard.yes, int) else f"{self.bind('yes', guard.yes)}(made)"
                self.line(f"g_{name} = 0 if v_{name} is None else {yes}")
                problem = "is 0 though it must announce something"
                self.refuse_if(f"v_{name} is not None and not g_{name}", spec, problem)
            case fields.Select():
                problem = f"f'{{v_{name}!r}} is no pair of a form and a value'"
                self.trying(
                    f"g_{name}, _ = v_{name}; g_{name} = int(g_{name})", f"refuse({spec!r}, {problem})"
                )
            case fields.Count():
                self.line(f"g_{name} = len(v_{name})")
            case fields.ByteSize():
                self.measure(self.layout.bodies[name])
                absent = f" if v_{name} else 0" if name in self.plan.defaults else ""
                unit = f" // {guard.unit}" if guard.unit > 1 else ""
                self.line(f"g_{name} = len(b_{name}){unit}{absent}")
        self.check_guard(f"g_{name}", guard)

    def measure(self, step: fields.Bytes | fields.Text16) -> None:
        """Write the encoding of bytes or text."""
        name, spec = step.name, fields.label(step)
        if isinstance(step, fields.Bytes):
            packed = f"bytes(memoryview(v_{name}))"
        else:
            packed = f"{self.bind('dump', dump_sized_text)}(v_{name}, {_describe_text_form(step)})"
        self.trying(f"b_{name} = {packed}", f"refuse({spec!r}, error)")
        if isinstance(step, fields.Bytes):
            self.check_range(f"len(b_{name})", None, step.high, spec)

    def value(self, step: fields.Value) -> None:
        self.trying(
            f"parts.append({self.one(step.codec)}(v_{step.name}))", f"refuse({fields.label(step)!r}, error)"
        )

    def run(self, run: FieldRun) -> None:
        for slot, _ in list_fields(run.slots):
            if isinstance(slot, fields.Guard):
                self.number(slot)
        if self.plan.total is not None and self.plan.total in run.slots:
            self.line("total_at = len(parts)")
            self.line(f"parts.append(bytes({run.size}))")
        else:
            self.pack(run, "parts.append({})")

    def pack(self, run: FieldRun, statement: str) -> None:
        """Write the encoding of neighbouring fields, then the checks of their ranges."""
        raws = ", ".join(self.raw(slot) for slot in run.slots)
        slots = [slot for slot, _ in list_fields(run.slots) if isinstance(slot, fields.Value | fields.Guard)]
        values = "".join(f"{'v' if isinstance(slot, fields.Value) else 'g'}_{slot.name}, " for slot in slots)
        explain = self.bind("explain", partial(_explain_slots, self.layout.section, slots))
        packed = f"{self.bind('pack', run.packer.pack)}({raws})"
        self.trying(statement.format(packed), f"{explain}(({values})); raise")
        for slot in slots:
            if isinstance(slot, fields.Value):
                self.check_range(f"v_{slot.name}", slot.low, slot.high, fields.label(slot))

    def raw(self, slot: fields.Fixed) -> str:
        match slot:
            case fields.TotalSize():
                value = "total"
            case fields.Const():
                return self.constant(slot.codec, slot.value)
            case fields.Ignored():
                return self.constant(slot.codec, slot.send)
            case fields.Value():
                value = f"v_{slot.name}"
            case fields.Count() | fields.ByteSize() | fields.Flag() | fields.Select():
                value = f"g_{slot.name}"
            case fields.Bits():
                return " | ".join(f"{self.raw(part)} << {shift}" for part, shift, _ in slot.shifted)
        if isinstance(slot.codec, Scalar) and slot.codec.dump is not None:
            return f"{self.bind('dump', slot.codec.dump)}({value})"
        return value

    def constant(self, codec: Scalar, value: Any) -> str:
        """Return a constant as `struct` takes it."""
        return self.literal(value if codec.dump is None else codec.dump(value))

    def one(self, codec: fields.AnyCodec) -> str:
        return self.bind("write", make_writer(codec))

    def items(self, step: fields.Items) -> None:
        name = fields.label(step)
        self.check_range(f"len(v_{step.name})", None, step.high, name)
        explain = self.bind("explain", partial(_explain_items, self.layout.section, step))
        self.trying(
            f"parts.extend(map({self.one(step.codec)}, v_{step.name}))", f"{explain}(v_{step.name}); raise"
        )

    def keyed(self, step: fields.Keyed) -> None:
        writers = self.bind("writers", {int(key): make_writer(codec) for key, codec in step.codecs.items()})
        raw = f"{self.bind('dump', step.key.dump)}(key)" if step.key.dump is not None else "key"
        pack = self.bind("pack", struct.Struct(f"<{step.key.code}").pack)
        self.line("try:")
        self.depth += 1
        self.line(f"if len(dict(v_{step.name})) != len(v_{step.name}): raise ValueError")
        self.line(f"parts.extend([{pack}({raw}) for key, _ in v_{step.name}])")
        self.line(f"parts.extend([{writers}[key](value) for key, value in v_{step.name}])")
        self.depth -= 1
        explain = self.bind("explain", partial(_explain_pairs, self.layout.section, step))
        self.line(f"except (LookupError, *ENCODING_FAILURES): {explain}(v_{step.name}); raise")

    def choice(self, step: fields.Choice) -> None:
        codecs, name, value = step.codecs.items(), fields.label(step), f"v_{step.name}[1]"
        writers = {int(key): _write_nothing if codec is None else make_writer(codec) for key, codec in codecs}
        self.line(f"write = {self.bind('writers', writers)}.get(g_{step.name})")
        form = f"{{v_{step.name}[0]!r}}"
        self.refuse_if("write is None", name, f"cannot be sent in the form {form}")
        nothing = self.bind("nothing", _write_nothing)
        problem = f"has no value in the form {form}, not {{{value}!r}}"
        self.refuse_if(f"write is {nothing} and {value} is not None", name, problem)
        self.trying(f"parts.append(write({value}))", f"refuse({name!r}, error)")

    def align(self, step: fields.Align) -> None:
        self.line(f"parts.append(bytes(-sum(map(len, parts)) % {step.to}))")

    def body(self, step: fields.Bytes | fields.Text16) -> None:
        if step.name not in self.plan.guards:
            self.measure(step)
        self.line(f"parts.append(b_{step.name})")

    def branch(self, branch: Branch) -> None:
        condition = self.presence_condition(branch)
        self.line(f"if {condition}:" if branch.when.is_with else f"if not ({condition}):")
        self.depth += 1
        self.steps(branch.steps)
        self.depth -= 1
        names = tuple(list_branch_names(branch.steps))
        if names:
            self.line("else:")
        self.depth += 1
        problem = f"cannot be sent {'without' if branch.when.is_with else 'together with'} {branch.when.name}"
        for absent in names:
            default = self.bind("default", self.plan.defaults[absent])
            self.refuse_if(f"v_{absent} != {default}", absent, problem)
        self.depth -= 1


def make_source(layout: "Layout[Any]") -> tuple[str, dict[str, Any]]:
    """Generate both functions; return the source and its namespace."""
    read = _ReadWriter(layout.plan)
    read.namespace = {"RefusedError": RefusedError, "section": layout.section}
    read.function(layout)
    read.namespace |= {"refuse": partial(_refuse, layout.section), "ENCODING_FAILURES": ENCODING_FAILURES}
    write = _WriteWriter(layout, read.namespace)
    write.function(layout)
    return "\n".join((*read.lines, "", "", *write.lines, "")), read.namespace


def compile_source(name: str, source: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """Run the generated source; return its namespace."""
    variables = dict(namespace)
    exec(compile(source, name, "exec"), variables)  # noqa: S102  source from our own declarations only
    return variables
