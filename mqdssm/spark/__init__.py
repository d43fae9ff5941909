"""The pipeline on PySpark: data source, export, validation. The only importer of pyspark.

Nothing heavy is imported here: ``mqdssm --help`` does not pay for a JVM. The modules by need:

* without Spark: `options`, `columns`, `manifest`, `rules`, `failures`, `matching`
* with pyarrow: `arrow`, `bulk` (objects of a directory as record batches), `partitions`, `pushdown`
* with pyspark and Java: `session`, `source`, `export`, `validate`
"""
