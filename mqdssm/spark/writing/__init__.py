"""``df.write.format("mqdssm")``: adds the objects of a data frame to a directory, or updates them.

rows      conversion of rows into entries, by the adapter's rules
outcomes  outcome of each row: kept in the journal, counted in messages
task      work of one Spark task, and after all tasks: deferred rows, the manifest, errors
"""
