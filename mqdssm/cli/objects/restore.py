"""``mqdssm restore``: deleted queues and queue managers of Active Directory."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID

import typer

from mqdssm.cli.exits import ExitCode, UsageProblem
from mqdssm.cli.objects.arguments import CommandType, TypeArgument
from mqdssm.cli.run import CommandRun, declare_command

if TYPE_CHECKING:
    from mqdssm.events.deleted_objects import RestorableObject
    from mqdssm.events.facade import Directory
    from mqdssm.model.base import DirectoryObject

COLUMNS: Final = ("name", "identifier", "deleted", "attributes")

Name = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="Path name of a queue, or name of a computer. Without: a list."),
]
Identifier = Annotated[
    str | None, typer.Option("--identifier", metavar="GUID", help="GUID, if several had this name.")
]
Saved = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="EXPORT", help="Export with the object: lost attributes are written from it."
    ),
]
Recursive = Annotated[bool, typer.Option("--recursive", help="Also restore the queues of a queue manager.")]


def restore(
    run: CommandRun,
    *,
    kind: TypeArgument,
    name: Name = None,
    identifier: Identifier = None,
    saved: Saved = None,
    recursive: Recursive = False,
) -> int | None:
    """Restore a deleted queue or queue-manager of Active Directory.

    The object keeps its GUID. Attributes and rights come from the Recycle Bin, or from an export (--from).
    Without NAME and --identifier the deleted objects are listed.
    """
    if kind not in {CommandType.QUEUE, CommandType.QUEUE_MANAGER}:
        raise UsageProblem(f"{kind.value} objects cannot be restored: queue and queue-manager can")
    if recursive and kind is not CommandType.QUEUE_MANAGER:
        raise UsageProblem("--recursive is for a queue-manager")
    guid = None if identifier is None else _parse_guid(identifier)
    from mqdssm.events.deleted_objects import find_deleted

    with run.connect() as directory:
        deleted = find_deleted(directory, kind.element)
        if name is None and guid is None:
            _list(run, deleted)
            return None
        chosen = _choose(deleted, name, guid)
        queues = _queues_of(directory, chosen) if recursive else []
        results = [_restore(directory, chosen, saved)]
        results += [_restore(directory, _read_restored(directory, queue), saved) for queue in queues]
    _tell(run, results)
    return ExitCode.FINDINGS if any(result["lost"] for result in results) else None


def _parse_guid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise UsageProblem(f"--identifier {text!r} is no GUID") from None


def _choose(deleted: "list[RestorableObject]", name: str | None, guid: UUID | None) -> "RestorableObject":
    """Return the only deleted object with a name or a GUID.

    Raises:
        ObjectNotFound: there is none.
        UsageProblem: there are several.
    """
    from mqdssm.errors import ObjectNotFound

    matches = [
        item
        for item in deleted
        if (name is None or item.name.casefold() == name.casefold()) and guid in {None, item.identifier}
    ]
    if not matches:
        raise ObjectNotFound(f"no deleted object has this name: {name or guid}")
    if len(matches) > 1:
        listed = ", ".join(str(item.identifier) for item in matches)
        raise UsageProblem(
            f"{len(matches)} deleted objects were named {name}: choose one with --identifier ({listed})"
        )
    return matches[0]


def _queues_of(directory: "Directory", manager: "RestorableObject") -> "list[RestorableObject]":
    from mqdssm.events.deleted_objects import find_deleted
    from mqdssm.model.elements import Queue

    return [queue for queue in find_deleted(directory, Queue) if queue.parent == manager.identifier]


def _read_restored(directory: "Directory", queue: "RestorableObject") -> "RestorableObject":
    """Return a deleted queue as it is after its queue manager was restored."""
    from mqdssm.events.deleted_objects import find_deleted

    deleted_objects = find_deleted(directory, queue.element)
    return next((item for item in deleted_objects if item.identifier == queue.identifier), queue)


def _restore(directory: "Directory", deleted: "RestorableObject", saved: Path | None) -> dict[str, Any]:
    from mqdssm.events.deleted_objects import restore as restore_object

    element = None if saved is None else _read_from_export(saved, deleted)
    written = restore_object(directory, deleted, element)
    return {
        "name": deleted.name,
        "identifier": str(deleted.identifier),
        "written": list(written),
        "lost": not deleted.keeps_attributes and element is None,
    }


def _read_from_export(folder: Path, deleted: "RestorableObject") -> "DirectoryObject":
    """Return a deleted object as an export has it.

    Raises:
        ConfigError: the export cannot be used, or lacks the object.
    """
    from mqdssm.errors import ConfigError
    from mqdssm.model.elements import Queue
    from mqdssm.pipeline.frames.columns import FRAME_TYPES, element_of
    from mqdssm.pipeline.validate.sources import export_source

    name = "queue" if deleted.element is Queue else "queue-manager"
    objects = export_source(folder).sets.get(name)
    columns = () if objects is None else tuple(objects.types)
    for batch in () if objects is None else objects.read_batches(columns, 10_000):
        for row in batch.to_pylist():
            if row.get("Identifier") == str(deleted.identifier):
                element = element_of(FRAME_TYPES[name], row)
                element.identifier = deleted.identifier
                return element
    raise ConfigError(f"{folder} does not have {deleted.name} ({deleted.identifier})")


def _list(run: CommandRun, deleted: "list[RestorableObject]") -> None:
    rows = [
        (
            item.name,
            str(item.identifier),
            "" if item.deleted is None else datetime.fromtimestamp(item.deleted, UTC).isoformat(),
            "kept" if item.keeps_attributes else "lost",
        )
        for item in deleted
    ]
    if run.output.is_json:
        run.output.document([dict(zip(COLUMNS, row, strict=True)) for row in rows])
    else:
        run.output.rows(COLUMNS, rows)
        run.output.note(f"{len(rows)} deleted objects")


def _tell(run: CommandRun, results: list[dict[str, Any]]) -> None:
    lines = [f"restored {result['name']} {result['identifier']}" for result in results]
    run.output.answer({"restored": results}, *lines)
    lost = [result["name"] for result in results if result["lost"]]
    if lost:
        run.output.note(
            f"warning: the server had lost the attributes and rights of {', '.join(lost)}: write them, or "
            "restore from an export with --from"
        )


app = declare_command(
    restore,
    examples=(
        "mqdssm restore queue",
        r"mqdssm restore queue 'web01\orders' --from export/2026-01-31",
        "mqdssm restore queue-manager web01 --recursive",
    ),
)
