"""Journal of an export on disk, so that an interrupted export can be resumed.

``DIR/.export`` holds the plan: the request, and the position of the server at the beginning. It also holds a
journal of each work item, with a line for each finished file. For text formats it holds the keys of the
objects in each file. The folder is removed after the manifest is written, so only an unfinished export has
it.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pydantic import AwareDatetime, ValidationError

from mqdssm.errors import ConfigError, convert_folder_errors
from mqdssm.pipeline.documents import Document, read_document, write_document, write_whole
from mqdssm.pipeline.export.server_position import Marks
from mqdssm.pipeline.frames.partitions import SearchSlice
from mqdssm.pipeline.manifest import MANIFEST_NAME, ExportedFile, hash_file

if TYPE_CHECKING:
    from mqdssm.directory.filters import LdapFilter

WORK_NAME: Final = ".export"
PLAN_NAME: Final = "plan.json"
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9]+:/")  # of an object store; a path keeps one slash
FILE_ROWS: Final = 100_000
"""Default number of rows of a file: small enough to write again, large enough to read fast."""


class ExportItem(Document):
    """Work item: all objects of a type, or a range of them.

    See `mqdssm.pipeline.frames.partitions`.

    Attributes:
        key: attribute whose values divide the objects.
        low: lower bound, included; None: no bound.
        high: upper bound, not included; None: no bound.
    """

    key: str = ""
    low: str | None = None
    high: str | None = None

    @classmethod
    def of(cls, part: SearchSlice) -> Self:
        """Return the work item for a slice, whose bounds are ASCII."""
        low, high = (None if value is None else value.decode("ascii") for value in (part.low, part.high))
        return cls(key=part.key, low=low, high=high)

    @property
    def where(self) -> "LdapFilter | None":
        """LDAP filter for the objects of the item; None for all objects."""
        low, high = (None if value is None else value.encode("ascii") for value in (self.low, self.high))
        return SearchSlice(None, self.key, low, high).ldap_filter


class ExportPlan(Document):
    """Plan of an export, ``plan.json``. A resumed export must have the same options.

    Attributes:
        types: names as on the command line.
        format: of the files.
        dialect: of LDIF; None for the other formats.
        compression: of Parquet.
        profile: kind of server.
        naming_context: root of the directory, a DN.
        context: base of computers, queues and users, if another one was chosen (decision M8).
        started: when the first attempt began.
        marks: position of the server at that time.
        items: work items of each type, which a resumed export keeps.
        file_rows: rows after which a file ends.
        resumed: number of times the export was interrupted and resumed.
        readable: let others read the files, as the umask allows.
    """

    types: tuple[str, ...]
    format: str
    dialect: str | None
    compression: str
    profile: str
    naming_context: str
    context: str | None
    started: AwareDatetime
    marks: Marks
    items: Mapping[str, tuple[ExportItem, ...]]
    file_rows: int = FILE_ROWS
    resumed: int = 0
    readable: bool = False

    _ASKED: ClassVar = ("types", "format", "dialect", "compression", "profile", "naming_context", "context")

    def write(self, work: Path) -> None:
        """Write the plan atomically."""
        write_document(work / PLAN_NAME, self)

    @classmethod
    def load(cls, work: Path) -> Self:
        """Read the plan of an unfinished export.

        Raises:
            ConfigError: the plan is missing, or of another version of the program.
        """
        return read_document(
            cls, work / PLAN_NAME, other="is not of this version of the program; export again"
        )

    def refuse_other(self, new_plan: "ExportPlan", folder: Path) -> None:
        """Refuse to resume with other options.

        Raises:
            ConfigError: the new options differ from those of this plan.
        """
        for name in self._ASKED:
            mine, other = getattr(self, name), getattr(new_plan, name)
            if name.endswith("context") and mine is not None and other is not None:
                mine, other = mine.lower(), other.lower()
            if mine != other:
                raise ConfigError(
                    f"the export in {folder} was begun with {name.replace('_', ' ')} {_format_value(mine)}, "
                    f"not {_format_value(other)}: resume it with the same, or export to another folder"
                )


def _format_value(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


class ItemFinished(Document):
    """Line of a journal: a finished file.

    Attributes:
        file: its entry for the manifest.
        item: number of the work item in its type.
        series: order of loading of LDIF (the depth of the entries); 0 for other formats.
        bytes: size of the file.
    """

    file: ExportedFile
    item: int
    series: int
    bytes: int

    @property
    def number(self) -> int:
        """Number of the file in its series."""
        return int(Path(self.file.path).stem.rpartition("-")[2])


class ItemJournal:
    """Journal of one work item. One worker appends to it; other processes read it.

    Args:
        work: the folder ``.export``.
        type_name: type of the objects.
        item: number of the work item.
    """

    def __init__(self, work: Path, type_name: str, item: int) -> None:
        self.path = work / "journal" / f"{type_name}-{item:03d}.jsonl"
        self._done = self.path.with_suffix(".done")

    @property
    def done(self) -> bool:
        """True if the whole item was exported."""
        return self._done.is_file()

    def finish(self) -> None:
        """Mark the item as completely exported."""
        write_whole(self._done, [])

    def reopen(self) -> None:
        """Mark the item as incomplete again."""
        self._done.unlink(missing_ok=True)

    def add(self, finished: ItemFinished) -> None:
        """Append a finished file, and sync the journal to the disk."""
        with self.path.open("ab") as file:
            file.write(finished.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[ItemFinished]:
        """Return the finished files; incomplete lines are ignored."""
        try:
            lines = self.path.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        items = []
        for line in lines:
            try:
                items.append(ItemFinished.model_validate_json(line))
            except ValidationError:
                continue  # cut by a power failure, with the next line appended to it
        return items

    def replace(self, finished: Iterable[ItemFinished]) -> None:
        """Replace all lines of the journal atomically."""
        write_whole(self.path, (item.model_dump_json().encode() + b"\n" for item in finished))


class ExportFolder:
    """Folder of an unfinished export.

    Attributes:
        path: of the folder.
        work: its folder ``.export`` for plan, journals, keys and progress.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / WORK_NAME

    def list_journals(self, plan: ExportPlan, name: str) -> list[ItemJournal]:
        """Return the journals of a type, one for each work item."""
        return [ItemJournal(self.work, name, item) for item in range(len(plan.items[name]))]

    def locate_keys(self, part: str) -> Path:
        """Return the path of the keys of the objects in a text file."""
        return self.work / "keys" / (part.replace("/", "-") + ".parquet")

    @property
    def progress(self) -> Path:
        """Folder of the files in which workers report their progress."""
        return self.work / "progress"

    def begin(self, plan: ExportPlan) -> None:
        """Make the folders and write the plan of a new export."""
        for folder in (self.work / "journal", self.work / "keys", self.progress):
            folder.mkdir(parents=True, exist_ok=True)
        plan.write(self.work)
        for name in plan.types:
            (self.path / name).mkdir(exist_ok=True)

    def verify(self, plan: ExportPlan) -> int:
        """Keep the complete files of an interrupted export, and remove all others.

        Returns:
            Number of objects in the kept files.
        """
        rows = 0
        for name in plan.types:
            (self.path / name).mkdir(exist_ok=True)
            whole_paths: set[str] = set()
            for journal in self.list_journals(plan, name):
                written = journal.read()
                whole = [item for item in written if self._is_whole(item, plan)]
                if len(whole) < len(written):
                    journal.reopen()
                journal.replace(whole)
                whole_paths |= {item.file.path for item in whole}
                rows += sum(item.file.rows for item in whole)
            for path in (self.path / name).iterdir():
                if f"{name}/{path.name}" not in whole_paths:
                    path.unlink()
        for draft in self.work.glob("part-*"):
            draft.unlink()
        shutil.rmtree(self.progress, ignore_errors=True)
        self.progress.mkdir()
        return rows

    def _is_whole(self, item: ItemFinished, plan: ExportPlan) -> bool:
        path = self.path / item.file.path
        try:
            if plan.format != "parquet" and not self.locate_keys(item.file.path).is_file():
                return False
            return path.stat().st_size == item.bytes and hash_file(path) == item.file.sha256
        except FileNotFoundError:
            return False

    def finish(self) -> None:
        """Remove the folder ``.export``."""
        shutil.rmtree(self.work, ignore_errors=True)


