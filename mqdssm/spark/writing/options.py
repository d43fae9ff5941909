"""Options of ``df.write.format("mqdssm")``: some of the data source's options, and its own."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self, cast, get_args

from mqdssm.errors import ConfigError, why_no_folder
from mqdssm.pipeline.access import DirectoryAccess
from mqdssm.pipeline.frames.columns import RAW_TYPE, TYPES, FrameType, frame_type
from mqdssm.spark.options import PARTITIONS_MAX, SourceOptions, number

OnConflict = Literal["fail", "skip", "update"]
OWN: Final = ("onconflict", "journal", "maxrate", "maxerrors")
NOT_FOR_WRITING: Final = ("columns", "filter", "attributes", "base", "pushdown")
WRITABLE: Final = (*TYPES, RAW_TYPE)
ERRORS_MAX: Final = 10**9
RATE_MAX: Final = 10**6


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Type, target and settings of a write. Holds no secret.

    Attributes:
        object: type of the rows, as ``queue`` or ``ldap``.
        access: where and how to log in.
        on_conflict: for an object that exists and differs: ``fail`` counts it as an error, ``skip`` leaves
            it unchanged, ``update`` writes the differences.
        journal: folder for the outcomes of rows, seen by all workers; None: only counts are kept.
        max_rate: changes a second of one task; None: as fast as the server can.
        max_errors: rows that may fail without the write failing; None: none, but all are tried.
    """

    object: str
    access: DirectoryAccess
    on_conflict: OnConflict = "fail"
    journal: str | None = None
    max_rate: float | None = None
    max_errors: int | None = None

    @property
    def frame(self) -> FrameType:
        """Type of frame."""
        return frame_type(self.object)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Check the options.

        Args:
            options: names (any case) and values.

        Raises:
            ConfigError: an unknown option, a wrong value, or an attempt to pass a password.
        """
        given = {name.lower(): value for name, value in options.items()}
        for name in NOT_FOR_WRITING:
            if given.get(name):
                raise ConfigError(f"option {name} is for reading: leave it out where rows are written")
        base = SourceOptions.parse({name: value for name, value in given.items() if name not in OWN})
        if base.object not in WRITABLE:
            raise ConfigError(
                f"objects of type {base.object} are not written for themselves: write {', '.join(WRITABLE)}"
            )
        chosen = given.get("onconflict") or "fail"
        if chosen not in get_args(OnConflict):
            raise ConfigError(
                f"option onconflict is {chosen!r}: use one of {', '.join(get_args(OnConflict))}"
            )
        tasks = base.numpartitions if given.get("numpartitions") else min(os.cpu_count() or 1, PARTITIONS_MAX)
        rate = number(given, "maxrate", 1, RATE_MAX) if given.get("maxrate") else None
        return cls(
            object=base.object,
            access=base.access,
            on_conflict=cast("OnConflict", chosen),
            journal=_folder(given.get("journal")),
            max_rate=None if rate is None else rate / tasks,
            max_errors=number(given, "maxerrors", 0, ERRORS_MAX, low=0) if given.get("maxerrors") else None,
        )


def _folder(path: str | None) -> str | None:
    """Return the journal's folder as an absolute path; it is created if necessary.

    Raises:
        ConfigError: it cannot be used.
    """
    if not path:
        return None
    folder = Path(path).resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"journal {folder} cannot be used: {why_no_folder(error)}") from error
    return str(folder)
