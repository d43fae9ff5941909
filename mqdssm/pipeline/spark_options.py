"""Options of Spark: master, settings, shared folder.

The options are checked before Java starts.
"""

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
    """Master of Spark, its further settings, and the shared folder of a cluster.

    Attributes:
        master: ``spark://host:7077``, ``yarn`` or ``k8s://https://host:443`` for a cluster, ``local[2]`` for
            some cores of this machine; None: the active session of this program, else all cores.
        conf: further settings of Spark, which override those of this program.
        shared: a folder that all machines of a cluster see under this path, for intermediate files.
    """

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    shared: Path | None = None

    @classmethod
    def of(cls, master: str | None, words: Sequence[str] = (), shared: Path | None = None) -> Self:
        """Check options from the command line, and return them.

        Args:
            master: where Spark runs.
            words: settings, each ``KEY=VALUE``.
            shared: a folder that all machines see.

        Raises:
            ConfigError: an invalid master or setting, or a setting that would show the password.
        """
        conf: dict[str, str] = {}
        for word in words:
            key, equals, value = word.strip().partition("=")
            if not equals or not key.startswith("spark."):
                # the message does not repeat the word: it could be a password
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
        """True if workers run on other machines, or in ``local-cluster`` mode."""
        master = self.master or _master_of_session()
        return master is not None and not LOCAL.fullmatch(master)

    def variable_of_executors(self, name: str) -> str | None:
        """Return the value of an environment variable on executors.

        The value is the one that `conf` gives; None if not set.
        """
        return self.conf.get(EXECUTOR_VARIABLE + name)

    def has_secret(self, name: str) -> bool:
        """Return True if executors get a variable from a Kubernetes secret.

        Spark does not show such a secret.
        """
        return any(key.endswith(f".executor.secretKeyRef.{name}") for key in self.conf)


HERE: Final = SparkOptions()
"""No options: the active Spark session, else all cores of this machine."""


def _master_of_session() -> str | None:
    """Return the master of the active Spark session; None without a session."""
    sql = sys.modules.get("pyspark.sql")  # without the import no session can be active
    active = None if sql is None else sql.SparkSession.getActiveSession()
    return None if active is None else str(active.sparkContext.master)


def is_spark_wanted(on: SparkOptions) -> bool:
    """Return True if a Spark option was given, or this program has an active session."""
    return on != HERE or _master_of_session() is not None
