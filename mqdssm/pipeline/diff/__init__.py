"""``mqdssm diff``: what one directory, export or set of MQIS tables holds and another one does not.

sides       what is compared: a directory (exported first), an export, MQIS tables; files either way
compared    which types and columns can be compared, and why the others cannot
identity    by what an object of one side is found on the other: GUID, old GUID, GUID map
pairing     the two sides together, and what a join of them gives
sql         SQL of the join: keys and canonical forms, for DuckDB and Spark
local_join  the join by DuckDB, without Java
spark_join  the join by Spark: hashes of canonical forms
fields      these, field by field, each by its attribute's matching rule
differences what was found, in sorted files
recheck     what changed while the directories were read
changes     LDIF that makes the second side equal the first
"""
