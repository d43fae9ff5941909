"""Identification of the object of ``write`` and ``delete`` by one attribute."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.objects import CommandType

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory
    from mqdssm.model.base import DirectoryObject


def split(
    kind: CommandType, given: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Split assignments into the one that identifies the object, and the others.

    Raises:
        UsageProblem: nothing says it, or more than one attribute does.
    """
    from mqdssm.events.attributes import KEYS

    known = KEYS[kind.element_name]
    keys = {name: texts for name, texts in given.items() if name in known}
    rest = {name: texts for name, texts in given.items() if name not in known}
    if len(keys) > 1:
        raise UsageProblem(f"{' and '.join(keys)} both say which {kind.value} is meant: give one of them")
    if not keys and kind is not CommandType.ENTERPRISE:
        raise UsageProblem(f"which {kind.value}? give one of {', '.join(sorted(known))}, as Identifier=5f7c…")
    return keys, rest


def identify(directory: "Directory", kind: CommandType, obj: "DirectoryObject") -> None:
    """Set the Identifier of an enterprise that was not named, since there is only one."""
    if kind is CommandType.ENTERPRISE and not obj.is_populated("Identifier"):
        obj.identifier = directory.read(kind.element, [], attributes=["Identifier"]).identifier
