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
    """What the session must know before it starts: the files of the driver.

    Raises:
        ConfigError: one is not there.
    """
    for jar in mapping.jdbc.jars:
        if not jar.is_file():
            raise ConfigError(f"the JDBC driver {jar} is not there: name its file as jars in [jdbc]")
    return {"spark.jars": ",".join(map(str, mapping.jdbc.jars))} if mapping.jdbc.jars else {}


def shown_url(url: str) -> str:
    """A URL as messages and the plan show it: without what may follow the name of the database."""
    return re.split(r"[?;]", url, maxsplit=1)[0]
