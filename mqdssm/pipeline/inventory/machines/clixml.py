"""CLIXML, the XML of PowerShell's ``Export-Clixml`` ([MS-PSRP] 2.2.5).

Objects become dicts of their properties, lists become lists, and numbers ints. All other values become texts.
A document type is refused: so there are no entities, and nothing outside the text is read.
"""

import re
from typing import Any, Final
from xml.parsers import expat

from mqdssm.pipeline.inventory.machines.report import ReportProblem

DEPTH_MAX: Final = 64
"""Maximum depth of elements; the script's output has 9."""
NODES_MAX: Final = 1_000_000
"""Maximum number of values in a file. A value counts again wherever a reference refers to it."""
NUMBER_CHARS_MAX: Final = 20
_ESCAPE: Final = re.compile("_x([0-9A-Fa-f]{4})_")
_NUMBERS: Final = frozenset({"By", "SB", "I16", "I32", "I64", "U16", "U32", "U64"})
_LISTS: Final = frozenset({"Objs", "LST", "IE", "QUE", "STK"})
_PROPERTIES: Final = frozenset({"Props", "MS", "En"})
_IGNORED: Final = frozenset({"TN", "TNRef"})


def read_clixml(text: str) -> list[Any]:
    """Return the objects of a CLIXML document.

    Raises:
        ReportProblem: the text is no such document; the message names line and column.
    """
    parser = expat.ParserCreate("utf-8")  # in place of the encoding in the declaration: the text is decoded
    parser.buffer_text = True
    reader = _Reader()
    parser.StartDoctypeDeclHandler = _refuse_document_type
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.add_text
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        raise ReportProblem(f"line {error.lineno}, column {error.offset + 1}: {error.args[0]}") from None
    except ValueError as error:
        place = f"line {parser.CurrentLineNumber}, column {parser.CurrentColumnNumber + 1}"
        raise ReportProblem(f"{place}: {error}") from None
    return reader.objects


def _refuse_document_type(*_: object) -> None:
    raise ValueError("a document type (DOCTYPE) is not allowed")


class _Element:
    """An element while it is read."""

    __slots__ = ("fields", "has_items", "items", "name", "reference", "size", "tag", "texts", "value")

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.name = _unescape(attributes.get("N", ""))
        self.reference = attributes.get("RefId")
        self.size = 1
        self.texts: list[str] = []
        self.fields: dict[str, Any] = {}
        self.items: list[Any] = []
        self.has_items = tag in _LISTS
        self.value: Any = None

    def take(self, child: "_Element", value: Any) -> None:
        """Take the value of a child element."""
        self.size += child.size
        if self.size > NODES_MAX:
            raise ValueError(f"more than {NODES_MAX} values, those of references included")
        if self.tag in _LISTS:
            self.items.append(value)
        elif self.tag in _PROPERTIES:
            self.fields[child.name] = value
        elif self.tag == "DCT":
            self._take_entry(child, value)
        elif self.tag == "Obj" and child.tag not in _IGNORED:
            if child.tag in _LISTS:
                self.items, self.has_items = value, True
            elif child.tag in _PROPERTIES or child.tag == "DCT":
                self.fields |= value
            elif child.tag != "ToString" or self.value is None:
                self.value = value

    def _take_entry(self, child: "_Element", value: Any) -> None:
        key = value.get("Key") if child.tag == "En" else None
        if not isinstance(key, str | int):
            raise ValueError("a dictionary has something else than entries with a text or number as key")  # noqa: TRY004  the reader takes ValueError
        self.fields[str(key)] = value.get("Value")

    def build_result(self, objects: dict[str, tuple[Any, int]]) -> Any:
        """Return the value of the element.

        Args:
            objects: finished objects and their sizes, by their reference.
        """
        if self.tag in _LISTS:
            return self.items
        if self.tag in _PROPERTIES or self.tag == "DCT":
            return self.fields
        if self.tag == "Obj":
            value = self.items if self.has_items else self.fields or self.value
            if self.reference is not None:
                objects[self.reference] = value, self.size
            return value
        if self.tag == "Ref":
            if self.reference not in objects:
                raise ValueError(
                    f"reference to object {self.reference!r}, which does not exist or is not finished"
                )
            value, self.size = objects[self.reference]
            return value
        if self.tag == "Nil":
            return None
        text = "".join(self.texts)
        if self.tag not in _NUMBERS:
            return _unescape(text)
        if len(text) > NUMBER_CHARS_MAX:
            raise ValueError(f"a number of more than {NUMBER_CHARS_MAX} characters")
        return int(text)


class _Reader:
    """Reader of elements.

    Attributes:
        objects: objects of the document.
    """

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self._open: list[_Element] = []
        self._known: dict[str, tuple[Any, int]] = {}

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= DEPTH_MAX:
            raise ValueError(f"more than {DEPTH_MAX} elements in each other")
        if not self._open and tag != "Objs":
            raise ValueError(f"the document is {tag[:40]!r}, not 'Objs' as PowerShell writes it")
        self._open.append(_Element(tag, attributes))

    def add_text(self, text: str) -> None:
        self._open[-1].texts.append(text)

    def end(self, _: str) -> None:
        element = self._open.pop()
        value = element.build_result(self._known)
        if self._open:
            self._open[-1].take(element, value)
        else:
            self.objects = value


def _unescape(text: str) -> str:
    """Return a text without PowerShell's escapes: ``_x000A_`` is a line feed.

    Two escapes can be the halves of one character of UTF-16.
    """
    if "_x" not in text:
        return text
    units = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
