"""The pipeline: export, validation, migration, comparison and inventory, each in its package.

Nothing heavy is imported here, and nothing below needs Java or pyspark. `runner` says what a runner is,
`local` is the one of this machine, `engines` chooses between it and that of Spark, `mqdssm.spark.runner`.
"""
