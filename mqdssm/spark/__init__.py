"""The pipeline on PySpark: data source, export, validation. The only importer of pyspark.

Nothing heavy is imported here: ``mqdssm --help`` does not pay for a JVM. The modules by need:

* without Spark: `options`, `columns`, `manifest`, `rules`, `failures`, `matching`
* with pyarrow: `arrow`, `bulk`, `partitions`, `pushdown`, `datasets`, `arrow_functions`, `translate`, `scan`,
  `repeated`, `findings`, and of the export everything that reads and writes
* with pyspark and Java: `session`, `source`, `validate`, `work`, `plans`, `runner`; `export` by its engine
"""
