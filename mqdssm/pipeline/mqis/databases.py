"""URLs and drivers of databases that hold MQIS tables. Spark copies the tables, by JDBC."""

import re
from typing import Final

from mqdssm.errors import ConfigError
from mqdssm.pipeline.mqis.mapping import SourceMapping

JDBC_PREFIX: Final = "jdbc:"


def is_jdbc(source: str) -> bool:
    """Return True if a source is the URL of a database."""
    return source[: len(JDBC_PREFIX)].lower() == JDBC_PREFIX


def spark_settings(mapping: SourceMapping) -> dict[str, str]:
    """Return the Spark settings that name the JAR files of the JDBC driver; empty without any.

    Raises:
        ConfigError: one is not there.
    """
    for jar in mapping.jdbc.jars:
        if not jar.is_file():
            raise ConfigError(f"the JDBC driver {jar} is not there: name its file as jars in [jdbc]")
    return {"spark.jars": ",".join(map(str, mapping.jdbc.jars))} if mapping.jdbc.jars else {}


def shown_url(url: str) -> str:
    """Return a URL without the part after the name of the database, for messages and the plan."""
    return re.split(r"[?;]", url, maxsplit=1)[0]
