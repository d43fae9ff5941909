"""``df.write.format("mqdssm")``: adds or updates objects in a directory.

The objects are the rows of a data frame.

rows      conversion of rows into entries, by the adapter's rules
outcomes  outcome of each row: kept in the journal, counted in messages
task      work of one Spark task, and after all tasks: deferred rows, the manifest, errors
"""
