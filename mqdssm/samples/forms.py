"""Forms in which a sample enterprise can be written."""

from enum import StrEnum
from typing import Final

FAULTS_NAME: Final = "faults.jsonl"
"""Name of the file that lists the expected findings."""


class SampleForm(StrEnum):
    """Form of a sample enterprise: the tables of MQIS, or LDIF for OpenLDAP."""

    MQIS = "mqis"
    LDIF = "ldif"


class LoadingMode(StrEnum):
    """Program that loads the LDIF: ``ldapadd`` or ``slapadd``.

    ``ldapadd`` writes to a running server; ``slapadd`` accepts more.
    """

    LDAPADD = "ldapadd"
    SLAPADD = "slapadd"


class TableForm(StrEnum):
    """File format of a table."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"
