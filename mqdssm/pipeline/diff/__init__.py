"""``mqdssm diff``: comparison of two directories, exports or sets of MQIS tables.

run                 a whole comparison, and the keys that identify an object on both sides
sides               the two sides as Parquet files: directory (exported first), export, MQIS tables; join
pairing             the two sides as a join sees them, and its protocol
comparable_columns  types and columns that can be compared, and reasons for the others
sql                 SQL of the join: keys and canonical forms, for DuckDB and Spark
local_join          the join by DuckDB, without Java (that of Spark is `mqdssm.spark.diff_join`)
fields              comparison of joined objects by matching rules, and the sorted files of differences
recheck             second reading of different objects, which may have changed meanwhile
changes             LDIF that makes the second side equal the first, with containers and children
destination         DNs, references and values of the first side's objects on the second side
"""
