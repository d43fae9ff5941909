"""Frozen dataclasses whose objects are made quickly.

The `__init__` of a frozen dataclass sets each attribute by a call of `object.__setattr__`, because the class
refuses assignments. With twenty attributes these calls take ten times as long as assignments. A message and
its packet are made several times on their way.
"""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any, Final, TypeVar

T = TypeVar("T")

SOURCE_NAME: Final = "<quick __init__>"
"""File name of the generated code."""


def give_quick_init(cls: type[T]) -> type[T]:
    """Class decorator: give a frozen dataclass with slots a faster `__init__`.

    The objects stay frozen; arguments, defaults and errors stay the same.
    """
    function = make_init(cls)
    function.__annotations__ = cls.__init__.__annotations__
    function.__qualname__ = f"{cls.__qualname__}.__init__"
    function.__module__ = cls.__module__
    type.__setattr__(cls, "__init__", function)
    return cls


def make_init(cls: type, *, is_frozen: bool = True) -> Any:
    """Return a faster `__init__` of a dataclass with slots.

    Until all attributes are set, a new object of a frozen class belongs to a class that has the same slots
    and is not frozen.
    """
    names: dict[str, Any] = {"missing": MISSING}
    lines = [f"def __init__({', '.join(_list_parameters(cls, names))}):"]
    if is_frozen:
        names |= {"unfrozen": _make_unfrozen(cls), "frozen": cls, "set_attribute": object.__setattr__}
        lines.append(" set_attribute(self, '__class__', unfrozen)")
    for attribute in fields(cls):
        name = value = attribute.name
        if attribute.default_factory is not MISSING:
            names[f"make_{name}"] = attribute.default_factory
            value = f"make_{name}() if {name} is missing else {name}" if attribute.init else f"make_{name}()"
        elif not attribute.init:
            if attribute.default is MISSING:
                continue  # `__post_init__` sets it
            names[f"default_{name}"] = attribute.default
            value = f"default_{name}"
        lines.append(f" self.{name} = {value}")
    if is_frozen:
        lines.append(" self.__class__ = frozen")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    return _compile(lines, names, "__init__")


def make_copier(cls: type[T], *changed: str) -> Callable[..., T]:
    """Return a function that copies objects of a frozen dataclass with slots.

    The function takes an object, and new values for the `changed` attributes in their order. Unlike
    `dataclasses.replace` it does not call `__post_init__`.
    """
    names: dict[str, Any] = {"unfrozen": _make_unfrozen(cls), "frozen": cls, "new": object.__new__}
    lines = [f"def copy_with(original, {', '.join(changed)}):", " copied = new(unfrozen)"]
    for attribute in fields(cls):  # type: ignore[arg-type]  # a dataclass
        source = attribute.name if attribute.name in changed else f"original.{attribute.name}"
        lines.append(f" copied.{attribute.name} = {source}")
    lines += [" copied.__class__ = frozen", " return copied"]
    function: Callable[..., T] = _compile(lines, names, "copy_with")
    return function


def make_replacer(cls: type[T]) -> Callable[..., T]:
    """Return a faster `dataclasses.replace` for the objects of one class.

    The function takes an object, and the attributes that change by their names.
    """
    attributes = [attribute.name for attribute in fields(cls)]  # type: ignore[arg-type]  # a dataclass
    parameters = ", ".join(f"{name}=missing" for name in attributes)
    values = ", ".join(f"{name}=original.{name} if {name} is missing else {name}" for name in attributes)
    lines = [f"def replaced(original, *, {parameters}):", f" return cls({values})"]
    function: Callable[..., T] = _compile(lines, {"cls": cls, "missing": MISSING}, "replaced")
    return function


def _make_unfrozen(cls: type) -> type:
    """Return a class that differs from a frozen one in taking assignments."""
    own = ("__slots__", "__orig_bases__")  # the latter of a generic class
    members = {name: vars(cls)[name] for name in own if name in vars(cls)}
    members["__setattr__"] = object.__setattr__
    return type(f"Unfrozen{cls.__name__}", cls.__bases__, members)


def _list_parameters(cls: type, names: dict[str, Any]) -> list[str]:
    """Return the parameters of `__init__`, and put their defaults into its namespace."""
    parameters: list[Field[Any]] = [attribute for attribute in fields(cls) if attribute.init]
    positional = [_format_parameter(attribute, names) for attribute in parameters if not attribute.kw_only]
    keyword = [_format_parameter(attribute, names) for attribute in parameters if attribute.kw_only]
    return ["self", *positional, *(["*", *keyword] if keyword else [])]


def _format_parameter(attribute: Field[Any], names: dict[str, Any]) -> str:
    if attribute.default_factory is not MISSING:
        return f"{attribute.name}=missing"
    if attribute.default is MISSING:
        return attribute.name
    names[f"default_{attribute.name}"] = attribute.default
    return f"{attribute.name}=default_{attribute.name}"


def _compile(lines: Sequence[str], names: dict[str, Any], function: str) -> Any:
    source = compile("\n".join(lines), SOURCE_NAME, "exec")
    exec(source, names)  # noqa: S102  source from the attributes of our own classes
    return names[function]
