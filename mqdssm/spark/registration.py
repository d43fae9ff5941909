"""Registration of ``spark.read.format("mqdssm")``, which Spark finds by itself.

Spark imports every top-level module whose name begins with ``pyspark_``, and registers its class
``DefaultSource``. The wheel contains this file as the package ``pyspark_mqdssm`` instead.
"""

from mqdssm.spark.source import MqdssmDataSource


class DefaultSource(MqdssmDataSource):
    """The data source ``mqdssm``, under the name that Spark expects."""
