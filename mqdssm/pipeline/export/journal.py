"""What an export has done so far, on disk: how a killed one goes on where it was.

``DIR/.export`` holds the plan (what was asked for, and the marks of the server when it began), for each work
item a journal with one line for each finished file, and for formats that cannot be searched the keys of the
objects in each file. It is removed when the manifest is written, so only an unfinished export has one.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from mqdssm.errors import ConfigError, why_no_folder
from mqdssm.pipeline.documents import read_document
from mqdssm.pipeline.export.server_position import Marks
from mqdssm.pipeline.frames.partitions import SearchSlice
from mqdssm.pipeline.manifest import MANIFEST_NAME, ExportedFile, sha256

if TYPE_CHECKING:
    from mqdssm.directory.filters import LdapFilter

WORK_NAME: Final = ".export"
PLAN_NAME: Final = "plan.json"
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9]+:/")  # of an object store; a path keeps one slash
FILE_ROWS: Final = 100_000
"""Rows after which a file ends: small enough to be written again, large enough to be read fast."""


class ExportItem(BaseModel):
    """A work item: all objects of a type, or a range of them (`mqdssm.pipeline.frames.partitions`).

    Attributes:
        key: the attribute that divides them.
        low: its least value, included; None: no bound.
        high: where the next item begins; None: no bound.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = ""
    low: str | None = None
    high: str | None = None

    @classmethod
    def of(cls, part: SearchSlice) -> Self:
        """The item for a slice; keys that divide are plain text."""
        low, high = (None if value is None else value.decode("ascii") for value in (part.low, part.high))
        return cls(key=part.key, low=low, high=high)

    @property
    def where(self) -> "LdapFilter | None":
        """What its objects satisfy; None: all."""
        low, high = (None if value is None else value.encode("ascii") for value in (self.low, self.high))
        return SearchSlice(None, self.key, low, high).wanted


class ExportPlan(BaseModel):
    """What was asked for, and from what: a resumed export has to ask for the same.

    Attributes:
        types: names as on the command line.
        format: of the files.
        dialect: of LDIF; None for the other formats.
        compression: of Parquet.
        profile: kind of server.
        naming_context: root of the directory, a DN.
        context: base of computers, queues and users, if another one was chosen (decision M8).
        started: when it began for the first time.
        marks: of the server, at that time.
        items: work items of each type; how a type is divided is decided once.
        file_rows: rows after which a file ends.
        resumed: how often it was broken off and went on.
        readable: others may read the files, as the umask allows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
        """Write it, at once and whole."""
        write_whole(work / PLAN_NAME, self.model_dump_json(indent=2).encode())

    @classmethod
    def load(cls, work: Path) -> Self:
        """Read it.

        Raises:
            ConfigError: it cannot be used.
        """
        return read_document(
            cls, work / PLAN_NAME, other="is not of this version of the program; export again"
        )

    def refuse_other(self, asked: "ExportPlan", folder: Path) -> None:
        """Refuse to go on with something else.

        Raises:
            ConfigError: what is asked for now differs from what was begun.
        """
        for name in self._ASKED:
            mine, other = getattr(self, name), getattr(asked, name)
            if name.endswith("context") and mine is not None and other is not None:
                mine, other = mine.lower(), other.lower()
            if mine != other:
                raise ConfigError(
                    f"the export in {folder} was begun with {name.replace('_', ' ')} {_shown(mine)}, "
                    f"not {_shown(other)}: resume it with the same, or export to another folder"
                )


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


class ItemFinished(BaseModel):
    """One line of a journal.

    Attributes:
        file: the finished file.
        item: number of the work item in its type.
        series: which of the item's series of files it belongs to (the depth of LDIF entries, else 0).
        bytes: its size.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: ExportedFile
    item: int
    series: int
    bytes: int

    @property
    def number(self) -> int:
        """Number of the file in its series."""
        return int(Path(self.file.path).stem.rpartition("-")[2])


