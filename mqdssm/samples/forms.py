"""The forms that a sample enterprise can be written in."""

from enum import StrEnum
from typing import Final

FAULTS_NAME: Final = "faults.jsonl"
"""The file that lists what must be found."""


class SampleForm(StrEnum):
    """What is written: the tables of MQIS, or LDIF for OpenLDAP."""

    MQIS = "mqis"
    LDIF = "ldif"


class LoadingMode(StrEnum):
    """What LDIF is for: a server that runs, or one that stands still and takes more."""

    LDAPADD = "ldapadd"
    SLAPADD = "slapadd"


class TableForm(StrEnum):
    """How a table is written."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"
