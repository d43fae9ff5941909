"""LDIF of several types as one directory: parents, and the loading order.

The parents are those of the exported objects.
A queue is below a queue manager, which is below a computer, which is below containers. An export of queues
alone needs these parents to be loaded. So all ancestors that are of no exported type are written once, to
files of their own.
"""

import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mqdssm.model.dn import DN, normalize
from mqdssm.pipeline.export import objects
from mqdssm.pipeline.export.file_writer import LDIF, ExportFiles, PartOptions, read_keys, read_rows
from mqdssm.pipeline.export.journal import ExportFolder, ExportPlan
from mqdssm.pipeline.export.objects import format_guid
from mqdssm.pipeline.export.server_position import Marks
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.pipeline.ldif import REFERENCES_SERIES
from mqdssm.pipeline.manifest import ChangedObject, ExportedFile

if TYPE_CHECKING:
    from mqdssm.directory.profile import Naming
    from mqdssm.events.facade import Directory

log: Final = logging.getLogger(__name__)

PARENTS: Final = "parents"
"""Folder of the files with the parents of exported objects."""
_EVERYTHING: Final = next(name for name, frame in FRAME_TYPES.items() if frame.ldap_class is None)


@dataclass(frozen=True, slots=True)
class Parents:
    """Parents of the exported objects, of no exported type.

    Attributes:
        files: with these parents.
        changed: parents that changed after the exported objects were read.
    """

    files: tuple[ExportedFile, ...] = ()
    changed: tuple[ChangedObject, ...] = ()


def load_order(types: Sequence[tuple[str, Iterable[ExportedFile]]], parents: Parents) -> tuple[str, ...]:
    """Return the paths of all LDIF files: parents before children, references last.

    If type ``ldap`` was exported, its files hold the objects of all types, and no others are returned.

    Args:
        types: the files of each type.
        parents: of their objects.
    """
    everything = [files for name, files in types if name == _EVERYTHING]
    paths = [file.path for files in everything or [files for _, files in types] for file in files]
    return tuple(sorted([*paths, *(file.path for file in parents.files)], key=_split_path))


def _split_path(path: str) -> tuple[str, str]:
    folder, _, name = path.partition("/")
    return name.split("-")[1], f"{folder}/{name}"  # part-SERIES-ITEM-NUMBER.ldif


def write_parents(directory: "Directory", folder: ExportFolder, plan: ExportPlan, marks: Marks) -> Parents:
    """Write the parents of the exported objects; nothing for other formats than LDIF.

    Args:
        directory: that was read.
        folder: of the export, with the files of all types.
        plan: of the export.
        marks: position of the server that the files show.

    Raises:
        DirectoryError: the parents could not be read.
    """
    shutil.rmtree(folder.path / PARENTS, ignore_errors=True)  # of an interrupted attempt
    if plan.format != LDIF or _EVERYTHING in plan.types:
        return Parents()
    dns = list_missing_parents(lambda: _read_dns(folder, plan), directory.session.naming)
    if not dns:
        return Parents()
    (folder.path / PARENTS).mkdir()
    options = PartOptions(folder, PARENTS, LDIF, plan.compression, 0, plan.file_rows)
    parts = ExportFiles(options, ())
    files: list[ExportedFile] = []
    written = 0
    try:
        for where in objects.make_filters(directory, dns):
            for rows in read_rows(directory, _EVERYTHING, LDIF, plan.dialect, where):
                written += rows.objects
                files += [item.file for item in parts.add(rows)]
        files += [item.file for item in parts.finish(empty=False)]
    finally:
        parts.abandon()
    if written < len(dns):
        log.warning("%d objects above the exported ones cannot be read or written", len(dns) - written)
    return Parents(tuple(sorted(files, key=lambda file: file.path)), _find_changed(directory, dns, marks))


def list_missing_parents(dns: Callable[[], Iterable[str]], naming: "Naming") -> list[str]:
    """Return the DNs of all ancestors of some objects.

    The objects themselves are not among them.

    Args:
        dns: returns the DNs of the objects; called twice, so that they are not kept in memory.
        naming: roots of the directory, above which no ancestors are returned.
    """
    above: dict[str, str] = {}
    for dn in dns():
        parent = _find_parent(dn)
        while parent and (key := normalize(parent)) not in above:
            above[key] = parent
            parent = _find_parent(parent)
    for dn in dns():
        above.pop(normalize(dn), None)
    bases = naming.guid_bases
    return [dn for dn in above.values() if any(DN.parse(dn).is_at_or_below(base) for base in bases)]


def _find_parent(dn: str) -> str:
    if "\\" in dn or '"' in dn:
        return str(DN.parse(dn).parent)
    return dn.partition(",")[2]


def _read_dns(folder: ExportFolder, plan: ExportPlan) -> Iterator[str]:
    for name in plan.types:
        for journal in folder.list_journals(plan, name):
            for item in journal.read():
                if item.series != REFERENCES_SERIES:
                    yield from read_keys(folder, plan, item).column("dn").to_pylist()


def _find_changed(directory: "Directory", dns: Sequence[str], marks: Marks) -> tuple[ChangedObject, ...]:
    """Return the objects that may have changed since the marks.

    The objects were changed or deleted, or their state is not known.
    """
    session = directory.session
    now = Marks.read(session)
    if now.is_same_as(marks):
        return ()
    since = now.make_since(marks)
    missing = {normalize(dn): dn for dn in dns}
    changes: list[ChangedObject] = []
    for where in objects.make_filters(directory, dns):
        for base in session.naming.guid_bases:
            for dn, guid, *stamps in session.rows(base, where, ("objectGUID", *since.stamps)):
                missing.pop(normalize(dn), None)
                if since.is_changed(stamps) is not False:
                    changes.append(
                        ChangedObject(type=PARENTS, dn=dn, guid=format_guid(guid), what="modified")
                    )
    gone = (ChangedObject(type=PARENTS, dn=dn, guid=None, what="deleted") for dn in missing.values())
    return (*changes, *gone)
