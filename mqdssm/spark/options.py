"""Options of the data source ``mqdssm``, parsed and checked.

None of them is a secret.
Spark pickles the options into every task and may print them in event logs and its web pages, so a password
is never an option: it is read from a file or an environment variable where the search runs.

Options of ``df.write.format("mqdssm")``: some of the data source's options, and its own.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast, get_args, get_type_hints

from mqdssm.directory.filters import LdapFilter, Not, encode, encode_description, parse_text
from mqdssm.directory.log_in import LOG_IN_NAMES, LogIn
from mqdssm.directory.options import PAGE_ENTRIES, PAGE_ENTRIES_MAX, Endpoint
from mqdssm.errors import ConfigError, convert_folder_errors
from mqdssm.model.dn import DN
from mqdssm.model.watching import WATCHED_TYPES
from mqdssm.pipeline.access import DirectoryAccess
from mqdssm.pipeline.frames.columns import RAW_TYPE, TYPES, Column, FrameType, find_frame_type

if TYPE_CHECKING:
    from mqdssm.events.facade import Directory

NAMES: Final = (
    "object",
    "columns",
    "filter",
    "attributes",
    "base",
    "numpartitions",
    "pagesize",
    "pushdown",
    "url",
    "credentialsfile",
    "credentialsenv",
    *(name.replace("_", "") for name in LOG_IN_NAMES),
)
STREAM_NAMES: Final = ("state", "startingoffset", "maxrowspertrigger")
"""Options of ``spark.readStream`` alone; `state` marks a stream."""
NOT_FOR_STREAMS: Final = ("filter", "attributes", "base", "numpartitions", "pushdown")
ROWS_PER_TRIGGER: Final = 10_000
ROWS_PER_TRIGGER_MAX: Final = 1_000_000
PARTITIONS_MAX: Final = 256
"""Limit of partitions: each is a connection of its own, and directory servers do not accept hundreds."""
_SECRET: Final = re.compile(r"(?i)pass|pw|secret|token")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Checked options of one data frame.

    The options hold no secret, so printing and pickling them is harmless.

    Attributes:
        object: type of frame, as ``queue`` or ``ldap``.
        columns: the columns of the data frame, in order.
        access: where and how to log in.
        filter: LDAP filter for the objects, besides their type; None: all of the type.
        attributes: LDAP attributes of raw entries.
        base: DN of the base of the search; None: that of the type.
        numpartitions: how many searches the frame is split into, each with a connection of its own.
        pushdown: Spark's filters are sent to the server as far as LDAP can express them. Safe only for a
            data frame that one query uses once (decision W21).
    """

    object: str
    columns: tuple[Column, ...]
    access: DirectoryAccess
    filter: LdapFilter | None = None
    attributes: tuple[str, ...] = ("*",)
    base: str | None = None
    numpartitions: int = 1
    pushdown: bool = False

    @property
    def frame(self) -> FrameType:
        """Type of frame."""
        return find_frame_type(self.object)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Check the options of ``spark.read.format("mqdssm")``.

        Args:
            options: names (any case) and values.

        Raises:
            ConfigError: an unknown option, a missing or contradictory one, or an attempt to pass a password.
        """
        option_values = {name.lower(): value for name, value in options.items()}
        _refuse_others(option_values)
        if option_values.get("credentialsfile") and option_values.get("credentialsenv"):
            raise ConfigError("options credentialsfile and credentialsenv exclude each other: give one")
        try:
            frame = find_frame_type(_require_option(option_values, "object"))
            columns = frame.select(_split_names(option_values, "columns") or None)
            search_filter = _filter(option_values)
            base = str(DN.parse(option_values["base"])) if option_values.get("base") else None
        except ValueError as error:
            raise ConfigError(str(error)) from error
        return cls(
            object=frame.name,
            columns=columns,
            access=_parse_access(option_values, frame),
            filter=search_filter,
            attributes=_parse_attributes(option_values, frame),
            base=base,
            numpartitions=parse_number(option_values, "numpartitions", 1, PARTITIONS_MAX),
            pushdown=_parse_flag(option_values, "pushdown"),
        )

    def connect(self, server: str | None = None) -> "Directory":
        """Connect for reading with these options; the password is read now and not kept.

        Args:
            server: the one URL to connect to; None: those of the options, in turn.

        Raises:
            ConfigError: settings that cannot be, or a password that is not there.
            DirectoryNotConnected: no server could be reached, or none lets us in.
        """
        return (self.access if server is None else self.access.at(server)).connect()


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Checked options of one stream of changes. Holds no secret.

    Attributes:
        source: type, columns, and how to log in.
        state: folder, on the driver's machine, for changes that the query has not yet taken.
        snapshot: begin with the existing objects.
        max_rows: changes of a micro-batch at most.
    """

    source: SourceOptions
    state: str
    snapshot: bool = False
    max_rows: int = ROWS_PER_TRIGGER

    @staticmethod
    def is_meant(options: Mapping[str, str]) -> bool:
        """Return True if these are options of a stream.

        Spark does not say so when it asks for the schema.
        """
        return any(name.lower() in STREAM_NAMES for name in options)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Check the options of ``spark.readStream.format("mqdssm")``.

        Args:
            options: names (any case) and values.

        Raises:
            ConfigError: an unknown option, a missing or contradictory one, or an attempt to pass a password.
        """
        option_values = {name.lower(): value for name, value in options.items()}
        for name in NOT_FOR_STREAMS:
            if option_values.get(name):
                raise ConfigError(f"option {name} is for spark.read: a stream has every change of its type")
        source = SourceOptions.parse(
            {name: value for name, value in option_values.items() if name not in STREAM_NAMES}
        )
        if source.object not in WATCHED_TYPES:
            raise ConfigError(
                f"objects of type {source.object} are not watched: use one of {', '.join(WATCHED_TYPES)}"
            )
        start = _one_of(option_values, "startingoffset", ("latest", "snapshot")) or "latest"
        return cls(
            source=source,
            state=str(Path(_require_option(option_values, "state")).resolve()),
            snapshot=start == "snapshot",
            max_rows=parse_number(option_values, "maxrowspertrigger", ROWS_PER_TRIGGER, ROWS_PER_TRIGGER_MAX),
        )


def _parse_access(option_values: Mapping[str, str], frame: FrameType) -> DirectoryAccess:
    return DirectoryAccess(
        **_log_in(option_values),
        urls=_parse_urls(_require_option(option_values, "url")),
        password_file=option_values.get("credentialsfile") or None,
        password_variable=option_values.get("credentialsenv") or None,
        page_size=parse_number(option_values, "pagesize", PAGE_ENTRIES, PAGE_ENTRIES_MAX),
        check_msmq=frame.ldap_class is not None,
    )


def _log_in(option_values: Mapping[str, str]) -> dict[str, Any]:
    """Parse the options of `LogIn`, whose names stand here without their underscores."""
    arguments: dict[str, Any] = {}
    for name, kind in get_type_hints(LogIn).items():
        option = name.replace("_", "")
        words = tuple(word for member in get_args(kind) for word in get_args(member))  # of a Literal
        if kind is bool:
            arguments[name] = _parse_flag(option_values, option)
        elif option_values.get(option):
            arguments[name] = _one_of(option_values, option, words) if words else option_values[option]
    return arguments


def _refuse_others(option_values: Mapping[str, str]) -> None:
    """Refuse unknown options, without repeating a value: it could be the password."""
    if "provider" in option_values:  # added by Spark for CREATE TABLE
        raise ConfigError(
            "a directory is no table of a catalog: use CREATE TEMPORARY VIEW ... USING mqdssm OPTIONS (...)"
        )
    for name in option_values:
        if name in NAMES:
            continue
        if _SECRET.search(name):
            raise ConfigError(
                f"option {name} is refused, since Spark prints and stores options: put the password into a "
                "file and name it with credentialsfile, or into a variable and name it with credentialsenv"
            )
        option_names = ", ".join((*NAMES, *STREAM_NAMES))
        raise ConfigError(f"unknown option {name}: the data source mqdssm knows {option_names}")


def _filter(option_values: Mapping[str, str]) -> LdapFilter | None:
    """Parse the option ``filter``.

    Raises:
        ValueError: no filter, or one that is too deep.
    """
    text = option_values.get("filter", "").strip()
    if not text:
        return None
    search_filter = parse_text(text)
    encode(Not(Not(search_filter)))  # the filters for class and pushdown are put around it: two levels more
    return search_filter


def _require_option(option_values: Mapping[str, str], name: str) -> str:
    value = option_values.get(name, "").strip()
    if not value:
        raise ConfigError(f"option {name} is missing")
    return value


def _parse_flag(option_values: Mapping[str, str], name: str) -> bool:
    value = option_values.get(name, "").lower()
    if value not in {"", "true", "false"}:
        raise ConfigError(f"option {name} is {value!r}: use true or false")
    return value == "true"


def _one_of(option_values: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str | None:
    value = option_values.get(name) or None
    if value is not None and value not in choices:
        raise ConfigError(f"option {name} is {value!r}: use one of {', '.join(choices)}")
    return value


def parse_number(
    option_values: Mapping[str, str], name: str, default: int, high: int, *, low: int = 1
) -> int:
    """Parse an option that is a number.

    Raises:
        ConfigError: it is none, or out of its range.
    """
    text = option_values.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise ConfigError(f"option {name} is {text!r}: use a number from {low} to {high}")
    return int(text)


def _split_names(option_values: Mapping[str, str], name: str) -> list[str]:
    return [part.strip() for part in option_values.get(name, "").split(",") if part.strip()]


def _parse_attributes(option_values: Mapping[str, str], frame: FrameType) -> tuple[str, ...]:
    """Return the LDAP attributes for raw entries.

    Other frames request the attributes of their columns.
    """
    names = _split_names(option_values, "attributes")
    if names and frame.ldap_class is not None:
        raise ConfigError("option attributes is for object ldap: use columns")
    for name in names:
        if name not in {"*", "+"}:
            try:
                encode_description(name)
            except ValueError as error:
                raise ConfigError(f"option attributes: {error}") from error
    return tuple(names) or ("*",)


def _parse_urls(text: str) -> tuple[str, ...]:
    urls = tuple(text.split())
    for url in urls:
        if "@" in url:  # anywhere: the messages of other checks repeat the URL
            raise ConfigError("option url holds a user or password: use user and credentialsfile")
        Endpoint.parse(url, None)  # raises for an invalid URL: now, not in each worker
    return urls


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
        return find_frame_type(self.object)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Check the options.

        Args:
            options: names (any case) and values.

        Raises:
            ConfigError: an unknown option, a wrong value, or an attempt to pass a password.
        """
        option_values = {name.lower(): value for name, value in options.items()}
        for name in NOT_FOR_WRITING:
            if option_values.get(name):
                raise ConfigError(f"option {name} is for reading: leave it out where rows are written")
        base = SourceOptions.parse({name: value for name, value in option_values.items() if name not in OWN})
        if base.object not in WRITABLE:
            raise ConfigError(
                f"objects of type {base.object} are not written for themselves: write {', '.join(WRITABLE)}"
            )
        chosen = _one_of(option_values, "onconflict", get_args(OnConflict)) or "fail"
        tasks = (
            base.numpartitions
            if option_values.get("numpartitions")
            else min(os.cpu_count() or 1, PARTITIONS_MAX)
        )
        rate = parse_number(option_values, "maxrate", 1, RATE_MAX) if option_values.get("maxrate") else None
        return cls(
            object=base.object,
            access=base.access,
            on_conflict=cast("OnConflict", chosen),
            journal=_make_folder(option_values.get("journal")),
            max_rate=None if rate is None else rate / tasks,
            max_errors=parse_number(option_values, "maxerrors", 0, ERRORS_MAX, low=0)
            if option_values.get("maxerrors")
            else None,
        )


def _make_folder(path: str | None) -> str | None:
    """Return the journal's folder as an absolute path; it is created if necessary.

    Raises:
        ConfigError: it cannot be used.
    """
    if not path:
        return None
    folder = Path(path).resolve()
    with convert_folder_errors(f"journal {folder} cannot be used"):
        folder.mkdir(parents=True, exist_ok=True)
    return str(folder)
