"""Options of Spark: its master, its settings and its shared folder. They are checked before Java starts."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from mqdssm.errors import ConfigError

MASTER: Final = "spark.master"
MASTER_PORT: Final = 7077
EXECUTOR_VARIABLE: Final = "spark.executorEnv."
LOCAL: Final = re.compile(r"local(\[(\d+|\*)(, ?\d+)?\])?")
_MASTER: Final = re.compile(LOCAL.pattern + r"|local-cluster\[\d+, ?\d+, ?\d+\]|yarn|(spark|k8s)://\S+")
_SECRET: Final = re.compile(r"(?i)\.MQDSSM_PASSWORD$")


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where Spark runs, and further settings of it.

    Attributes:
        master: ``spark://host:7077``, ``yarn`` or ``k8s://https://host:443`` for a cluster, ``local[2]`` for
            some cores of this machine; None: all of them, or where this program's session runs already.
        conf: further settings of Spark, which win.
        shared: a folder that all machines of a cluster see under this path, for what lies between.
    """

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    shared: Path | None = None

    @classmethod
    def of(cls, master: str | None, words: Sequence[str] = (), shared: Path | None = None) -> Self:
        """Check what was typed.

        Args:
            master: where Spark runs.
            words: settings, each ``KEY=VALUE``.
            shared: a folder that all machines see.

        Raises:
            ConfigError: no address of a cluster, or no setting of Spark's.
        """
        conf: dict[str, str] = {}
        for word in words:
            key, equals, value = word.strip().partition("=")
            if not equals or not key.startswith("spark."):
                # whatever it is, it could be a password
                raise ConfigError(
                    "a setting of Spark is written spark.NAME=VALUE, as spark.executor.memory=4g"
                )
            if key.startswith(EXECUTOR_VARIABLE) and _SECRET.search(key):
                raise ConfigError(
                    f"{key} would show the password in Spark's pages and logs: put it into a file, and name "
                    "that with spark.executorEnv.MQDSSM_PASSWORD_FILE"
                )
            conf[key] = value
        if master is not None and conf.get(MASTER, master) != master:
            raise ConfigError(f"Spark's master is given twice: {master} and {conf[MASTER]}")
        master = conf.pop(MASTER, None) or master
        if master is not None and not _MASTER.fullmatch(master):
            raise ConfigError(
                f"{master!r} is no master of Spark: use spark://HOST:{MASTER_PORT}, yarn, "
                "k8s://https://HOST:PORT, or local[N] for N cores of this machine"
            )
        return cls(master, conf, None if shared is None else shared.resolve())

    @property
    def is_cluster(self) -> bool:
        """True if workers run on other machines, or as if they did."""
        master = self.master or _master_of_session()
        return master is not None and not LOCAL.fullmatch(master)

    def variable_of_executors(self, name: str) -> str | None:
        """The value that an environment variable is given on executors; None if it is not."""
        return self.conf.get(EXECUTOR_VARIABLE + name)

    def gives_secret(self, name: str) -> bool:
        """True if executors are given a variable that Spark does not show, as a secret of Kubernetes."""
        return any(key.endswith(f".executor.secretKeyRef.{name}") for key in self.conf)


HERE: Final = SparkOptions()
"""All cores of this machine."""


def _master_of_session() -> str | None:
    """Master of the active session; None: there is none."""
    sql = sys.modules.get("pyspark.sql")  # a session can only be active where it was imported
    active = None if sql is None else sql.SparkSession.getActiveSession()
    return None if active is None else str(active.sparkContext.master)


def is_spark_wanted(on: SparkOptions) -> bool:
    """Return True if anything about Spark was given, or this program has an active session."""
    return on != HERE or _master_of_session() is not None
