"""One Spark session for all tests of Spark; a JVM costs 15 seconds and a gigabyte."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """The session that `export` and `validate` join when a test calls them."""
    from mqdssm.spark.session import spark_session

    quick = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    checked = {"spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true"}
    with spark_session("mqdssm tests", cores=2, memory="1g", brief=True, conf=quick | checked) as session:
        yield session
