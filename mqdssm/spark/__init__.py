"""The pipeline on PySpark: sessions, runner, data source and its writer.

No other package imports pyspark.
This package imports nothing large, so that ``mqdssm --help`` does not wait for a JVM.
"""
