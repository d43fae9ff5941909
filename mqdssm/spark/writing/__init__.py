"""``df.write.format("mqdssm")``: objects of a data frame added to a directory, or updated there.

options   what was asked for
rows      rows become entries, by the adapter's rules
outcomes  what became of each row: kept in the journal, counted in messages
task      what a task of Spark's does
commit    what is done when all tasks are: what had to wait, the manifest, the verdict
"""
