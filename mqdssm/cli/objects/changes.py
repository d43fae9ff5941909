"""``mqdssm create``, ``write`` and ``delete``.

See [MS-MQDSSM] 3.1.6.1, 3.1.6.7 and 3.1.6.2.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from mqdssm.cli.exits import UsageProblem
from mqdssm.cli.objects.arguments import Assignments, CommandType, TypeArgument, assignments_of, object_of
from mqdssm.cli.output import say
from mqdssm.cli.run import CommandRun, declare_command
from mqdssm.cli.server.control import ServerOption, open_control_client

if TYPE_CHECKING:
    from uuid import UUID

    from mqdssm.events.facade import Directory
    from mqdssm.model.base import DirectoryObject


def create(
    run: CommandRun, *, kind: TypeArgument, values: Assignments = None, server: ServerOption = None
) -> None:
    """Create a queue, queue-manager, site or routing-link.

    Attributes that are not given are not stored: they read as the specification's defaults. The command
    prints the Identifier of the new object. Some servers choose it themselves, even if you give one.
    """
    from mqdssm.errors import GenericDirectoryError
    from mqdssm.events.create import REQUIRED

    if kind.element_name not in REQUIRED:
        raise GenericDirectoryError(
            f"{kind.element_name} objects cannot be created: {', '.join(REQUIRED)} can"
        )
    obj = object_of(kind, assignments_of(kind, values))
    if missing := [name for name in REQUIRED[kind.element_name] if not obj.is_populated(name)]:
        raise UsageProblem(f"a {kind.value} needs {', '.join(f'{name}=VALUE' for name in missing)}")
    wanted_guid = obj.identifier
    with open_control_client(server) if server is not None else run.connect() as directory:
        new_guid = directory.create(obj)
    warning = "" if wanted_guid in {None, new_guid} else _describe_guid_difference(obj, wanted_guid)
    identifier = str(new_guid)
    if warning:
        say(f"warning: {warning}")
    run.output.answer({"Identifier": identifier}, f"created {kind.value} {identifier}")


def _describe_guid_difference(obj: "DirectoryObject", wanted_guid: "UUID | None") -> str:
    """Return a warning if the given GUID did not become the Identifier.

    Returns an empty text if no warning is needed (decision M37).
    """
    new_guid = obj.identifier
    if obj.original_identifier == wanted_guid:
        return (
            f"the server made the Identifier {new_guid}; it remembers {wanted_guid}, which finds it as well"
        )
    if obj.element_name == "QueueManager":  # of the others that keep nothing the library has warned
        return f"the queue manager existed already, with the Identifier {new_guid}, not {wanted_guid}"
    return ""


create_app = declare_command(
    create,
    examples=(
        "mqdssm create site Name=Berlin",
        r"mqdssm create queue 'Pathname=web01\orders' Label=Orders Quota=10000 Transactional=true",
        r"mqdssm create queue 'Pathname=web01\orders' --server /var/lib/mqdssm/control.sock",
        "mqdssm create queue-manager ComputerName=web01 SiteIdentifierList=5f7c…,81aa… RoutingServer=true",
        "mqdssm create routing-link Site1Identifier=5f7c… Site2Identifier=81aa… ActualCost=7",
    ),
)


def split_keys(
    kind: CommandType, assignments: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Split assignments into the one that identifies the object, and the others.

    Raises:
        UsageProblem: nothing says it, or more than one attribute does.
    """
    from mqdssm.events.attributes import KEYS

    key_names = KEYS[kind.element_name]
    keys = {name: texts for name, texts in assignments.items() if name in key_names}
    rest = {name: texts for name, texts in assignments.items() if name not in key_names}
    if len(keys) > 1:
        raise UsageProblem(f"{' and '.join(keys)} both say which {kind.value} is meant: give one of them")
    if not keys and kind is not CommandType.ENTERPRISE:
        raise UsageProblem(
            f"which {kind.value}? give one of {', '.join(sorted(key_names))}, as Identifier=5f7c…"
        )
    return keys, rest


def identify(directory: "Directory", kind: CommandType, obj: "DirectoryObject") -> None:
    """Set the Identifier of an enterprise without a name: there is only one."""
    if kind is CommandType.ENTERPRISE and not obj.is_populated("Identifier"):
        obj.identifier = directory.read(kind.element, [], attributes=["Identifier"]).identifier


def write(
    run: CommandRun, *, kind: TypeArgument, values: Assignments = None, server: ServerOption = None
) -> None:
    """Change attributes of one object.

    One of Identifier, FullPath, Pathname, DirectoryPath, ComputerName, Name and SecurityIdentifier selects
    the object; the enterprise needs none. The other attributes are written.
    """
    assignments = assignments_of(kind, values)
    _, changes = split_keys(kind, assignments)
    if not changes:
        raise UsageProblem("nothing to write: give an Attribute=Value besides the one that says which object")
    obj = object_of(kind, assignments)
    if server is not None:
        with open_control_client(server) as client:
            client.write(obj)
    else:
        with run.connect() as directory:
            identify(directory, kind, obj)
            directory.write(obj, attributes=tuple(changes))
    run.output.answer({"written": list(changes)}, f"written {kind.value}: {', '.join(changes)}")


write_app = declare_command(
    write,
    examples=(
        r"mqdssm write queue 'Pathname=web01\orders' 'Label=Paid orders' Quota=20000",
        "mqdssm write enterprise DefaultTimeToLive=86400",
        "mqdssm write site Name=Berlin 'Security=O:BAG:BAD:(A;;0x2002b;;;WD)'",
    ),
)


Recursive = Annotated[bool, typer.Option("--recursive", help="Also delete the queues of a queue manager.")]


def delete(
    run: CommandRun,
    *,
    kind: TypeArgument,
    values: Assignments = None,
    recursive: Recursive = False,
    server: ServerOption = None,
) -> None:
    """Delete a queue, queue-manager, site or routing-link.

    One of Identifier, FullPath, Pathname, DirectoryPath, ComputerName and Name selects the object.
    """
    from mqdssm.errors import GenericDirectoryError
    from mqdssm.events.create import REQUIRED

    if kind.element_name not in REQUIRED:  # what can be created can be deleted (decision M44)
        raise GenericDirectoryError(
            f"{kind.element_name} objects cannot be deleted: {', '.join(REQUIRED)} can"
        )
    assignments = assignments_of(kind, values)
    _, rest = split_keys(kind, assignments)
    if rest:
        raise UsageProblem(f"{', '.join(rest)}: delete takes only what says which {kind.value} is meant")
    obj = object_of(kind, assignments)
    if server is not None:
        if recursive:
            raise UsageProblem("--recursive: a directory server deletes one object at a time")
        with open_control_client(server) as client:
            client.delete(obj)
    else:
        _delete(run, obj, recursive=recursive)
    name = "=".join((*assignments, *next(iter(assignments.values()))))
    run.output.answer({"deleted": name}, f"deleted {kind.value} {name}")


def _delete(run: CommandRun, obj: "DirectoryObject", *, recursive: bool) -> None:
    with run.connect() as directory, run.output.bar("deleting queues") as show:
        directory.delete(obj, recursive=recursive, on_progress=show)


delete_app = declare_command(
    delete,
    examples=(
        r"mqdssm delete queue 'Pathname=web01\orders'",
        "mqdssm delete queue-manager ComputerName=web01 --recursive",
    ),
)
