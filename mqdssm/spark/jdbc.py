"""Tables in a database, copied by Spark over JDBC to Parquet files.

The copies are then read like other files.
The tables are read once. A parallel read, or a read of several tables, is not consistent at one moment.
Stop the programs that write to them, or read from a snapshot, if that matters.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mqdssm.errors import ConfigError, SourceNotConnected
from mqdssm.model.safe_text import REMOVED, redact
from mqdssm.pipeline.mqis.files import TableFiles
from mqdssm.pipeline.mqis.mapping import SourceMapping, refuse_secret, shorten_url
from mqdssm.spark.plans import name_to_write
from mqdssm.tables.mqis import MQIS_TABLES, MqisTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES_TOGETHER: Final = 2
SAID_CHARS_MAX: Final = 300
DRIVERS: Final = {
    "postgresql": "org.postgresql.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "oracle": "oracle.jdbc.OracleDriver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "db2": "com.ibm.db2.jcc.DB2Driver",
}
"""Kind of database in a JDBC URL -> class of its usual driver."""
_CAUSE: Final = re.compile(r"[\w.$]+(?:Exception|Error): (.+)")
_NETWORK: Final = re.compile(
    r"java\.net\.\w*Exception\b|UnresolvedAddressException|The TCP/IP connection to the host"
)
"""Pattern of Java's network errors on the way to a database; the last one is of SQL Server."""
_NO_HOST: Final = re.compile(r"java\.net\.UnknownHostException: ([^\s:]+)")
_NAME: Final = re.compile(r"(?!.*--)[\w\[\"`][\w$#.\-\[\]\"` ]{0,254}")
"""Pattern of a table's name in SQL, quoted or not: no comment, no call, no further statement."""


def copy_tables(
    spark: "SparkSession", url: str, mapping: SourceMapping, folder: Path
) -> dict[str, TableFiles]:
    """Copy the tables of a database to ``folder/<Table>``.

    Args:
        spark: the session, with the driver.
        url: of the database, without a password.
        mapping: names of tables; without any the eight of MQIS are looked for, and may be missing.
        folder: folder for the copies.

    Returns:
        The files, as `mqdssm.pipeline.mqis.files.find_named` returns them.

    Raises:
        ConfigError: the database cannot be reached or refuses the login, or a named table is missing.
    """
    refuse_secret(url)
    reader = _Reader(spark, url, mapping, folder)
    names = reader.list_names()
    with ThreadPoolExecutor(TABLES_TOGETHER) as pool:
        copied = list(pool.map(reader.copy, names.items()))
    return {files.table.name: files for files in copied}


