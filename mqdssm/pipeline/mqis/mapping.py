"""Mapping file (TOML): a source's names for tables and columns of MQIS.

The mapping also gives the form of the source's values.
"""

import codecs
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self
from urllib.parse import unquote

from pydantic import Field, ValidationError, field_validator, model_validator

from mqdssm.directory.secret import read_password
from mqdssm.errors import ConfigError
from mqdssm.events.input_files import TooLongFileError, read_toml
from mqdssm.model.propids import GUIDS, Variant
from mqdssm.model.suggestions import suggest_name
from mqdssm.pipeline.documents import Document
from mqdssm.tables.mqis import MQIS_TABLES, MqisTable

FETCH_ROWS: Final = 5_000
"""Rows fetched at a time: with 0, their default, some drivers hold a whole table in memory."""
MAPPING_BYTES_MAX: Final = 1_048_576
_SECRET: Final = re.compile(
    r"password|passwd|pwd|secret|token|credential|api_?key|://[^/@?;]*:[^/@?;]*@|oracle:[^/@]*/[^@]*@",
    re.IGNORECASE,
)
"""Property names that suggest a secret, and URLs with user and password before the host."""
_TEXTS: Final = frozenset({Variant.LPWSTR, Variant.LPWSTRS})


class ColumnMapping(Document):
    """Name and form of one column in a source.

    Attributes:
        column: name of the column in the source.
        code_page: of texts that the source holds as bytes, a name that Python knows, as ``cp1252``.
        guid_bytes: the order of GUIDs that it holds as 16 bytes: that of Windows, or that of their text.
    """

    column: str = Field(min_length=1)
    code_page: str | None = None
    guid_bytes: Literal["windows", "text"] = "windows"

    @field_validator("code_page")
    @classmethod
    def _check_encoding(cls, name: str | None) -> str | None:
        return None if name is None else _look_up_codec(name)


class TableMapping(Document):
    """Name and columns of one table in a source.

    Attributes:
        table: name of the table in the source: a table or view, or a file or folder without its ending.
        columns: PROPID -> column; columns that are not listed have the name of their PROPID.
        partition_column: a column of numbers by which a database's table is read in several parts at a time.
        partitions: how many parts these are.
        bounds: least and greatest number of that column; they only shape the parts, nothing is cut off.
        bcp_columns: the columns in their order, of a CSV file that SQL Server's ``bcp -w`` or ``bcp -c``
            wrote: without a line of names and without quotes; octets are hexadecimal digits, NUL is an empty
            text.
    """

    table: str | None = None
    columns: Mapping[str, ColumnMapping] = {}
    partition_column: str | None = None
    partitions: int = Field(default=2, ge=1, le=64)
    bounds: tuple[int, int] | None = None
    bcp_columns: tuple[str, ...] = ()

    @field_validator("columns", mode="before")
    @classmethod
    def _expand_short_form(cls, columns: Any) -> Any:
        if not isinstance(columns, dict):
            return columns
        return {
            name.upper(): {"column": column} if isinstance(column, str) else column
            for name, column in columns.items()
        }

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if (self.partition_column is None) != (self.bounds is None):
            raise ValueError("partition_column needs bounds = [least, greatest], and these need it")
        return self


class JdbcMapping(Document):
    """Access to a database. Holds no password, only the place where it can be read.

    Attributes:
        driver: class of the JDBC driver; default: that of the URL.
        jars: JAR files of the driver.
        user: user name.
        password_file: file that holds the password and nothing else.
        password_env: environment variable that holds it.
        fetch_rows: rows fetched at a time.
        properties: further options of the driver.
    """

    driver: str | None = None
    jars: tuple[Path, ...] = ()
    user: str | None = None
    password_file: Path | None = None
    password_env: str | None = None
    fetch_rows: int = Field(default=FETCH_ROWS, ge=1, le=1_000_000)
    properties: Mapping[str, str] = {}

    @model_validator(mode="after")
    def _refuse_secret(self) -> Self:
        if self.password_file is not None and self.password_env is not None:
            raise ValueError("password_file and password_env exclude each other")
        for name in self.properties:
            if _SECRET.search(name):
                raise ValueError(f"properties may not hold {name}: use password_file or password_env")
        return self

    def read_password(self) -> str | None:
        """Return the password, read now and not kept; None if none is configured.

        Raises:
            ConfigError: it is not in the given place.
        """
        if self.password_env is not None:
            password = os.environ.get(self.password_env)
            if password is None:
                raise ConfigError(f"the environment variable {self.password_env} is not set")
            return password
        if self.password_file is None:
            return None
        return read_password(self.password_file)


