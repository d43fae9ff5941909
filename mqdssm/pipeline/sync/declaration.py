"""Declaration of sites, machines and queues, in Python or in a YAML file.

An attribute that the declaration does not name is not compared and not changed.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntFlag
from pathlib import Path
from typing import Any, ClassVar, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from mqdssm.errors import ConfigError
from mqdssm.events.input_files import TooLongFileError, read_limited
from mqdssm.model.base import DirectoryObject
from mqdssm.model.dn import fold_case
from mqdssm.model.elements import Queue, QueueManager, Site
from mqdssm.model.fieldtypes import describe_problems
from mqdssm.model.names import PathKind, PathName
from mqdssm.model.queuenames import check_stored_name
from mqdssm.model.suggestions import suggest_name
from mqdssm.pipeline.sync.rights import DeclaredRights
from mqdssm.pipeline.sync.yaml_nodes import YamlNode, YamlProblem, read_yaml
from mqdssm.tables import TABLES
from mqdssm.tables.row import Access, Holder
from mqdssm.wire.masks import MachineAccess, QueueAccess, SiteAccess

DOCUMENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Longest file: some 100,000 queues."""
SECURITY: Final = "Security"
RIGHTS: Final = "rights"
QUEUES: Final = "queues"
_STORED: Final = Access.CREATE | Access.WRITE
_ANY_COMPUTER: Final = "computer"
"""Name for checking a queue before its machine is known."""
Kept = TypeVar("Kept")


def _attributes_of(element: type[DirectoryObject]) -> tuple[str, ...]:
    """Return the attributes of a type that a declaration may name, without Security."""
    return tuple(
        row.adm
        for row in TABLES[element].rows
        if row.access & _STORED and row.computed is None and row.holder is Holder.OWN and row.adm != SECURITY
    )


class DeclaredObject(BaseModel):
    """Base of declared objects.

    Attributes:
        name: of the object.
        attributes: the specification's name of an attribute -> value.
        rights: rights on the object; None: they stay as they are.
        line: of the file; 0 without a file.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    element_type: ClassVar[type[DirectoryObject]]
    allowed: ClassVar[tuple[str, ...]]
    access: ClassVar[type[IntFlag]]

    name: str
    attributes: Mapping[str, Any] = {}
    rights: DeclaredRights | None = None
    line: int = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in self.attributes:
            if name not in self.allowed:
                raise ValueError(f"{self.name} has no attribute {name!r}{suggest_name(name, self.allowed)}")
        self._make(_ANY_COMPUTER)
        if self.rights is not None:
            self.rights.check(self.access)
        return self

    @abstractmethod
    def _make(self, computer: str) -> DirectoryObject:
        """Return the object as an element, which checks its values."""

    @property
    def names(self) -> frozenset[str]:
        """Declared attributes, by the specification's names, without Security."""
        return frozenset(self.attributes)


class DeclaredSite(DeclaredObject):
    """A site."""

    element_type: ClassVar[type[DirectoryObject]] = Site
    allowed: ClassVar[tuple[str, ...]] = _attributes_of(Site)
    access: ClassVar[type[IntFlag]] = SiteAccess

    def make_element(self) -> Site:
        """Return the site as an element, with the declared attributes."""
        return Site(**{"Name": self.name, **self.attributes})

    def _make(self, computer: str) -> DirectoryObject:
        del computer
        return self.make_element()


class DeclaredQueue(DeclaredObject):
    """A public queue."""

    element_type: ClassVar[type[DirectoryObject]] = Queue
    allowed: ClassVar[tuple[str, ...]] = _attributes_of(Queue)
    access: ClassVar[type[IntFlag]] = QueueAccess

    def make_element(self, computer: str) -> Queue:
        """Return the queue of a computer as an element, with the declared attributes."""
        return Queue(**{"Pathname": f"{computer}\\{self.name}", **self.attributes})

    def _make(self, computer: str) -> DirectoryObject:
        if PathName.parse_stored(f"{computer}\\{self.name}").kind is not PathKind.PUBLIC:
            raise ValueError(f"{self.name} is no public queue: a directory holds public queues alone")
        check_stored_name(self.name)
        return self.make_element(computer)


class DeclaredMachine(DeclaredObject):
    """A queue manager, which exists already: the installation of MSMQ makes it.

    Attributes:
        queues: its public queues; None: they are not declared, and stay as they are.
    """

    element_type: ClassVar[type[DirectoryObject]] = QueueManager
    allowed: ClassVar[tuple[str, ...]] = ("QueueManagerQuota", "JournalQuota")
    access: ClassVar[type[IntFlag]] = MachineAccess

    queues: Sequence[DeclaredQueue] | None = None

    @model_validator(mode="after")
    def _check_queues(self) -> Self:
        _refuse_twice("queue", self.queues or ())
        return self

    def make_element(self) -> QueueManager:
        """Return the queue manager as an element, with the declared attributes."""
        return QueueManager(**{"ComputerName": self.name, **self.attributes})

    def _make(self, computer: str) -> DirectoryObject:
        PathName.parse_stored(f"{self.name}\\{computer}")
        return self.make_element()


