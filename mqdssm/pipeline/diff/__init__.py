"""``mqdssm diff``: comparison of two directories, exports or sets of MQIS tables.

run                 a whole comparison
sides               the two sides as Parquet files: directory (exported first), export, MQIS tables
tables              MQIS tables as a side
comparable_columns  types and columns that can be compared, and reasons for the others
identity            keys that identify an object on both sides: GUID, old GUID, GUID map
pairing             the two sides together, and the protocol of a join
sql                 SQL of the join: keys and canonical forms, for DuckDB and Spark
local_join          the join by DuckDB, without Java (that of Spark is `mqdssm.spark.diff_join`)
fields              comparison of joined objects, each column by its attribute's matching rule
differences         differences in sorted files
recheck             second reading of different objects, which may have changed meanwhile
changes             LDIF that makes the second side equal the first
destination         DNs, references and values of the first side's objects on the second side
uncompared_objects  containers and children of compared objects
"""
