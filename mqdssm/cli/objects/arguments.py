"""Object types and attributes on the command line: names, values, sort orders."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mqdssm.cli.exits import UsageProblem, words_of

if TYPE_CHECKING:
    from mqdssm.model.base import DirectoryObject
    from mqdssm.model.filters import SortKey
    from mqdssm.tables.element_table import ElementTable
    from mqdssm.tables.row import Row

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Maximum size of an @FILE; no attribute holds more than 1 MiB."""

_ASSIGNMENT: Final = re.compile(r"(?P<name>[^=<>!]*)=(?P<value>.*)", re.DOTALL)
_JOINED: Final = re.compile(r"(?:.*(?:\|\||&&|[(!]) *)?", re.DOTALL)
_SDDL: Final = re.compile(r"\s*[OGDS]:")


class CommandType(StrEnum):
    """Type of objects, as on the command line."""

    QUEUE = "queue"
    QUEUE_MANAGER = "queue-manager"
    ENTERPRISE = "enterprise"
    SITE = "site"
    ROUTING_LINK = "routing-link"
    USER = "user"

    @property
    def element_name(self) -> str:
        """Name of the element in the specification."""
        return "".join(part.capitalize() for part in self.value.split("-"))

    @property
    def element(self) -> "type[DirectoryObject]":
        """Class of the element."""
        from mqdssm.model.elements import element_of

        return element_of(self.element_name)

    @property
    def table(self) -> "ElementTable":
        """Table of the element's attributes."""
        from mqdssm.tables import table_of

        return table_of(self.element_name)


def list_attribute_names(kind: CommandType) -> tuple[str, ...]:
    """Return the specification's names of the attributes of a type."""
    return tuple(row.adm for row in kind.table.rows)


# -- parameters -------------------------------------------------------------------------------------


def _find_type(ctx: typer.Context) -> CommandType | None:
    # behind an option whose value is being completed, what stands before it is not assigned yet
    for value in (ctx.params.get("kind"), *ctx.args):
        if value in list(CommandType):
            return CommandType(value)
    return None


def _complete_names(ctx: typer.Context, incomplete: str, end: str) -> list[str]:
    kind = _find_type(ctx)
    names = list_attribute_names(kind) if kind is not None else ()
    return [f"{name}{end}" for name in names if name.lower().startswith(incomplete.lower())]