class Declaration(BaseModel):
    """Objects that a directory has to hold.

    Attributes:
        sites: sites.
        machines: queue managers with their queues.
        source: name of the file, for the plan; empty without one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sites: Sequence[DeclaredSite] = ()
    machines: Sequence[DeclaredMachine] = ()
    source: str = ""

    @model_validator(mode="after")
    def _check(self) -> Self:
        _refuse_twice("site", self.sites)
        _refuse_twice("machine", self.machines)
        return self

    def list_objects(self) -> Iterator[DeclaredObject]:
        """Yield all declared objects."""
        yield from self.sites
        for machine in self.machines:
            yield machine
            yield from machine.queues or ()


def _refuse_twice(kind: str, objects: Iterable[DeclaredObject]) -> None:
    """Refuse names that differ in case alone: the directory takes them for one name."""
    names: dict[str, DeclaredObject] = {}
    for declared in objects:
        key = fold_case(declared.name)
        if key in names:
            first = names[key]
            lines = f" in lines {first.line} and {declared.line}" if declared.line else ""
            raise ValueError(f"the {kind} {declared.name} is declared twice, as {first.name} too{lines}")
        names[key] = declared


# -- files


def load_declaration(path: Path) -> Declaration:
    """Read a declaration from a YAML file.

    Raises:
        ConfigError: the file cannot be read or used; with the line and what is wrong there.
    """
    try:
        root = read_yaml(read_limited(path, DOCUMENT_BYTES_MAX))
        parts = _read_entries(root, "the file", ("sites", "machines"))
        sites = tuple(_read_site(name, node) for name, node in _list_named_nodes(parts, "sites"))
        machines = tuple(_read_machine(name, node) for name, node in _list_named_nodes(parts, "machines"))
        return _check_value(
            root, lambda: Declaration(sites=sites, machines=machines, source=str(path.resolve()))
        )
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except TooLongFileError as error:
        raise ConfigError(str(error)) from None
    except YamlProblem as error:
        raise ConfigError(f"{path} {error}") from None


def _read_entries(node: YamlNode, name: str, allowed: tuple[str, ...]) -> Mapping[str, YamlNode]:
    """Return the values of a mapping; refuse keys that are not allowed."""
    values = node.read_mapping(name)
    for key, value in values.items():
        if key not in allowed:
            raise YamlProblem(value.line, f"{name} has no key {key!r}{suggest_name(key, allowed)}")
    return values


def _list_named_nodes(parts: Mapping[str, YamlNode], key: str) -> Iterable[tuple[str, YamlNode]]:
    return parts[key].read_mapping(key).items() if key in parts else ()


def _read_site(name: str, node: YamlNode) -> DeclaredSite:
    return _make_declared(
        DeclaredSite, name, node, _read_entries(node, f"the site {name}", (*DeclaredSite.allowed, RIGHTS))
    )


def _read_machine(name: str, node: YamlNode) -> DeclaredMachine:
    values = _read_entries(node, f"the machine {name}", (*DeclaredMachine.allowed, RIGHTS, QUEUES))
    queues = None
    if QUEUES in values:
        _refuse_nothing(values[QUEUES], QUEUES, "queue")
        named = values[QUEUES].read_mapping(f"{QUEUES} of {name}").items()
        queues = tuple(_read_queue(f"{name}\\{queue}", queue, value) for queue, value in named)
    return _make_declared(DeclaredMachine, name, node, values, queues=queues)


def _read_queue(path: str, name: str, node: YamlNode) -> DeclaredQueue:
    values = _read_entries(node, f"the queue {path}", (*DeclaredQueue.allowed, RIGHTS))
    return _make_declared(DeclaredQueue, name, node, values)


def _refuse_nothing(node: YamlNode, name: str, item: str) -> None:
    """Refuse a key without a value.

    If the lines below the key are comments, it would mean that all is to be removed.
    """
    if node.content is None:
        raise YamlProblem(node.line, f"{name} has no value: write {{}} for no {item}, or leave {name} out")


Model = TypeVar("Model", bound=DeclaredObject)


def _make_declared(
    model: type[Model], name: str, node: YamlNode, values: Mapping[str, YamlNode], **more: Any
) -> Model:
    attributes = {key: value.read_text(key) for key, value in values.items() if key in model.allowed}
    for key, text in attributes.items():  # one at a time: an error then names its own line
        _check_value(values[key], lambda key=key, text=text: model.element_type(**{key: text}))  # type: ignore[misc]  # values of the loop
    rights = _read_rights(values[RIGHTS], model.access) if RIGHTS in values else None
    return _check_value(
        node, lambda: model(name=name, attributes=attributes, rights=rights, line=node.line, **more)
    )


def _read_rights(node: YamlNode, kind: type[IntFlag]) -> DeclaredRights:
    if isinstance(node.content, str):
        return _check_value(node, lambda: DeclaredRights(sddl=str(node.content)))
    _refuse_nothing(node, RIGHTS, "entry")
    parts = _read_entries(node, RIGHTS, ("allow", "deny"))
    lists: dict[str, dict[str, tuple[str, ...]]] = {}
    for part, accounts in parts.items():
        _refuse_nothing(accounts, part, "entry")
        lists[part] = {}
        for account, names in accounts.read_mapping(part).items():
            texts = tuple(item.read_text("a right") for item in names.read_items(account))
            lists[part][account] = texts
            _check_value(names, lambda texts=texts: DeclaredRights(allow={"S-1-1-0": texts}).check(kind))  # type: ignore[misc]  # a value of the loop
    return _check_value(node, lambda: DeclaredRights.model_validate(lists))


def _check_value(node: YamlNode, make: Callable[[], Kept]) -> Kept:
    """Call a function, and name the line of a value that it refuses.

    Raises:
        YamlProblem: a value is refused.
    """
    try:
        return make()
    except ValidationError as error:
        raise YamlProblem(node.line, describe_problems(error).replace("Value error, ", "")) from None
    except YamlProblem:
        raise
    except ValueError as error:
        raise YamlProblem(node.line, str(error)) from None
