"""The pipeline on PySpark: data source, export, validation. The only importer of pyspark."""
