"""What makes ``spark.read.format("mqdssm")`` work without registering anything.

Spark imports every top-level module whose name begins with ``pyspark_``, and registers the class
``DefaultSource`` of it. The wheel holds this file as the package ``pyspark_mqdssm`` instead.
"""

from mqdssm.spark.source import MqdssmDataSource


class DefaultSource(MqdssmDataSource):
    """The data source ``mqdssm``, under the name that Spark looks for."""
