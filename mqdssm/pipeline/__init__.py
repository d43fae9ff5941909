"""The pipeline's own machinery, which needs neither Java nor pyspark.

Nothing heavy is imported here. `runner` says what a runner is, `local` is the one of this machine; the one on
Spark is `mqdssm.spark.runner`.
"""