class SourceMapping(Document):
    """A whole mapping file.

    Attributes:
        encoding: of CSV and JSON Lines files; a byte order mark counts more. UTF-16 without one is
            little-endian.
        jdbc: how to reach a database.
        tables: name of MQIS -> how the source holds it.
    """

    encoding: str = "utf-8"
    jdbc: JdbcMapping = JdbcMapping()
    tables: Mapping[str, TableMapping] = {}

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, name: str) -> str:
        codec = _look_up_codec(name)
        if codec.startswith(("utf-32", "utf-7")):
            raise ValueError(f"files in {codec} have to be converted to UTF-8 or UTF-16 first")
        return codec

    @model_validator(mode="after")
    def _of_mqis(self) -> Self:
        for name, mapped in self.tables.items():
            table = MQIS_TABLES.get(name)
            if table is None:
                raise ValueError(f"there is no table {name}{suggest_name(name, MQIS_TABLES)}")
            _check_columns(table, mapped)
        return self

    def look_up_table(self, table: MqisTable) -> TableMapping:
        """Return the mapping of a table; an empty one if the file has none."""
        return self.tables.get(table.name, TableMapping())

    def name_of(self, table: MqisTable) -> str:
        """Return the name of a table in the source."""
        return self.look_up_table(table).table or table.name

    def resolve_from(self, folder: Path) -> Self:
        """Return a copy whose relative paths start from a folder."""
        moved = self.jdbc.model_copy(
            update={
                "jars": tuple(folder / jar for jar in self.jdbc.jars),
                "password_file": None
                if self.jdbc.password_file is None
                else folder / self.jdbc.password_file,
            }
        )
        return self.model_copy(update={"jdbc": moved})


def load_mapping(path: Path) -> SourceMapping:
    """Read a mapping file; its relative paths start from its folder.

    Raises:
        ConfigError: it cannot be read or used; naming what is wrong and where.
    """
    try:
        content = read_toml(path, MAPPING_BYTES_MAX)
        return SourceMapping.model_validate(content).resolve_from(path.resolve().parent)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        message = "; ".join(
            _describe_error(problem) for problem in error.errors(include_url=False, include_input=False)
        )
        raise ConfigError(f"{path} cannot be used: {message}") from None
    except TooLongFileError:
        raise ConfigError(f"{path} is no mapping: it is longer than {MAPPING_BYTES_MAX} bytes") from None
    except ValueError as error:
        raise ConfigError(f"{path} is no TOML: {error}") from error


def refuse_secret(url: str) -> None:
    """Refuse a JDBC URL that holds a password.

    The list of processes, plans and logs would show it.

    Raises:
        ConfigError: it does.
    """
    if _SECRET.search(unquote(url)):
        raise ConfigError(
            "the JDBC URL may not hold a password: name its file as password_file, or its environment "
            "variable as password_env, in [jdbc] of the --mapping file"
        )


def _describe_error(error: Mapping[str, Any]) -> str:
    place = ".".join(map(str, error["loc"]))
    words = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        words = "there is no such setting"
    return f"{place}: {words}" if place else words


def _check_columns(table: MqisTable, mapped: TableMapping) -> None:
    names = {column.name: column for column in table.columns}
    for name, column_mapping in mapped.columns.items():
        column = names.get(name)
        if column is None:
            raise ValueError(f"table {table.name} has no column {name}{suggest_name(name, names)}")
        if column_mapping.code_page is not None and column.variant not in _TEXTS:
            raise ValueError(f"{name} is no text: it has no code page")
        if column_mapping.guid_bytes != "windows" and column.variant not in GUIDS:
            raise ValueError(f"{name} is no GUID: guid_bytes says nothing about it")


def _look_up_codec(name: str) -> str:
    try:
        info = codecs.lookup(name)
    except LookupError:
        raise ValueError(f"there is no code page {name!r}: write for instance cp1252 or cp932") from None
    if not getattr(info, "_is_text_encoding", True):
        raise ValueError(f"{name!r} is no code page of text")
    return info.name


JDBC_PREFIX: Final = "jdbc:"


def is_jdbc(source: str) -> bool:
    """Return True if a source is the URL of a database."""
    return source[: len(JDBC_PREFIX)].lower() == JDBC_PREFIX


def list_spark_settings(mapping: SourceMapping) -> dict[str, str]:
    """Return the Spark settings that name the JAR files of the JDBC driver.

    The settings are empty without JAR files.

    Raises:
        ConfigError: one is not there.
    """
    for jar in mapping.jdbc.jars:
        if not jar.is_file():
            raise ConfigError(f"the JDBC driver {jar} is not there: name its file as jars in [jdbc]")
    return {"spark.jars": ",".join(map(str, mapping.jdbc.jars))} if mapping.jdbc.jars else {}


def shorten_url(url: str) -> str:
    """Return a URL up to the name of the database.

    The URL is shown in messages and in the plan.
    """
    return re.split(r"[?;]", url, maxsplit=1)[0]
