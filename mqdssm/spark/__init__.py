"""The pipeline on PySpark: sessions, the runner, the data source, its writer. The only importer of pyspark.

Nothing heavy is imported here: ``mqdssm --help`` does not pay for a JVM.
"""
