"""The pipeline: jobs that read or change whole directories, a package each.

export       objects of a directory as files and a manifest
validate     rules over a directory, an export or MQIS tables, and their findings
migrate      a plan from MQIS tables, and its application
sync         a declaration of objects, compared with a directory, and its plan
replacement  a queue manager that is moved to another computer, as a plan
orphans      objects whose machine, site or parent is gone
diff         comparison of two directories, exports or sets of MQIS tables
inventory    lists of machines, queues, owners, permissions, orphans and clones
exposure     machines by what makes them easy to attack, with a score
topology     queues as definitions of other message brokers
report       HTML pages for people
changes      changes of a directory as numbered rows, for streams
frames       objects of a directory as Arrow columns
mqis         sources of MQIS tables: files and databases

This module imports nothing heavy, and no package below it needs Java or pyspark. `runner` defines the runner
protocol, `local` runs work on this machine, and `engines` chooses between `local` and `mqdssm.spark.runner`.
"""