class _Reader:
    """Reader of the tables of one database."""

    def __init__(self, spark: "SparkSession", url: str, mapping: SourceMapping, folder: Path) -> None:
        self._spark = spark
        self._url = url
        self._mapping = mapping
        self._folder = folder
        jdbc = mapping.jdbc
        self._kind = url.split(":")[1].lower()
        driver = jdbc.driver or DRIVERS.get(self._kind)
        if driver is None:
            raise ConfigError(f"name the driver for {shorten_url(url)} in [jdbc] of a --mapping file")
        self._options = {
            "url": url,
            "driver": driver,
            "fetchsize": str(jdbc.fetch_rows),
            **({} if jdbc.user is None else {"user": jdbc.user}),
            **jdbc.properties,
        }
        password = jdbc.read_password()
        if password is not None:
            self._options["password"] = password

    def list_names(self) -> dict[str, str]:
        """Return the map of MQIS tables to their names in SQL.

        The names are those of the mapping, else those of all tables that are found.

        Raises:
            ConfigError: a name is invalid or is ambiguous; no table is found; the database cannot
                be reached, or refuses the login.
        """
        named = {name: mapped.table for name, mapped in self._mapping.tables.items()}
        for name in filter(None, named.values()):
            if _NAME.fullmatch(name) is None:
                raise ConfigError(f"{name!r} is no name of a table")
        requested_names = list(named) or list(MQIS_TABLES)
        existing_tables = {} if all(named.get(name) for name in requested_names) else self._read_table_names()
        table_names = {}
        for name in (name for name in MQIS_TABLES if name in requested_names):
            configured_name, some = named.get(name), existing_tables.get(name.lower(), [])
            if configured_name or len(some) == 1:
                table_names[name] = configured_name or some[0]
            elif some:
                raise ConfigError(
                    f"{self._url_text} has several tables {name}: name one in the --mapping file"
                )
            elif name in named:
                raise ConfigError(f"{self._url_text} has no table {name}: name it in the --mapping file")
        if not table_names:
            raise ConfigError(
                f"{self._url_text} has none of the tables {', '.join(MQIS_TABLES)}: "
                "name them in a --mapping file"
            )
        return table_names

    def _read_table_names(self) -> dict[str, list[str]]:
        """Return the quoted tables and views of the database.

        The keys are lower-case names. Names are quoted since ``User`` is a keyword.
        """
        mark = "`" if self._kind in {"mysql", "mariadb"} else '"'
        query = "(select table_schema, table_name from information_schema.tables) mqdssm_names"
        existing_tables: dict[str, list[str]] = {}
        for schema, name in map(tuple, self._read(query, "the list of tables").collect()):
            if not any(mark in part for part in (schema, name)):
                existing_tables.setdefault(name.lower(), []).append(
                    f"{mark}{schema}{mark}.{mark}{name}{mark}"
                )
        return existing_tables

    def copy(self, pair: tuple[str, str]) -> TableFiles:
        """Copy one table.

        Args:
            pair: its name in MQIS and in the database.

        Raises:
            ConfigError: it is not there, or cannot be read.
        """
        table, name = MQIS_TABLES[pair[0]], pair[1]
        target = self._folder / table.name
        frame = self._read(name, f"table {name}", self._make_partition_options(table))
        with self._convert_errors(f"table {name}"):
            frame.write.mode("overwrite").parquet(name_to_write(target))
        return TableFiles(table, "parquet", target, tuple(sorted(target.glob("part-*.parquet"))), name)

    def _read(self, source: str, label: str, more: Mapping[str, str] = MappingProxyType({})) -> "DataFrame":
        with self._convert_errors(label):
            reader = self._spark.read.format("jdbc").options(**self._options, **more)
            return reader.option("dbtable", source).load()

    @contextlib.contextmanager
    def _convert_errors(self, label: str) -> Iterator[None]:
        """Convert errors of Spark and Java into errors of this package.

        The new errors do not hold the password.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError) as error:
            message = _describe_error(error, self._options.get("password"))
            if (why := explain_unreached(_read_messages(error), message)) is not None:
                raise SourceNotConnected(f"{self._url_text}: the database is not reached: {why}") from None
            if message == self._options["driver"]:  # Java's whole message about a missing class
                message = f"there is no driver {message}: name its file as jars in [jdbc]"
            raise ConfigError(f"{self._url_text}: {label} cannot be read: {message}") from None

    @property
    def _url_text(self) -> str:
        return shorten_url(self._url)

    def _make_partition_options(self, table: MqisTable) -> dict[str, str]:
        mapped = self._mapping.look_up_table(table)
        if mapped.partition_column is None or mapped.bounds is None:
            return {}
        return {
            "partitionColumn": mapped.partition_column,
            "lowerBound": str(mapped.bounds[0]),
            "upperBound": str(mapped.bounds[1]),
            "numPartitions": str(mapped.partitions),
        }


def explain_unreached(text: str, message: str) -> str | None:
    """Return the reason why a database cannot be reached, and advice.

    Returns None if something else went wrong.

    Args:
        text: all messages of Java.
        message: the most specific of them.
    """
    if _NETWORK.search(text) is None:
        return None
    no_host = _NO_HOST.search(text)
    if no_host is not None:
        return f"there is no host {no_host[1]}; is its name right?"
    return f"{message.rstrip('.')}; is it running, and are host and port right?"


def _read_messages(error: BaseException) -> str:
    """Return Java's messages.

    Spark's own message only says that the connection failed.
    """
    text = ""
    seen: BaseException | None = error
    while seen is not None:
        text = str(seen).strip() or text
        seen = getattr(seen, "_cause", None)
    return text


def _describe_error(error: BaseException, password: str | None) -> str:
    """Return the message of a Java error in one line, without the password.

    The message is that of the last cause.
    """
    lines = (line.strip() for line in _read_messages(error).splitlines())
    message_lines = [
        line for line in lines if line and not line.startswith(("at ", "... ", "JVM stacktrace"))
    ]
    causes = [match[1] for line in message_lines if (match := _CAUSE.search(line))]
    message = causes[-1] if causes else " ".join(message_lines)
    return redact(message.replace(password, REMOVED) if password else message)[:SAID_CHARS_MAX].strip()
