"""A reader of LDIF (RFC 2849), written from the grammar alone: for our writer's output and for tools'."""

from base64 import b64decode
from collections.abc import Iterable, Iterator

Entry = tuple[str, dict[str, list[bytes]]]
"""DN and lower-case attribute description -> values; ``changetype`` is one of the attributes."""


def read_ldif(text: bytes) -> Iterator[Entry]:
    """The records of a text that makes objects."""
    for block in _blocks(text):
        name, value = _pair(block[0])
        assert name == "dn", block[0]
        attributes: dict[str, list[bytes]] = {}
        for line in block[1:]:
            if line == b"-":
                continue
            description, found = _pair(line)
            attributes.setdefault(description.lower(), []).append(found)
        yield value.decode(), attributes


def comparable(entries: Iterable[Entry]) -> dict[str, dict[str, list[bytes]]]:
    """Entries by lower-case name, the values of each attribute in an order of their own."""
    found: dict[str, dict[str, list[bytes]]] = {}
    for dn, attributes in entries:
        assert dn.lower() not in found, f"{dn} is there twice"
        found[dn.lower()] = {name.lower(): sorted(values) for name, values in attributes.items()}
    return found


def _blocks(text: bytes) -> Iterator[list[bytes]]:
    lines: list[bytes] = []
    for line in [*text.replace(b"\r\n", b"\n").split(b"\n"), b""]:
        if line.startswith(b" ") and lines:
            lines[-1] += line[1:]
        elif line:
            lines.append(line)
        elif lines:
            block = [one for one in lines if not one.startswith((b"#", b"version:"))]
            if block:
                yield block
            lines = []


def _pair(line: bytes) -> tuple[str, bytes]:
    name, separator, value = line.partition(b":")
    assert separator, line
    if value.startswith(b":"):
        return name.decode("ascii"), b64decode(value[1:].strip(), validate=True)
    assert not value.startswith(b"<"), line
    return name.decode("ascii"), value.lstrip(b" ")
