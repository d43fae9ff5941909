"""YAML documents as nodes that know their lines.

Only the parser of PyYAML runs. No object is constructed from a tag, and every scalar stays text: ``yes``
and ``0123`` are no boolean and no octal number. The attribute's own model parses the text, as on the
command line.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import yaml

DEPTH_MAX: Final = 16
NODES_MAX: Final = 1_000_000
"""Most nodes of a document. A node counts again wherever an alias refers to it."""
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlProblem(ValueError):  # noqa: N818  what it is called for people
    """Part of a document that cannot be used.

    Args:
        line: of the part, from 1.
        words: what is wrong.
    """

    def __init__(self, line: int, words: str) -> None:
        super().__init__(f"line {line}: {words}")


Content = str | tuple["YamlNode", ...] | Mapping[str, "YamlNode"] | None


@dataclass(frozen=True, slots=True)
class YamlNode:
    """Value in a document.

    Attributes:
        line: of the value; of a value in a mapping, the line of its key.
        content: text, items of a list, values by key, or None for no value.
        size: number of nodes in it, itself included.
    """

    line: int
    content: Content
    size: int = 1

    def read_mapping(self, name: str) -> Mapping[str, "YamlNode"]:
        """Return the values by key; none for no value.

        Raises:
            YamlProblem: it is no mapping.
        """
        if self.content is None:
            return {}
        if isinstance(self.content, Mapping):
            return self.content
        raise YamlProblem(self.line, f"{name} is no mapping: write 'key: value' in lines below it")

    def read_items(self, name: str) -> tuple["YamlNode", ...]:
        """Return the items of a list; a single text is a list of one item.

        Raises:
            YamlProblem: it is no list.
        """
        if isinstance(self.content, str):
            return (self,)
        if isinstance(self.content, tuple):
            return self.content
        raise YamlProblem(self.line, f"{name} is no list: write [a, b]")

    def read_text(self, name: str) -> str:
        """Return the text.

        Raises:
            YamlProblem: it is a list, a mapping or no value.
        """
        if isinstance(self.content, str):
            return self.content
        if self.content is None:
            raise YamlProblem(self.line, f"{name} has no value: write '' for an empty text")
        raise YamlProblem(self.line, f"{name} takes one value")


def read_yaml(data: bytes) -> YamlNode:
    """Read a document.

    Raises:
        YamlProblem: it is no YAML, has several documents, a key twice or an explicit tag, or is too large.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YamlProblem(data.count(b"\n", 0, error.start) + 1, "this is no UTF-8") from None
    try:
        return _Builder().build_document(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = error.problem or error.context or "it cannot be parsed"
        raise YamlProblem(mark.line + 1 if mark else 1, f"this is no YAML: {words}") from None
    except yaml.YAMLError as error:
        raise YamlProblem(1, f"this is no YAML: {' '.join(str(error).split())}") from None


@dataclass(slots=True)
class _Collection:
    """List or mapping whose end has not come yet."""

    line: int
    anchor: str | None
    values: list[YamlNode] | dict[str, YamlNode]
    key: YamlNode | None = None
    size: int = 1

    def add(self, node: YamlNode) -> None:
        self.size += node.size
        if self.size > NODES_MAX:
            raise YamlProblem(node.line, f"more than {NODES_MAX} values, those of aliases included")
        if isinstance(self.values, list):
            self.values.append(node)
        elif self.key is None:
            if not isinstance(node.content, str | None):
                raise YamlProblem(node.line, "a key is one text")
            self.key = replace(node, content=node.content or "")
        else:
            name = str(self.key.content)
            if name in self.values:
                raise YamlProblem(
                    self.key.line, f"the key {name!r} is in line {self.values[name].line} already"
                )
            self.values[name] = replace(node, line=self.key.line)
            self.key = None

    def build_node(self) -> YamlNode:
        content = tuple(self.values) if isinstance(self.values, list) else self.values
        return YamlNode(self.line, content, self.size)


@dataclass(slots=True)
class _Builder:
    """Makes nodes from the events of a parser, without recursion."""

    open: list[_Collection] = field(default_factory=list)
    anchors: dict[str, YamlNode] = field(default_factory=dict)
    root: YamlNode | None = None

    def build_document(self, events: Iterator[Any]) -> YamlNode:
        documents = 0
        for event in events:
            line = event.start_mark.line + 1
            match event:
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        raise YamlProblem(line, "a second document begins: write one")
                case yaml.ScalarEvent():
                    self._add(self._make_scalar(event, line), event.anchor)
                case yaml.AliasEvent():
                    self._add(self._make_alias(event.anchor, line), None)
                case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                    self._begin(event, line)
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    ended = self.open.pop()
                    self._add(ended.build_node(), ended.anchor)
        return self.root or YamlNode(1, None)

    def _begin(self, event: Any, line: int) -> None:
        _refuse_tag(event, line)
        if len(self.open) >= DEPTH_MAX:
            raise YamlProblem(line, f"more than {DEPTH_MAX} levels")
        values: list[YamlNode] | dict[str, YamlNode]
        values = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        self.open.append(_Collection(line, event.anchor, values))

    def _make_scalar(self, event: Any, line: int) -> YamlNode:
        _refuse_tag(event, line)
        is_plain = event.implicit[0]
        return YamlNode(line, None if is_plain and event.value in _NULLS else event.value)

    def _make_alias(self, anchor: str, line: int) -> YamlNode:
        node = self.anchors.get(anchor)
        if node is None:
            raise YamlProblem(line, f"the alias *{anchor} has no anchor before it")
        return replace(node, line=line)

    def _add(self, node: YamlNode, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = node
        if self.open:
            self.open[-1].add(node)
        else:
            self.root = node


def _refuse_tag(event: Any, line: int) -> None:
    if event.tag is not None:
        raise YamlProblem(line, f"the tag {event.tag} is not accepted: leave it out")