def prepare(folder: Path, *, resume: bool) -> bool:
    """Make a folder for an export, or check an existing one.

    Args:
        folder: made if it does not exist.
        resume: True to resume an unfinished export.

    Returns:
        True if the folder holds an unfinished export to resume.

    Raises:
        ConfigError: the folder cannot be used, or its content does not fit `resume`.
    """
    if _ADDRESS.match(str(folder)):
        raise ConfigError(f"{folder} is no folder: an export needs one of this machine, or mounted on it")
    with convert_folder_errors(f"{folder} cannot be used"):
        folder.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in folder.iterdir()}
    # with a manifest the export is complete: it was killed before it removed `.export`
    unfinished = MANIFEST_NAME not in names and (folder / WORK_NAME / PLAN_NAME).is_file()
    if MANIFEST_NAME in names and resume:
        raise ConfigError(f"the export in {folder} is complete: there is nothing to resume")
    if resume and not unfinished and names - {WORK_NAME}:
        raise ConfigError(f"{folder} holds no unfinished export: there is nothing to resume")
    if unfinished and not resume:
        raise ConfigError(f"{folder} holds an unfinished export: go on with --resume, or name another folder")
    if names - {WORK_NAME} and not unfinished:
        raise ConfigError(f"{folder} is not empty: an export needs a folder of its own")
    return unfinished


def progress_of(folder: Path) -> dict[str, int]:
    """Return the number of objects that each work item has read.

    The keys are ``<type>-<item>``.
    """
    counts: dict[str, int] = {}
    for path in folder.glob("*.json"):
        try:
            counts[path.stem] = int(json.loads(path.read_bytes())["rows"])
        except (OSError, ValueError, KeyError):
            continue  # being replaced at this moment, or the folder has just been removed
    return counts


def tell_progress(folder: Path, name: str, rows: int) -> None:
    """Write the number of objects that a work item has read, without a sync."""
    draft = folder / f"{name}.new"
    draft.write_text(json.dumps({"rows": rows}), encoding="ascii")
    draft.replace(folder / f"{name}.json")
