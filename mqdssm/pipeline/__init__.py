"""The pipeline: export, validation, migration, comparison and inventory.

Each is in its package.

This module imports nothing heavy, and no package below it needs Java or pyspark. `runner` defines the runner
protocol, `local` runs work on this machine, and `engines` chooses between `local` and `mqdssm.spark.runner`.
"""