def complete_assignment(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return completions of ``Attribute=Value``."""
    name, equals, value = incomplete.partition("=")
    kind = _find_type(ctx)
    if not equals or kind is None:
        return _complete_names(ctx, incomplete, "=")
    row = kind.table.by_adm.get(name)
    return [
        f"{name}={known_value}"
        for known_value in _list_known_values(row)
        if known_value.lower().startswith(value.lower())
    ]


def complete_filter(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return completions of ``--filter``: names for its last comparison."""
    match = _JOINED.match(incomplete)
    before = match[0] if match is not None else ""
    return [f"{before}{name}" for name in _complete_names(ctx, incomplete[len(before) :], "==")]


def complete_list(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return completions of ``--attributes A,B`` and ``--sort A,-B``."""
    before, comma, last = incomplete.rpartition(",")
    minus = "-" if last.startswith("-") else ""
    return [f"{before}{comma}{minus}{name}" for name in _complete_names(ctx, last.removeprefix("-"), "")]


def _list_known_values(row: "Row | None") -> Sequence[str]:
    from mqdssm.model.enums import DirectoryServerType, OperatingSystemType, PrivacyLevel
    from mqdssm.model.fieldtypes import spec_name
    from mqdssm.tables.syntax import Kind

    if row is None or row.kind not in {Kind.BOOLEAN, Kind.ENUMERATION}:
        return ()
    if row.kind is Kind.BOOLEAN:
        return ("true", "false")
    enumerations = {
        enumeration.__name__: enumeration
        for enumeration in (DirectoryServerType, OperatingSystemType, PrivacyLevel)
    }
    return [spec_name(member) for member in enumerations[row.adm]]


TypeArgument = Annotated[CommandType, typer.Argument(metavar="TYPE", help="Type of object.")]
Assignments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="Attribute=Value…",
        help="Attributes, named as in the specification: [b]mqdssm schema show TYPE[/] lists "
        "them. Write lists with commas, or repeat the attribute; write bytes as base64 or "
        "@FILE, Security also as SDDL.",
        autocompletion=complete_assignment,
    ),
]
AttributesOption = Annotated[
    str | None,
    typer.Option(
        "--attributes", "-a", metavar="A,B", help="Attributes to read.", autocompletion=complete_list
    ),
]


def names_of(kind: CommandType, text: str | None) -> tuple[str, ...] | None:
    """Parse the names in ``A,B``; None for None.

    Raises:
        UsageProblem: an empty name.
        GenericDirectoryError: a name that the directory does not keep ([MS-MQDSSM] 3.1.6.20).
        ValueError: the type has no such attribute.
    """
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise UsageProblem(f"{text!r} is no list of attributes: separate their names by commas")
    check_typed(kind, names)
    return names


def check_typed(kind: CommandType, names: Sequence[str]) -> None:
    """Raise an error for unknown names, and for names that no directory keeps.

    Raises:
        GenericDirectoryError: a name that the directory does not keep ([MS-MQDSSM] 3.1.6.20).
        ValueError: the type has no such attribute.
    """
    from mqdssm.events.attributes import check_names

    for name in names:
        if name not in kind.table.unsupported:
            kind.element.field_name(name)
    check_names(kind.table, names)


# -- values -----------------------------------------------------------------------------------------


def assignments_of(kind: CommandType, texts: Iterable[str] | None) -> dict[str, tuple[str, ...]]:
    """Parse ``Attribute=Value`` texts; return the values by attribute.

    Raises:
        UsageProblem: a text that is no assignment.
        GenericDirectoryError: an attribute that no directory keeps.
        ValueError: the type has no such attribute.
    """
    assignments: dict[str, tuple[str, ...]] = {}
    for text in texts or ():
        match = _ASSIGNMENT.fullmatch(text)
        if match is None or not match["name"].strip():
            raise UsageProblem(f"{text!r} is no Attribute=Value")
        name = match["name"].strip()
        check_typed(kind, [name])
        assignments[name] = (*assignments.get(name, ()), match["value"])
    return assignments


def object_of(kind: CommandType, assignments: Mapping[str, tuple[str, ...]]) -> "DirectoryObject":
    """Make an element with given values.

    Raises:
        UsageProblem: a value is given twice, a file cannot be read.
        ValueError: a value that its attribute does not accept.
    """
    values: dict[str, Any] = {}
    for name, texts in assignments.items():
        row = kind.table.row(name)
        if row.multi:
            values[name] = [item_of(row, part) for text in texts for part in parts_of(text)]
        elif len(texts) > 1:
            raise UsageProblem(f"{name} is given {len(texts)} times: it has one value")
        else:
            values[name] = item_of(row, texts[0])
    return kind.element(**values)


def parts_of(text: str) -> list[str]:
    """Split the text of a list of values at its commas."""
    if text.startswith("@") or not text:
        return [text] if text else []
    return [part.strip() for part in text.split(",")]


def item_of(row: "Row", text: str) -> Any:
    """Parse one value, unless the model parses the text itself."""
    from mqdssm.tables.syntax import Kind

    if row.kind is Kind.BYTES:
        return _parse_descriptor(text) if row.adm == "Security" else _read_bytes(text)
    if row.kind is Kind.TIME:
        return _parse_time(row.adm, text)
    return text


def _read_bytes(text: str) -> bytes | str:
    return _read_file(text[1:]) if text.startswith("@") else text


def _read_file(name: str) -> bytes:
    with Path(name).expanduser().open("rb") as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise UsageProblem(f"{name} is longer than {FILE_BYTES_MAX} bytes: no attribute holds that")
    return data


def _parse_descriptor(text: str) -> bytes:
    """Parse a security descriptor: SDDL, base64 of its bytes, or a file of either."""
    from base64 import b64decode

    from mqdssm.wire.dtyp import SecurityDescriptor

    data: bytes | None = None
    if text.startswith("@"):
        data = _read_file(text[1:])
        if _SDDL.match(data[:16].decode("ascii", errors="replace")):
            text, data = data.decode("ascii", errors="replace").strip(), None
    try:
        if data is None and _SDDL.match(text):
            return bytes(SecurityDescriptor.from_sddl(text))
        return bytes(SecurityDescriptor.from_bytes(b64decode(text, validate=True) if data is None else data))
    except ValueError as error:
        raise UsageProblem(f"Security is neither SDDL nor a security descriptor: {words_of(error)}") from None


def _parse_time(name: str, text: str) -> Any:
    """Parse a time: seconds since 1970, or ISO 8601, in UTC if it has no zone."""
    if re.fullmatch(r"-?\d+", text):
        return text
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageProblem(
            f"{name} {text!r} is no time: write 2026-01-31T12:00:00Z, or seconds since 1970"
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


# -- sort orders -------------------------------------------------------------------------------------


def sort_of(kind: CommandType, text: str | None) -> tuple["SortKey", ...]:
    """Parse a sort order, as ``Quota,-Label``.

    The first key is the most significant, a minus is descending.

    Raises:
        UsageProblem: an empty name.
        GenericDirectoryError: an attribute that cannot be asked for.
        ValueError: the type has no such attribute.
    """
    from mqdssm.model.filters import SortKey

    parts = text.split(",") if text is not None else []
    names = names_of(kind, ",".join(part.strip().removeprefix("-") for part in parts)) if parts else ()
    count = len(parts)
    return tuple(
        SortKey(name, priority=count - n, ascending=not part.strip().startswith("-"))
        for n, (name, part) in enumerate(zip(names or (), parts, strict=True))
    )
