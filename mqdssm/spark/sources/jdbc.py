"""Tables in a database: copied by Spark, over JDBC, to Parquet files, which are then read like any others.

They are read once. A parallel read is no single moment, nor are several tables: whoever needs one stops what
writes to them, or reads from a snapshot.
"""

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mqdssm.errors import ConfigError
from mqdssm.spark.mqis_files import TableFiles
from mqdssm.spark.sources.mapping import SourceMapping, refuse_secret
from mqdssm.tables.mqis import MQIS_TABLES, MqisTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JDBC_PREFIX: Final = "jdbc:"
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
_NAME: Final = re.compile(r"\w[\w$#.\-\[\]\"` ]{0,254}")
_MISSING: Final = re.compile(
    r"does not exist|doesn't exist|invalid object name|unknown table|no such table|ORA-00942|42P01|42S02",
    re.IGNORECASE,
)


def is_jdbc(source: str) -> bool:
    """Whether a source is the URL of a database."""
    return source[: len(JDBC_PREFIX)].lower() == JDBC_PREFIX


def spark_settings(mapping: SourceMapping) -> dict[str, str]:
    """What the session must know before it starts: the files of the driver.

    Raises:
        ConfigError: one is not there.
    """
    for jar in mapping.jdbc.jars:
        if not jar.is_file():
            raise ConfigError(f"the JDBC driver {jar} is not there: name its file as jars in [jdbc]")
    return {"spark.jars": ",".join(map(str, mapping.jdbc.jars))} if mapping.jdbc.jars else {}


def copy_tables(
    spark: "SparkSession", url: str, mapping: SourceMapping, folder: Path
) -> dict[str, TableFiles]:
    """Copy the tables of a database to ``folder/<Table>``.

    Args:
        spark: the session, with the driver.
        url: of the database, without a password.
        mapping: names of tables; without any the eight of MQIS are looked for, and may be missing.
        folder: where to.

    Returns:
        The files, as `mqis_files.find_tables` gives them.

    Raises:
        ConfigError: the database cannot be reached or lets nobody in, or a table that was named is not there.
    """
    refuse_secret(url)
    named = [MQIS_TABLES[name] for name in mapping.tables]
    wanted = named or list(MQIS_TABLES.values())
    reader = _Reader(spark, url, mapping, folder)
    with ThreadPoolExecutor(TABLES_TOGETHER) as pool:
        copied = list(pool.map(lambda table: reader.copy(table, must_exist=bool(named)), wanted))
    found = {files.table.name: files for files in copied if files is not None}
    if not found:
        raise ConfigError(
            f"{shown_url(url)} holds none of the tables {', '.join(MQIS_TABLES)}: "
            "name them in a --mapping file"
        )
    return {name: found[name] for name in MQIS_TABLES if name in found}


def shown_url(url: str) -> str:
    """A URL as messages and the plan show it: without what may follow the name of the database."""
    return re.split(r"[?;]", url, maxsplit=1)[0]


class _Reader:
    """Reads tables of one database."""

    def __init__(self, spark: "SparkSession", url: str, mapping: SourceMapping, folder: Path) -> None:
        self._spark = spark
        self._url = url
        self._mapping = mapping
        self._folder = folder
        jdbc = mapping.jdbc
        kind = url.split(":")[1].lower() if url.count(":") else ""
        driver = jdbc.driver or DRIVERS.get(kind)
        if driver is None:
            raise ConfigError(
                f"which driver is {shown_url(url)} for? name it as driver in [jdbc] of --mapping"
            )
        self._options = {
            "url": url,
            "driver": driver,
            "fetchsize": str(jdbc.fetch_rows),
            **({} if jdbc.user is None else {"user": jdbc.user}),
            **jdbc.properties,
        }
        password = jdbc.password()
        if password is not None:
            self._options["password"] = password

    def copy(self, table: MqisTable, *, must_exist: bool) -> TableFiles | None:
        """Copy one table; None where it is not there and need not be."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        name = self._mapping.name_of(table)
        if _NAME.fullmatch(name) is None:
            raise ConfigError(f"{name!r} is no name of a table")
        target = self._folder / table.name
        try:
            frame = self._spark.read.format("jdbc").options(**self._options, **self._parts(table))
            frame.option("dbtable", name).load().write.mode("overwrite").parquet(str(target))
        except (PySparkException, Py4JError) as error:
            said = _words(str(error), self._options.get("password"))
            if _MISSING.search(said) and not must_exist:
                return None
            raise ConfigError(f"{shown_url(self._url)}: table {name} cannot be read: {said}") from None
        parts = tuple(sorted(target.glob("part-*.parquet")))
        return TableFiles(table, "parquet", target, parts)

    def _parts(self, table: MqisTable) -> dict[str, str]:
        mapped = self._mapping.table(table)
        if mapped.partition_column is None or mapped.bounds is None:
            return {}
        return {
            "partitionColumn": mapped.partition_column,
            "lowerBound": str(mapped.bounds[0]),
            "upperBound": str(mapped.bounds[1]),
            "numPartitions": str(mapped.partitions),
        }


def _words(text: str, password: str | None) -> str:
    """What an error of Java's says, in a line, without the password."""
    lines: Iterable[str] = (line.strip() for line in text.splitlines())
    kept = [line for line in lines if line and not line.startswith(("at ", "... ", "JVM stacktrace"))]
    said = " ".join(kept)[: 4 * SAID_CHARS_MAX]
    causes = re.findall(r"(?:Exception|Error): (.*?)(?= (?:Caused by|[\w.]+Exception)|$)", said)
    best = next((one for one in causes if _MISSING.search(one)), causes[-1] if causes else said)
    return (best.replace(password, "***") if password else best)[:SAID_CHARS_MAX].strip()