class ItemJournal:
    """The journal of one work item: appended to by the worker that has it, read by everybody.

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
        """State that all of the item is in the files."""
        write_whole(self._done, b"")

    def reopen(self) -> None:
        """State that something is missing after all."""
        self._done.unlink(missing_ok=True)

    def add(self, finished: ItemFinished) -> None:
        """Add a file that is complete and on disk."""
        with self.path.open("ab") as file:
            file.write(finished.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[ItemFinished]:
        """The finished files; a line that was cut short by a kill stands for none."""
        try:
            lines = self.path.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        found = []
        for line in lines:
            try:
                found.append(ItemFinished.model_validate_json(line))
            except ValidationError:
                continue  # the power failed in the middle of it, and the next line went on behind it
        return found

    def replace(self, finished: Iterable[ItemFinished]) -> None:
        """Write it anew, at once and whole."""
        write_whole(self.path, b"".join(one.model_dump_json().encode() + b"\n" for one in finished))


class ExportFolder:
    """The folder of an export while it is being made.

    Attributes:
        path: the folder.
        work: its part for what an unfinished export needs.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / WORK_NAME

    def journals(self, plan: ExportPlan, name: str) -> list[ItemJournal]:
        """The journals of a type, one for each work item."""
        return [ItemJournal(self.work, name, item) for item in range(len(plan.items[name]))]

    def keys_path(self, part: str) -> Path:
        """Where the keys of the objects of a file are, if it does not tell them itself."""
        return self.work / "keys" / (part.replace("/", "-") + ".parquet")

    @property
    def progress(self) -> Path:
        """Where workers say how far they are."""
        return self.work / "progress"

    def begin(self, plan: ExportPlan) -> None:
        """Make the folders that the export needs; without a plan nothing has begun."""
        for folder in (self.work / "journal", self.work / "keys", self.progress):
            folder.mkdir(parents=True, exist_ok=True)
        plan.write(self.work)
        for name in plan.types:
            (self.path / name).mkdir(exist_ok=True)

    def verify(self, plan: ExportPlan) -> int:
        """Keep of a killed export what is whole, and remove the rest.

        Returns:
            How many rows were there already.
        """
        rows = 0
        for name in plan.types:
            (self.path / name).mkdir(exist_ok=True)
            kept: set[str] = set()
            for journal in self.journals(plan, name):
                written = journal.read()
                whole = [one for one in written if self._is_whole(one, plan)]
                if len(whole) < len(written):
                    journal.reopen()
                journal.replace(whole)
                kept |= {one.file.path for one in whole}
                rows += sum(one.file.rows for one in whole)
            for path in (self.path / name).iterdir():
                if f"{name}/{path.name}" not in kept:
                    path.unlink()
        for draft in self.work.glob("part-*"):
            draft.unlink()
        shutil.rmtree(self.progress, ignore_errors=True)
        self.progress.mkdir()
        return rows

    def _is_whole(self, one: ItemFinished, plan: ExportPlan) -> bool:
        path = self.path / one.file.path
        try:
            if plan.format != "parquet" and not self.keys_path(one.file.path).is_file():
                return False
            return path.stat().st_size == one.bytes and sha256(path) == one.file.sha256
        except FileNotFoundError:
            return False

    def finish(self) -> None:
        """Remove what only an unfinished export needs."""
        shutil.rmtree(self.work, ignore_errors=True)


def prepare(folder: Path, *, resume: bool) -> bool:
    """Make sure that a folder can take an export.

    Args:
        folder: made if it does not exist.
        resume: whether an unfinished one goes on.

    Returns:
        Whether there is an unfinished one to go on with.

    Raises:
        ConfigError: it cannot be used, or holds something that does not belong to this export.
    """
    if _ADDRESS.match(str(folder)):
        raise ConfigError(f"{folder} is no folder: an export needs one of this machine, or mounted on it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise ConfigError(f"{folder} cannot be used: {why_no_folder(error)}") from error
    # with a manifest it is whole: what was killed then only did not come to clearing up
    unfinished = MANIFEST_NAME not in names and (folder / WORK_NAME / PLAN_NAME).is_file()
    if MANIFEST_NAME in names and resume:
        raise ConfigError(f"the export in {folder} is complete: there is nothing to resume")
    if resume and not unfinished and names - {WORK_NAME}:
        raise ConfigError(f"{folder} holds no unfinished export: there is nothing to resume")
    if unfinished and not resume:
        raise ConfigError(
            f"{folder} holds an unfinished export: go on with --resume (resume=True), or name another folder"
        )
    if names - {WORK_NAME} and not unfinished:
        raise ConfigError(f"{folder} is not empty: an export needs a folder of its own")
    return unfinished


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there with all of its content, or as it was before."""
    draft = path.with_name(path.name + ".new")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def progress_of(folder: Path) -> dict[str, int]:
    """How many objects each work item has read, as workers say it; names are ``<type>-<item>``."""
    found: dict[str, int] = {}
    for path in folder.glob("*.json"):
        try:
            found[path.stem] = int(json.loads(path.read_bytes())["rows"])
        except (OSError, ValueError, KeyError):
            continue  # being replaced at this moment, or the folder has just been removed
    return found


def tell_progress(folder: Path, name: str, rows: int) -> None:
    """Say how many objects a work item has read; not worth waiting for the disk."""
    draft = folder / f"{name}.new"
    draft.write_text(json.dumps({"rows": rows}), encoding="ascii")
    draft.replace(folder / f"{name}.json")
